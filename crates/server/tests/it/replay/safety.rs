//! What is sensitive stays with private models.

use serde_json::{Value, json};

use super::{each, replay};
use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(secure_steps_stay_private);

async fn secure_steps_stay_private(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (mock, public) =
        (Mock::always(Answer::text("Yes.")).await, Mock::always(Answer::text("No.")).await);
    mock.register(&owner, "private").await;
    public.register_with(&owner, "public", json!({"is_public": true})).await;
    let tiers = json!({"simple": "public", "complex": "public", "secure": "private"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let trace = key.trace().await;
    key.execute(&trace, "Hello.").await.ok(200);
    key.execute(&trace, "My card is 4111 1111 1111 1111, is it valid?").await.ok(200);
    assert_eq!((mock.begun(), public.begun()), (1, 1));
    let job = replay(&key, &trace, &json!({"force_model": "public"})).await;
    let compared = &job["comparison"]["replay"];
    assert_eq!(each(&compared["steps"], "skipped"), [&Value::Null, &json!("secure")]);
    assert_eq!(compared["steps"][1]["model"], "public");
    assert!(compared["steps"][1]["cost"].is_null() && compared["steps"][1]["step_id"].is_null());
    assert_eq!(compared["cost_change_pct"], 0.0, "what was skipped counts on neither side");
    assert_eq!((mock.begun(), public.begun()), (1, 2));
    replay(&key, &trace, &json!({"force_model": "private"})).await;
    assert_eq!((mock.begun(), public.begun()), (3, 2));

    // A trace that is sensitive as a whole.
    let metadata = json!({"metadata": {"sensitivity": "secure"}});
    let trace = key.post("/api/v1/traces", &metadata).await.ok(201)["id"].clone();
    key.execute(trace.as_str().unwrap(), "Hello.").await.ok(200);
    let job = replay(&key, trace.as_str().unwrap(), &json!({"force_model": "public"})).await;
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "skipped"), ["secure"]);
    assert_eq!((mock.begun(), public.begun()), (4, 2));

    // Findings of today count, although nobody looked for them then.
    settings(&owner, 1, json!({"safety": {"pii": {"entities": ["IBAN"]}}})).await;
    let trace = key.trace().await;
    key.execute(&trace, "Write to jane.doe@acme-example.org.").await.ok(200);
    assert_eq!((mock.begun(), public.begun()), (4, 3), "no address is looked for");
    settings(&owner, 1, json!({"safety": {"pii": {"entities": null}}})).await;
    let job = replay(&key, &trace, &json!({"force_model": "public"})).await;
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "skipped"), ["secure"]);
    assert_eq!((mock.begun(), public.begun()), (4, 3));
}
