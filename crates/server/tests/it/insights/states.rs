//! Who may see, compute and dismiss insights, and what a dismissal means.

use serde_json::{Value, json};

use super::support::{INSIGHTS, call, model_path, refreshed, register};
use crate::harness::{Answer, Backend, Caller, Mock, Server};
use crate::session::roles;

crate::on_every_backend!(
    a_dismissed_insight_stays_away_until_the_facts_change_by_a_quarter,
    another_project_has_no_part_in_it,
    viewers_read_and_members_compute_and_dismiss,
);

const SUMMARISE: &str = "Summarise this in one sentence: the train from Bern was late today.";

/// Makes calls of a model for which a cheaper one is suggested. Both are served for as long as the mock is held.
async fn suggest(owner: &Caller, key: &Caller) -> Mock {
    let mock = Mock::always(Answer::text("Done.")).await;
    register(&mock, owner, "dear", (1.0, 4.0), json!({})).await;
    register(&mock, owner, "cheap", (0.1, 0.4), json!({})).await;
    call(key, "dear", SUMMARISE, 100).await;
    mock
}

async fn a_dismissed_insight_stays_away_until_the_facts_change_by_a_quarter(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let _mock = suggest(&owner, &key).await;
    let found = refreshed(&owner, "migration_alert").await;
    let id = found[0]["id"].clone();

    let path = format!("{INSIGHTS}/{id}/dismiss");
    let dismissed = owner.patch(&path, &json!({})).await.ok(200);
    assert_eq!((&dismissed["id"], &dismissed["status"]), (&id, &json!("dismissed")));
    assert_eq!(dismissed["data"], found[0]["data"]);
    assert_eq!(owner.get(INSIGHTS).await.ok(200), json!([]));
    assert_eq!(owner.patch(&path, &json!({})).await.ok(200), dismissed, "twice is once");
    let audit = owner.get("/api/v1/audit-events?event=insight_dismissed").await.ok(200);
    assert_eq!(audit.as_array().unwrap().len(), 1, "{audit}");
    assert_eq!(audit[0]["target_id"], id.to_string());

    // On the first day no savings are known, so more calls change nothing.
    call(&key, "dear", SUMMARISE, 25).await;
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new(), "more calls");
    let path = model_path(&owner, "cheap").await;
    let price = async |input: f64, output: f64| {
        let prices = json!({"input_cost_per_1k": input, "output_cost_per_1k": output});
        owner.patch(&path, &json!({"model_definition": prices})).await.ok(200);
    };
    price(0.081, 0.324).await;
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new(), "10 to 12.35");
    price(0.08, 0.32).await;
    let again = refreshed(&owner, "migration_alert").await;
    let data = &again[0]["data"];
    assert_eq!((&again[0]["id"], &data["price_ratio"]), (&id, &json!(12.5)), "a quarter more");
    assert_eq!(data["steps"], 125);
}

async fn another_project_has_no_part_in_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let _mock = suggest(&owner, &key).await;
    let id = refreshed(&owner, "migration_alert").await[0]["id"].clone();
    let made = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await.ok(201);
    let other = format!("/api/v1/projects/{}/insights", made["id"]);
    let nothing = json!({});
    assert_eq!(owner.post(&format!("{other}/refresh"), &nothing).await.ok(200), json!([]));
    let gone = json!({"error": "Not found"});
    for path in [
        format!("{other}/{id}/dismiss"),
        format!("{INSIGHTS}/999/dismiss"),
        format!("{INSIGHTS}/x/dismiss"),
        format!("/api/v1/projects/999/insights/{id}/dismiss"),
    ] {
        owner.patch(&path, &nothing).await.is(404, &gone);
    }
    owner.get("/api/v1/projects/999/insights").await.is(404, &gone);
    owner.post("/api/v1/projects/999/insights/refresh", &nothing).await.is(404, &gone);
    for caller in [&key, &server.any] {
        let unauthorized = json!({"error": "Unauthorized"});
        caller.get(INSIGHTS).await.is(401, &unauthorized);
        caller.post(&format!("{INSIGHTS}/refresh"), &nothing).await.is(401, &unauthorized);
        caller.patch(&format!("{INSIGHTS}/{id}/dismiss"), &nothing).await.is(401, &unauthorized);
    }
    assert_eq!(refreshed(&owner, "migration_alert").await.len(), 1);
}

async fn viewers_read_and_members_compute_and_dismiss(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let _mock = suggest(&owner, &key).await;
    let [viewer, member] = [
        roles::user(&server, "viewer", &["1"]).await,
        roles::user(&server, "member", &["1"]).await,
    ];
    let (nothing, refresh) = (json!({}), format!("{INSIGHTS}/refresh"));
    let forbidden = json!({"error": "Forbidden"});
    viewer.post(&refresh, &nothing).await.is(403, &forbidden);
    let found = refreshed(&member, "migration_alert").await;
    assert_eq!(viewer.get(INSIGHTS).await.ok(200), json!(found));
    let dismiss = format!("{INSIGHTS}/{}/dismiss", found[0]["id"]);
    viewer.patch(&dismiss, &nothing).await.is(403, &forbidden);
    member.patch(&dismiss, &nothing).await.ok(200);
    assert_eq!(viewer.get(INSIGHTS).await.ok(200), json!([]));
}
