use domain::conversation::Message;
use proptest::prelude::*;

use super::*;
use crate::inference::canonical::testing::{Asked as Part, Exchange, conversation};

fn read(body: Value) -> ResponsesBody {
    serde_json::from_value(body).unwrap()
}

fn asked(mut body: Value) -> ParsedRequest<AnswerOptions> {
    if body.get("input").is_none() {
        body["input"] = "?".into();
    }
    parse(read(body), None).unwrap()
}

fn fault(mut body: Value) -> (u16, String) {
    if body.get("input").is_none() {
        body["input"] = "?".into();
    }
    let failure = parse(read(body), None).unwrap_err();
    (failure.status().as_u16(), failure.into_body().error)
}

fn said(body: Value) -> Value {
    let messages = asked(body).request.prompt.messages;
    messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

#[test]
fn parameters_have_their_canonical_names() {
    let asked = asked(json!({
        "model": "m", "trace_id": "t", "temperature": 0.3, "top_p": 1, "max_output_tokens": 9,
        "user": "u", "service_tier": "default", "parallel_tool_calls": false, "store": false,
        "truncation": "disabled", "background": false, "previous_response_id": null,
        "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low", "format":
            {"type": "json_schema", "name": "n", "schema": {"a": 1}, "strict": true}},
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"},
            "strict": null}],
    }));
    let request = asked.request;
    assert_eq!((request.model.as_deref(), request.trace_id.as_deref()), (Some("m"), Some("t")));
    assert_eq!(request.prompt.max_output_tokens, Some(9));
    assert_eq!(
        Value::Object(request.prompt.params),
        json!({
            "temperature": 0.3, "top_p": 1, "user": "u", "service_tier": "default",
            "parallel_tool_calls": false, "reasoning_effort": "low", "verbosity": "low",
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "n", "schema": {"a": 1}, "strict": true}},
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "tools": [{"type": "function", "function":
                {"name": "f", "parameters": {"type": "object"}}}],
        })
    );
    assert_eq!(asked.dropped, ["reasoning.summary"]);
    let echo = Value::Object(asked.options.echo);
    assert_eq!(echo["reasoning"], json!({"effort": "low", "summary": null}));
    assert_eq!(echo["metadata"], json!({"a": "b"}));
    assert_eq!(echo["tools"][0]["name"], "f");
    assert_eq!((&echo["store"], &echo["previous_response_id"]), (&json!(false), &Value::Null));
}

