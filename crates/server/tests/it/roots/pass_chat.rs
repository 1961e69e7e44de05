//! Chat completions that pass as they came, whole and in streams.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CHAT, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings};

crate::on_every_backend!(
    nothing_changes_that_governance_does_not_name,
    the_usage_that_nobody_asked_for_stays_here,
    placeholders_come_back_wherever_they_are_cut,
    a_bound_is_added_under_a_cap,
    what_is_read_in_two_ways_is_translated,
    a_provider_reaches_only_what_the_project_allows,
    what_has_no_price_is_refused,
    an_answer_is_judged_in_every_field,
    a_stream_that_breaks_off_ends_in_the_vendors_error,
    the_sandbox_answers_as_a_provider_does,
);

const MAIL: &str = "jane.doe@acme.org";
const LEAKED: &str = "AKIAQ3EGRVXT7ZLNB5PD";
const OWN_KEY: &str = "sk-of-the-gateway-4711";

/// A request with what a gateway does not know.
fn unknown() -> Value {
    json!({
        "of_tomorrow": {"list": [1.5, null, {"deep": "words"}]},
        "logprobs": true, "seed": null, "n": 1, "prediction": {"type": "content", "content": "x"},
        "tools": [
            {"type": "function", "function": {"name": "read", "parameters": {"type": "object"},
                "of_tomorrow": 1}, "defer_loading": true},
            {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        "messages": [
            {"role": "developer", "content": "Be brief.", "of_tomorrow": [1]},
            {"role": "user", "name": "ann", "content": [
                {"type": "text", "text": "Hello.", "of_tomorrow": null},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQK",
                    "filename": "a.pdf"}},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                {"type": "of_tomorrow", "x": [1]},
            ]},
            {"role": "assistant", "content": null, "refusal": null, "annotations": [],
                "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "patch",
                    "input": "x"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "Done.", "name": "patch"},
            {"role": "user", "content": "Go on."},
        ],
    })
}

/// An answer with what a gateway does not know.
fn answer(text: &str) -> Value {
    let arguments = json!({"path": text}).to_string();
    json!({
        "id": "chatcmpl-vendor", "object": "chat.completion", "created": 1, "model": "gpt-vendor",
        "of_tomorrow": [text],
        "choices": [{"index": 0, "message": {
            "role": "assistant", "content": text, "refusal": null, "reasoning_content": text,
            "annotations": [{"type": "url_citation", "title": text}],
            "tool_calls": [{"id": "t", "type": "function", "of_tomorrow": 1,
                "function": {"name": "read", "arguments": arguments}}],
        }, "logprobs": null, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
            "prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 60}},
        "service_tier": "default", "system_fingerprint": null,
    })
}

/// The chunks of the same answer, its strings in these pieces, two calls in turn.
fn chunks(pieces: &[&str]) -> Vec<Value> {
    let chunk = |choices: Value| {
        json!({"id": "chatcmpl-vendor", "object": "chat.completion.chunk", "created": 1,
            "model": "gpt-vendor", "choices": choices, "usage": null, "obfuscation": "xyz"})
    };
    let says = |delta: Value| {
        chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
    };
    let mut all = vec![says(json!({"role": "assistant", "content": "", "of_tomorrow": 1.5}))];
    all.extend(pieces.iter().map(|piece| says(json!({"content": piece}))));
    let begins = |index: u64| {
        json!({"index": index, "id": format!("t{index}"), "type": "function",
            "function": {"name": "read", "arguments": "{\"path\": \""}})
    };
    all.push(says(json!({"tool_calls": [begins(0), begins(1)]})));
    for piece in pieces.iter().copied().chain(["\"}"]) {
        let more = |index: u64| json!({"index": index, "function": {"arguments": piece}});
        all.push(says(json!({"tool_calls": [more(1), more(0)]})));
    }
    all.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])));
    let mut last = chunk(json!([]));
    last["usage"] = answer("")["usage"].clone();
    all.push(last);
    all
}

fn events(chunks: &[Value]) -> String {
    chunks.iter().fold(String::new(), |events, chunk| events + &format!("data: {chunk}\n\n"))
}

fn stream(chunks: &[Value]) -> Answer {
    Answer::Body(200, "text/event-stream", events(chunks) + "data: [DONE]\n\n")
}

fn letters(text: &str) -> Vec<String> {
    text.chars().map(String::from).collect()
}

