//! The models that a key can name.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(the_registry_in_the_standard_form);

async fn the_registry_in_the_standard_form(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let mock = Mock::always(Answer::text("never")).await;
    mock.register(&server.owner().await, "vendor/large").await;
    let list = key.get("/api/v1/models").await.ok(200);
    assert_eq!((&list["object"], &list["has_more"]), (&json!("list"), &json!(false)));
    let ids = |list: &Value| -> Vec<Value> {
        list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect()
    };
    assert_eq!(ids(&list), ["sandbox", "vendor/large"]);
    let model = &list["data"][1];
    assert_eq!((&model["object"], &model["owned_by"]), (&json!("model"), &json!("openai")));
    assert!(model["created"].is_i64() && model["created_at"].is_string());
    let page = key.get("/api/v1/models?limit=1&after_id=sandbox").await.ok(200);
    assert_eq!((ids(&page), &page["has_more"]), (vec![json!("vendor/large")], &json!(false)));
    let first = key.get("/api/v1/models?limit=1").await.ok(200);
    assert_eq!((&first["has_more"], &first["last_id"]), (&json!(true), &json!("sandbox")));
    for bad in ["limit=0", "limit=many", "after_id=nobody"] {
        let error = key.get(&format!("/api/v1/models?{bad}")).await.ok(400)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{bad}");
    }
    assert_eq!(&key.get("/api/v1/models/vendor%2Flarge").await.ok(200), model);
    let error = key.get("/api/v1/models/nobody").await.ok(404)["error"].clone();
    assert_eq!(error["message"], "The model 'nobody' does not exist");
    server.any.get("/api/v1/models").await.ok(401);
    assert_eq!(mock.begun(), 0);
}
