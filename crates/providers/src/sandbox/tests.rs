use domain::conversation::{Reply, StreamEvent};
use domain::model::{Model, Provider, SANDBOX_URL};
use domain::step::FinishReason;
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::adapter::Adapter as _;
use crate::testing::model;
use crate::vendors::internal::Internal;

fn sandbox() -> Model {
    model(Provider::Internal, Some(SANDBOX_URL))
}

fn ask(request: &Value) -> Reply {
    Internal.decode(&sandbox(), &answer(request.to_string().as_bytes(), Timestamp(0))).unwrap()
}

fn streamed(request: &Value) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    let mut decoder = Internal.decoder(&sandbox());
    for piece in stream(request.to_string().as_bytes(), Timestamp(0)) {
        decoder.feed(&piece, &mut events).unwrap();
    }
    decoder.end(&mut events).unwrap();
    events
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn with_tool(messages: &Value) -> Value {
    json!({"model": "sandbox", "messages": messages, "tools": [{"type": "function", "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
    }}]})
}

#[test]
fn it_answers_from_the_prompt() {
    let request = json!({"model": "m", "messages": [
        {"role": "system", "content": "Be brief."},
        user("What is 3.5 plus 2? I ask for a friend."),
    ]});
    let reply = ask(&request);
    assert_eq!(reply.text, "Sandbox answer: What is 3.5 plus 2?");
    assert_eq!(reply.finish, Some(FinishReason::Stop));
    assert_eq!(reply.upstream_model.as_deref(), Some("m"));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion), (17, 11));
    assert_eq!(reply.native, ask(&request).native, "the same every time");
}

#[test]
fn streams_say_the_same_word_by_word() {
    let request = json!({"messages": [user("Hello there.")], "stream": true,
        "stream_options": {"include_usage": true}});
    let events = streamed(&request);
    let words: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(words, ["Sandbox", " answer", ":", " Hello", " there", "."]);
    let reply = ask(&request);
    assert_eq!(words.concat(), reply.text);
    let end = [
        StreamEvent::Finish(FinishReason::Stop),
        StreamEvent::Usage(reply.usage.unwrap()),
        StreamEvent::Done,
    ];
    assert_eq!(events[events.len() - 3..], end);
}

#[test]
fn it_calls_a_tool_when_asked_and_answers_from_the_result() {
    let question = user("Please call the weather tool");
    let reply = ask(&with_tool(&json!([question])));
    assert_eq!((reply.text.as_str(), reply.finish), ("", Some(FinishReason::ToolCalls)));
    let call =
        Value::Object(reply.native.unwrap())["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(
        call["function"],
        json!({"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"})
    );

    let turn = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"});
    let reply = ask(&with_tool(&json!([question, turn, result])));
    assert_eq!(reply.text, "Sandbox answer: the tool returned sunny");
    assert_eq!(reply.finish, Some(FinishReason::Stop));

    let events = streamed(&with_tool(&json!([question])));
    assert!(matches!(&events[1], StreamEvent::Native { text, .. } if text.is_empty()));
    assert!(events.contains(&StreamEvent::Finish(FinishReason::ToolCalls)));
}

#[test]
fn a_question_about_a_tool_s_subject_asks_for_it() {
    for (question, finish) in [
        ("What is the weather in Paris?", FinishReason::ToolCalls),
        ("Whether it rains is for others to say. Get up!", FinishReason::Stop),
    ] {
        assert_eq!(ask(&with_tool(&json!([user(question)]))).finish, Some(finish), "{question}");
    }
}

#[test]
fn tool_choice_decides() {
    let mut request = with_tool(&json!([user("Good morning")]));
    assert_eq!(ask(&request).finish, Some(FinishReason::Stop));
    request["tool_choice"] = json!("required");
    assert_eq!(ask(&request).finish, Some(FinishReason::ToolCalls));
    request["tool_choice"] = json!({"type": "function", "function": {"name": "get_weather"}});
    assert_eq!(ask(&request).finish, Some(FinishReason::ToolCalls));
    let mut request = with_tool(&json!([user("call get_weather")]));
    assert_eq!(ask(&request).finish, Some(FinishReason::ToolCalls));
    request["tool_choice"] = json!("none");
    assert_eq!(ask(&request).finish, Some(FinishReason::Stop));
}

#[test]
fn bounds_and_stops_are_kept() {
    let mut request = json!({"messages": [user("One two three four")], "max_tokens": 5, "n": 2});
    let reply = ask(&request);
    assert_eq!(reply.text, "Sandbox answer: One two");
    assert_eq!(reply.finish, Some(FinishReason::Length));
    assert_eq!(reply.usage.unwrap().completion, 10, "two choices");
    request["stop"] = json!([" two"]);
    assert_eq!(ask(&request).text, "Sandbox answer: One");
    let mut call = with_tool(&json!([user("call it")]));
    call["max_completion_tokens"] = json!(1);
    assert_eq!(ask(&call).usage.unwrap().completion, 1);
}

#[test]
fn json_is_answered_when_json_is_asked_for() {
    let request = |format: Value| json!({"messages": [user("Hi.")], "response_format": format});
    let text = ask(&request(json!({"type": "json_object"}))).text;
    assert_eq!(text, r#"{"answer":"Sandbox answer: Hi."}"#);
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    assert_eq!(ask(&request(format)).text, r#"{"n":1}"#);
}

#[test]
fn nothing_makes_it_fail() {
    for request in ["", "{}", "[]", r#"{"messages":[{"role":"user"}],"n":0,"tools":[{}]}"#] {
        Internal.decode(&sandbox(), &answer(request.as_bytes(), Timestamp(0))).unwrap();
    }
}
