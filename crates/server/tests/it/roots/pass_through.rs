//! Requests and answers that pass as they came, because root and provider speak the same format.

use std::time::Duration;

use serde_json::{Value, json};

use super::{MESSAGES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings};

crate::on_every_backend!(
    nothing_changes_that_governance_does_not_name,
    placeholders_come_back_in_unknown_fields_and_cut_streams,
    another_format_is_translated,
    a_provider_reaches_only_what_the_project_allows,
    an_answer_is_judged_in_every_field,
    a_stream_that_breaks_off_ends_in_the_vendors_error,
);

const MAIL: &str = "jane.doe@acme.org";

/// A request with what a gateway does not know.
fn unknown() -> Value {
    json!({
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "thinking": {"type": "enabled", "budget_tokens": 31_999},
        "of_tomorrow": {"list": [1.5, null, {"deep": "words"}]},
        "tools": [
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            {"name": "read", "input_schema": {"type": "object"}, "defer_loading": true},
        ],
        "tool_choice": {"type": "tool", "name": "web_search"},
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Hello.", "citations": {"enabled": true}},
                {"type": "search_result", "source": "a", "title": "b", "content": []},
            ], "note": "kept"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
                {"type": "of_tomorrow", "x": [1]},
            ]},
            {"role": "user", "content": "Go on."},
        ],
    })
}

/// An answer with what a gateway does not know.
fn answer(text: &str) -> Value {
    json!({
        "id": "msg_vendor", "type": "message", "role": "assistant", "model": "claude-of-the-vendor",
        "content": [
            {"type": "thinking", "thinking": "So.", "signature": "c2lnbmVk"},
            {"type": "text", "text": text, "citations": [{"cited_text": text}]},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"path": text}, "caller":
                {"type": "direct"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null, "container": null,
        "usage": {"input_tokens": 1000, "output_tokens": 100, "service_tier": "standard",
            "server_tool_use": {"web_search_requests": 1}},
    })
}

/// The events of the same answer; its text comes in these pieces, as does the argument.
fn events(pieces: &[&str]) -> Vec<Value> {
    let mut start = answer("");
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    let mut events = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "ping", "of_tomorrow": 1}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking",
            "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta",
            "thinking": "So."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta",
            "signature": "c2lnbmVk"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text",
            "text": "", "citations": []}}),
    ];
    events.extend(pieces.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta",
            "text": piece}})
    }));
    events.push(json!({"type": "content_block_delta", "index": 1, "delta":
        {"type": "citations_delta", "citation": {"cited_text": pieces.concat()}}}));
    events.push(json!({"type": "content_block_stop", "index": 1}));
    events.push(json!({"type": "content_block_start", "index": 2, "content_block":
        {"type": "tool_use", "id": "t", "name": "read", "input": {}}}));
    let input = [&["{\"path\": \""], pieces, &["\"}"]].concat();
    events.extend(input.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta",
            "partial_json": piece}})
    }));
    events.push(json!({"type": "content_block_stop", "index": 2}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use",
        "stop_sequence": null}, "usage": {"output_tokens": 100, "of_tomorrow": {}}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn stream(events: &[Value]) -> Answer {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    Answer::Body(200, "text/event-stream", events.iter().map(event).collect())
}

/// Answers as the vendor does, with a text that depends on the request.
async fn vendor(owner: &Caller, text: fn(&Value) -> String) -> Mock {
    let plan = move |body: &Value| {
        let text = text(body);
        if body["stream"] != true {
            return Answer::json(200, &answer(&text));
        }
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        stream(&events(&pieces.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    let mock = Mock::start(Duration::ZERO, None, plan).await;
    register(&mock, owner, "claude").await;
    mock
}

async fn register(mock: &Mock, owner: &Caller, identifier: &str) {
    let more =
        json!({"provider": "anthropic", "is_public": false, "api_key": "sk-ant-of-the-gateway"});
    mock.register_with(owner, identifier, more).await;
}

/// The events of a stream, each under its name.
#[track_caller]
fn told(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let events = reply.text.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    });
    events.collect()
}

/// The step of an answer. The calls of a conversation share a trace.
async fn step(key: &Caller, reply: &Reply) -> Value {
    let detail = key.detail(reply.header("x-trace-id")).await;
    let steps = detail["steps"].as_array().unwrap().iter();
    let id: Value = serde_json::from_str(reply.header("x-sluice-step-id")).unwrap();
    let is_its = |step: &&Value| step["id"] == id;
    steps.clone().find(is_its).unwrap().clone()
}

fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

async fn nothing_changes_that_governance_does_not_name(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    let agent = key.with("anthropic-beta", "interleaved-thinking-2025-05-14,of-tomorrow");
    for streams in [false, true] {
        let asked = with(ask(MESSAGES, "claude", "Hello.", unknown()), json!({"stream": streams}));
        let trace = key.trace().await;
        let reply = agent.post(MESSAGES, &with(asked.clone(), json!({"trace_id": trace}))).await;
        if streams {
            let pieces: Vec<String> = "Fine.".chars().map(String::from).collect();
            let mut sent = events(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
            sent[0]["message"]["model"] = "claude".into();
            assert_eq!(told(&reply), sent);
        } else {
            assert_eq!(reply.ok(200), with(answer("Fine."), json!({"model": "claude"})));
        }
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        assert_eq!(reply.header("x-sluice-dropped-params"), "");
        let got = mock.take().pop().unwrap();
        assert_eq!(got.body, asked, "trace_id is ours");
        let names = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&got.body), names(&asked), "in their order");
        assert_eq!(got.headers["anthropic-beta"], "interleaved-thinking-2025-05-14,of-tomorrow");
        assert_eq!(got.headers["x-api-key"], "sk-ant-of-the-gateway");
        let steps = key.detail(&trace).await["steps"].clone();
        // 1,000 tokens at 0.15 and 100 at 0.6 a thousand.
        assert_eq!(steps[0]["cost"], 0.21, "{steps}");
        assert_eq!(steps[0]["output"], "Fine.", "{steps}");
    }
}

/// The placeholder that stands in a field nobody knows.
fn placeholder(body: &Value) -> String {
    body["of_tomorrow"]["note"][0].as_str().unwrap_or("none").to_owned()
}

async fn placeholders_come_back_in_unknown_fields_and_cut_streams(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, placeholder).await;
    let note = json!({"of_tomorrow": {"note": [MAIL], "n": 1.5}});
    for streams in [false, true] {
        let asked =
            with(ask(MESSAGES, "claude", "Hello.", note.clone()), json!({"stream": streams}));
        let reply = key.post(MESSAGES, &asked).await;
        let got = mock.take().pop().unwrap().body;
        let placeholder = placeholder(&got);
        assert!(placeholder.starts_with("[EMAIL_1_"), "{got}");
        let redacted = json!({"of_tomorrow": {"note": [placeholder], "n": 1.5}});
        assert_eq!(got, with(asked, redacted));
        if !streams {
            assert_eq!(reply.ok(200), with(answer(MAIL), json!({"model": "claude"})));
            continue;
        }
        let told = told(&reply);
        let said = |name: &str| -> String {
            told.iter().filter_map(|event| event["delta"][name].as_str()).collect()
        };
        assert_eq!(said("text"), MAIL);
        assert_eq!(said("partial_json"), format!("{{\"path\": \"{MAIL}\"}}"));
        let cited = told.iter().find_map(|event| event["delta"]["citation"]["cited_text"].as_str());
        assert_eq!(cited, Some(MAIL));
        let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let mut once = kinds.clone();
        once.dedup();
        let sent = events(&["x"]);
        let mut expected: Vec<&str> =
            sent.iter().map(|event| event["type"].as_str().unwrap()).collect();
        expected.dedup();
        assert_eq!(once, expected, "what is held leaves before its block ends");
    }
}