#[test]
fn a_coding_agents_request_is_taken() {
    let asked = asked(json!({
        "client_metadata": {"x-codex-installation-id": "i"}, "prompt_cache_key": "s", "store": false,
        "truncation": "auto", "include": ["reasoning.encrypted_content"], "tool_choice": "auto",
        "tools": [
            {"type": "function", "name": "shell", "parameters": {"type": "object"}},
            {"type": "namespace", "name": "agents", "description": "d", "tools": []},
            {"type": "web_search", "external_web_access": true},
            {"type": "custom", "name": "apply_patch", "description": "Edits.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "tool_search"}],
    }));
    let dropped = [
        "client_metadata",
        "truncation",
        "tools[1] (namespace)",
        "tools[2] (web_search)",
        "tools[4] (tool_search)",
    ];
    assert_eq!(asked.dropped, dropped);
    let params = asked.request.prompt.params;
    let names: Vec<&Value> =
        params["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["shell", "apply_patch"]);
    assert_eq!(
        (&params["tool_choice"], &params["prompt_cache_key"]),
        (&json!("auto"), &json!("s"))
    );
    // Without a tool there is nothing to choose from.
    let asked = self::asked(json!({"tools": [{"type": "web_search"}], "tool_choice": "auto",
        "parallel_tool_calls": true}));
    assert!(asked.request.prompt.params.is_empty(), "{:?}", asked.request.prompt.params);
}

#[test]
fn documents_are_files_or_texts() {
    let said = said(json!({"input": [{"role": "user", "content": [
        {"type": "input_file", "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0="},
        {"type": "input_file", "filename": "a.txt",
            "file_data": "data:text/plain;charset=utf-8;base64,SGVsbG8u"}]}]}));
    let file = json!({"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="});
    assert_eq!(
        said[0]["content"],
        json!([{"type": "file", "file": file}, {"type": "text", "text": "a.txt\n\nHello."}])
    );
}

#[test]
fn calls_of_custom_tools_are_read_back() {
    let said = said(json!({"input": [
        {"type": "custom_tool_call", "id": "ctc_1", "status": "completed", "call_id": "c",
            "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "Done."}]}));
    let call = json!({"id": "c", "type": "function", "function":
        {"name": "apply_patch", "arguments": "{\"input\":\"*** Begin Patch\"}"}});
    assert_eq!(
        said,
        json!([{"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "content": "Done.", "tool_call_id": "c"}])
    );
}

#[test]
fn a_turn_of_several_items_is_one_message() {
    let call = |id: &str| {
        json!({"type": "function_call", "id": "fc", "call_id": id, "name": "f",
            "arguments": "{}", "status": "completed"})
    };
    let output = |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    let state = json!({"provider": "anthropic", "model": "m", "content": []});
    let image =
        json!({"type": "input_image", "image_url": "https://a.example/b.png", "detail": "low"});
    let said = said(json!({
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Go"},
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": state.to_string()},
            {"type": "message", "role": "assistant", "id": "msg", "status": "completed",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
            call("a"), call("b"),
            output("a", json!([{"type": "input_text", "text": "seen"}, image])),
            output("b", json!("done")),
            call("c"),
            output("c", json!("")),
            {"role": "assistant", "content": "One."},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "Two."}]},
            {"role": "developer", "content": [{"type": "input_text", "text": "Go on."}]},
        ],
    }));
    let called = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let image = json!({"type": "image_url",
        "image_url": {"url": "https://a.example/b.png", "detail": "low"}});
    assert_eq!(
        said,
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": "I look.", "tool_calls": [called("a"), called("b")],
                "provider_state": state},
            {"role": "tool", "content": "seen", "tool_call_id": "a"},
            {"role": "tool", "content": "done", "tool_call_id": "b"},
            {"role": "user", "content": [image]},
            {"role": "assistant", "content": null, "tool_calls": [called("c")]},
            {"role": "tool", "content": "", "tool_call_id": "c"},
            {"role": "assistant", "content": "One."},
            {"role": "assistant", "content": "Two."},
            {"role": "developer", "content": "Go on."},
        ])
    );
}

#[test]
fn reasoning_of_others_is_left_out() {
    let asked = asked(json!({"input": [
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAAAB"},
        {"role": "assistant", "content": "a"},
    ]}));
    assert_eq!(asked.dropped, ["reasoning"]);
    assert!(asked.request.prompt.messages[0].extra.is_empty());
    // An item of ours without state holds nothing that a provider requires back.
    for (id, is_ours) in [("rs_68af", false), ("rs_x_1", false), ("rs_7_0", true)] {
        let reasoning = json!({"type": "reasoning", "id": id, "encrypted_content": null,
            "summary": [{"type": "summary_text", "text": "Hm."}]});
        let asked = self::asked(json!({"input": [reasoning, {"role": "user", "content": "?"}]}));
        assert_eq!(asked.dropped.is_empty(), is_ours, "{id}");
    }
}

#[test]
fn what_clients_send_back_of_an_answer_is_no_fault() {
    let breakpoint = json!({"mode": "explicit"});
    let asked = asked(json!({"input": [
        {"type": "message", "role": "assistant", "id": "msg", "status": "completed",
            "phase": "commentary", "content": [{"type": "output_text", "text": "I look.",
                "annotations": [], "logprobs": [], "parsed": {"a": 1}}]},
        {"type": "function_call", "id": "fc", "status": "completed", "call_id": "a", "name": "f",
            "arguments": "{}", "caller": {"type": "direct"}, "parsed_arguments": {},
            "async": false, "namespace": "n"},
        {"type": "function_call_output", "id": "fo", "status": "completed", "call_id": "a",
            "name": "f", "output": [{"type": "input_text", "text": "seen",
                "prompt_cache_breakpoint": breakpoint}]},
    ]}));
    assert_eq!(asked.request.prompt.messages.len(), 2);
    assert_eq!(asked.dropped, ["namespace", "prompt_cache_breakpoint"]);
}

#[test]
fn every_message_says_what_it_was_made_from() {
    let picture = json!([{"type": "input_image", "image_url": "https://a.b/c.png"}]);
    let asked = asked(json!({"instructions": "Be brief.", "input": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": picture},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "So."}]}));
    // The picture is shown after the results.
    let sources = [None, Some(0), Some(1), Some(4), Some(5), Some(4), Some(6), Some(7)];
    assert_eq!(asked.names.unwrap().sources, sources);
    assert_eq!(asked.request.prompt.messages.len(), sources.len());
}

#[test]
fn faults_name_the_parameter() {
    let table = [
        (json!({"input": []}), 422, "input must not be empty"),
        (json!({"input": 5}), 400, "input must be a string or an array of items"),
        (
            json!({"store": true}),
            422,
            "store is not supported: nothing is kept between two requests",
        ),
        (
            json!({"previous_response_id": "resp_1"}),
            422,
            "previous_response_id is not supported: nothing is kept between two requests; send the conversation in input",
        ),
        (
            json!({"background": true}),
            422,
            "background is not supported: this endpoint has none of the kind",
        ),
        (
            json!({"include": ["web_search_call.results"]}),
            422,
            "include: 'web_search_call.results' is not supported",
        ),
        (
            json!({"tools": [{"type": "mcp", "server_url": "https://a.example"}]}),
            422,
            "tools[0]: a tool of type 'mcp' is not supported",
        ),
        (
            json!({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
            422,
            "tool_choice: a choice of type 'web_search' is not supported",
        ),
        (
            json!({"tools": [{"type": "web_search"}], "tool_choice": "required"}),
            422,
            "tool_choice demands a call, and no tool is left to call: tools[0] (web_search) is one \
             that only its vendor has. Offer a function of your own",
        ),
        (
            json!({"base_url": "https://a.example"}),
            422,
            "base_url is not supported: the project decides which model answers",
        ),
        (
            json!({"tool_choice": {"type": "allowed_tools"}}),
            422,
            "tool_choice: a choice of type 'allowed_tools' is not supported",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": "x"}]}),
            422,
            "input[0]: an item of type 'item_reference' is not supported, because nothing is kept \
             between two requests: set store: false in the client, which then sends the item itself",
        ),
    ];
    for (body, status, error) in table {
        assert_eq!(fault(body), (status, error.to_owned()));
    }
}

#[test]
fn faults_name_the_member() {
    let table = [
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
            422,
            "input[0].content[0].file_data is needed: files are not kept here",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_file",
                "file_url": "https://a.example/b.pdf"}]}]}),
            422,
            "input[0].content[0].file_url is not supported: files are not fetched from addresses; \
             send file_data",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_file",
                "file_data": "data:application/zip;base64,UEs="}]}]}),
            422,
            "input[0].content[0].file_data: a document must be a PDF or a text",
        ),
        (
            json!({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]}),
            400,
            "Missing required parameter: input[0].arguments",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "f"}]}),
            422,
            "tools: 'f' is the name of a function and of a custom tool; give each a name of its own",
        ),
        (
            json!({"tools": [{"type": "custom", "name": "f"}, {"type": "function", "name": "f"}]}),
            422,
            "tools: 'f' is the name of a function and of a custom tool; give each a name of its own",
        ),
        (
            json!({"tools": [{"type": "function", "name": "f", "defer_loading": true}]}),
            422,
            "tools[0].defer_loading is not supported",
        ),
        (
            json!({"input": [{"role": "user", "content": "?", "foo": 1}]}),
            422,
            "input[0].foo is not supported",
        ),
        (
            json!({"input": [{"role": "user", "content":
                [{"type": "input_text", "text": "?", "foo": 1}]}]}),
            422,
            "input[0].content[0].foo is not supported",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image",
                "image_url": "https://a.example/b.png", "file_id": "f"}]}]}),
            422,
            "input[0].content[0].file_id is not supported",
        ),
        (
            json!({"input": [{"type": "function_call", "call_id": "c", "name": "f",
                "arguments": "{}", "foo": 1}]}),
            422,
            "input[0].foo is not supported",
        ),
        (
            json!({"input": [{"type": "function_call_output", "call_id": "c", "output": "1",
                "foo": 1}]}),
            422,
            "input[0].foo is not supported",
        ),
        (
            json!({"input": [{"type": "reasoning", "summary": [], "foo": 1}]}),
            422,
            "input[0].foo is not supported",
        ),
        (json!({"reasoning": {"budget": 5}}), 422, "reasoning.budget is not supported"),
        (json!({"text": {"voice": "x"}}), 422, "text.voice is not supported"),
        (json!({"max_output_tokens": 0}), 422, "max_output_tokens must be at least 1"),
    ];
    for (body, status, error) in table {
        assert_eq!(fault(body), (status, error.to_owned()));
    }
}

