//! Forms that another tab has overtaken: what has changed since is not undone.

use serde_json::json;

use super::manage::based;
use super::{owner, send_form, shows};
use crate::harness::{Backend, Server};

crate::on_every_backend!(an_old_form_of_a_model_undoes_nothing);

async fn an_old_form_of_a_model_undoes_nothing(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let new = json!({"model_definition": {
        "name": "Small", "identifier": "small", "provider": "internal", "is_public": false,
        "base_url": "http://127.0.0.1:9/v1", "input_cost_per_1k": 1.0,
    }});
    let made = api.post("/api/v1/projects/1/models", &new).await.ok(201);
    let id = &made["model_definition"]["id"];
    let (page, path) = (format!("/models/{id}"), format!("/api/v1/projects/1/models/{id}"));
    let fields = |name: &'static str, price: &'static str| {
        [
            ("project", "1"),
            ("name", name),
            ("identifier", "small"),
            ("provider", "internal"),
            ("base_url", "http://127.0.0.1:9/v1"),
            ("input_price", price),
            ("region", "global"),
            ("retention", "30"),
        ]
    };
    let old = owner.get(&page).await.text;
    let dearer = json!({"model_definition": {"input_cost_per_1k": 2.0}});
    api.patch(&path, &dearer).await.ok(200);
    for form in [based(&fields("Renamed", "1"), &old), fields("Renamed", "1").to_vec()] {
        let refused = send_form(&owner, &page, &form).await;
        shows(&refused, 409, "The model has changed since this page was loaded");
        shows(&refused, 409, "name=\"input_price\" inputmode=\"decimal\" value=\"2\"");
        // The form that is shown now can be sent.
        assert!(refused.text.contains("value=\"Small\""), "{}", refused.text);
    }
    let read = api.get(&path).await.ok(200);
    assert_eq!(read["model_definition"]["input_cost_per_1k"], 2.0);
    // A form that is refused for something else stays that of its page.
    let now = owner.get(&page).await.text;
    let refused = send_form(&owner, &page, &based(&fields("", "2"), &now)).await;
    shows(&refused, 422, "Name can&#39;t be blank");
    let saved = send_form(&owner, &page, &based(&fields("Renamed", "2"), &refused.text)).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    // A field that the form does not show is no change of it.
    let now = owner.get(&page).await.text;
    let other = json!({"model_definition": {"currency": "EUR"}});
    api.patch(&path, &other).await.ok(200);
    let saved = send_form(&owner, &page, &based(&fields("Again", "2"), &now)).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
}
