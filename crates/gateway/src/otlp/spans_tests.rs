use std::collections::BTreeMap;

use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::{Value, json};

use super::*;
use crate::testing::{TRACE, step};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The attributes of a span by name, as they are written in JSON.
fn attributes(span: &Span) -> BTreeMap<String, Value> {
    let json = serde_json::to_value(&span.attributes).unwrap();
    let pair = |pair: &Value| {
        let value = pair["value"].as_object().unwrap().values().next().unwrap().clone();
        (pair["key"].as_str().unwrap().to_owned(), value)
    };
    json.as_array().unwrap().iter().map(pair).collect()
}

fn read(content: Value, shown: Shown) -> StepContent {
    StepContent::Read(Box::new(serde_json::from_value(content).unwrap()), shown)
}

/// The span of a step without a content.
fn span_of(step: &Step) -> Span {
    of_step(step, StepContent::None, false)
}

fn call(provider: Provider) -> Call {
    Call {
        upstream_model: Some("gpt-4o-2026".to_owned()),
        usage: Usage { prompt: 30, cached: 10, completion: 9, reasoning: 4, ..Usage::default() },
        first_token: Some(250_000),
        finish: Some(FinishReason::Stop),
        ..Call::of("gpt-4o".to_owned(), provider)
    }
}

#[test]
fn a_call_has_the_attributes_of_the_conventions() {
    let span = span_of(&step(StepKind::Run, Some(call(Provider::Openai))));
    assert_eq!((span.name.as_str(), span.kind), ("chat gpt-4o", CLIENT));
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1_500_000_000);
    assert!(span.status.is_none());
    let attributes = attributes(&span);
    for (name, value) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("openai")),
        ("gen_ai.request.model", json!("gpt-4o")),
        ("gen_ai.response.model", json!("gpt-4o-2026")),
        ("gen_ai.request.stream", json!(true)),
        ("gen_ai.response.time_to_first_chunk", json!(0.25)),
        ("gen_ai.response.finish_reasons", json!([{"stringValue": "stop"}])),
        ("gen_ai.usage.input_tokens", json!("30")),
        ("gen_ai.usage.output_tokens", json!("9")),
        ("gen_ai.usage.cache_read.input_tokens", json!("10")),
        ("gen_ai.usage.reasoning.output_tokens", json!("4")),
        ("sluice.trace.id", json!(TRACE)),
        ("sluice.step.id", json!("7")),
        ("sluice.key.id", json!("ak_00000000000000aa")),
    ] {
        let found = attributes.get(name).unwrap_or_else(|| panic!("{name}: {attributes:?}"));
        let found = found.get("values").unwrap_or(found);
        assert_eq!(found, &value, "{name}");
    }
    assert!(!attributes.contains_key("gen_ai.usage.cache_creation.input_tokens"));
}

#[test]
fn operations_follow_from_endpoint_and_provider() {
    for (endpoint, provider, name) in [
        (ApiEndpoint::Chat, Provider::Anthropic, "chat"),
        (ApiEndpoint::Messages, Provider::Gemini, "generate_content"),
        (ApiEndpoint::Embeddings, Provider::Gemini, "embeddings"),
        (ApiEndpoint::Images, Provider::Openai, "generate_content"),
    ] {
        assert_eq!(operation(endpoint, provider), name);
    }
}