fn in_letters(text: &str) -> Vec<Value> {
    let letters = letters(text);
    chunks(&letters.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Answers as the vendor does, with a text that depends on the request.
async fn vendor(owner: &Caller, text: fn(&Value) -> String) -> Mock {
    let plan = move |body: &Value| {
        let text = text(body);
        if body["stream"] == true {
            stream(&in_letters(&text))
        } else {
            Answer::json(200, &answer(&text))
        }
    };
    let mock = Mock::start(Duration::ZERO, None, plan).await;
    register(&mock, owner, "gpt", "openai").await;
    mock
}

async fn register(mock: &Mock, owner: &Caller, identifier: &str, provider: &str) {
    let more = json!({"provider": provider, "is_public": false, "api_key": OWN_KEY});
    mock.register_with(owner, identifier, more).await;
}

/// The chunks of a stream that has come to its end.
#[track_caller]
fn told(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let events = reply.text.strip_suffix("data: [DONE]\n\n").expect("it has an end");
    parsed(events)
}

fn parsed(events: &str) -> Vec<Value> {
    let data = events.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn named(mut all: Vec<Value>) -> Vec<Value> {
    for chunk in &mut all {
        chunk["model"] = "gpt".into();
    }
    all
}

fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members are an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}

async fn step(key: &Caller, reply: &Reply) -> Value {
    let detail = key.detail(reply.header("x-trace-id")).await;
    let id: Value = serde_json::from_str(reply.header("x-sluice-step-id")).unwrap();
    let steps = detail["steps"].as_array().unwrap().iter();
    steps.clone().find(|step| step["id"] == id).unwrap().clone()
}

async fn nothing_changes_that_governance_does_not_name(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    for provider in ["internal", "azure"] {
        register(&mock, &owner, provider, provider).await;
    }
    let usage = json!({"include_usage": true});
    for (streams, model) in
        [(false, "gpt"), (true, "gpt"), (false, "internal"), (true, "internal"), (false, "azure")]
    {
        let more = if streams {
            json!({"stream": true, "stream_options": usage})
        } else {
            json!({"stream": false})
        };
        let mut asked = with(ask(CHAT, model, "Hello.", unknown()), more);
        if model == "azure" {
            // Its servers may refuse the older name.
            let asked = asked.as_object_mut().unwrap();
            asked.shift_remove("max_tokens");
            asked.insert("max_completion_tokens".to_owned(), 50.into());
        }
        let trace = key.trace().await;
        let agent = key.with("openai-beta", "of-tomorrow");
        let reply = agent.post(CHAT, &with(asked.clone(), json!({"trace_id": trace}))).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let got = mock.take().pop().unwrap();
        // The text, not only what it says.
        assert_eq!(got.text, asked.to_string(), "trace_id is ours");
        assert_eq!(got.headers["openai-beta"], "of-tomorrow");
        if streams {
            let mut sent = named(in_letters("Fine."));
            for chunk in &mut sent {
                chunk["model"] = model.into();
            }
            assert_eq!(told(&reply), sent);
        } else {
            let sent = with(answer("Fine."), json!({"model": model}));
            assert_eq!(reply.text, sent.to_string());
        }
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        assert_eq!(reply.header("x-sluice-dropped-params"), "");
        let steps = key.detail(&trace).await["steps"].clone();
        assert_eq!(steps[0]["output"], "Fine.", "{steps}");
        assert_eq!(steps[0]["cached_tokens"], 400, "{steps}");
        assert_eq!(steps[0]["reasoning_tokens"], 60, "{steps}");
    }
}

async fn the_usage_that_nobody_asked_for_stays_here(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    let silent = Mock::always(stream(&in_letters("Fine.")[..14])).await;
    register(&silent, &owner, "silent", "internal").await;
    for options in [json!({}), json!({"stream_options": {"include_usage": false, "x": 1}})] {
        let asked = with(ask(CHAT, "gpt", "Hello.", options), json!({"stream": true}));
        let reply = key.post(CHAT, &asked).await;
        let mut sent = named(in_letters("Fine."));
        sent.pop();
        assert_eq!(told(&reply), sent);
        assert_eq!(mock.last()["stream_options"]["include_usage"], true);
        assert_eq!(mock.last()["stream_options"].get("x"), asked["stream_options"].get("x"));
        // It is counted all the same: 1,000 tokens at 0.15 and 100 at 0.6 a thousand.
        assert_eq!(step(&key, &reply).await["completion_tokens"], 100);
    }
    // A server that counts nothing: the gateway does.
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let reply = key.post(CHAT, &ask(CHAT, "silent", "Hello.", options)).await;
    let usage = told(&reply).pop().unwrap()["usage"]["completion_tokens"].clone();
    assert!(usage.as_u64() > Some(0), "{}", reply.text);
    let mut uncounted = answer("Fine.");
    uncounted.as_object_mut().unwrap().shift_remove("usage");
    let silent = Mock::always(Answer::json(200, &uncounted)).await;
    register(&silent, &owner, "whole", "internal").await;
    let mut body = key.post(CHAT, &ask(CHAT, "whole", "Hello.", json!({}))).await.ok(200);
    let usage = body.as_object_mut().unwrap().shift_remove("usage").unwrap();
    assert!(usage["completion_tokens"].as_u64() > Some(0), "{usage}");
    assert_eq!(body, with(uncounted, json!({"model": "whole"})));
}

/// The placeholder that stands in a field nobody knows.
fn placeholder(body: &Value) -> String {
    body["of_tomorrow"]["note"][0].as_str().unwrap_or("none").to_owned()
}

async fn placeholders_come_back_wherever_they_are_cut(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, placeholder).await;
    let note = json!({"of_tomorrow": {"note": [MAIL], "n": 1.5}});
    for streams in [false, true] {
        let asked = with(ask(CHAT, "gpt", "Hello.", note.clone()), json!({"stream": streams}));
        let reply = key.post(CHAT, &asked).await;
        let got = mock.take().pop().unwrap().body;
        let placeholder = placeholder(&got);
        assert!(placeholder.starts_with("[EMAIL_1_"), "{got}");
        if !streams {
            let redacted = json!({"of_tomorrow": {"note": [placeholder], "n": 1.5}});
            assert_eq!(got, with(asked, redacted));
            assert_eq!(reply.ok(200), with(answer(MAIL), json!({"model": "gpt"})));
            continue;
        }
        let told = told(&reply);
        let deltas: Vec<&Value> = told.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
        let said: String = deltas.iter().filter_map(|delta| delta["content"].as_str()).collect();
        assert_eq!(said, MAIL);
        for index in 0..2 {
            let calls = deltas.iter().filter_map(|delta| delta["tool_calls"].as_array()).flatten();
            let calls: Vec<&Value> = calls.filter(|call| call["index"] == index).collect();
            let arguments: String =
                calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
            assert_eq!(arguments, format!("{{\"path\": \"{MAIL}\"}}"));
            let ids: Vec<&Value> = calls.iter().filter_map(|call| call.get("id")).collect();
            assert_eq!(ids, [&json!(format!("t{index}"))], "it is named once");
        }
        let reason = &told.last().unwrap()["choices"][0]["finish_reason"];
        assert_eq!(reason, "tool_calls", "all text has left before it");
    }
}

async fn a_bound_is_added_under_a_cap(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    settings(&owner, 1, json!({"monthly_budget": 1.0})).await;
    let mut asked = ask(CHAT, "gpt", "Hello.", json!({"of_tomorrow": 1.50}));
    asked.as_object_mut().unwrap().shift_remove("max_tokens");
    let reply = server.key().post(CHAT, &asked).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let bound = mock.last()["max_tokens"].clone();
    assert!(bound.as_u64().is_some_and(|bound| bound > 0), "{}", mock.last());
    let bounded = with(asked.clone(), json!({"max_tokens": bound}));
    assert_eq!(mock.take().pop().unwrap().text, bounded.to_string());
    // Each further answer may cost as much.
    let many = with(asked, json!({"n": 1000, "max_completion_tokens": 1000}));
    server.key().post(CHAT, &many).await.ok(402);
    assert_eq!(mock.begun(), 1);
}

async fn what_is_read_in_two_ways_is_translated(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    let both = json!({"max_completion_tokens": 40});
    let twice = r#"{"model": "gpt", "messages": [{"role": "user", "content": "Hello."}],
        "of_tomorrow": {"a": 1, "a": 2}}"#;
    let spelled = json!({"Max_Tokens": 4000});
    for body in [
        ask(CHAT, "gpt", "Hello.", both).to_string(),
        ask(CHAT, "gpt", "Hello.", spelled).to_string(),
        twice.to_owned(),
    ] {
        let reply = key.send("POST", CHAT, Some(body.clone().into_bytes())).await;
        reply.ok(200);
        assert_eq!(reply.header("x-sluice-mode"), "translated", "{body}");
    }
    assert_eq!(mock.begun(), 3);
}

