use axum::http::StatusCode;
use domain::conversation::Body;
use proptest::prelude::*;

use super::*;
use crate::inference::canonical::testing::{Asked, Exchange, conversation};

fn read(body: Value) -> MessagesBody {
    serde_json::from_value(body).unwrap()
}

fn asked(mut body: Value) -> super::ParsedRequest<()> {
    let blank = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "?"}]});
    for (name, value) in blank.as_object().unwrap() {
        body.as_object_mut().unwrap().entry(name).or_insert(value.clone());
    }
    parse(read(body), None, None).unwrap()
}

fn fault(body: Value) -> (u16, String) {
    let mut whole = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "?"}]});
    for (name, value) in body.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let failure = parse(read(whole), None, None).unwrap_err();
    let status: StatusCode = failure.status();
    (status.as_u16(), failure.into_body().error)
}

#[test]
fn clients_are_told_to_go_on_without_a_thread() {
    let body = |more: Value| {
        let mut whole = json!({"max_tokens": 9, "messages": [{"role": "user", "content": "?"}]});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(read(whole), None, None).unwrap_err().into_body()
    };
    let thread = body(json!({"thread": {"type": "create"}}));
    assert_eq!(thread.error, "thread is not supported");
    let details = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    assert_eq!(thread.details.as_deref(), Some(&details));
    assert_eq!(body(json!({"container": "c"})).details, None);
}

#[test]
fn parameters_have_their_canonical_names() {
    let super::ParsedRequest { request, dropped, .. } = asked(json!({
        "model": "m", "trace_id": "t", "temperature": 0.30, "top_p": 1, "top_k": 5,
        "stop_sequences": ["END"], "metadata": {"user_id": "u"}, "service_tier": "auto",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"a": 1}}},
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"},
            "cache_control": {"type": "ephemeral"}}, {"type": "custom", "name": "g", "strict": true}],
        "container": null,
    }));
    assert_eq!((request.model.as_deref(), request.trace_id.as_deref()), (Some("m"), Some("t")));
    assert_eq!(request.prompt.max_output_tokens, Some(9));
    assert_eq!(
        Value::Object(request.prompt.params),
        json!({
            "temperature": 0.3, "top_p": 1, "top_k": 5, "stop": ["END"], "user": "u",
            "thinking": {"type": "enabled", "budget_tokens": 1024}, "reasoning_effort": "low",
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"a": 1}, "strict": true}},
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": false,
            "tools": [
                {"type": "function", "function": {"name": "f", "description": "d",
                    "parameters": {"type": "object"}}, "cache_breakpoint": "5m"},
                {"type": "function", "function": {"name": "g", "strict": true}},
            ],
        })
    );
    assert_eq!(dropped, ["service_tier"]);
    for (choice, canonical) in [("auto", "auto"), ("any", "required"), ("none", "none")] {
        let super::ParsedRequest { request, .. } = asked(json!({"tool_choice": {"type": choice}}));
        assert_eq!(request.prompt.params["tool_choice"], canonical);
        assert!(!request.prompt.params.contains_key("parallel_tool_calls"));
    }
    let super::ParsedRequest { request, dropped, .. } =
        asked(json!({"thinking": {"type": "disabled"}, "model": ""}));
    assert!(request.prompt.params.is_empty() && request.model.is_none() && dropped.is_empty());
}

#[test]
fn what_was_said_has_its_canonical_form() {
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let super::ParsedRequest { request, .. } = asked(json!({"system": blocks, "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "And?"},
            {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}]},
            {"type": "tool_result", "tool_use_id": "t2"},
            {"type": "image", "source":
                {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ]},
        {"role": "assistant", "content": "Well"},
    ]}));
    let said: Vec<Value> =
        request.prompt.messages.iter().map(|m| serde_json::to_value(m).unwrap()).collect();
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    assert_eq!(
        Value::Array(said),
        json!([
            {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "tool", "content": "see", "tool_call_id": "t1", "tool_failed": true},
            {"role": "tool", "content": "", "tool_call_id": "t2"},
            {"role": "user", "content": [{"type": "text", "text": "And?"},
                image("https://a.example/b.png"), image("data:image/png;base64,AAAA")]},
            {"role": "assistant", "content": "Well"},
        ])
    );
}

