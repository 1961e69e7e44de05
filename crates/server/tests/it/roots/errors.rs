//! Errors: the vendor's shape and status, and whether to try again.

use serde_json::{Value, json};

use super::{CHAT, DOORS, MESSAGES, RESPONSES, ask};
use crate::harness::{Answer, Backend, Mock, Reply, Server, settings};

crate::on_every_backend!(
    faults_of_the_caller,
    paths_and_methods_that_do_not_exist,
    a_providers_status_is_the_callers,
    an_open_circuit_says_when_to_try_again,
    limits_say_when_to_try_again,
    a_stored_response_is_not_found,
);

/// Asserts an error in the shape of the vendor of a path; returns its message.
#[track_caller]
fn is(reply: &Reply, path: &str, status: u16, kinds: [&str; 2], code: Option<&str>) -> String {
    let body = reply.ok(status);
    let message = body["error"]["message"].as_str().unwrap().to_owned();
    let [openai, anthropic] = kinds;
    let whole = if path.starts_with("/anthropic") {
        let id = reply.header("request-id");
        assert!(!id.is_empty());
        json!({"type": "error", "error": {"type": anthropic, "message": message},
            "request_id": id})
    } else {
        json!({"error": {"message": message, "type": openai, "param": null, "code": code}})
    };
    assert_eq!(body, whole, "{path}");
    message
}

const INVALID: [&str; 2] = ["invalid_request_error", "invalid_request_error"];
const UNKNOWN: [&str; 2] = ["invalid_request_error", "not_found_error"];
const BUSY: [&str; 2] = ["rate_limit_error", "rate_limit_error"];

async fn faults_of_the_caller(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for door in DOORS {
        let reply = key.post(door, &ask(door, "nobody", "Hello.", json!({}))).await;
        let said = is(&reply, door, 404, UNKNOWN, Some("model_not_found"));
        assert_eq!(said, "Model not authorized or found: nobody");
        assert!(!reply.header("x-trace-id").is_empty(), "{door}");
        let wrong = server.with_key("ak_0.wrong").post(door, &json!({})).await;
        let kinds = ["authentication_error", "authentication_error"];
        is(&wrong, door, 401, kinds, Some("invalid_api_key"));
        is(&key.post(door, &json!([])).await, door, 400, INVALID, None);
        is(&key.send("POST", door, Some(b"{".to_vec())).await, door, 400, INVALID, None);
        let bad = ask(door, "sandbox", "Hello.", json!({"max_tokens": 0, "max_output_tokens": 0}));
        is(&key.post(door, &bad).await, door, 400, INVALID, None);
        // Tools and documents at an address of the caller's choice.
        let far: &[Value] = match door {
            CHAT => &[],
            RESPONSES => &[
                json!({"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://a.example"}]}),
                json!({"input": [{"role": "user", "content": [
                    {"type": "input_file", "file_url": "https://a.example/b.pdf"}]}]}),
            ],
            _ => &[
                json!({"mcp_servers": [{"type": "url", "url": "https://a.example", "name": "a"}]}),
                json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "a"}]}),
                json!({"messages": [{"role": "user", "content": [{"type": "document", "source":
                    {"type": "url", "url": "https://a.example/b.pdf"}}]}]}),
            ],
        };
        for more in far {
            let reply = key.post(door, &ask(door, "sandbox", "Hello.", more.clone())).await;
            is(&reply, door, 422, INVALID, None);
        }
    }
    for path in ["/openai/v1/models/nobody", "/anthropic/v1/models/nobody"] {
        is(&key.get(path).await, path, 404, UNKNOWN, Some("model_not_found"));
    }
    // The interface keeps its own.
    let body = ask(MESSAGES, "nobody", "Hello.", json!({"trace_id": key.trace().await}));
    let reply = key.post("/api/v1/messages", &body).await.ok(422);
    assert_eq!(reply["error"]["type"], "invalid_request_error");
}

async fn paths_and_methods_that_do_not_exist(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for path in ["/openai", "/openai/v1/batches", "/anthropic/v1/complete", "/anthropic/v2/x"] {
        is(&key.post(path, &json!({})).await, path, 404, UNKNOWN, None);
    }
    for path in [CHAT, MESSAGES, "/openai/v1/embeddings"] {
        is(&key.get(path).await, path, 405, INVALID, None);
    }
    key.get("/openaiv1").await.is(404, &json!({"error": "Not found"}));
}

async fn a_providers_status_is_the_callers(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let delay = json!([{"retryDelay": "31s"}]);
    for (status, told, kinds, code, retry) in [
        (400, 400, INVALID, Some("context_length_exceeded"), "false"),
        (413, 413, ["invalid_request_error", "request_too_large"], None, "false"),
        (429, 429, BUSY, Some("rate_limit_exceeded"), "true"),
        (529, 529, ["server_error", "overloaded_error"], None, "true"),
        (401, 502, ["server_error", "api_error"], Some("provider_rejected"), "false"),
        (404, 502, ["server_error", "api_error"], Some("provider_rejected"), "false"),
        (500, 502, ["server_error", "api_error"], Some("provider_unreachable"), ""),
    ] {
        // The provider's own code is the caller's, and no other text of it.
        let own = if status == 400 { "context_length_exceeded" } else { "mind the gap" };
        let error = json!({"message": "prompt is too long: 3 > 2", "details": delay, "code": own});
        let mock = Mock::always(Answer::json(status, &json!({"error": error}))).await;
        for door in DOORS {
            for streams in [false, true] {
                // Each has a circuit breaker of its own.
                let model = format!("{status}{streams}{}", door.replace('/', "-"));
                mock.register(&owner, &model).await;
                let body = ask(door, &model, "Hello.", json!({"stream": streams}));
                let reply = key.post(door, &body).await;
                let said = is(&reply, door, told, kinds, code);
                let is_told = said.contains("prompt is too long: 3 > 2");
                assert_eq!(is_told, !matches!(status, 429 | 500 | 529), "{said}");
                assert_eq!(reply.header("x-should-retry"), retry, "{door} {status}");
                let waits = matches!(status, 429 | 529);
                assert_eq!(reply.header("retry-after"), if waits { "31" } else { "" });
                let detail = key.detail(reply.header("x-trace-id")).await;
                assert_eq!(detail["status"], "pending", "{door} {status}: its session goes on");
            }
        }
        // The interface keeps its own.
        let model = format!("{status}-interface");
        mock.register(&owner, &model).await;
        let trace = key.trace().await;
        let body = ask(CHAT, &model, "Hello.", json!({"trace_id": trace}));
        let reply = key.post("/api/v1/chat/completions", &body).await;
        reply.ok(502);
        assert_eq!(reply.header("retry-after"), "", "{status}");
    }
}

