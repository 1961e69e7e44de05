//! The cards of the console.

use serde_json::{Value, json};

use super::support::{call, refreshed, register};
use crate::console;
use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(a_card_shows_savings_where_there_are_some);

const SUMMARISE: &str = "Summarise this in one sentence: the train from Bern was late today.";

async fn a_card_shows_savings_where_there_are_some(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let mock = Mock::always(Answer::text("Done.")).await;
    register(&mock, &owner, "dear", (1.0, 4.0), json!({})).await;
    register(&mock, &owner, "cheap", (0.1, 0.4), json!({})).await;
    call(&key, "dear", SUMMARISE, 200).await;
    assert_eq!(refreshed(&owner, "migration_alert").await.len(), 1);
    assert_eq!(refreshed(&owner, "intent_pattern").await.len(), 1);
    let browser = console::owner(&server).await;
    let cards = async || {
        let page = browser.get("/insights").await.text;
        let heading = |title: &str| {
            let (_, rest) = page.split_once(&format!("<h2>{title}")).expect(title);
            rest.split_once("</div>").unwrap().0.to_owned()
        };
        (heading("A cheaper model fits"), heading("An intent makes up"))
    };
    let (cheaper, pattern) = cards().await;
    assert!(cheaper.contains("<p>Savings are known after a day · since <time"), "{cheaper}");
    assert!(pattern.contains("<p>Since <time") && !pattern.contains('$'), "{pattern}");
    if server.on_sqlite() {
        // Its past cannot be written from outside.
        return;
    }
    server.sql("UPDATE steps SET finished_at = finished_at - 108000000000, started_at = started_at - 108000000000");
    let found: Vec<Value> = refreshed(&owner, "migration_alert").await;
    // 200 calls of ten and five tokens, $0.03 less $0.003 each, in 30 hours or so.
    let saved = found[0]["estimated_savings_usd"].as_f64().unwrap();
    assert!((125.0..130.0).contains(&saved), "{found:?}");
    let (cheaper, pattern) = cards().await;
    assert!(cheaper.contains(&format!("<p>${saved:.2} a month · since <time")), "{cheaper}");
    assert!(pattern.contains("<p>Since <time") && !pattern.contains('$'), "{pattern}");
}