async fn a_provider_reaches_only_what_the_project_allows(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    let part = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let image = |url: &str| part(json!({"type": "image_url", "image_url": {"url": url}}));
    let file = |member: &str, value: &str| part(json!({"type": "file", "file": {member: value}}));
    let tool = |url: &str| json!({"tools": [{"type": "mcp", "server_url": url}]});
    let search = json!({"web_search_options": {}});
    for (more, at) in [
        (tool("https://a.example/mcp"), "tools[0]"),
        (file("file_data", "https://a.example/x.pdf"), "messages[0].content[0]"),
        (file("file_id", "file-1"), "messages[0].content[0]"),
        (image("http://10.0.0.1/x.png"), "messages[0].content[0]"),
        (search.clone(), "web_search_options"),
    ] {
        let reply = key.post(CHAT, &ask(CHAT, "gpt", "Hello.", more)).await;
        let error = reply.ok(422)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().starts_with(at), "{error}");
    }
    for more in [json!({"models": ["x"]}), json!({"base_url": "http://x"})] {
        key.post(CHAT, &ask(CHAT, "gpt", "Hello.", more)).await.ok(400);
    }
    assert_eq!(mock.begun(), 0);
    let allowed = json!({"mcp": {"allowed_servers": ["https://a.example/mcp"]},
        "passthrough": {"vendor_tools": ["web_search_options", "file"]}});
    settings(&owner, 1, allowed).await;
    for more in [
        tool("https://a.example/mcp"),
        file("file_data", "https://a.example/x.pdf"),
        file("file_id", "file-1"),
        image("https://images.example/x.png"),
        search,
    ] {
        let asked = ask(CHAT, "gpt", "Hello.", more);
        key.post(CHAT, &asked).await.ok(200);
        assert_eq!(mock.last(), asked);
    }
}

