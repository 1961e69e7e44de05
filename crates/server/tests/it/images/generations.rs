//! Embeddings, assistants and images.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(
    texts_become_vectors,
    credentials_do_not_become_vectors,
    turns_are_numbered_within_their_trace,
    prompts_become_images,
    what_belongs_to_others_is_not_painted,
    under_a_cap_a_price_is_needed,
    images_by_the_token_are_funded_at_their_quality,
    providers_fail_as_anywhere,
);

const SECRET: &str = "my key is AKIAQ3EGRVXT7ZLNB5PD, do not tell";
const CARD: &str = "Charge it to 4111 1111 1111 1111, please";

/// The last step of a trace.
async fn last(key: &crate::harness::Caller, trace: &str) -> Value {
    key.detail(trace).await["steps"].as_array().unwrap().last().unwrap().clone()
}

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

async fn turns_are_numbered_within_their_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, trace) = (server.key(), server.key().trace().await);
    let mut messages = vec![json!({"role": "user", "content": "What is a sluice?"})];
    let mut parent = Value::Null;
    for turn in 1..=3 {
        let ask = json!({"trace_id": trace, "messages": messages, "model": "sandbox", "parent_step_id": parent});
        let done = key.post("/api/v1/assistants", &ask).await.ok(200);
        assert_eq!((&done["model"], &done["thread_turn"]), (&json!("sandbox"), &json!(turn)));
        let step = last(&key, &trace).await;
        assert_eq!((&step["id"], &step["output"]), (&done["step_id"], &done["output"]));
        assert_eq!(step.get("parent_step_id").unwrap_or(&Value::Null), &parent);
        parent = done["step_id"].clone();
        messages.push(json!({"role": "assistant", "content": done["output"]}));
        messages.push(json!({"role": "user", "content": format!("And then, {turn}?")}));
        // An execution that is no thread turn does not count.
        key.execute(&trace, "Something else.").await.ok(200);
    }
    let secret = json!({"trace_id": trace, "messages": [{"role": "user", "content": SECRET}]});
    let blocked = key.post("/api/v1/assistants", &secret).await.ok(200);
    let names: Vec<&String> = blocked.as_object().unwrap().keys().collect();
    assert_eq!(names, ["reason", "step_id"]);
    // Turns at the same time have numbers of their own; without a model they are routed.
    let ask = json!({"trace_id": trace, "messages": messages});
    let all: Vec<_> = (0..8)
        .map(|_| {
            let (key, ask) = (key.clone(), ask.clone());
            tokio::spawn(async move { key.post("/api/v1/assistants", &ask).await.ok(200) })
        })
        .collect();
    let mut turns = Vec::new();
    for one in all {
        turns.push(one.await.unwrap()["thread_turn"].as_i64().unwrap());
    }
    turns.sort_unstable();
    assert_eq!(turns, (4..12).collect::<Vec<_>>());
    let other = key.trace().await;
    let foreign = json!({"trace_id": other, "messages": messages, "parent_step_id": parent});
    key.post("/api/v1/assistants", &foreign)
        .await
        .invalid("parent_step_id is not a step of this trace");
    let none = json!({"trace_id": other, "messages": []});
    key.post("/api/v1/assistants", &none).await.invalid("messages must not be empty");
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
    // A provider that does not say what its images took is not free.
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