#[test]
fn breakpoints_of_the_cache_stay_where_they_are() {
    let five = json!({"type": "ephemeral"});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let super::ParsedRequest { request, dropped, .. } = asked(json!({
        "cache_control": {"type": "ephemeral", "ttl": "5m"},
        "system": [{"type": "text", "text": "a", "cache_control": hour}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "b", "cache_control": five},
                {"type": "text", "text": "c", "cache_control": null}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "cache_control": five}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "d", "cache_control": five}]},
        ],
    }));
    let said: Vec<Value> =
        request.prompt.messages.iter().map(|m| serde_json::to_value(m).unwrap()).collect();
    assert_eq!(
        Value::Array(said),
        json!([
            {"role": "system", "content": "a", "cache_breakpoint": "1h"},
            {"role": "user", "content": [
                {"type": "text", "text": "b", "cache_breakpoint": "5m"},
                {"type": "text", "text": "c"}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"},
                    "cache_breakpoint": "5m"}]},
            {"role": "tool", "content": "d", "tool_call_id": "t1", "cache_breakpoint": "5m"},
        ])
    );
    assert_eq!(request.prompt.params["cache_breakpoint"], "5m");
    assert!(dropped.is_empty());
    // An unknown kind is a hint that is lost.
    let odd = json!([{"type": "text", "text": "a", "cache_control": {"type": "eternal"}}]);
    let super::ParsedRequest { request, dropped, .. } = asked(json!({"system": odd}));
    assert!(request.prompt.messages[0].extra.is_empty());
    assert_eq!(dropped, ["cache_control"]);
}

#[test]
fn every_message_says_what_it_was_made_from() {
    let asked = asked(json!({"system": "Be brief.", "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": "b", "content": "2"},
            {"type": "text", "text": "And?"}]},
        {"role": "assistant", "content": "So."}]}));
    let sources = [None, Some(0), Some(1), Some(2), Some(2), Some(2), Some(3)];
    assert_eq!(asked.names.unwrap().sources, sources);
    assert_eq!(asked.request.prompt.messages.len(), sources.len());
}

#[test]
fn thinking_of_others_is_left_out() {
    let super::ParsedRequest { request, dropped, .. } =
        asked(json!({"messages": [{"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "EqQBCg=="},
            {"type": "redacted_thinking", "data": "{\"no\": \"state\"}"},
        ]}]}));
    assert_eq!(request.prompt.messages[0].body, Body::Empty);
    assert!(request.prompt.messages[0].extra.is_empty());
    assert_eq!(dropped, ["thinking"]);
}

