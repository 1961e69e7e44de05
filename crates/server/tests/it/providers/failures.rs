//! Providers that fail: the errors of the caller, and the steps in the trace.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings, until};

crate::on_every_backend!(
    a_provider_that_cannot_be_reached,
    answers_that_would_fill_the_memory,
    a_provider_that_refuses,
    a_new_address_closes_the_circuit,
    a_fallback_answers_for_the_first,
    a_fallback_answers_for_a_stream_that_begins_with_an_error,
    a_fallback_that_cannot_is_no_fault_of_the_callers,
    a_refusal_is_the_output,
    a_stream_that_breaks_off,
    a_stream_that_never_begins,
    a_trace_of_one_call_ends_with_it,
    parameters_that_choose_a_model,
);

const CANARY: &str = "sk-canary-0123456789abcdef0123456789abcdef";

fn unreachable() -> Value {
    json!({"error": "Provider request failed", "code": "provider_unreachable"})
}

async fn run(key: &Caller, trace: &str, model: &str) -> Reply {
    let body = json!({"trace_id": trace, "model": model, "input": "Hello."});
    key.post("/api/v1/runs", &body).await
}

/// Asserts that a trace holds one failed run without a cost.
async fn failed(key: &Caller, trace: &str) -> Value {
    let detail = key.detail(trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 1, "{detail}");
    assert_eq!(steps[0]["type"], "run");
    assert_eq!(steps[0]["status"], "failed");
    let free = steps[0].get("cost").is_none_or(|cost| *cost == 0.0);
    assert!(free, "{}", steps[0]);
    assert!(steps[0]["latency_ms"].as_f64().unwrap() > 0.0);
    assert!(!steps[0]["error"].as_str().unwrap().is_empty());
    steps[0].clone()
}

async fn a_provider_that_cannot_be_reached(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let html = "<html><body>Bad gateway</body></html>";
    let odd = json!({"unexpected": true});
    for (name, answer, calls) in [
        ("500", Answer::json(500, &json!({"error": {"message": "boom"}})), Some(2)),
        ("503", Answer::Body(503, "text/html", html.to_owned()), Some(2)),
        ("429", Answer::json(429, &json!({"error": {"message": "slow down"}})), Some(2)),
        ("html", Answer::Body(200, "text/html", html.to_owned()), None),
        ("odd", Answer::json(200, &odd), None),
        ("error", Answer::json(200, &json!({"error": {"message": "no"}})), None),
        ("redirect", Answer::Body(302, "text/html", html.to_owned()), None),
        ("empty", Answer::Body(200, "application/json", String::new()), None),
        ("truncated", Answer::Truncated, None),
    ] {
        let mock = Mock::always(answer).await;
        mock.register(&owner, name).await;
        let trace = key.trace().await;
        let reply = run(&key, &trace, name).await;
        assert_eq!(reply.status, 502, "{name}: {}", reply.text);
        reply.is(502, &unreachable());
        let step = failed(&key, &trace).await;
        assert_eq!(step["model"], name);
        if let Some(calls) = calls {
            assert_eq!(mock.begun(), calls, "{name}: one retry");
        }
    }
    // A port that is held and does not listen: a free one could be another test's a moment later.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = nobody.local_addr().unwrap().port();
    let url = json!({"is_public": false, "base_url": format!("http://127.0.0.1:{port}/v1")});
    Mock::always(Answer::text("")).await.register_with(&owner, "refused", url).await;
    let trace = key.trace().await;
    run(&key, &trace, "refused").await.is(502, &unreachable());
    failed(&key, &trace).await;
    let slow = Mock::start(Duration::from_secs(30), None, |_| Answer::text("late")).await;
    let config = json!({"is_public": false, "additional_config": {"timeout_ms": 300}});
    slow.register_with(&owner, "slow", config).await;
    let trace = key.trace().await;
    run(&key, &trace, "slow").await.is(502, &unreachable());
    failed(&key, &trace).await;
    let spend = owner.get("/api/v1/projects/1").await.ok(200)["total_monthly_spend"].clone();
    assert_eq!(spend, 0.0);
}