#[test]
fn spans_hang_under_the_caller_or_under_their_trace() {
    let own = step(StepKind::Run, Some(call(Provider::Openai)));
    let span = span_of(&own);
    assert_eq!(span.trace_id, own.trace.0.as_bytes());
    assert_eq!(span.flags, 0x101);
    let context = TraceContext::parse(PARENT);
    let asked = Step { trace_context: context, ..own.clone() };
    let under = span_of(&asked);
    assert_eq!(under.trace_id, context.unwrap().trace().to_be_bytes());
    assert_eq!(under.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!((under.flags, under.id.len()), (0x301, 8));
    assert_ne!(under.id, span.id);

    let root = trace_span(std::slice::from_ref(&own)).unwrap();
    assert_eq!((&root.trace_id, &root.id), (&span.trace_id, &span.parent_span_id));
    assert!(root.parent_span_id.is_empty() && root.links.is_empty());
    assert_eq!((root.start_time_unix_nano, root.end_time_unix_nano), (500_000_000, 2_500_000_000));
    let beside = trace_span(std::slice::from_ref(&asked)).unwrap();
    assert_eq!(
        (&beside.trace_id, &beside.parent_span_id),
        (&under.trace_id, &under.parent_span_id)
    );
    assert_ne!(beside.id, under.id);
    assert!(trace_span(&[]).unwrap().parent_span_id.is_empty());

    // A request that the caller does not record is not recorded here.
    let silent = TraceContext::parse(&PARENT.replace("-01", "-00"));
    let silent = Step { trace_context: silent, ..own.clone() };
    assert!(!is_recorded(&silent) && is_recorded(&asked) && is_recorded(&own));
    assert!(trace_span(std::slice::from_ref(&silent)).is_none());
    assert!(trace_span(&[silent, own]).is_some());
}

#[test]
fn a_replay_that_was_never_compared_has_a_span_without_grades() {
    let steps = [step(StepKind::Run, Some(call(Provider::Openai)))];
    let (graded, span) = (trace_span(&steps).unwrap(), assessed_span(&steps, None).unwrap());
    let (graded, attributes) = (attributes(&graded), attributes(&span));
    assert!(span.parent_span_id.is_empty());
    assert!(
        !attributes.keys().any(|name| name.starts_with("sluice.trace.grade")),
        "{attributes:?}"
    );
    for (name, value) in attributes {
        assert_eq!(graded[&name], value, "{name}");
    }
}

/// The span of a trace with these steps.
fn trace_span(steps: &[Step]) -> Option<Span> {
    assessed_span(steps, Some(&grading::assess(steps, domain::grade::Baselines::default())))
}

/// Likewise, as its assessment has it.
fn assessed_span(steps: &[Step], assessment: Option<&domain::grade::Assessment>) -> Option<Span> {
    let own = step(StepKind::Log, None);
    let trace = Trace {
        id: own.trace,
        project: own.project,
        key: None,
        status: TraceStatus::Pending,
        created_at: Timestamp(500_000),
        completed_at: None,
        metadata: None,
        revenue: None,
        assessment: None,
        work: None,
        purged: None,
    };
    CompletedTrace::new(&trace, steps, assessment).map(|trace| trace.span())
}

#[test]
fn a_trace_joins_the_callers_only_if_all_its_steps_are_there() {
    let under = |id: i64, parent: Option<&str>| Step {
        id: StepId(id),
        trace_context: parent.map(|parent| TraceContext::parse(parent).unwrap()),
        ..step(StepKind::Run, Some(call(Provider::Openai)))
    };
    let sibling = PARENT.replace("00f067aa0ba902b7", "00f067aa0ba902b8");
    let foreign = PARENT.replace("4bf92f35", "5bf92f35");
    let silent = foreign.replace("-01", "-00");
    let within = |steps: &[Step]| {
        let root = trace_span(steps).unwrap();
        let own = steps[0].trace.0.as_bytes().to_vec();
        // A root of its own, or a child of the first caller.
        assert_eq!(root.parent_span_id.is_empty(), root.trace_id == own);
        root.trace_id != own
    };
    assert!(within(&[under(1, Some(PARENT)), under(2, Some(&sibling))]));
    for (first, second, linked) in [
        (Some(PARENT), None, vec![1]),
        (None, Some(PARENT), vec![2]),
        (Some(PARENT), Some(foreign.as_str()), vec![1, 2]),
        (Some(PARENT), Some(silent.as_str()), vec![1]),
        (Some(silent.as_str()), Some(PARENT), vec![2]),
    ] {
        let steps = [under(1, first), under(2, second)];
        assert!(!within(&steps), "{first:?} {second:?}");
        let root = trace_span(&steps).unwrap();
        let expected: Vec<_> = linked
            .into_iter()
            .map(|id| span_of(&steps[id - 1]))
            .map(|span| (span.trace_id, span.id))
            .collect();
        let links: Vec<_> =
            root.links.iter().map(|link| (link.trace_id.clone(), link.span_id.clone())).collect();
        assert_eq!(links, expected, "{first:?} {second:?}");
        // A step without a caller is below the root.
        for step in steps.iter().filter(|step| step.trace_context.is_none()) {
            let below = span_of(step);
            assert_eq!(
                (below.trace_id, below.parent_span_id),
                (root.trace_id.clone(), root.id.clone())
            );
        }
    }
    let many: Vec<_> = (0..131).map(|id| under(id, (id > 0).then_some(PARENT))).collect();
    let root = trace_span(&many).unwrap();
    assert_eq!((root.links.len(), root.dropped_links_count), (128, 2));
}

#[test]
fn unknown_tokens_are_left_out() {
    let used = |status, endpoint, prompt, completion| {
        let usage = Usage { prompt, completion, ..Usage::default() };
        let call = Call { usage, ..Call::of("m".to_owned(), Provider::Openai) };
        let run = step(StepKind::Run, Some(call));
        let step = Step { status, api_endpoint: endpoint, ..run };
        let attributes = attributes(&span_of(&step));
        ["input", "output"]
            .map(|kind| attributes.get(&format!("gen_ai.usage.{kind}_tokens")).cloned())
    };
    let known = |tokens: &str| Some(json!(tokens));
    let (done, failed) = (StepStatus::Completed, StepStatus::Failed);
    let chat = ApiEndpoint::Chat;
    assert_eq!(used(done, chat, 5, 3), [known("5"), known("3")]);
    assert_eq!(used(done, chat, 5, 0), [known("5"), known("0")]);
    assert_eq!(used(done, ApiEndpoint::Embeddings, 5, 0), [known("5"), None]);
    assert_eq!(used(done, ApiEndpoint::Images, 0, 0), [None, None]);
    assert_eq!(used(failed, chat, 0, 0), [None, None]);
    assert_eq!(used(failed, chat, 5, 0), [known("5"), None]);
    assert_eq!(used(failed, chat, 5, 3), [known("5"), known("3")]);
}

#[test]
fn a_lost_call_shows_that_its_end_is_none() {
    let lost =
        Step { status: StepStatus::Failed, ..step(StepKind::Run, Some(call(Provider::Openai))) };
    let shown = attributes(&of_step(&lost, StepContent::None, true));
    assert_eq!(shown["sluice.step.lost"], json!(true));
    assert!(!shown.keys().any(|name| name.starts_with("gen_ai.usage.")), "{shown:?}");
    assert!(!attributes(&span_of(&lost)).contains_key("sluice.step.lost"));
}

#[test]
fn failures_have_a_class_and_refusals_are_none() {
    let run = step(StepKind::Run, Some(call(Provider::Openai)));
    for (status, answered, error, class) in [
        (StepStatus::Failed, Some(503), "The provider failed (503)", Some("503")),
        (StepStatus::Failed, Some(429), "The provider is rate limiting (429)", Some("429")),
        (StepStatus::Failed, None, "The model wrote (404)", Some("_OTHER")),
        (StepStatus::Cancelled, None, "The caller hung up", Some("cancelled")),
        (StepStatus::Blocked, None, "", None),
    ] {
        let call = Call { failure_status: answered, ..call(Provider::Openai) };
        let failed =
            Step { status, error: Some(error.to_owned()), call: Some(call), ..run.clone() };
        let span = span_of(&failed);
        let attributes = attributes(&span);
        assert_eq!(attributes.get("error.type").and_then(Value::as_str), class, "{error}");
        let code = span.status.as_ref().map(|status| (status.code, status.message.as_str()));
        assert_eq!(code, class.map(|_| (ERROR, error)), "{error}");
    }
}

#[test]
fn messages_are_in_the_form_of_the_conventions() {
    let run = step(StepKind::Run, Some(call(Provider::Openai)));
    let content = json!({
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "https://x.example/1.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "A boat."},
        ],
        "params": {
            "temperature": 0.5, "seed": 4, "n": 1, "stop": "END", "response_format": {"type": "json_object"},
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks."}}],
        },
        "max_output_tokens": 100,
        "output": "A boat.",
        "placeholders": {"[EMAIL_1]": "jane@acme.org"},
    });
    let span = of_step(&run, read(content.clone(), Shown::Everything), false);
    let attributes = attributes(&span);
    let json =
        |name: &str| -> Value { serde_json::from_str(attributes[name].as_str().unwrap()).unwrap() };
    assert_eq!(
        json("gen_ai.input.messages"),
        json!([
            {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
            {"role": "user", "parts": [
                {"type": "text", "content": "What is this?"},
                {"type": "uri", "modality": "image", "uri": "https://x.example/1.png"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
            ]},
            {"role": "assistant", "parts": [
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": 1}}]},
            {"role": "tool", "parts": [
                {"type": "tool_call_response", "id": "c1", "response": "A boat."}]},
        ])
    );
    let answer = json!({"role": "assistant", "finish_reason": "stop",
        "parts": [{"type": "text", "content": "A boat."}]});
    assert_eq!(json("gen_ai.output.messages"), json!([answer]));
    assert_eq!(json("gen_ai.tool.definitions"), json!([{"type": "function", "name": "look"}]));
    assert_eq!(attributes["gen_ai.request.temperature"], json!(0.5));
    assert_eq!(attributes["gen_ai.request.seed"], json!("4"));
    assert_eq!(attributes["gen_ai.request.max_tokens"], json!("100"));
    assert_eq!(attributes["gen_ai.output.type"], json!("json"));
    assert!(!attributes.contains_key("gen_ai.request.choice.count"));
    assert!(!format!("{attributes:?}").contains("jane@acme.org"));

    let names = of_step(&run, read(content, Shown::Names), false);
    assert!(!format!("{names:?}").contains("boat"));
    for (omission, word) in [
        (Omission::TooLong, "too_long"),
        (Omission::NoRoom, "no_room"),
        (Omission::Unreadable, "unreadable"),
    ] {
        let span = of_step(&run, StepContent::Omitted(omission), false);
        assert_eq!(span.dropped_attributes_count, 2);
        assert_eq!(self::attributes(&span)["sluice.content.omitted"], json!(word));
    }
}

#[test]
fn tools_are_named_and_their_values_are_content() {
    let ran =
        Step { error: Some("No such city: Bonn".to_owned()), ..step(StepKind::ToolCall, None) };
    let ran = Step { status: StepStatus::Failed, ..ran };
    let content = json!({
        "input": {"server_label": "weather", "id": "c1", "name": "look", "arguments": {"city": "Bonn"}},
        "output": "Mild in Bonn.",
    });
    let names = of_step(&ran, read(content.clone(), Shown::Names), false);
    assert_eq!((names.name.as_str(), names.kind), ("execute_tool look", INTERNAL));
    assert!(!format!("{names:?}").contains("Bonn"));
    let whole = attributes(&of_step(&ran, read(content, Shown::Everything), false));
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "look"),
        ("gen_ai.tool.type", "extension"),
        ("gen_ai.tool.call.id", "c1"),
        ("gen_ai.tool.call.arguments", "{\"city\":\"Bonn\"}"),
        ("gen_ai.tool.call.result", "Mild in Bonn."),
    ] {
        assert_eq!(whole[name], json!(value), "{name}");
    }
    let content = json!({"output": {"tool_calls": [
        {"id": "c1", "name": "look", "arguments": {"city": "Bonn"}}, {"id": "c2", "name": "go"}]}});
    let handed = step(StepKind::ToolCall, None);
    let span = of_step(&handed, read(content, Shown::Everything), false);
    assert_eq!(span.name, "sluice.tool_call");
    let names = &attributes(&span)["sluice.tool.names"];
    assert_eq!(names["values"], json!([{"stringValue": "look"}, {"stringValue": "go"}]));
}
