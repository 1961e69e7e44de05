//! Requests of the Responses API that pass as they came, and what their provider keeps.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};

use super::{RESPONSES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings};

crate::on_every_backend!(
    a_request_passes_where_the_server_has_the_endpoint,
    placeholders_come_back_in_cut_streams_and_arguments,
    a_provider_reaches_only_what_the_project_allows,
    what_has_no_canonical_form_is_in_the_record,
    every_string_of_a_request_is_judged,
    an_answer_that_must_not_leave_does_not,
);

pub(super) const MAIL: &str = "jane.doe@acme.org";
const LEAKED: &str = "AKIAQ3EGRVXT7ZLNB5PD";

/// A response with what a gateway does not know; it repeats the text wherever there is one.
pub(super) fn response(id: &str, text: &str) -> Value {
    json!({
        "id": id, "object": "response", "created_at": 1, "status": "completed",
        "model": "gpt-of-the-vendor", "error": null, "incomplete_details": null, "store": true,
        "of_tomorrow": {"note": [text]},
        "output": [
            {"type": "web_search_call", "id": format!("ws_{id}"), "status": "completed"},
            {"type": "message", "id": format!("msg_{id}"), "role": "assistant",
                "status": "completed", "content": [{"type": "output_text", "text": text,
                    "annotations": [{"type": "url_citation", "title": text}]}]},
            {"type": "function_call", "id": format!("fc_{id}"), "call_id": "call_1", "name": "f",
                "arguments": json!({"q": text}).to_string(), "status": "completed"},
        ],
        "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 100, "output_tokens_details": {"reasoning_tokens": 40},
            "total_tokens": 1100},
    })
}

/// The events of the same response; its strings come in single characters.
pub(super) fn events(id: &str, text: &str) -> Vec<Value> {
    let whole = response(id, text);
    let mut begun = response(id, "");
    (begun["output"], begun["usage"]) = (json!([]), Value::Null);
    begun["status"] = "in_progress".into();
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.of_tomorrow", "x": 1.5}),
    ];
    for (at, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        let mut blank = item.clone();
        let (kind, member, said) = match item["type"].as_str().unwrap() {
            "message" => {
                blank["content"] = json!([]);
                ("output_text", "text", text.to_owned())
            }
            "function_call" => {
                blank["arguments"] = "".into();
                let said = item["arguments"].as_str().unwrap().to_owned();
                ("function_call_arguments", "arguments", said)
            }
            _ => ("", "", String::new()),
        };
        events
            .push(json!({"type": "response.output_item.added", "output_index": at, "item": blank}));
        for piece in said.chars() {
            events.push(json!({"type": format!("response.{kind}.delta"), "output_index": at,
                "content_index": 0, "delta": piece.to_string()}));
        }
        if !kind.is_empty() {
            events.push(json!({"type": format!("response.{kind}.done"), "output_index": at,
                "content_index": 0, member: said}));
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    events
}

/// The text that the answers repeat: that of the request's unknown member.
pub(super) fn note(body: &Value) -> String {
    body["of_tomorrow"]["note"][0].as_str().unwrap_or("Fine.").to_owned()
}

/// A vendor that keeps its responses under ids that begin so.
pub(super) async fn vendor(owner: &Caller, identifier: &str) -> Mock {
    let mock = server_of(identifier).await;
    register(&mock, owner, identifier, json!({})).await;
    mock
}

/// Its server.
pub(super) async fn server_of(identifier: &str) -> Mock {
    let prefix = format!("resp_{identifier}");
    let kept = Mutex::new(String::new());
    let plan = move |body: &Value| {
        let mut kept = kept.lock().unwrap();
        if body.get("previous_response_id").is_none() {
            *kept = note(body);
        }
        let text = kept.clone();
        if body.get("messages").is_some() {
            return Answer::text("Translated.");
        }
        // Whatever has no model is about a stored response.
        if body.get("model").is_none() {
            return Answer::json(200, &response(&prefix, "[stored]"));
        }
        if body["stream"] != true {
            return Answer::json(200, &response(&prefix, &text));
        }
        stream(&events(&prefix, &text))
    };
    Mock::start(Duration::ZERO, None, plan).await
}

pub(super) fn stream(events: &[Value]) -> Answer {
    let wire =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    Answer::Body(200, "text/event-stream", events.iter().map(wire).collect())
}

/// Registers a model of a server that has the endpoint, with more of its configuration.
pub(super) async fn register(mock: &Mock, owner: &Caller, identifier: &str, config: Value) {
    let config = with(json!({"responses": true}), config);
    let more = json!({"is_public": false, "api_key": format!("sk-of-{identifier}-of-the-gateway"),
        "additional_config": config});
    mock.register_with(owner, identifier, more).await;
}

fn told(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.named_events()
}

pub(super) fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// An answer as the caller knows the model.
pub(super) fn of_model(mut response: Value) -> Value {
    response["model"] = "gpt".into();
    response
}

/// Reasoning as the vendor seals it: random bytes in base64.
fn sealed() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(DIGITS[(state >> 26) as usize])
    };
    let random: String = (0..20_000).map(|_| next()).collect();
    ["gAAAAABo", &random, "=="].concat()
}

