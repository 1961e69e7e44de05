use std::fmt::Write as _;

use domain::ids::{ProjectId, StepId};
use domain::step::{ApiEndpoint, Content as Stored, Security, StepKind, StepStatus};

use super::*;

/// How outputs were presented when contents were still read as trees.
fn presented(kind: StepKind, output: Option<Value>) -> Option<Value> {
    let Some(Value::Object(mut said)) = output else { return output };
    if kind != StepKind::Run {
        return Some(said.into());
    }
    if !said.contains_key("tool_calls") {
        return Some(Value::from(said).to_string().into());
    }
    match said.shift_remove("content") {
        Some(text @ Value::String(_)) => Some(text),
        _ => Some("".into()),
    }
}

pub(crate) fn step(kind: StepKind, reason: Option<&str>) -> Step {
    Step {
        id: StepId(7),
        trace: TraceId::first_at(Timestamp(0)),
        project: ProjectId(1),
        key: None,
        kind,
        parent: Some(StepId(6)),
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Chat,
        status: StepStatus::Completed,
        reason: reason.map(str::to_owned),
        error: None,
        started_at: Timestamp(1_000_000),
        finished_at: Timestamp(2_000_000),
        routing: None,
        security: Security { findings: Some(json!([{"type": "x"}])), ..Security::default() },
        call: None,
        user_rating: None,
    }
}

/// The bytes of a step whose content was read as a tree.
fn by_tree(step: &Step, content: Option<&[u8]>) -> String {
    let stored = content.and_then(|json| serde_json::from_slice::<Stored>(json).ok());
    let stored = stored.unwrap_or_default();
    let mut output = presented(step.kind, stored.output);
    if step.kind == StepKind::Check && output.is_none() {
        output = Some(json!({"allowed": step.reason.is_none()}));
    }
    let mut fields = format!(r#""type":"{}","parent_step_id":6"#, step.kind.as_str());
    for (name, value) in [("input", stored.input), ("output", output)] {
        if let Some(value) = value {
            write!(fields, r#","{name}":{value}"#).unwrap();
        }
    }
    if let Some(reason) = &step.reason {
        write!(fields, r#","reason":"{reason}""#).unwrap();
    }
    format!(
        r#"{{"id":7,{fields},"status":"completed","latency_ms":1000.0,"security":{{"pii_detected":false,"injection_attempt":false,"secret_leaked":false,"risk_score":0.0,"review":false,"findings":[{{"type":"x"}}]}},"started_at":"1970-01-01T00:00:01.000Z","created_at":"1970-01-01T00:00:02.000Z"}}"#
    )
}

#[test]
fn contents_are_shown_as_they_were_when_they_were_read_as_trees() {
    let deep = |levels: usize| {
        serde_json::from_str::<Box<RawValue>>(&("[".repeat(levels) + &"]".repeat(levels))).unwrap()
    };
    let values = [
        "null",
        "true",
        "-0.0",
        "18446744073709551615",
        "1e-7",
        "\"\"",
        r#""a \"quoted\" \\ text\n\u0000 \u007f with \u2028 and 🙂""#,
        r#""{\"content\":\"no object\"}""#,
        "[]",
        "{}",
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":null}]"#,
        r#"{"b":1,"a":{"tool_calls":[]},"content":"only a field"}"#,
        r#"{"role":"assistant","content":"Let me \"see\".","tool_calls":[{"id":"a"}]}"#,
        r#"{"content":"x","tool_calls":null}"#,
        r#"{"tool_calls":[],"content":null}"#,
        r#"{"tool_calls":[],"content":[{"type":"text","text":"parts"}]}"#,
        r#"{"tool_calls":[]}"#,
        r#"{"text":"}] \\\" {[","emoji":"é🙂"}"#,
    ];
    let mut contents: Vec<String> = Vec::new();
    for value in values {
        // As it is stored.
        let value = serde_json::from_str::<Value>(value).unwrap();
        contents.push(format!(r#"{{"input":{value},"output":{value}}}"#));
        contents.push(format!(r#"{{"output":{value}}}"#));
        contents.push(format!(
            r#"{{"input":{value},"params":{{"input":1}},"output":null,"placeholders":[["a","b"]],"mcp":[]}}"#
        ));
    }
    for levels in [100, 126, 127, 128, 500] {
        contents.push(format!(r#"{{"input":"a","output":{}}}"#, deep(levels)));
        contents.push(format!(r#"{{"input":"a","params":{{"a":{}}}}}"#, deep(levels - 1)));
    }
    contents.extend(["{}".to_owned(), "no JSON".to_owned(), r#"{"input":"cut o"#.to_owned()]);
    let kinds =
        [StepKind::Run, StepKind::Check, StepKind::ToolCall, StepKind::Log, StepKind::Blocked];
    for kind in kinds {
        for reason in [None, Some("why")] {
            let step = step(kind, reason);
            let contents = contents.iter().map(|content| Some(content.as_bytes()));
            for content in contents.chain([None]) {
                let mut written = Vec::new();
                write_step(step.clone(), content, &mut written).unwrap();
                let written = String::from_utf8(written).unwrap();
                let what = content.map(String::from_utf8_lossy);
                assert_eq!(written, by_tree(&step, content), "{kind:?} {what:?}");
            }
        }
    }
}