/// The connection is closed, and what was read of them is let go.
async fn answers_that_would_fill_the_memory(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for (name, answer) in [("endless", Answer::Endless), ("compressed", Answer::Compressed)] {
        let mock = Mock::always(answer).await;
        mock.register(&owner, name).await;
        for streams in [false, true] {
            let trace = key.trace().await;
            let before = server.memory();
            let chat = json!({"trace_id": trace, "model": name, "stream": streams,
                "messages": [{"role": "user", "content": "Hello."}]});
            key.post("/api/v1/chat/completions", &chat).await.is(502, &unreachable());
            let steps = key.detail(&trace).await["steps"].clone();
            assert_eq!(
                (steps.as_array().unwrap().len(), &steps[0]["status"]),
                (1, &json!("failed"))
            );
            let grown = server.memory().saturating_sub(before);
            assert!(grown < 128 * 1024, "{name}, streams: {streams}: {grown} KiB");
        }
        if name == "endless" {
            until("both connections are closed", || async { (mock.gone() == 2).then_some(()) })
                .await;
        }
    }
}

async fn a_new_address_closes_the_circuit(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let broken = Mock::always(Answer::json(500, &json!({}))).await;
    let model = broken.register(&owner, "moved").await;
    let trace = key.trace().await;
    for _ in 0..4 {
        run(&key, &trace, "moved").await.is(502, &unreachable());
    }
    let calls = broken.begun();
    run(&key, &trace, "moved").await.is(502, &unreachable());
    assert_eq!(broken.begun(), calls, "the circuit is open");
    let path = format!("/api/v1/projects/1/models/{}", model["id"]);
    // A change that does not affect where calls go leaves it open.
    let named = json!({"model_definition": {"name": "Still broken"}});
    owner.patch(&path, &named).await.ok(200);
    run(&key, &trace, "moved").await.is(502, &unreachable());
    assert_eq!(broken.begun(), calls);
    let mended = Mock::always(Answer::text("Mended.")).await;
    let moved = json!({"model_definition": {"base_url": mended.url()}});
    owner.patch(&path, &moved).await.ok(200);
    assert_eq!(run(&key, &trace, "moved").await.ok(200)["output"], "Mended.");
}

async fn a_provider_that_refuses(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for status in [400, 401, 403, 404, 408, 422, 424] {
        let message = format!("Incorrect API key provided: {CANARY}. You asked for too much.");
        let mock =
            Mock::always(Answer::json(status, &json!({"error": {"message": message}}))).await;
        let name = format!("refuses-{status}");
        let secret = json!({"is_public": false, "api_key": CANARY});
        mock.register_with(&owner, &name, secret).await;
        let trace = key.trace().await;
        for streams in [false, true] {
            let messages = json!([{"role": "user", "content": "Hello."}]);
            let ask =
                json!({"trace_id": trace, "model": name, "messages": messages, "stream": streams});
            let reply = key.post("/api/v1/chat/completions", &ask).await;
            assert!(!reply.text.contains(CANARY), "{}", reply.text);
            reply.says(502, "You asked for too much");
            assert_eq!(reply.json()["code"], "provider_rejected");
            assert_eq!(reply.json()["provider_status"], status);
        }
        assert_eq!(mock.begun(), 2, "what was refused is not sent again");
        assert_eq!(mock.requests()[0].headers["authorization"], format!("Bearer {CANARY}"));
        let detail = key.get(&format!("/api/v1/traces/{trace}")).await;
        assert!(!detail.text.contains(CANARY), "{}", detail.text);
        for step in detail.ok(200)["steps"].as_array().unwrap() {
            assert_eq!(step["status"], "failed");
        }
    }
    assert!(!server.log().contains(CANARY));
}

