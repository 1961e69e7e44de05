//! Keyed fingerprints: two calls can be seen to be alike without their content.

use aws_lc_rs::hmac::{Context, Key};
use domain::conversation::{Body, Prompt};
use serde_json::Value;

use crate::tools::ToolCall;

/// The fingerprint of a model and what it was asked.
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
    short(context)
}

/// The fingerprint of a text.
pub(crate) fn text(key: &Key, text: &str) -> i64 {
    let mut context = Context::with_key(key);
    field(&mut context, text.as_bytes());
    short(context)
}

/// The fingerprint of tool calls: their names and arguments, not their ids.
pub(crate) fn tools(key: &Key, calls: &[ToolCall]) -> i64 {
    let mut context = Context::with_key(key);
    for call in calls {
        field(&mut context, call.name.as_bytes());
        field(&mut context, Value::from(call.arguments.clone()).to_string().as_bytes());
    }
    short(context)
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