/// The caller reads the failure that has opened the circuit: a client waits for the provider.
async fn an_open_circuit_says_when_to_try_again(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let delay = json!([{"retryDelay": "31s"}]);
    for (status, told, kinds, code, retry) in [
        (429, 429, BUSY, Some("rate_limit_exceeded"), "true"),
        (529, 529, ["server_error", "overloaded_error"], None, "true"),
        (500, 502, ["server_error", "api_error"], Some("provider_unreachable"), ""),
    ] {
        let error = json!({"message": "no", "details": delay});
        let mock = Mock::always(Answer::json(status, &json!({"error": error}))).await;
        let model = format!("open-{status}");
        mock.register(&owner, &model).await;
        for _ in 0..5 {
            key.post(CHAT, &ask(CHAT, &model, "Hello.", json!({}))).await;
        }
        let calls = mock.begun();
        for door in DOORS {
            for streams in [false, true] {
                let body = ask(door, &model, "Hello.", json!({"stream": streams}));
                let reply = key.post(door, &body).await;
                is(&reply, door, told, kinds, code);
                assert_eq!(reply.header("x-should-retry"), retry, "{door} {status}");
                let wait = reply.header("retry-after").parse::<u64>().ok();
                let fits = wait.map_or(status == 500, |wait| (1..=30).contains(&wait));
                assert!(fits && wait.is_some() == (status != 500), "{door} {status}: {wait:?}");
                let detail = key.detail(reply.header("x-trace-id")).await;
                let step = detail["steps"].as_array().unwrap().last().unwrap();
                let error = step["error"].as_str().unwrap();
                assert!(error.ends_with("its circuit is open"), "{error}");
            }
        }
        // The interface keeps its own.
        let body = ask(CHAT, &model, "Hello.", json!({"trace_id": key.trace().await}));
        let reply = key.post("/api/v1/chat/completions", &body).await;
        reply.ok(502);
        assert_eq!(reply.header("retry-after"), "", "{status}");
        assert_eq!(mock.begun(), calls, "the circuit is open");
    }
}

async fn limits_say_when_to_try_again(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    Mock::always(Answer::text("Yes.")).await.register(&owner, "m").await;
    let made = json!({"name": "Capped", "project_id": 1, "hourly_limit": 0.0});
    let made = owner.post("/api/v1/keys", &made).await.ok(201);
    let capped = server.with_key(made["raw_key"].as_str().unwrap());
    for door in DOORS {
        let reply = capped.post(door, &ask(door, "m", "Hello.", json!({}))).await;
        is(&reply, door, 429, BUSY, Some("CIRCUIT_OPEN"));
        assert_eq!(reply.header("x-should-retry"), "false");
    }
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 1}})).await;
    key.post(DOORS[0], &ask(DOORS[0], "m", "Hello.", json!({}))).await.ok(200);
    for door in DOORS {
        let reply = key.post(door, &ask(door, "m", "Hello.", json!({}))).await;
        is(&reply, door, 429, BUSY, Some("rate_limit_exceeded"));
        assert!(reply.header("retry-after").parse::<u64>().unwrap() > 0);
        assert_eq!(reply.header("x-should-retry"), "true");
    }
    let unlimited = json!({"limits": {"requests_per_hour": null}, "monthly_budget": 0.001});
    settings(&owner, 1, unlimited).await;
    for door in DOORS {
        let reply = key.post(door, &ask(door, "m", "Hello.", json!({}))).await;
        is(&reply, door, 402, ["insufficient_quota", "billing_error"], Some("BUDGET_EXCEEDED"));
        let seconds: u64 = reply.header("retry-after").parse().unwrap();
        assert!((1..=31 * 86_400).contains(&seconds), "to the end of the month: {seconds}");
        assert_eq!(reply.header("x-should-retry"), "false");
    }
}

async fn a_stored_response_is_not_found(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let one = format!("{RESPONSES}/resp_1");
    let replies: [(String, Reply); 3] = [
        (one.clone(), key.get(&one).await),
        (one.clone(), key.post(&format!("{one}/cancel"), &json!({})).await),
        (one.clone(), key.get(&format!("{one}/input_items")).await),
    ];
    for (path, reply) in replies {
        let said = is(&reply, &path, 404, UNKNOWN, None);
        assert_eq!(said, "Response with id 'resp_1' not found.");
    }
    let Value::Object(body) = server.any.get(&one).await.ok(401) else { panic!("no object") };
    assert_eq!(body["error"]["code"], "invalid_api_key");
}