async fn a_fallback_answers_for_the_first(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let down = Mock::always(Answer::json(503, &json!({}))).await;
    let well = Mock::always(Answer::text("I stepped in.")).await;
    let config = json!({"is_public": false,
        "additional_config": {"fallback_identifier": "second", "infrastructure": "attic"}});
    let model = down.register_with(&owner, "first", config).await;
    assert_eq!(model["fallback_identifier"], "second");
    // A circle of fallbacks ends.
    let back = json!({"is_public": false, "additional_config": {"fallback_identifier": "first"}});
    well.register_with(&owner, "second", back).await;
    let tiers = json!({"simple": "first", "complex": "first", "secure": "first"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let ask = json!({"input": "Hello.", "project_id": 1});
    let path = key.post("/api/v1/simulate", &ask).await.ok(200)["fallback_path"].clone();
    assert_eq!(path, json!(["first", "second"]));
    let trace = key.trace().await;
    let done = key.execute(&trace, "Hello.").await.ok(200);
    assert_eq!(done["output"], "I stepped in.");
    assert_eq!(done["model"], "second");
    let streamed =
        key.get(&format!("/api/v1/executions/stream?trace_id={trace}&input=Hello")).await;
    let chunks = streamed.chunks();
    assert_eq!(chunks[0]["model"], "second");
    assert_eq!(chunks[0]["choices"][0]["delta"]["content"], "I stepped in.");
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let of =
        |status: &str| steps.iter().filter(|step| step["status"] == status).collect::<Vec<_>>();
    assert_eq!(of("failed").len(), 2, "the failed attempts are recorded: {detail}");
    assert!(of("failed").iter().all(|step| step["model"] == "first"));
    assert!(of("completed").iter().all(|step| step["model"] == "second" && step["cost"] == 0.0045));
    assert_eq!(detail["routing_decision"]["model"], "second");
    assert_eq!(detail["summary"]["total_cost"], 0.009);
}

async fn a_fallback_answers_for_a_stream_that_begins_with_an_error(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let error = "data: {\"error\": {\"message\": \"overloaded\"}}\n\n";
    let busy = Mock::always(Answer::Body(200, "text/event-stream", error.to_owned())).await;
    let well = Mock::always(Answer::text("I stepped in.")).await;
    let config =
        json!({"is_public": false, "additional_config": {"fallback_identifier": "second"}});
    busy.register_with(&owner, "first", config).await;
    busy.register(&owner, "alone").await;
    well.register(&owner, "second").await;
    let trace = key.trace().await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = async |model: &str| {
        let body = json!({"trace_id": trace, "model": model, "messages": messages, "stream": true});
        key.post("/api/v1/chat/completions", &body).await
    };
    let chunks = ask("first").await.chunks();
    assert_eq!(chunks[0]["model"], "second");
    assert_eq!(chunks[1]["choices"][0]["delta"]["content"], "I stepped in.");
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let told = |step: &Value| json!([step["model"], step["status"], step["cost"]]);
    let told: Vec<Value> = steps.iter().map(told).collect();
    assert_eq!(told, [json!(["first", "failed", 0.0]), json!(["second", "completed", 0.0045])]);
    // There is no stream if nobody else can be asked.
    ask("alone").await.is(502, &unreachable());
}

async fn a_fallback_that_cannot_is_no_fault_of_the_callers(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let down = Mock::always(Answer::json(503, &json!({}))).await;
    let other = Mock::always(Answer::text("Never asked.")).await;
    let config =
        json!({"is_public": false, "additional_config": {"fallback_identifier": "second"}});
    down.register_with(&owner, "first", config).await;
    let config = json!({"is_public": false, "provider": "anthropic"});
    other.register_with(&owner, "second", config).await;
    let trace = key.trace().await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask =
        |model: &str| json!({"trace_id": trace, "model": model, "messages": messages, "n": 2});
    let path = "/api/v1/chat/completions";
    key.post(path, &ask("first")).await.is(502, &unreachable());
    key.post(path, &ask("second")).await.says(422, "n is not supported by model second");
    assert_eq!(other.begun(), 0);
    // A request that reached no provider leaves no step.
    let told = async || {
        let detail = key.detail(&trace).await;
        let steps = detail["steps"].as_array().unwrap();
        steps.iter().map(|step| json!([step["model"], step["status"]])).collect::<Vec<_>>()
    };
    let first = json!(["first", "failed"]);
    assert_eq!(told().await, std::slice::from_ref(&first));
    // Nor does its start come to light when it is on disk before the call.
    settings(&owner, 1, json!({"limits": {"strict": true}})).await;
    key.post(path, &ask("first")).await.is(502, &unreachable());
    server.kill().await;
    server.up().await;
    assert_eq!(told().await, [first.clone(), first]);
}

async fn a_refusal_is_the_output(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let message = json!({"role": "assistant", "content": null, "refusal": "I cannot."});
    routed_to(&owner, &Mock::always(Answer::completion(&message, "stop")).await).await;
    let trace = key.trace().await;
    assert_eq!(key.execute(&trace, "Hello.").await.ok(200)["output"], "I cannot.");
    assert_eq!(run(&key, &trace, "mock").await.ok(200)["output"], "I cannot.");
    let detail = key.detail(&trace).await;
    for step in detail["steps"].as_array().unwrap() {
        assert_eq!(step["output"], "I cannot.");
    }
}

/// A stream that breaks off after its provider has reported the tokens of the prompt.
pub(crate) async fn routed_to(owner: &Caller, mock: &Mock) {
    mock.register(owner, "mock").await;
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    settings(owner, 1, json!({"routing_tiers": tiers})).await;
}

async fn a_stream_that_breaks_off(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::Broken(vec!["Once ".into(), "upon ".into()])).await;
    routed_to(&owner, &mock).await;
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=Hello");
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let chat = json!({"trace_id": trace, "messages": messages, "stream": true});
    for reply in [key.get(&path).await, key.post("/api/v1/chat/completions", &chat).await] {
        let events = reply.events();
        assert!(!reply.text.contains("[DONE]"), "{}", reply.text);
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["code"], "provider_unreachable", "{}", reply.text);
        assert!(reply.text.contains("Once ") && reply.text.contains("upon "));
        assert!(!reply.text.contains("\"stop\""));
    }
    let detail = key.detail(&trace).await;
    for step in detail["steps"].as_array().unwrap() {
        assert_eq!(step["status"], "failed");
        assert_eq!(step["cost_estimated"], true, "what came was paid for");
        assert!(step["cost"].as_f64().unwrap() > 0.0);
        assert_eq!(step["output"], "Once upon ", "what was passed on is on record: {step}");
    }
    assert_eq!(detail["steps"].as_array().unwrap().len(), 2);
}