async fn a_request_passes_where_the_server_has_the_endpoint(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    let unknown = json!({
        "store": false, "include": ["reasoning.encrypted_content", "of_tomorrow"],
        "text": {"verbosity": "low", "new": 1.50}, "of_tomorrow": {"list": [1.5, null]},
        "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "local_shell"},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
            {"type": "tool_search"}],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello.", "new": 1}]},
            {"type": "reasoning", "id": "rs_0a1", "summary": [], "encrypted_content": sealed()},
            {"type": "local_shell_call_output", "output": "ok"}],
    });
    for streams in [false, true] {
        let more = with(unknown.clone(), json!({"stream": streams}));
        let asked = ask(RESPONSES, "gpt", "Hello.", more);
        let trace = key.trace().await;
        let reply = key.post(RESPONSES, &with(asked.clone(), json!({"trace_id": trace}))).await;
        if streams {
            let mut sent = events("resp_gpt", "Fine.");
            for event in &mut sent {
                if let Some(response) = event.get_mut("response") {
                    response["model"] = "gpt".into();
                }
            }
            assert_eq!(told(&reply), sent);
        } else {
            assert_eq!(reply.ok(200), of_model(response("resp_gpt", "Fine.")));
        }
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        assert_eq!(reply.header("x-sluice-dropped-params"), "");
        let got = mock.take().pop().unwrap();
        assert_eq!(got.body, asked, "trace_id is ours");
        let steps = key.detail(&trace).await["steps"].clone();
        // 1,000 tokens at 0.15 and 100 at 0.6 a thousand.
        assert_eq!(steps[0]["cost"], 0.21, "{steps}");
        assert_eq!(steps[0]["output"], "Fine.", "{steps}");
        for finding in ["pii_detected", "secret_leaked", "injection_attempt", "review"] {
            assert_eq!(steps[0]["security"][finding], false, "{steps}");
        }
        assert_eq!(steps[1]["output"]["tool_calls"][0]["name"], "f", "{steps}");
    }
    // A server of the format that has chat completions alone.
    let other = Mock::always(Answer::text("Fine.")).await;
    other.register(&owner, "chat").await;
    let reply = key.post(RESPONSES, &ask(RESPONSES, "chat", "Hello.", json!({"x": 1}))).await;
    assert_eq!(reply.ok(200)["output"][0]["content"][0]["text"], "Fine.");
    assert_eq!(reply.header("x-sluice-mode"), "translated");
    assert_eq!(reply.header("x-sluice-dropped-params"), "x");
    assert!(other.last()["messages"].is_array());
}