async fn another_format_is_translated(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let failing = Mock::always(Answer::json(500, &json!({"type": "error"}))).await;
    let more = json!({"provider": "anthropic", "is_public": false,
        "additional_config": {"fallback_identifier": "other"}});
    failing.register_with(&owner, "claude", more).await;
    let other = Mock::always(Answer::text("Fine.")).await;
    other.register(&owner, "other").await;
    let body = ask(MESSAGES, "claude", "Hello.", json!({"of_tomorrow": 1}));
    let reply = key.with("anthropic-beta", "x").post(MESSAGES, &body).await;
    assert_eq!(reply.ok(200)["content"], json!([{"type": "text", "text": "Fine."}]));
    assert_eq!(reply.header("x-sluice-mode"), "translated");
    assert_eq!(reply.header("x-sluice-dropped-params"), "of_tomorrow, anthropic-beta");
    assert_eq!(failing.last()["of_tomorrow"], 1);
    assert_eq!(other.last().get("of_tomorrow"), None);
    assert!(!other.requests()[0].headers.contains_key("anthropic-beta"));

    let block = json!([{"role": "user", "content": [{"type": "of_tomorrow"}]}]);
    let body = ask(MESSAGES, "other", "", json!({"messages": block}));
    let said = key.post(MESSAGES, &body).await.ok(400)["error"]["message"].clone();
    assert_eq!(said, "messages[0].content[0]: a block of type 'of_tomorrow' is not supported");
    assert_eq!(other.begun(), 1);
}