#[test]
fn a_coding_agents_request_is_taken() {
    let super::ParsedRequest { request, dropped, .. } = asked(json!({
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "of_tomorrow": {"a": 1}, "tool_choice": {"type": "auto"},
        "tools": [{"type": "web_search_20260209", "name": "web_search"}, {"name": "f"}],
    }));
    assert_eq!(dropped, ["context_management", "of_tomorrow", "tools[0] (web_search_20260209)"]);
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let params = json!({"tools": tools, "tool_choice": "auto"});
    assert_eq!(Value::Object(request.prompt.params), params);
    // Without a tool there is nothing to choose from.
    let super::ParsedRequest { request, .. } = asked(json!({"tool_choice": {"type": "auto"},
        "tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}));
    assert!(request.prompt.params.is_empty());
}

#[test]
fn documents_are_files_or_texts() {
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="});
    let text = json!({"type": "base64", "media_type": "text/plain", "data": "SGVsbG8u"});
    let plain = json!({"type": "text", "media_type": "text/plain", "data": "Hi."});
    let pieces = json!({"type": "content", "content": [
        {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
    let super::ParsedRequest { request, dropped, .. } = asked(json!({"messages": [
    {"role": "user", "content": [
        {"type": "document", "source": pdf, "title": "Report", "context": "Of today.",
            "citations": {"enabled": true}, "cache_control": {"type": "ephemeral"}},
        {"type": "document", "source": pdf, "citations": {"enabled": false}},
        {"type": "document", "source": text},
        {"type": "document", "source": plain, "title": "T", "context": "C"},
        {"type": "document", "source": pieces},
    ]}]}));
    let file = |name: &str| {
        json!({"type": "file", "file":
            {"filename": name, "file_data": "data:application/pdf;base64,JVBERi0="}})
    };
    let mut report = file("Report");
    report["cache_breakpoint"] = "5m".into();
    let said = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        request.prompt.messages[0].body,
        Body::Parts(vec![
            report,
            file("document.pdf"),
            said("Hello."),
            said("T\n\nC\n\nHi."),
            said("a\n\nb")
        ])
    );
    assert_eq!(dropped, ["citations", "context"]);
}

#[test]
fn what_only_helps_a_model_is_left_out() {
    let tools = json!([{"name": "f", "input_examples": [{}], "eager_input_streaming": true,
        "allowed_callers": ["direct"], "defer_loading": false}]);
    let super::ParsedRequest { request, dropped, .. } = asked(json!({"tools": tools}));
    assert_eq!(dropped, ["eager_input_streaming", "input_examples"]);
    assert_eq!(request.prompt.params["tools"][0]["function"], json!({"name": "f"}));
}

#[test]
fn what_clients_send_back_of_an_answer_is_no_fault() {
    let image = json!({"type": "url", "url": "https://a.example/b.png"});
    let super::ParsedRequest { request, dropped, .. } = asked(json!({"messages": [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "I look.", "citations": null, "parsed_output": {"a": 1}},
            {"type": "tool_use", "id": "t", "name": "f", "input": {},
                "caller": {"type": "direct"}, "toolset_name": null},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "toolset_name": "s"},
            {"type": "image", "source": image, "transformations": {"oversized_image": "error"}},
        ]},
        {"role": "system", "content": "Go on.", "clear_at": "never"},
    ]}));
    assert_eq!(request.prompt.messages.len(), 4);
    assert_eq!(dropped, ["clear_at", "toolset_name", "transformations"]);
}

#[test]
fn a_form_is_strict_where_its_schema_leaves_nothing_open() {
    let object = |more: Value| {
        let mut object = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    for (schema, strict) in [
        (object(json!({})), true),
        (object(json!({"required": []})), false),
        (object(json!({"additionalProperties": true})), false),
        (object(json!({"properties": {"a": object(json!({}))}})), true),
        (object(json!({"properties": {"a": object(json!({"required": null}))}})), false),
        (json!({"type": "array", "items": {"type": "object"}}), false),
    ] {
        let format = json!({"type": "json_schema", "schema": schema});
        let super::ParsedRequest { request, .. } =
            asked(json!({"output_config": {"format": format}}));
        let form = &request.prompt.params["response_format"]["json_schema"];
        assert_eq!(form.get("strict").is_some(), strict, "{schema}");
    }
}

#[test]
fn faults_say_where() {
    let messages = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let table = [
        (json!({"messages": []}), 422, "messages must not be empty"),
        (json!({"max_tokens": 0}), 422, "max_tokens must be at least 1"),
        (json!({"mcp_servers": [1]}), 422, "mcp_servers is not supported"),
        (
            json!({"messages": [{"role": "robot", "content": "?"}]}),
            422,
            "messages[0].role must be user, assistant or system, not 'robot'",
        ),
        (messages(json!(5)), 400, "messages[0].content must be a string or an array of blocks"),
        (messages(json!(["a"])), 400, "messages[0].content[0] must be an object"),
        (
            messages(json!([{"type": "document", "source": {}}])),
            400,
            "Missing required parameter: messages[0].content[0].source.type",
        ),
        (
            messages(json!([{"type": "document",
                "source": {"type": "url", "url": "https://a.example/b.pdf"}}])),
            422,
            "messages[0].content[0].source.url is not supported: documents are not fetched from \
             addresses; send the document itself, in base64",
        ),
        (
            messages(json!([{"type": "document", "source":
                {"type": "base64", "media_type": "text/plain", "data": "/w=="}}])),
            422,
            "messages[0].content[0].source.data must be a text in UTF-8 and base64",
        ),
        (
            messages(json!([{"type": "search_result"}])),
            422,
            "messages[0].content[0]: a block of type 'search_result' is not supported",
        ),
        (
            messages(json!([{"type": "text"}])),
            400,
            "Missing required parameter: messages[0].content[0].text",
        ),
        (
            messages(json!([{"type": "image", "source": {"type": "file", "file_id": "f"}}])),
            422,
            "messages[0].content[0].source: a source of type 'file' is not supported",
        ),
        (
            json!({"system": [{"type": "image"}]}),
            422,
            "system[0]: a block of type 'image' is not supported",
        ),
        (
            json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "s"}]}),
            422,
            "tools[0]: a tool of type 'mcp_toolset' is not supported",
        ),
        (
            json!({"tools": [{"type": "web_search_20260209", "name": "web_search"}],
                "tool_choice": {"type": "tool", "name": "web_search"}}),
            422,
            "tool_choice demands 'web_search', a tool of type 'web_search_20260209' that only its \
             vendor has: offer a function of your own instead",
        ),
        (
            json!({"api_key": "x"}),
            422,
            "api_key is not supported: the project decides which model answers",
        ),
        (
            json!({"tools": [{"name": "f", "defer_loading": true}]}),
            422,
            "tools[0].defer_loading is not supported",
        ),
        (
            json!({"tools": [{"name": "f", "of_tomorrow": 1}]}),
            422,
            "tools[0].of_tomorrow is not supported",
        ),
        (
            json!({"output_config": {"task_budget": {}}}),
            422,
            "output_config.task_budget is not supported",
        ),
        (
            json!({"tool_choice": {"type": "x"}}),
            422,
            "tool_choice: a choice of type 'x' is not supported",
        ),
    ];
    for (body, status, error) in table {
        assert_eq!(fault(body), (status, error.to_owned()));
    }
}

