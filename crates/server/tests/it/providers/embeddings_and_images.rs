//! Providers that fail where no text is asked for.

use serde_json::json;

use crate::harness::{Answer, Backend, Mock, Server};

use crate::images::generations::last;

crate::on_every_backend!(providers_fail_as_anywhere);

/// Failures are those of executions: retries, fallbacks, the recorded attempts, the words.
async fn providers_fail_as_anywhere(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let down = Mock::always(Answer::json(503, &json!({}))).await;
    let vector = json!({"data": [{"index": 0, "embedding": [1]}], "usage": {"prompt_tokens": 1}});
    let image = json!({"data": [{"b64_json": "AAAA"}]});
    for (path, field, answer) in
        [("embeddings", "input", &vector), ("images/generations", "prompt", &image)]
    {
        let path = format!("/api/v1/{path}");
        let name = |role: &str| format!("{field}-{role}");
        let trace = key.trace().await;
        let ask = async |model: &str| {
            let body = json!({"trace_id": trace, "model": model, field: "A red boat"});
            key.post(&path, &body).await
        };
        down.register(&owner, &name("alone")).await;
        let calls = down.begun();
        let unreachable =
            json!({"error": "Provider request failed", "code": "provider_unreachable"});
        ask(&name("alone")).await.is(502, &unreachable);
        assert_eq!(down.begun(), calls + 2, "one retry");
        let step = last(&key, &trace).await;
        assert_eq!((&step["type"], &step["status"]), (&json!("run"), &json!("failed")));
        assert_eq!(step["cost"], 0.0);

        let refusal = json!({"error": {"message": "No such voice."}});
        let refuses = Mock::always(Answer::json(400, &refusal)).await;
        refuses.register(&owner, &name("refuses")).await;
        let refused = ask(&name("refuses")).await.ok(502);
        assert_eq!(
            (&refused["code"], &refused["provider_status"]),
            (&json!("provider_rejected"), &json!(400))
        );
        assert_eq!(refuses.begun(), 1);

        // Fallbacks that can do no such thing are passed over.
        let well = Mock::always(Answer::json(200, answer)).await;
        well.register(&owner, &name("well")).await;
        let falls_back = |to: String| json!({"is_public": false, "additional_config": {"fallback_identifier": to}});
        let mut claude = falls_back(name("well"));
        claude["provider"] = json!("anthropic");
        well.register_with(&owner, &name("claude"), claude).await;
        down.register_with(&owner, &name("first"), falls_back(name("claude"))).await;
        let done = ask(&name("first")).await.ok(200);
        assert_eq!(done["model"], name("well"));
        assert_eq!(well.begun(), 1);
        let steps = key.detail(&trace).await["steps"].as_array().unwrap().clone();
        let of =
            |model: String| steps.iter().filter(|step| step["model"] == model).collect::<Vec<_>>();
        assert_eq!(of(name("first"))[0]["status"], "failed");
        assert_eq!(of(name("well"))[0]["id"], done["step_id"]);
        assert!(of(name("claude")).is_empty());
    }
}
