use domain::conversation::{Prompt, StreamEvent};
use domain::fees::{Extras, Surcharge, VendorTool};
use domain::model::Provider;
use domain::original::SourceEvent;
use domain::step::FinishReason;
use domain::stored_responses::{StoredItem, StoredResponse};
use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{After, Server, attempt, client, json as whole, model, step};
use crate::vendors::adapter;
use crate::vendors::openai::Openai;

fn prompt(body: &str, asked: u64) -> Prompt {
    let original = Original::new(WireFormat::Responses, body.to_owned());
    Prompt {
        original: Some(Box::new(original)),
        max_output_tokens: Some(asked),
        ..Prompt::default()
    }
}

fn own(model: &Model) -> &'static dyn Adapter {
    Openai.beside(model, WireFormat::Responses).unwrap()
}

fn passed(body: &str, asked: u64, bound: u64) -> String {
    let (model, prompt) = (model(Provider::Openai, None), prompt(body, asked));
    let attempt = Attempt { max_output_tokens: Some(bound), ..attempt(&model, &prompt) };
    let original = prompt.original.as_ref().unwrap();
    String::from_utf8(own(&model).pass(&attempt, original).unwrap().unwrap()).unwrap()
}

#[test]
fn only_what_governance_names_is_changed() {
    let body = r#"{ "x": {"y": 1.50}, "model":"mine", "trace_id": "t", "max_output_tokens": 100,
        "store": true, "previous_response_id": "resp_1", "n": 1e3 }"#;
    let expected = body.replace("mine", "gpt-test").replace(r#" "trace_id": "t","#, "");
    assert_eq!(passed(body, 100, 100), expected);
    assert_eq!(passed(body, 100, 60), expected.replace("100", "60"));
    assert_eq!(
        passed(r#"{"input": "Hi."}"#, 100, 60),
        r#"{"input": "Hi.","model":"gpt-test","max_output_tokens":60}"#
    );
    let (model, other) = (model(Provider::Openai, None), Prompt::default());
    let chat = Original::new(WireFormat::Messages, "{}".to_owned());
    assert_eq!(own(&model).pass(&attempt(&model, &other), &chat).unwrap(), None);
}

#[test]
fn the_endpoint_is_where_the_server_has_it() {
    let azure = "https://acme.openai.azure.com";
    let table = [
        (Provider::Openai, None, None, Some("https://api.openai.com/v1/responses")),
        (
            Provider::Openai,
            Some("https://api.openai.com/v1/"),
            None,
            Some("https://api.openai.com/v1/responses"),
        ),
        (Provider::Openai, None, Some(json!(false)), None),
        (Provider::Openai, Some("https://llm.example/v1"), None, None),
        (
            Provider::Openai,
            Some("https://llm.example/v1"),
            Some(json!(true)),
            Some("https://llm.example/v1/responses"),
        ),
        (Provider::Openai, Some(domain::model::SANDBOX_URL), Some(json!(true)), None),
        (Provider::Internal, Some("http://llm:8000/v1"), None, None),
        (
            Provider::Internal,
            Some("http://llm:8000/v1"),
            Some(json!(true)),
            Some("http://llm:8000/v1/responses"),
        ),
        (
            Provider::Azure,
            Some(azure),
            None,
            Some("https://acme.openai.azure.com/openai/v1/responses"),
        ),
        (Provider::Azure, Some(azure), Some(json!(false)), None),
        (Provider::Azure, Some("https://azure.example"), None, None),
        (Provider::Azure, Some("https://openai.azure.com.example"), None, None),
        (
            Provider::Azure,
            Some("https://azure.example"),
            Some(json!(true)),
            Some("https://azure.example/openai/v1/responses"),
        ),
        (Provider::Anthropic, None, Some(json!(true)), None),
    ];
    for (provider, base, declared, expected) in table {
        let mut model = model(provider, base);
        model.config.all.extend(declared.map(|value| (SETTING.to_owned(), value)));
        let beside = adapter(provider).beside(&model, WireFormat::Responses);
        let url = beside.map(|adapter| adapter.endpoint(&model, true).unwrap());
        assert_eq!(url.as_deref(), expected, "{provider:?} {base:?}");
        assert!(adapter(provider).beside(&model, WireFormat::Messages).is_none());
    }
    let mut dated = model(Provider::Azure, Some(azure));
    dated.config.all.insert("api_version".to_owned(), json!("2024-10-21"));
    dated.config.all.insert(SETTING.to_owned(), json!(true));
    assert!(adapter(Provider::Azure).beside(&dated, WireFormat::Responses).is_none());
}

/// A response with an item of every kind.
fn response(words: &str) -> Value {
    json!({
        "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-real",
        "error": null, "incomplete_details": null, "store": true, "of_tomorrow": [1.5],
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": words}],
                "encrypted_content": "e"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content":
                [{"type": "output_text", "text": words, "annotations": [{"new": words}]}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read",
                "arguments": json!({"path": words}).to_string()},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "patch",
                "input": words},
        ],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 150},
    })
}

