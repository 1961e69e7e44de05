//! The roots that speak a vendor's API: `/openai/v1`, `/anthropic/v1` and `/gemini/v1beta`.

mod conversations;
mod earlier_responses;
mod errors;
mod fees;
mod gemini;
mod gemini_vendor;
mod governed_gemini;
mod pass_chat;
mod pass_gemini;
mod pass_through;
mod passed_content;
mod passed_responses;
mod responses_charges;
mod sessions;
mod stored_responses;
mod translation;
mod vectors_and_images;

use serde_json::{Value, json};

const CHAT: &str = "/openai/v1/chat/completions";
const RESPONSES: &str = "/openai/v1/responses";
const MESSAGES: &str = "/anthropic/v1/messages";

/// The endpoints of conversations.
const DOORS: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

/// A conversation of one message, in the format of an endpoint.
fn ask(door: &str, model: &str, text: &str, more: Value) -> Value {
    let mut body = match door {
        RESPONSES => json!({"model": model, "input": text}),
        _ => json!({"model": model, "max_tokens": 50,
            "messages": [{"role": "user", "content": text}]}),
    };
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}
