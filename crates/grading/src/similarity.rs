//! Similarity: how alike two answers to the same prompt are.

mod numbers;
mod text;
mod tokens;
mod value;

use domain::json_weight::InnerJson;
use serde_json::Value;

use value::Tree;

/// The most that answers which are not the same can have.
const ALMOST_SAME: f64 = 0.99;
/// Longer answers are compared as texts and not as JSON values.
const MAX_JSON_BYTES: usize = 256 * 1024;

/// The output of a run step.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// The words of the model.
    Text(&'a str),
    /// The output as steps store it: a text, or an assistant's message in the chat-completions form,
    /// which may have tool calls.
    Stored(&'a Value),
}

impl<'a> From<&'a str> for Output<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Value> for Output<'a> {
    fn from(stored: &'a Value) -> Self {
        Self::Stored(stored)
    }
}

/// Returns how alike two outputs are, from 0 to 1.
///
/// | figure | meaning |
/// |---|---|
/// | 1 | the same: the same words, numbers and symbols in the same order, or JSON of the same value |
/// | 0.8 and more | the same but for details: a word, a number, a member |
/// | 0.3 to 0.8 | close: much of one is in the other, in other words or another order |
/// | below 0.3 | different: at most a subject or a form in common, and unrelated below 0.2 |
///
/// Texts are compared by what they are made of: words (those of scripts without spaces by their
/// characters), parts of words, and words that follow each other; short words count less than long ones.
/// Case, white space, punctuation and Markdown do not count. The figure knows no meanings: two sentences
/// that say the same without a word in common are unrelated, and a "not" is a detail.
///
/// Answers that are JSON on both sides, in a code fence or without, are compared as values: numbers by
/// their value with all of their digits, objects whatever the order of their members, arrays in their order.
/// An object with the same members has a small part of the figure for that. Answers of more than 256 KiB are
/// compared as texts.
///
/// Tool calls are compared by name and arguments, without their ids. The function is symmetric. Its work
/// is linear in the outputs; of a text longer than 64 KiB, the beginning and the end are compared.
pub fn similarity<'a>(one: impl Into<Output<'a>>, other: impl Into<Output<'a>>) -> f64 {
    let (one, other) = (Answer::of(one.into()), Answer::of(other.into()));
    let has_calls = !one.calls.is_empty() || !other.calls.is_empty();
    if !has_calls {
        return of_texts(&one.text, &other.text);
    }
    let [left, right] = [one.calls, other.calls].map(|calls| Tree::of(&Value::Array(calls)));
    let calls = of_trees(left, right);
    // Words beside tool calls are seldom more than an announcement.
    if one.text.trim().is_empty() && other.text.trim().is_empty() {
        calls
    } else {
        0.75 * calls + 0.25 * of_texts(&one.text, &other.text)
    }
}

/// An output, taken apart.
struct Answer {
    text: String,
    /// Name and arguments of each tool call.
    calls: Vec<Value>,
}

impl Answer {
    fn of(output: Output<'_>) -> Self {
        let message = match output {
            Output::Text(text) => return Self { text: text.to_owned(), calls: Vec::new() },
            Output::Stored(Value::String(text)) => {
                return Self { text: text.clone(), calls: Vec::new() };
            }
            Output::Stored(message) => message,
        };
        let calls = message.get("tool_calls").and_then(Value::as_array);
        let calls: Vec<Value> = calls.into_iter().flatten().map(call).collect();
        let text = match message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            // Anything else than a message is compared as the value that it is.
            None if calls.is_empty() => message.to_string(),
            _ => String::new(),
        };
        let refusal = message.get("refusal").and_then(Value::as_str);
        let text = if text.is_empty() { refusal.unwrap_or_default().to_owned() } else { text };
        Self { text, calls }
    }
}

/// The part of a tool call that has a meaning.
fn call(call: &Value) -> Value {
    let called = call.get("function").or_else(|| call.get("custom")).unwrap_or(call);
    let input = called.get("arguments").or_else(|| called.get("input")).cloned();
    serde_json::json!({"name": called.get("name"), "arguments": input})
}

fn of_texts(one: &str, other: &str) -> f64 {
    // In one order, so that rounding and ties do not depend on which is first.
    let (one, other) = if one <= other { (one, other) } else { (other, one) };
    if one == other {
        return 1.0;
    }
    let (Some((left, left_text)), Some((right, right_text))) = (json(one), json(other)) else {
        return text::similarity(one, other);
    };
    if let (Value::String(one), Value::String(other)) = (&left, &right) {
        return text::similarity(one.min(other), other.max(one));
    }
    of_trees(Tree::of_text(&left, left_text), Tree::of_text(&right, right_text))
}

fn of_trees(one: Tree, other: Tree) -> f64 {
    let (one, other) = if one.hash() <= other.hash() { (one, other) } else { (other, one) };
    value::similarity(&one, &other)
}

/// The value of an answer that is JSON, in a code fence or without, and its text.
fn json(answer: &str) -> Option<(Value, &str)> {
    let text = unfenced(answer.trim());
    if text.len() > MAX_JSON_BYTES {
        return None;
    }
    Some((InnerJson::default().read(text)?, text))
}

/// The text in a code fence that holds all of an answer; the answer if there is none.
fn unfenced(answer: &str) -> &str {
    let inner = || {
        let (language, rest) = answer.strip_prefix("```")?.split_once('\n')?;
        let body = rest.strip_suffix("```")?;
        let is_word = language.trim().chars().all(char::is_alphanumeric);
        (is_word && !body.contains("```")).then_some(body.trim())
    };
    inner().unwrap_or(answer)
}

#[cfg(test)]
mod tests;