/// An exchange as a client of the format writes it.
fn written(exchange: &Exchange) -> Vec<Value> {
    let asked: Vec<Value> = exchange
        .asked
        .iter()
        .map(|asked| match asked {
            Part::Text(text) => json!({"type": "input_text", "text": text}),
            Part::Image(url) => json!({"type": "input_image", "image_url": url, "detail": "auto"}),
        })
        .collect();
    let mut items = vec![json!({"role": "user", "content": asked})];
    let speech = &exchange.speech;
    if let Some(state) = &speech.state {
        items.push(json!({"type": "reasoning", "summary": [],
            "encrypted_content": state.to_string()}));
    }
    if !speech.text.is_empty() {
        items.push(json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": speech.text}]}));
    }
    for call in &speech.calls {
        items.push(json!({"type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": call.arguments}));
    }
    for (call, text) in speech.calls.iter().zip(&exchange.results) {
        items.push(json!({"type": "function_call_output", "call_id": call.id, "output": text}));
    }
    items
}

proptest! {
    #[test]
    fn any_conversation_keeps_roles_order_ids_and_arguments(all in conversation()) {
        let items: Vec<Value> = all.iter().flat_map(written).collect();
        let expected: Vec<Message> = all.iter().flat_map(Exchange::messages).collect();
        prop_assert_eq!(asked(json!({"input": items})).request.prompt.messages, expected);
    }
}