async fn placeholders_come_back_in_cut_streams_and_arguments(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    for streams in [false, true] {
        let more = json!({"of_tomorrow": {"note": [MAIL]}, "stream": streams});
        let asked = ask(RESPONSES, "gpt", "Hello.", more);
        let reply = key.post(RESPONSES, &asked).await;
        let got = mock.take().pop().unwrap().body;
        let placeholder = note(&got);
        assert!(placeholder.starts_with("[EMAIL_1_"), "{got}");
        assert_eq!(got, with(asked, json!({"of_tomorrow": {"note": [placeholder]}})));
        if !streams {
            assert_eq!(reply.ok(200), of_model(response("resp_gpt", MAIL)));
            continue;
        }
        let told = told(&reply);
        let said = |at: u64| -> String {
            let of = told.iter().filter(|event| event["output_index"] == at);
            of.filter_map(|event| event["delta"].as_str()).collect()
        };
        assert_eq!(said(1), MAIL);
        assert_eq!(said(2), json!({"q": MAIL}).to_string());
        assert_eq!(told.last().unwrap()["response"], of_model(response("resp_gpt", MAIL)));
    }
}

async fn a_provider_reaches_only_what_the_project_allows(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    let free = ["web_search", "computer", "apply_patch", "code_interpreter", "tool_search"];
    let free: Value = free.iter().map(|kind| json!({"type": kind, "x": 1.50})).collect();
    let asked = ask(RESPONSES, "gpt", "Hello.", json!({"tools": free}));
    let reply = key.post(RESPONSES, &asked).await;
    reply.ok(200);
    assert_eq!(reply.header("x-sluice-dropped-params"), "");
    assert_eq!(mock.last(), asked, "what reaches nothing passes");
    let part = |part: Value| json!({"input": [{"role": "user", "content": [part]}]});
    let tool = |tool: Value| json!({"tools": [tool]});
    for (more, at) in [
        (tool(json!({"type": "file_search", "vector_store_ids": ["vs_1"]})), "tools[0]"),
        (tool(json!({"type": "mcp", "server_url": "https://a.example"})), "tools[0]"),
        (tool(json!({"type": "mcp", "connector_id": "connector_dropbox"})), "tools[0]"),
        (tool(json!({"type": "code_interpreter", "container": "cntr_1"})), "tools[0]"),
        (part(json!({"type": "input_image", "image_url": "http://10.0.0.1/a.png"})), "input[0]"),
        (part(json!({"type": "input_file", "file_url": "https://a.example/a.pdf"})), "input[0]"),
        (part(json!({"type": "input_file", "file_id": "file-1"})), "input[0]"),
        (json!({"background": true}), "background"),
        (json!({"prompt": {"id": "pmpt_1"}}), "prompt"),
        (tool(json!({"type": "code_interpreter", "container": {"memory_limit": "4g"}})), "tools"),
        (json!({"service_tier": "priority"}), "service_tier"),
    ] {
        let reply = key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", more)).await;
        let error = reply.ok(422)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().starts_with(at), "{error}");
    }
    let conversation = json!({"conversation": "conv_1"});
    key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", conversation)).await.ok(400);
    assert_eq!(mock.begun(), 1);
    let allowed = json!({"mcp": {"allowed_servers": ["https://a.example"]},
        "passthrough": {"vendor_tools": ["file", "file_search", "container"]}});
    settings(&owner, 1, allowed).await;
    for more in [
        tool(json!({"type": "file_search", "vector_store_ids": ["vs_1"]})),
        tool(json!({"type": "mcp", "server_url": "https://a.example"})),
        tool(json!({"type": "code_interpreter", "container": "cntr_1"})),
        part(json!({"type": "input_file", "file_id": "file-1"})),
    ] {
        let asked = ask(RESPONSES, "gpt", "Hello.", more);
        key.post(RESPONSES, &asked).await.ok(200);
        assert_eq!(mock.last(), asked);
    }
}