/// Its events; the strings of its items come in these pieces.
fn events(pieces: &[String], more: &Value) -> Vec<Value> {
    let words = pieces.concat();
    let whole = response(&words);
    let mut begun = whole.clone();
    (begun["output"], begun["usage"]) = (json!([]), Value::Null);
    begun["status"] = "in_progress".into();
    let mut events = vec![
        json!({"type": "response.created", "response": begun, "new": more}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (at, item) in whole["output"].as_array().unwrap().iter().enumerate() {
        let mut blank = item.clone();
        for member in ["summary", "content"] {
            if item.get(member).is_some() {
                blank[member] = json!([]);
            }
        }
        for member in ["arguments", "input"] {
            if item.get(member).is_some() {
                blank[member] = "".into();
            }
        }
        events
            .push(json!({"type": "response.output_item.added", "output_index": at, "item": blank}));
        let (kind, index, member) = match item["type"].as_str().unwrap() {
            "reasoning" => ("reasoning_summary_text", "summary_index", "text"),
            "message" => ("output_text", "content_index", "text"),
            "function_call" => ("function_call_arguments", "unused", "arguments"),
            "custom_tool_call" => ("custom_tool_call_input", "unused", "input"),
            _ => {
                let done =
                    json!({"type": "response.output_item.done", "output_index": at, "item": item});
                events.push(done);
                continue;
            }
        };
        let text = item.get(member).and_then(Value::as_str).unwrap_or(&words).to_owned();
        let mut deltas = pieces.to_vec();
        if member == "arguments" {
            deltas = text.chars().map(String::from).collect();
        }
        for piece in deltas {
            events.push(json!({"type": format!("response.{kind}.delta"), "output_index": at,
                index: 0, "delta": piece, "new": more}));
        }
        events.push(json!({"type": format!("response.{kind}.done"), "output_index": at, index: 0,
            member: text}));
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn wire(events: &[Value]) -> String {
    let wire =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    events.iter().map(wire).collect()
}

fn read(bytes: &[u8], sizes: &[usize]) -> Result<Vec<StreamEvent>, Error> {
    let model = model(Provider::Openai, None);
    let mut decoder = own(&model).passing_decoder(&model);
    let (mut out, mut rest, mut sizes) = (Vec::new(), bytes, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        decoder.feed(piece, &mut out)?;
        rest = left;
    }
    decoder.end(&mut out)?;
    Ok(out)
}

fn sources(events: &[StreamEvent]) -> Vec<SourceEvent> {
    let source = |event: &StreamEvent| match event {
        StreamEvent::Source(event) => Some(event.clone()),
        _ => None,
    };
    events.iter().filter_map(source).collect()
}

fn expected_usage() -> Usage {
    let mut extras = Extras::NONE;
    extras.uses[VendorTool::WebSearch] = 1;
    Usage { cached: 60, reasoning: 30, completion: 50, extras, ..Usage::of_prompt(100) }
}

fn stored() -> StoredResponse {
    let items = ["rs_1", "ws_1", "msg_1", "fc_1", "ctc_1"]
        .map(|id| StoredItem { id: id.to_owned(), ..StoredItem::default() })
        .to_vec();
    StoredResponse { id: "resp_1".to_owned(), is_stored: true, items, ..StoredResponse::default() }
}

#[test]
fn a_whole_answer_is_read() {
    let model = model(Provider::Openai, None);
    let decode = |value: &Value| own(&model).decode(&model, value.to_string().as_bytes());
    let reply = decode(&response("Hm.")).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hm.", Some(FinishReason::ToolCalls)));
    assert_eq!(reply.usage.map(Usage::counts), Some(expected_usage().counts()));
    assert_eq!(reply.upstream_model.as_deref(), Some("gpt-real"));
    assert_eq!(reply.stored, Some(stored()));
    let message = &reply.native.unwrap()["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "Hm.");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], r#"{"path":"Hm."}"#);
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], r#"{"input":"Hm."}"#);

    let mut cut = response("Hm.");
    cut["status"] = "incomplete".into();
    cut["store"] = false.into();
    for (reason, finish) in [
        ("max_output_tokens", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
    ] {
        cut["incomplete_details"] = json!({"reason": reason});
        let reply = decode(&cut).unwrap();
        assert_eq!((reply.finish, reply.stored), (Some(finish), None));
    }
    let run = json!({"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1"});
    let mut code = cut.clone();
    let shell = json!({"type": "shell_call", "environment": {"type": "container_reference", "container_id": "cntr_2"}});
    code["output"] = json!([run, run, shell]);
    code["usage"] = Value::Null;
    code["service_tier"] = "priority".into();
    let reply = decode(&code).unwrap();
    let containers = ["cntr_1", "cntr_2"].map(str::to_owned).to_vec();
    let stored = StoredResponse { is_stored: false, containers, ..reply.stored.clone().unwrap() };
    assert_eq!(reply.stored, Some(stored), "a container stays");
    let usage = reply.usage.unwrap();
    assert_eq!(usage.extras.uses[VendorTool::CodeExecution], 1, "it is paid without tokens");
    assert_eq!(usage.extras.surcharges[Surcharge::Priority], Some(true));
    assert!(usage.open.is_doubtful());
    code["service_tier"] = "default".into();
    let usage = decode(&code).unwrap().usage.unwrap();
    assert_eq!(usage.extras.surcharges[Surcharge::Priority], Some(false));
    for status in ["queued", "in_progress", "cancelled"] {
        cut["status"] = status.into();
        assert!(decode(&cut).is_err(), "{status}");
    }
    cut["error"] = json!({"code": "server_error", "message": "It broke."});
    let error = decode(&cut).unwrap_err();
    assert!(error.to_string().contains("It broke."), "{error}");
    assert_eq!(error.usage().map(Usage::counts), Some(expected_usage().counts()));
    assert!(decode(&json!({"object": "chat.completion", "choices": []})).is_err());
}

#[test]
fn thoughts_that_another_account_has_encrypted_can_be_left_out() {
    let body = r#"{"model":"m", "input": [{"role":"user","content":"Hi."},
        {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"},
        {"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"},
        {"type":"reasoning","id":"rs_2","summary":[]}, {"type":"item_reference","id":"i"}], "n":1.0}"#;
    let expected = r#"{"model":"m", "input": [{"role":"user","content":"Hi."},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"reasoning","id":"rs_2","summary":[]},{"type":"item_reference","id":"i"}], "n":1.0}"#;
    let left = |body: &str| {
        let left = own(&model(Provider::Openai, None)).without_encrypted_thoughts(body.as_bytes());
        left.map(|body| String::from_utf8(body).unwrap())
    };
    assert_eq!(left(body).as_deref(), Some(expected));
    assert_eq!(left(expected), None, "nothing is left to leave out");
    assert_eq!(left(r#"{"input":"Hi."}"#), None);
}

#[tokio::test]
async fn thoughts_that_another_account_has_encrypted_are_left_out_once() {
    let refused = json!({"error": {"code": "invalid_encrypted_content", "message": "No."}});
    let refused = || step(whole("400 Bad Request", &refused.to_string()), After::Keep);
    let answer = json!({"status": "completed", "output": [{"type": "message",
        "content": [{"type": "output_text", "text": "Hi"}]}]});
    let answer = step(whole("200 OK", &answer.to_string()), After::Keep);
    let server = Server::new(vec![refused(), answer, refused(), refused()]).await;
    let mut model = model(Provider::Internal, Some(&server.url()));
    model.config.all.insert("responses".to_owned(), true.into());
    let body = json!({"input": [{"type": "reasoning", "encrypted_content": "e"},
        {"role": "user", "content": "Hi."}]});
    let prompt = prompt(&body.to_string(), 100);
    let reply = client().complete(attempt(&model, &prompt)).await.unwrap();
    assert_eq!(
        (reply.text.as_str(), &reply.dropped[..]),
        ("Hi", &["input.encrypted_content".to_owned()][..])
    );
    let error = client().complete(attempt(&model, &prompt)).await.unwrap_err();
    assert_eq!(error.provider_status(), Some(400), "it is sent no third time");
    let requests = server.requests.lock().unwrap();
    let has_thoughts: Vec<bool> =
        requests.iter().map(|request| request.contains("encrypted_content")).collect();
    assert_eq!(has_thoughts, [true, false, true, false]);
}

#[test]
fn a_stream_that_fails_or_breaks_off_is_an_error() {
    let all = events(&["Hm.".to_owned()], &Value::Null);
    let upto = &all[..all.len() - 1];
    let mut seen = Vec::new();
    let model = model(Provider::Openai, None);
    own(&model).passing_decoder(&model).feed(wire(upto).as_bytes(), &mut seen).unwrap();
    let search = seen.iter().find_map(|event| match event {
        StreamEvent::Prompt(usage) => Some(*usage),
        _ => None,
    });
    let search = search.unwrap();
    assert_eq!(search.extras, expected_usage().extras, "a search is paid for");
    assert!(search.open.prompt && search.open.completion);
    assert!(read(wire(upto).as_bytes(), &[7]).is_err());
    let mut failed = response("Hm.");
    failed["error"] = json!({"code": "server_error", "message": "It broke."});
    let failed = json!({"type": "response.failed", "response": failed});
    let error = json!({"type": "error", "code": "server_error", "message": "It broke."});
    for last in [failed, error] {
        let stream = wire(&[upto, &[last]].concat());
        let error = read(stream.as_bytes(), &[9]).unwrap_err();
        assert!(error.to_string().contains("It broke."), "{error}");
    }
    let twice =
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\",\"delta\":\"b\"}\n\n";
    assert!(read(twice.as_bytes(), &[9]).is_err());
}

#[test]
fn items_without_pieces_are_read_from_their_ends() {
    let all = events(&["Hm.".to_owned()], &Value::Null);
    let is_whole = |event: &&Value| {
        let kind = event["type"].as_str().unwrap();
        kind.contains("output_item.done") || !kind.contains("output_item") && !kind.contains(".d")
    };
    let whole: Vec<Value> = all.iter().filter(is_whole).cloned().collect();
    let ends = [all[0].clone(), all[all.len() - 1].clone()];
    for events in [whole.as_slice(), &ends] {
        let read = read(wire(events).as_bytes(), &[64]).unwrap();
        let texts =
            read.iter().filter(|event| matches!(event, StreamEvent::Text(text) if text == "Hm."));
        assert_eq!(texts.count(), 1, "{read:?}");
        let natives = read.iter().filter(|event| matches!(event, StreamEvent::Native { .. }));
        assert_eq!(natives.count(), 5, "reasoning, and two calls with their arguments: {read:?}");
    }
}

proptest! {
    /// Whatever a stream holds and wherever it is cut, its events leave as they came.
    #[test]
    fn events_leave_as_they_came(
        pieces in prop::collection::vec("[ -~é\\PC]{1,4}", 1..6),
        sizes in prop::collection::vec(1_usize..40, 1..5),
        new in "[ -~é]{0,8}",
    ) {
        let sent = events(&pieces, &json!({"deep": [new, 1.5]}));
        let read = read(wire(&sent).as_bytes(), &sizes).unwrap();
        let sources = sources(&read);
        let ends: Vec<bool> = sources.iter().map(|event| event.is_end).collect();
        prop_assert!(ends[ends.len() - 1] && !ends[..ends.len() - 1].contains(&true));
        let texts: Vec<String> = sources.iter().cloned().map(SourceEvent::json).collect();
        prop_assert_eq!(texts, sent.iter().map(Value::to_string).collect::<Vec<_>>());
        let said = read.iter().filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        prop_assert_eq!(said.collect::<String>(), pieces.concat());
        prop_assert!(read.contains(&StreamEvent::Finish(FinishReason::ToolCalls)));
        prop_assert!(read.contains(&StreamEvent::Stored(stored())));
        prop_assert!(read.contains(&StreamEvent::Done));
        let used = read.iter().find_map(|event| match event {
            StreamEvent::Usage(usage) => Some(usage.counts()),
            _ => None,
        });
        prop_assert_eq!(used, Some(expected_usage().counts()));
        // The pieces of each string are those of one block, which ends after them.
        for event in &sources {
            for piece in &event.pieces {
                prop_assert!(sources.iter().any(|later| later.ends.contains(&piece.block)));
            }
        }
    }
}