/// An exchange as a client of the format writes it; the results of tools open the next message.
fn written(exchange: &Exchange) -> [Value; 3] {
    let asked = exchange.asked.iter().map(|asked| match asked {
        Asked::Text(text) => json!({"type": "text", "text": text}),
        Asked::Image(url) => {
            let (head, data) = url.split_once(";base64,").unwrap();
            let media = head.strip_prefix("data:").unwrap();
            json!({"type": "image", "source":
                {"type": "base64", "media_type": media, "data": data}})
        }
    });
    let speech = &exchange.speech;
    let mut said = Vec::new();
    if let Some(state) = &speech.state {
        said.push(json!({"type": "thinking", "thinking": "hm", "signature": state.to_string()}));
    }
    if !speech.text.is_empty() {
        said.push(json!({"type": "text", "text": speech.text}));
    }
    for call in &speech.calls {
        let input: Value = serde_json::from_str(&call.arguments).unwrap();
        said.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    let results = speech.calls.iter().zip(&exchange.results).map(
        |(call, text)| json!({"type": "tool_result", "tool_use_id": call.id, "content": text}),
    );
    [asked.collect(), said.into(), results.collect()]
}

proptest! {
    #[test]
    fn any_conversation_keeps_roles_order_ids_and_arguments(all in conversation()) {
        let mut messages = Vec::new();
        for exchange in &all {
            let [asked, said, results] = written(exchange);
            messages.push(json!({"role": "user", "content": asked}));
            messages.push(json!({"role": "assistant", "content": said}));
            if results != json!([]) {
                messages.push(json!({"role": "user", "content": results}));
            }
        }
        let super::ParsedRequest { request, .. } = asked(json!({"messages": messages}));
        let expected: Vec<Message> = all.iter().flat_map(Exchange::messages).collect();
        prop_assert_eq!(request.prompt.messages, expected);
    }
}

#[test]
fn members_that_nobody_knows_are_named() {
    let messages = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    let table = [
        (
            json!({"messages": [{"role": "user", "content": "?", "bar": 2}]}),
            "messages[0].bar is not supported",
        ),
        (
            messages(json!([{"type": "text", "text": "x", "foo": 1}])),
            "messages[0].content[0].foo is not supported",
        ),
        (
            messages(json!([{"type": "image", "source":
                {"type": "url", "url": "https://a.example/b.png", "size": 1}}])),
            "messages[0].content[0].source.size is not supported",
        ),
        (
            messages(json!([{"type": "tool_result", "tool_use_id": "t", "content":
                [{"type": "text", "text": "x", "foo": 1}]}])),
            "messages[0].content[0].content[0].foo is not supported",
        ),
        (
            messages(json!([{"type": "tool_result", "tool_use_id": "t", "foo": 1}])),
            "messages[0].content[0].foo is not supported",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use",
                "id": "t", "name": "f", "input": {}, "foo": 1}]}]}),
            "messages[0].content[0].foo is not supported",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": [{"type": "thinking",
                "thinking": "hm", "signature": "s", "foo": 1}]}]}),
            "messages[0].content[0].foo is not supported",
        ),
        (
            json!({"system": [{"type": "text", "text": "x", "foo": 1}]}),
            "system[0].foo is not supported",
        ),
    ];
    for (body, error) in table {
        assert_eq!(fault(body), (422, error.to_owned()));
    }
}