async fn what_has_no_price_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = vendor(&owner, |_| "Fine.".to_owned()).await;
    for (more, why) in [
        (json!({"service_tier": "priority"}), "service_tier: 'priority' has other prices"),
        (json!({"modalities": ["text", "audio"], "audio": {"voice": "a"}}), "modalities: "),
    ] {
        let error =
            key.post(CHAT, &ask(CHAT, "gpt", "Hello.", more)).await.ok(422)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().starts_with(why), "{error}");
    }
    assert_eq!(mock.begun(), 0);
    key.post(CHAT, &ask(CHAT, "gpt", "Hello.", json!({"service_tier": "flex"}))).await.ok(200);
}

async fn an_answer_is_judged_in_every_field(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let leaking = with(answer("Fine."), json!({"of_tomorrow": [LEAKED, OWN_KEY]}));
    let mock = Mock::always(Answer::json(200, &leaking)).await;
    register(&mock, &owner, "gpt", "openai").await;
    let pieces = ["Use AKIAQ3EGR", "VXT7ZLNB5PD."];
    let streaming = Mock::always(stream(&chunks(&pieces))).await;
    register(&streaming, &owner, "streaming", "openai").await;
    for (action, leaves) in [("flag", true), ("redact", false), ("block", false)] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let reply = key.post(CHAT, &ask(CHAT, "gpt", "Hello.", json!({}))).await;
        let said = reply.ok(200);
        assert_eq!(said.to_string().contains(LEAKED), leaves, "{said}");
        assert!(!said.to_string().contains(OWN_KEY), "{said}");
        let reason = &said["choices"][0]["finish_reason"];
        assert_eq!(reason == "content_filter", action == "block", "{said}");
        assert_eq!(step(&key, &reply).await["security"]["secret_leaked"], true);
        let body = ask(CHAT, "streaming", "Hello.", json!({"stream": true}));
        let reply = key.post(CHAT, &body).await;
        told(&reply);
        assert_eq!(reply.text.contains("AKIAQ3EGR"), leaves, "{}", reply.text);
        let step = step(&key, &reply).await;
        assert_eq!(step["security"]["secret_leaked"], true, "{step}");
    }
}

async fn a_stream_that_breaks_off_ends_in_the_vendors_error(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let sent = &chunks(&["Fine."])[..3];
    let events = events(sent);
    let mock = Mock::always(Answer::Body(200, "text/event-stream", events)).await;
    register(&mock, &owner, "gpt", "openai").await;
    let reply = key.post(CHAT, &ask(CHAT, "gpt", "Hello.", json!({"stream": true}))).await;
    let mut told = parsed(&reply.text);
    let error = told.pop().unwrap();
    assert_eq!(error["error"]["type"], "server_error", "{error}");
    assert_eq!(told, named(sent.to_vec()));
    let step = step(&key, &reply).await;
    assert_eq!((&step["status"], &step["output"]), (&json!("failed"), &json!("Fine.")));
}

async fn the_sandbox_answers_as_a_provider_does(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for streams in [false, true] {
        let more = json!({"stream": streams, "of_tomorrow": {"x": 1}});
        let reply = key.post(CHAT, &ask(CHAT, "sandbox", "Hello there.", more)).await;
        assert_eq!(reply.header("x-sluice-mode"), "passthrough");
        if streams {
            let chunks = told(&reply);
            assert!(chunks.iter().all(|chunk| chunk["model"] == "sandbox"), "{chunks:?}");
            let reasons =
                chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
            assert_eq!(reasons.collect::<Vec<_>>(), ["stop"]);
        } else {
            let body = reply.ok(200);
            assert_eq!(
                (&body["model"], &body["object"]),
                (&json!("sandbox"), &json!("chat.completion"))
            );
        }
        assert_eq!(step(&key, &reply).await["status"], "completed");
    }
}
