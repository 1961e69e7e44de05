//! Texts become vectors, credentials do not.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

use crate::images::generations::last;

crate::on_every_backend!(texts_become_vectors, credentials_do_not_become_vectors);

async fn texts_become_vectors(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let trace = key.trace().await;
    let ask = async |body: Value| {
        let mut whole = json!({"trace_id": trace});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        key.post("/api/v1/embeddings", &whole).await
    };
    let one = ask(json!({"model": "sandbox", "input": "A red boat."})).await.ok(200);
    assert_eq!(one["embeddings"].as_array().unwrap().len(), 1);
    assert_eq!(one["embeddings"][0].as_array().unwrap().len(), 256);
    assert_eq!((&one["model"], &one["usage_tokens"]), (&json!("sandbox"), &json!(4)));
    let inputs = json!(["A red boat.", "Taxes are due."]);
    let two = ask(json!({"model": "sandbox", "input": inputs})).await.ok(200);
    assert_eq!(two["embeddings"][0], one["embeddings"][0], "deterministic");
    let step = last(&key, &trace).await;
    assert_eq!(step["id"], two["step_id"]);
    assert_eq!((&step["type"], &step["input"]), (&json!("run"), &inputs));
    assert_eq!(step["output"], r#"{"embeddings":2,"dimensions":256}"#);
    assert_eq!((&step["prompt_tokens"], &step["completion_tokens"]), (&json!(8), &json!(0)));
    let coded = json!({"model": "sandbox", "input": "A red boat.", "encoding_format": "base64"});
    let coded = ask(coded).await.ok(200);
    assert_eq!(coded["embeddings"][0].as_str().unwrap().len(), (256 * 4_usize).div_ceil(3) * 4);

    // A provider of its own, that answers out of order and in numbers.
    let data = json!([{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [0.1, -2.5]}]);
    let answer =
        json!({"object": "list", "data": data, "model": "up", "usage": {"prompt_tokens": 2000}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    mock.register(&owner, "text-embedding-3-small").await;
    let done = ask(json!({"input": ["one", "two"], "dimensions": 2})).await.ok(200);
    assert_eq!(done["embeddings"], json!([[0.1, -2.5], [3.0, 4.0]]));
    assert_eq!(
        (&done["model"], &done["usage_tokens"]),
        (&json!("text-embedding-3-small"), &json!(2000))
    );
    let sent = json!({"model": "text-embedding-3-small", "input": ["one", "two"],
        "encoding_format": "base64", "dimensions": 2});
    assert_eq!(mock.last(), sent);
    assert_eq!(last(&key, &trace).await["cost"], 0.3, "input tokens only");

    ask(json!({"model": "nobody", "input": "x"}))
        .await
        .invalid("Model not authorized or found: nobody");
    ask(json!({"model": "sandbox", "input": []})).await.invalid("input can't be blank");
    ask(json!({"model": "sandbox", "input": ["a", ""]})).await.invalid("input can't be blank");
    ask(json!({"model": "sandbox", "input": 5})).await.says(400, "input to be a text");
    let many: Vec<String> = (0..2050).map(|number| number.to_string()).collect();
    ask(json!({"model": "sandbox", "input": many}))
        .await
        .invalid("input holds more than 2048 texts");
    ask(json!({"model": "sandbox", "input": "x", "dimensions": 0})).await.says(422, "dimensions");
    ask(json!({"model": "sandbox", "input": "x", "encoding_format": "hex"}))
        .await
        .invalid("encoding_format must be float or base64");
    ask(json!({"model": "sandbox"})).await.says(400, "Missing required parameter: input");
    ask(json!({"trace_id": "nope", "input": "x"}))
        .await
        .invalid("Trace not found or not owned by this customer");
    let claude = json!({"provider": "anthropic", "base_url": null, "api_key": "x"});
    mock.register_with(&owner, "claude", claude).await;
    ask(json!({"model": "claude", "input": "x"}))
        .await
        .invalid("Model claude does not support embeddings: provider anthropic makes none");
}

async fn credentials_do_not_become_vectors(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({"data": [{"index": 0, "embedding": [1]}], "usage": {"prompt_tokens": 1}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    mock.register(&owner, "mine").await;
    let trace = key.trace().await;
    let ask =
        |model: &str, input: &str| json!({"trace_id": trace, "model": model, "input": [input]});
    for action in ["block", "flag"] {
        settings(&owner, 1, json!({"safety": {"secrets": {"action": action}}})).await;
        let blocked = key.post("/api/v1/embeddings", &ask("mine", SECRET)).await.ok(403);
        assert_eq!(blocked["error"], "Blocked by anti-leak guardrail");
        let step = last(&key, &trace).await;
        assert_eq!((&step["type"], &step["reason"]), (&json!("blocked"), &blocked["reason"]));
        assert_eq!(step["id"], blocked["step_id"]);
        assert!(!blocked["reason"].as_str().unwrap().contains("AKIA"));
    }
    // Texts are judged also where the default model is not registered.
    let unnamed = |input: &str| json!({"trace_id": trace, "input": input});
    let blocked = key.post("/api/v1/embeddings", &unnamed(SECRET)).await.ok(403);
    assert_eq!(blocked["error"], "Blocked by anti-leak guardrail");
    key.post("/api/v1/embeddings", &unnamed("A lake."))
        .await
        .invalid("Model not authorized or found: text-embedding-3-small");
    assert_eq!(mock.begun(), 0);
    // Redacted text does not leave.
    settings(&owner, 1, json!({"safety": {"secrets": {"action": "redact"}}})).await;
    key.post("/api/v1/embeddings", &ask("mine", SECRET)).await.ok(200);
    assert!(!mock.last().to_string().contains("AKIA"), "{}", mock.last());
    // A private model may see a card, a public one may not.
    key.post("/api/v1/embeddings", &ask("mine", CARD)).await.ok(200);
    let public = json!({"base_url": "https://models.example/v1"});
    mock.register_with(&owner, "public", public).await;
    let blocked = key.post("/api/v1/embeddings", &ask("public", CARD)).await.ok(403);
    assert!(blocked["reason"].as_str().unwrap().contains("the model is public"));
    assert_eq!(mock.begun(), 2);
}

pub const SECRET: &str = "my key is AKIAQ3EGRVXT7ZLNB5PD, do not tell";

const CARD: &str = "Charge it to 4111 1111 1111 1111, please";
