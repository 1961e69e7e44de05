use super::*;

fn whole(message: Value) -> Value {
    let mut answer = json!({"id": "chatcmpl-7", "choices": [{"index": 0, "message": message}]});
    settle(answer.as_object_mut().unwrap());
    answer["choices"][0]["message"].take()
}

/// Returns the settled pieces of calls, each of which comes in a chunk of its own.
fn streamed(pieces: &[Value]) -> Vec<Value> {
    let mut calls = Calls::default();
    let settled = pieces.iter().map(|piece| {
        let mut chunk = json!({"id": "chatcmpl-7",
            "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]});
        calls.settle(chunk.as_object_mut().unwrap()).unwrap();
        chunk["choices"][0]["delta"]["tool_calls"][0].take()
    });
    settled.collect()
}

fn function(name: &str, arguments: &str) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[test]
fn a_sound_answer_stays_as_it_is() {
    let message = json!({"content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": function("f", "{\"x\": 1.50}")},
        {"id": "b", "type": "function", "function": function("f", "{}")},
        {"id": "c", "type": "custom", "custom": {"name": "g", "input": "hm"}},
    ]});
    assert_eq!(whole(message.clone()), message);
    for message in [json!({"content": "a"}), json!({"tool_calls": null}), json!({"tool_calls": []})]
    {
        assert_eq!(whole(message.clone()), message);
    }
}

#[test]
fn what_servers_leave_out_is_put_in() {
    let message = whole(json!({"tool_calls": [
        {"function": {"name": "f", "arguments": {"city": "Bonn", "days": [1, 2]}}},
        {"id": "", "type": "function", "function": {"name": "f"}},
        {"id": null, "function": {"name": "g", "arguments": null}},
        {"id": "same", "function": function("f", "{}")},
        {"id": "same", "function": function("f", "{}")},
        {"id": "call_5_chatcmpl-7", "function": function("f", "{}")},
        {"function": function("f", "{}")},
        {"function": function("", "{}")},
        {"id": "x"},
        "call me",
    ]}));
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": function(name, arguments)});
    let mut expected = json!([
        call("call_0_chatcmpl-7", "f", "{\"city\":\"Bonn\",\"days\":[1,2]}"),
        call("call_1_chatcmpl-7", "f", "{}"),
        call("call_2_chatcmpl-7", "g", "{}"),
        call("same", "f", "{}"),
        call("call_4_chatcmpl-7", "f", "{}"),
        call("call_5_chatcmpl-7", "f", "{}"),
        call("call_6_chatcmpl-7", "f", "{}"),
    ]);
    assert_eq!(message["tool_calls"], expected);
    // An answer without an id of its own gives its calls ids that differ from those of the next.
    let mut one =
        json!({"choices": [{"message": {"tool_calls": [{"function": function("f", "{}")}]}}]});
    let mut other =
        json!({"choices": [{"message": {"tool_calls": [{"function": function("f", "[]")}]}}]});
    settle(one.as_object_mut().unwrap());
    settle(other.as_object_mut().unwrap());
    let id = |answer: &Value| answer["choices"][0]["message"]["tool_calls"][0]["id"].clone();
    assert_ne!(id(&one), id(&other));
    expected = json!([call("call_0_chatcmpl-7", "f", "{\"x\":1}")]);
    let legacy = json!({"name": "f", "arguments": "{\"x\":1}"});
    let message = whole(json!({"content": null, "function_call": legacy}));
    assert_eq!(message["tool_calls"], expected);
    assert_eq!(message["function_call"], legacy, "who asks in the legacy form reads it");
}

#[test]
fn every_piece_has_the_index_of_its_call_and_the_first_its_id() {
    let sound = [
        json!({"index": 0, "id": "a", "type": "function", "function": function("f", "")}),
        json!({"index": 1, "id": "b", "type": "function", "function": function("g", "{")}),
        json!({"index": 0, "function": {"arguments": "{}"}}),
        json!({"index": 1, "function": {"arguments": "}"}}),
    ];
    assert_eq!(streamed(&sound), sound);

    let begins = |index: u64, id: &str, name: &str, arguments: &str| json!({"function": function(name, arguments), "id": id, "type": "function", "index": index});
    let goes_on =
        |index: u64, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
    let (first, second) = ("call_0_chatcmpl-7", "call_1_chatcmpl-7");
    for (what, pieces, expected) in [
        (
            "no ids, and the name again",
            vec![
                json!({"index": 0, "function": function("f", "{")}),
                json!({"index": 0, "function": function("f", "}")}),
                json!({"index": 1, "function": {"name": "g"}}),
            ],
            vec![begins(0, first, "f", "{"), goes_on(0, "}"), begins(1, second, "g", "")],
        ),
        (
            "no indexes",
            vec![
                json!({"id": "a", "function": function("f", "{")}),
                json!({"function": {"arguments": "}"}}),
                json!({"function": {"name": "g", "arguments": {"x": 1}}}),
            ],
            vec![begins(0, "a", "f", "{"), goes_on(0, "}"), begins(1, second, "g", "{\"x\":1}")],
        ),
        (
            "one index for all",
            vec![
                json!({"index": 0, "id": "a", "function": function("f", "{}")}),
                json!({"index": 0, "id": "b", "function": function("f", "{}")}),
                json!({"index": 0, "function": {"arguments": ""}}),
            ],
            vec![begins(0, "a", "f", "{}"), begins(1, "b", "f", "{}"), goes_on(1, "")],
        ),
        (
            "an id for each piece",
            vec![
                json!({"index": 0, "id": "a", "function": function("f", "{")}),
                json!({"index": 0, "id": "b", "function": {"arguments": "}"}}),
            ],
            vec![begins(0, "a", "f", "{"), goes_on(0, "}")],
        ),
        (
            "one id for all",
            vec![
                json!({"index": 0, "id": "a", "function": function("f", "{}")}),
                json!({"index": 1, "id": "a", "function": function("f", "{}")}),
            ],
            vec![begins(0, "a", "f", "{}"), begins(1, second, "f", "{}")],
        ),
    ] {
        assert_eq!(streamed(&pieces), expected, "{what}");
    }
}

#[test]
fn the_legacy_form_streams_too() {
    let mut calls = Calls::default();
    let mut settled = |delta: Value| {
        let mut chunk = json!({"id": "x", "choices": [{"delta": delta}]});
        calls.settle(chunk.as_object_mut().unwrap()).unwrap();
        chunk["choices"][0]["delta"]["tool_calls"].take()
    };
    let first = settled(json!({"content": null, "function_call": {"name": "f", "arguments": ""}}));
    let expected = json!([{"function": function("f", ""), "id": "call_0_x", "type": "function",
        "index": 0}]);
    assert_eq!(first, expected);
    let more = settled(json!({"function_call": {"arguments": "{}"}}));
    assert_eq!(more, json!([{"function": {"arguments": "{}"}, "index": 0}]));
}

#[test]
fn a_stream_of_too_many_calls_is_malformed() {
    let mut calls = Calls::default();
    let piece = json!({"function": {"name": "f"}});
    let pieces = vec![piece; MOST_CALLS + 1];
    let mut chunk = json!({"choices": [{"delta": {"tool_calls": pieces}}]});
    let error = calls.settle(chunk.as_object_mut().unwrap()).unwrap_err();
    assert!(error.to_string().contains("too many tools"), "{error}");
}
