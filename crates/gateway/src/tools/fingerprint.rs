//! Keyed fingerprints: two calls can be seen to be alike without their content.

use aws_lc_rs::hmac::{Context, Key};
use domain::conversation::{Body, Prompt};
use serde_json::Value;

use crate::tools::function_tools::ToolCall;

/// Parameters that describe the caller or how a call is handled, and change nothing in the answer.
const BESIDE: [&str; 7] = [
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "stream_options",
    "user",
];

/// The fingerprint of a model and its request: the conversation and every parameter that an answer
/// depends on.
pub(crate) fn input(key: &Key, model: &str, prompt: &Prompt) -> i64 {
    let mut context = Context::with_key(key);
    field(&mut context, model.as_bytes());
    for message in &prompt.messages {
        field(&mut context, message.role.as_str().as_bytes());
        match &message.body {
            Body::Empty => field(&mut context, b""),
            Body::Text(text) => field(&mut context, text.as_bytes()),
            Body::Parts(parts) => {
                for part in parts {
                    field(&mut context, part.to_string().as_bytes());
                }
            }
        }
        for (name, value) in &message.extra {
            field(&mut context, name.as_bytes());
            field(&mut context, value.to_string().as_bytes());
        }
    }
    for beside in prompt.original.iter().flat_map(|original| &original.beside) {
        field(&mut context, beside.name.as_bytes());
        field(&mut context, beside.was.as_bytes());
    }
    let params = prompt.params.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
    members(&mut context, params);
    field(&mut context, &prompt.max_output_tokens.unwrap_or_default().to_be_bytes());
    short(context)
}

/// The fingerprint of a text.
pub(crate) fn text(key: &Key, text: &str) -> i64 {
    let mut context = Context::with_key(key);
    field(&mut context, text.as_bytes());
    short(context)
}

/// The fingerprint of a tool call: its name and arguments, not its id.
pub(crate) fn tool(key: &Key, call: &ToolCall) -> i64 {
    let mut context = Context::with_key(key);
    field(&mut context, call.name.as_bytes());
    members(&mut context, call.arguments.iter());
    short(context)
}

/// A value, independent of the order of the members of its objects.
fn value(context: &mut Context, of: &Value) {
    match of {
        Value::Object(object) => members(context, object.iter()),
        Value::Array(items) => {
            field(context, b"[");
            for item in items {
                value(context, item);
            }
            field(context, b"]");
        }
        plain => field(context, plain.to_string().as_bytes()),
    }
}

fn members<'a>(context: &mut Context, object: impl Iterator<Item = (&'a String, &'a Value)>) {
    let mut members: Vec<_> = object.collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    field(context, b"{");
    for (name, member) in members {
        field(context, name.as_bytes());
        value(context, member);
    }
    field(context, b"}");
}

/// Its length goes first, so that no two lists of fields look alike.
fn field(context: &mut Context, bytes: &[u8]) {
    context.update(&(bytes.len() as u64).to_be_bytes());
    context.update(bytes);
}

fn short(context: Context) -> i64 {
    let tag = context.sign();
    let mut short = [0; 8];
    short.copy_from_slice(&tag.as_ref()[..8]);
    i64::from_be_bytes(short)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::HMAC_SHA256;
    use domain::conversation::Message;
    use serde_json::json;

    use super::*;

    fn key() -> Key {
        Key::new(HMAC_SHA256, &[7; 32])
    }

    #[test]
    fn a_call_is_the_same_in_whatever_order_its_arguments_are_written() {
        let print = |arguments: Value| {
            let Value::Object(arguments) = arguments else { unreachable!() };
            tool(&key(), &ToolCall { id: "a".to_owned(), name: "look".to_owned(), arguments })
        };
        let one = print(json!({"a": 1, "b": {"c": [1, 2], "d": null}}));
        assert_eq!(print(json!({"b": {"d": null, "c": [1, 2]}, "a": 1})), one);
        for other in [json!({"a": 1, "b": {"c": [2, 1], "d": null}}), json!({"a": 1})] {
            assert_ne!(print(other.clone()), one, "{other}");
        }
    }

    #[test]
    fn a_prompt_is_another_with_other_parameters() {
        let print = |params: Value| {
            let Value::Object(params) = params else { unreachable!() };
            let messages = vec![Message::user("Hello.")];
            input(&key(), "m", &Prompt { messages, params, ..Prompt::default() })
        };
        let plain = print(json!({}));
        assert_eq!(print(json!({"user": "u", "metadata": {"request_id": "1"}})), plain);
        for other in [
            json!({"temperature": 0}),
            json!({"tools": [{"type": "function"}]}),
            json!({"response_format": {"type": "json_object"}}),
        ] {
            assert_ne!(print(other.clone()), plain, "{other}");
        }
    }
}