async fn a_provider_reaches_only_what_the_project_allows(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    let source = |kind: &str, url: &str| {
        let source = json!({"type": "url", "url": url});
        json!({"messages": [{"role": "user", "content": [{"type": kind, "source": source}]}]})
    };
    let server_of = |url: &str| json!({"mcp_servers": [{"type": "url", "url": url, "name": "a"}]});
    let tool = json!({"tools": [{"type": "file_search"}]});
    let refused = [
        (server_of("https://a.example/mcp"), "mcp_servers[0]"),
        (source("document", "https://a.example/x.pdf"), "messages[0].content[0]"),
        (source("image", "http://10.0.0.1/x.png"), "messages[0].content[0]"),
        (tool.clone(), "tools[0]"),
    ];
    for (more, at) in refused {
        let reply = key.post(MESSAGES, &ask(MESSAGES, "claude", "Hello.", more)).await;
        let error = reply.ok(422)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().starts_with(at), "{error}");
    }
    for more in [json!({"container": "c"}), json!({"thread": {}}), json!({"base_url": "http://x"})]
    {
        key.post(MESSAGES, &ask(MESSAGES, "claude", "Hello.", more)).await.ok(400);
    }
    assert_eq!(mock.begun(), 0);
    let allowed = json!({"mcp": {"allowed_servers": ["https://a.example/mcp"]},
        "passthrough": {"vendor_tools": ["file_search"]}});
    settings(&owner, 1, allowed).await;
    for more in [
        server_of("https://a.example/mcp"),
        source("document", "https://a.example/x.pdf"),
        source("image", "https://images.example/x.png"),
        tool,
    ] {
        let asked = ask(MESSAGES, "claude", "Hello.", more);
        key.post(MESSAGES, &asked).await.ok(200);
        assert_eq!(mock.last(), asked);
    }
}

async fn an_answer_is_judged_in_every_field(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let leaking = with(
        answer("Fine."),
        json!({"of_tomorrow": ["AKIAQ3EGRVXT7ZLNB5PD",
        "sk-ant-of-the-gateway"]}),
    );
    let mock = Mock::always(Answer::json(200, &leaking)).await;
    register(&mock, &owner, "claude").await;
    let body = ask(MESSAGES, "claude", "Hello.", json!({}));
    for (action, expected) in [("flag", true), ("redact", false), ("block", false)] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let reply = key.post(MESSAGES, &body).await;
        let told = reply.ok(200);
        assert_eq!(told.to_string().contains("AKIAQ3EGRVXT7ZLNB5PD"), expected, "{told}");
        assert!(!told.to_string().contains("sk-ant-of-the-gateway"), "{told}");
        assert_eq!(told["stop_reason"] == "refusal", action == "block");
        if action == "redact" {
            assert!(told["content"].to_string().contains("Fine."), "{told}");
            assert!(told.get("of_tomorrow").is_none(), "it is written anew: {told}");
        }
        let step = step(&key, &reply).await;
        assert_eq!(step["security"]["secret_leaked"], true, "{step}");
    }
    // Several blocks are one text to safety.
    let mut apart = answer("Use AKIAQ3EGR");
    let rest = json!({"type": "text", "text": "VXT7ZLNB5PD.", "citations": []});
    apart["content"].as_array_mut().unwrap().push(rest);
    let mock = Mock::always(Answer::json(200, &apart)).await;
    register(&mock, &owner, "apart").await;
    for action in ["redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let told = key.post(MESSAGES, &ask(MESSAGES, "apart", "Hello.", json!({}))).await.ok(200);
        assert!(!told.to_string().contains("VXT7ZLNB5PD"), "{told}");
    }
    // A stream that is judged on its way is written anew.
    let pieces = ["Use AKIAQ3EGR", "VXT7ZLNB5PD."];
    let leaking = Mock::always(stream(&events(&pieces))).await;
    register(&leaking, &owner, "leaking").await;
    let body = ask(MESSAGES, "leaking", "Hello.", json!({"stream": true}));
    for action in ["block", "redact"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let reply = key.post(MESSAGES, &body).await;
        assert!(!reply.text.contains("AKIAQ3EGR"), "{}", reply.text);
        let told = told(&reply);
        let kinds: Vec<&Value> = told.iter().map(|event| &event["type"]).collect();
        let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
        assert_eq!(count("content_block_start"), count("content_block_stop"), "{told:?}");
        assert_eq!(*kinds[kinds.len() - 1], "message_stop");
        let end = &told[told.len() - 2];
        if action == "block" {
            assert_eq!(end["delta"]["stop_reason"], "refusal", "{told:?}");
        } else {
            let arguments: String =
                told.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
            assert!(arguments.contains("\"Use ["), "{arguments}");
        }
        let step = step(&key, &reply).await;
        assert!(!step.to_string().contains("AKIAQ3EGR"), "{step}");
    }
}

async fn a_stream_that_breaks_off_ends_in_the_vendors_error(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mut cut = events(&["Fine."]);
    cut.truncate(9);
    let mock = Mock::always(stream(&cut)).await;
    register(&mock, &owner, "claude").await;
    let body = ask(MESSAGES, "claude", "Hello.", json!({"stream": true}));
    let reply = key.post(MESSAGES, &body).await;
    let mut told = told(&reply);
    let error = told.pop().unwrap();
    assert_eq!(error["error"]["type"], "api_error");
    cut[0]["message"]["model"] = "claude".into();
    assert_eq!(told, cut);
    let step = step(&key, &reply).await;
    assert_eq!((&step["status"], &step["output"]), (&json!("failed"), &json!("Fine.")));
}
