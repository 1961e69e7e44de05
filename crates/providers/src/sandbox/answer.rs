//! The sandbox's answers.

use serde_json::{Map, Value, json};

use crate::sandbox::{schema, tokens};

/// Most characters of the prompt that an answer repeats.
const MOST_REPEATED: usize = 400;

/// An answer before it is written in the wire format.
pub(super) struct Answer {
    pub(super) output: Output,
    /// Whether it was cut off at its bound.
    pub(super) cut: bool,
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
}

pub(super) enum Output {
    Text(String),
    Call { name: String, arguments: String },
}

pub(super) fn think(request: &Map<String, Value>) -> Answer {
    let bound = ["max_completion_tokens", "max_tokens"]
        .iter()
        .find_map(|name| request.get(*name)?.as_u64())
        .unwrap_or(u64::MAX);
    let prompt_tokens = prompt_tokens(request);
    if let Some((name, arguments)) = tool_call(request) {
        let completion_tokens = tokens::count(&name) + tokens::count(&arguments);
        // A call that is cut off is of no use to anyone: the answer is then text.
        if completion_tokens <= bound {
            let output = Output::Call { name, arguments };
            return Answer { output, cut: false, prompt_tokens, completion_tokens };
        }
    }
    let whole = up_to_stop(text(request), request);
    let (kept, cut) = tokens::cut(&whole, bound);
    Answer {
        completion_tokens: tokens::count(kept),
        output: Output::Text(kept.to_owned()),
        cut,
        prompt_tokens,
    }
}

fn prompt_tokens(request: &Map<String, Value>) -> u64 {
    let said: u64 = messages(request).map(|message| tokens::count(&content(message))).sum();
    let declared = ["tools", "response_format"].iter().filter_map(|name| request.get(*name));
    said + declared.map(|value| tokens::count(&value.to_string())).sum::<u64>()
}

fn text(request: &Map<String, Value>) -> String {
    let answer = plain_text(request);
    let format = request.get("response_format");
    match format.and_then(|format| format.get("type")).and_then(Value::as_str) {
        Some("json_object") => json!({ "answer": answer }).to_string(),
        Some("json_schema") => format
            .and_then(|format| format.pointer("/json_schema/schema"))
            .map_or_else(|| json!({ "answer": answer }), schema::example)
            .to_string(),
        _ => answer,
    }
}

fn plain_text(request: &Map<String, Value>) -> String {
    let results = results(request);
    if !results.is_empty() {
        return format!("Sandbox answer: the tool returned {}", shorten(&results.join("; ")));
    }
    let asked = last_user(request).map(content).unwrap_or_default();
    match first_sentence(&asked) {
        "" => "Sandbox answer: there was nothing to answer.".to_owned(),
        sentence => format!("Sandbox answer: {}", shorten(sentence)),
    }
}

/// Returns the tool to call and its arguments, if a call is requested and no result has come yet.
fn tool_call(request: &Map<String, Value>) -> Option<(String, String)> {
    let tools = request.get("tools")?.as_array()?;
    let functions = || tools.iter().filter_map(|tool| tool.get("function"));
    let name_of = |function: &Value| function.get("name")?.as_str().map(str::to_owned);
    if !results(request).is_empty() {
        return None;
    }
    let choice = request.get("tool_choice");
    let forced = choice.and_then(|choice| choice.pointer("/function/name")).and_then(Value::as_str);
    let asked = last_user(request).map(content).unwrap_or_default().to_lowercase();
    let named = |function: &&Value| {
        name_of(function).is_some_and(|name| {
            let name = name.to_lowercase();
            !name.is_empty() && (asked.contains(&name) || asked.contains(&name.replace('_', " ")))
        })
    };
    // "What is the weather in Paris?" asks for `get_weather`.
    let words: Vec<&str> = asked.split(|c: char| !c.is_alphanumeric()).collect();
    let about = |function: &&Value| {
        name_of(function).is_some_and(|name| {
            name.to_lowercase().split('_').any(|part| part.len() >= 5 && words.contains(&part))
        })
    };
    let mentioned = || functions().find(named).or_else(|| functions().find(about));
    let wanted = || asked.contains("call") || asked.contains("tool");
    let function = match choice.and_then(Value::as_str) {
        Some("none") => None,
        _ if forced.is_some() => functions().find(|f| name_of(f).as_deref() == forced),
        Some("required") => mentioned().or_else(|| functions().next()),
        _ => mentioned().or_else(|| functions().next().filter(|_| wanted())),
    }?;
    let parameters = function.get("parameters").cloned().unwrap_or_else(|| json!({}));
    let arguments = match schema::example(&parameters) {
        Value::Object(arguments) => Value::Object(arguments).to_string(),
        _ => "{}".to_owned(),
    };
    Some((name_of(function)?, arguments))
}

/// Returns the results of tools since the user's last message.
fn results(request: &Map<String, Value>) -> Vec<String> {
    let all: Vec<&Value> = messages(request).collect();
    let since = all.iter().rposition(|message| has_role(message, "user")).map_or(0, |at| at + 1);
    all[since..].iter().filter(|message| has_role(message, "tool")).map(|m| content(m)).collect()
}

fn messages(request: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    request.get("messages").and_then(Value::as_array).into_iter().flatten()
}

fn last_user(request: &Map<String, Value>) -> Option<&Value> {
    messages(request).filter(|message| has_role(message, "user")).last()
}

fn has_role(message: &Value, role: &str) -> bool {
    message.get("role").is_some_and(|found| found == role)
}

fn content(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let ends = |(at, c): &(usize, char)| {
        let after = text[at + c.len_utf8()..].chars().next();
        matches!(c, '。' | '！' | '？' | '\n')
            || (matches!(c, '.' | '!' | '?') && after.is_none_or(char::is_whitespace))
    };
    let end = text.char_indices().find(ends).map_or(text.len(), |(at, c)| at + c.len_utf8());
    text[..end].trim_end()
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MOST_REPEATED) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn up_to_stop(text: String, request: &Map<String, Value>) -> String {
    let stops: Vec<&str> = match request.get("stop") {
        Some(Value::String(stop)) => vec![stop],
        Some(Value::Array(stops)) => stops.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let found = stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| text.find(stop));
    match found.min() {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
