//! Images: answers, costs, and prompts that are refused.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

use crate::embeddings::vectors::SECRET;

crate::on_every_backend!(
    prompts_become_images,
    what_belongs_to_others_is_not_painted,
    under_a_cap_a_price_is_needed,
    images_by_the_token_are_funded_at_their_quality
);

/// The last step of a trace.
pub async fn last(key: &crate::harness::Caller, trace: &str) -> Value {
    key.detail(trace).await["steps"].as_array().unwrap().last().unwrap().clone()
}

async fn prompts_become_images(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let usage = json!({"input_tokens": 12, "output_tokens": 544, "total_tokens": 556});
    let answer = json!({"created": 1, "usage": usage,
        "data": [{"b64_json": "iVBORw0KGgo="}, {"url": "https://images.example/2.png"}]});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    let priced = json!({"is_public": false, "additional_config": {"cost_per_image": 0.04}});
    mock.register_with(&owner, "gpt-image-2", priced).await;
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "prompt": "A red boat", "n": 2});
    let done = key.post("/api/v1/images/generations", &ask).await.ok(200);
    let urls = json!(["data:image/png;base64,iVBORw0KGgo=", "https://images.example/2.png"]);
    assert_eq!((&done["images"], &done["model"]), (&urls, &json!("gpt-image-2")));
    assert_eq!(
        mock.last(),
        json!({"model": "gpt-image-2", "prompt": "A red boat", "n": 2, "size": "1024x1024"})
    );
    let step = last(&key, &trace).await;
    assert_eq!(
        (&step["id"], &step["cost"], &step["input"]),
        (&done["step_id"], &json!(0.08), &json!("A red boat"))
    );
    assert_eq!(step["output"], r#"{"images":2,"size":"1024x1024"}"#, "no bytes are kept");
    mock.register(&owner, "by-token").await;
    let by_token = json!({"trace_id": trace, "prompt": "A red boat", "model": "by-token"});
    key.post("/api/v1/images/generations", &by_token).await.ok(200);
    assert_eq!(last(&key, &trace).await["cost"], 0.3282, "12 and 544 tokens");
    let sandbox = json!({"trace_id": trace, "prompt": "A red boat", "model": "sandbox"});
    key.post("/api/v1/images/generations", &sandbox)
        .await
        .invalid("Model sandbox does not support images: the sandbox makes none");
    for (fault, says) in [
        (json!({"n": 0}), "n must be"),
        (json!({"n": 11}), "n must be"),
        (json!({"size": "big"}), "size must be"),
        (json!({"prompt": " "}), "prompt can't be blank"),
    ] {
        let mut ask = ask.clone();
        ask.as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        key.post("/api/v1/images/generations", &ask).await.says(422, says);
    }
    let long = json!({"trace_id": trace, "prompt": "a ".repeat(16_001)});
    key.post("/api/v1/images/generations", &long).await.says(422, "prompt is longer than");
    assert_eq!(mock.begun(), 2);
}

async fn what_belongs_to_others_is_not_painted(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::json(200, &json!({"data": [{"b64_json": "AAAA"}]}))).await;
    settings(&owner, 1, json!({"images": {"blocked_terms": ["Café Central"]}})).await;
    let trace = key.trace().await;
    let paint = async |prompt: &str| {
        let ask = json!({"trace_id": trace, "prompt": prompt});
        key.post("/api/v1/images/generations", &ask).await
    };
    let blocked = paint("MICKEY MOUSE in Nike shoes at the cafe central").await.ok(403);
    let violations = json!([
        {"type": "copyright", "term": "Mickey Mouse"},
        {"type": "brand", "term": "Nike"},
        {"type": "policy", "term": "Café Central"},
    ]);
    let step = last(&key, &trace).await;
    let body = json!({"error": "Blocked by brand/copyright check", "violations": violations, "step_id": step["id"]});
    assert_eq!(blocked, body);
    assert_eq!((&step["type"], &step["reason"]), (&json!("blocked"), &body["error"]));
    paint("A crab").await.says(422, "Model not authorized or found: gpt-image-2");
    mock.register(&owner, "gpt-image-2").await;
    let secret = paint(SECRET).await.ok(403);
    assert!(secret["reason"].is_string() && secret["step_id"].is_i64(), "{secret}");
    assert_eq!(mock.begun(), 0);
    paint("A mouse called Mickey").await.ok(200);
    let bad = json!({"project": {"settings": {"images": {"blocked_terms": ["?!"]}}}});
    owner.patch("/api/v1/projects/1", &bad).await.says(422, "settings.images.blocked_terms");
}

async fn under_a_cap_a_price_is_needed(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({"data": [{"b64_json": "AAAA"}, {"b64_json": "AAAA"}]});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    let unpriced = json!({"input_cost_per_1k": null, "output_cost_per_1k": 1.0});
    mock.register_with(&owner, "unpriced", unpriced).await;
    mock.register_with(&owner, "by-token", json!({"output_cost_per_1k": 1.0})).await;
    settings(&owner, 1, json!({"monthly_budget": 100})).await;
    let trace = key.trace().await;
    let embed = json!({"trace_id": trace, "input": "x", "model": "unpriced"});
    key.post("/api/v1/embeddings", &embed).await.invalid("Model has no price: unpriced");
    let paint =
        |model: &str| json!({"trace_id": trace, "prompt": "A boat", "model": model, "n": 2});
    key.post("/api/v1/images/generations", &paint("unpriced"))
        .await
        .invalid("Model has no price: unpriced");
    assert_eq!(key.detail(&trace).await["steps"], json!([]));
    // A provider that does not report the tokens of its images is not free.
    key.post("/api/v1/images/generations", &paint("by-token")).await.ok(200);
    let step = last(&key, &trace).await;
    assert!(step["cost"].as_f64().unwrap() > 1.0, "{step}");
    assert_eq!(step["cost_estimated"], true);
}

/// Images that are paid for by the token are set aside for at the quality and size that were asked
/// for, and at the best where that is left to the provider.
async fn images_by_the_token_are_funded_at_their_quality(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({"data": [{"b64_json": "AAAA"}],
        "usage": {"input_tokens": 10, "output_tokens": 200}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    mock.register_with(&owner, "painter", json!({"output_cost_per_1k": 1.0})).await;
    settings(&owner, 1, json!({"monthly_budget": 5})).await;
    let trace = key.trace().await;
    let paint = async |more: Value| {
        let mut body = json!({"trace_id": trace, "prompt": "A boat", "model": "painter"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key.post("/api/v1/images/generations", &body).await
    };
    // At 1 USD a thousand: 4,160 tokens a square of high quality, 1,056 and 272 below it.
    for (more, status) in [
        (json!({}), 200),
        (json!({"quality": "auto"}), 200),
        (json!({"quality": "high", "n": 2}), 402),
        (json!({"size": "auto"}), 402),
        (json!({"quality": "low", "n": 3}), 200),
        (json!({"quality": "medium", "n": 3}), 200),
        (json!({"quality": "medium", "n": 4}), 402),
    ] {
        let reply = paint(more.clone()).await;
        assert_eq!(reply.status, status, "{more}: {}", reply.text);
    }
    assert_eq!(mock.begun(), 4, "what does not fit is not asked for");
    assert_eq!(mock.last()["quality"], "medium");
    paint(json!({"quality": "fine"}))
        .await
        .invalid("quality must be one of auto, low, medium, high, standard, hd, premium");
}