async fn a_stream_that_never_begins(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::json(500, &json!({}))).await;
    routed_to(&owner, &mock).await;
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=Hello");
    key.get(&path).await.is(502, &unreachable());
    failed(&key, &trace).await;
}

/// Nobody sees what a provider has written of an answer that comes as a whole: a caller who hangs up
/// pays for the prompt and for what can have been written meanwhile.
async fn a_trace_of_one_call_ends_with_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::from_mins(10), None, |_| Answer::text("Late.")).await;
    routed_to(&owner, &mock).await;
    settings(&owner, 1, json!({"auto_trace": true})).await;
    let path = "/api/v1/chat/completions";
    let ask = json!({"messages": [{"role": "user", "content": "Hello."}]});
    let waiting = {
        let (key, ask) = (key.clone(), ask.clone());
        tokio::spawn(async move { key.post(path, &ask).await })
    };
    until("the provider is asked", async || (mock.begun() == 1).then_some(())).await;
    let trace = key.get("/api/v1/traces").await.ok(200)[0].clone();
    assert_eq!(trace["status"], "pending");
    waiting.abort();
    ended(&key, trace["id"].as_str().unwrap()).await;

    let pieces: Vec<String> = (0..2_000).map(|piece| format!("piece {piece} ")).collect();
    let mock = Mock::always(Answer::Pieces(pieces)).await;
    mock.register(&owner, "talks").await;
    let mut ask = ask;
    (ask["stream"], ask["model"]) = (json!(true), json!("talks"));
    let request = key.request("POST", path).header("content-type", "application/json");
    let mut response = request.body(ask.to_string()).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    let trace = response.headers()["x-trace-id"].to_str().unwrap().to_owned();
    drop(response);
    ended(&key, &trace).await;
}

/// Waits until a trace is completed, with the call that was cut short on it.
async fn ended(key: &Caller, trace: &str) {
    let detail = until("the trace is completed", async || {
        let detail = key.detail(trace).await;
        (detail["status"] != "pending").then_some(detail)
    })
    .await;
    assert_eq!(detail["status"], "completed");
    assert_eq!(detail["steps"][0]["status"], "cancelled", "recorded first: {detail}");
    assert!(detail["optimization_grade"].is_string());
}

async fn parameters_that_choose_a_model(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    routed_to(&owner, &mock).await;
    let trace = key.trace().await;
    let ask = |more: Value| {
        let mut body = json!({"trace_id": trace, "messages": [{"role": "user", "content": "Hi."}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let path = "/api/v1/chat/completions";
    for (name, value) in [
        ("models", json!(["another/model"])),
        ("route", json!("fallback")),
        ("provider", json!({"order": ["another"]})),
        ("transforms", json!(["middle-out"])),
        ("base_url", json!("https://elsewhere.example/v1")),
    ] {
        let mut body = ask(json!({}));
        for streams in [false, true] {
            body["stream"] = json!(streams);
            body[name] = value.clone();
            key.post(path, &body).await.invalid(&format!(
                "{name} is not supported: the project decides which model answers"
            ));
        }
    }
    let both =
        key.post(path, &ask(json!({"route": "fallback", "models": ["another/model"]}))).await;
    assert_eq!(both.ok(422)["errors"].as_array().unwrap().len(), 2);
    assert_eq!(mock.begun(), 0);
    assert_eq!(key.detail(&trace).await["steps"], json!([]));
    key.post(path, &ask(json!({"models": null, "seed": 7}))).await.ok(200);
    assert_eq!(mock.last()["seed"], 7, "every other parameter goes as it is");
}