async fn what_has_no_canonical_form_is_in_the_record(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let _mock = vendor(&owner, "gpt").await;
    let input = json!([{"role": "user", "content": "Hello."},
        {"type": "web_search_call", "id": "ws_0", "status": "completed"}]);
    for streams in [false, true] {
        let more = json!({"stream": streams, "text": {"verbosity": "low"}, "input": input});
        let trace = key.trace().await;
        let asked = ask(RESPONSES, "gpt", "", with(more, json!({"max_output_tokens": 50})));
        let reply = key.with("x-trace-id", &trace).post(RESPONSES, &asked).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let step = key.detail(&trace).await["steps"][0].clone();
        let kept = json!({"text": {"verbosity": "low"}, "input": input});
        assert_eq!(step["passed"]["request"], kept, "{step}");
        let output = response("resp_gpt", "Fine.")["output"].clone();
        assert_eq!(step["passed"]["answer"], json!(output.as_array().unwrap()[..2]), "{step}");
    }
}

async fn every_string_of_a_request_is_judged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, "gpt").await;
    let item = |item: Value| json!({"input": [{"role": "user", "content": "Hello."}, item]});
    for more in [
        json!({"instructions": LEAKED}),
        json!({"metadata": {"note": LEAKED}}),
        json!({"of_tomorrow": [{"deep": [{"deeper": LEAKED}]}]}),
        json!({"of_tomorrow": {LEAKED: 1}}),
        json!({"tools": [{"type": "web_search", "filters": {"allowed_domains": [LEAKED]}}]}),
        json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom",
            "name": "c", "format": {"type": "grammar", "definition": LEAKED}}]}]}),
        item(json!({"type": "apply_patch_call_output", "output": LEAKED})),
        item(json!({"type": "local_shell_call", "action": {"command": ["echo", LEAKED]}})),
        item(json!({"type": "reasoning", "id": "rs_0a1", "encrypted_content": "theirs",
            "summary": [{"type": "summary_text", "text": LEAKED}]})),
    ] {
        for streams in [false, true] {
            let asked =
                with(ask(RESPONSES, "gpt", "Hello.", more.clone()), json!({"stream": streams}));
            let reply = key.post(RESPONSES, &asked).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            let refused = reply.text.contains("credential") && reply.text.contains("refusal");
            assert!(refused, "{more}: {}", reply.text);
        }
    }
    assert_eq!(mock.begun(), 0);
}

async fn an_answer_that_must_not_leave_does_not(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let leaking = with(
        response("resp_leak", "Fine."),
        json!({"of_tomorrow": [LEAKED, "sk-of-gpt-of-the-gateway"]}),
    );
    let mock = Mock::always(Answer::json(200, &leaking)).await;
    register(&mock, &owner, "gpt", json!({})).await;
    let streaming = Mock::start(Duration::ZERO, None, |body| {
        if body.get("model").is_none() {
            return Answer::json(200, &response("resp_stream", "Fine."));
        }
        stream(&events("resp_stream", LEAKED))
    });
    let streaming = streaming.await;
    register(&streaming, &owner, "streaming", json!({})).await;
    for (action, is_seen) in [("redact", false), ("block", false), ("flag", true)] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let said = key.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
        assert_eq!(said.to_string().contains(LEAKED), is_seen, "{said}");
        assert!(!said.to_string().contains("sk-of-gpt-of-the-gateway"), "{said}");
        // In a stream its characters come one by one.
        let body = ask(RESPONSES, "streaming", "Hello.", json!({"stream": true}));
        let reply = key.post(RESPONSES, &body).await;
        let said: String =
            told(&reply).iter().filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(said.contains(LEAKED), is_seen, "{}", reply.text);
        assert_eq!(reply.text.contains(LEAKED), is_seen, "{}", reply.text);
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        let stored = key.get(&format!("{RESPONSES}/resp_stream")).await;
        assert_eq!(stored.status, if is_seen { 200 } else { 404 }, "{action}: {}", stored.text);
        let stored = key.get(&format!("{RESPONSES}/resp_leak")).await;
        assert_eq!(stored.status, if is_seen { 200 } else { 404 }, "{action}: {}", stored.text);
    }
    // The rules of today hold for what was kept before.
    let output = json!({"safety": {"output": {"secrets": {"action": "block"}}}});
    settings(&owner, 1, output).await;
    let stored = key.get(&format!("{RESPONSES}/resp_leak")).await;
    assert!(!stored.text.contains(LEAKED) && stored.status == 400, "{}", stored.text);
}
