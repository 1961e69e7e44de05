//! The places in the requests of Gemini's root that can hold a string.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::coverage::{Place, schema, with};

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn says(role: &str, parts: &Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [text("Hello.")]},
        {"role": role, "parts": parts}, {"role": "user", "parts": [text("Go on.")]}]})
}

fn hello(more: Value) -> Value {
    with(json!({"contents": [{"parts": [text("Hello.")]}]}), more)
}

fn round(args: &Value, response: &Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [text("Look.")]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": args}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]}]})
}

fn tool(description: &str, more: Value) -> Value {
    let function = with(json!({"name": "look", "description": description}), more);
    hello(json!({"tools": [{"functionDeclarations": [function]}]}))
}

fn config(config: Value) -> Value {
    hello(json!({"generationConfig": config}))
}

pub(super) fn gemini_places() -> Vec<Place> {
    vec![
        ("system", true, |t| hello(json!({"systemInstruction": {"parts": [text(t)]}}))),
        ("user", false, |t| says("user", &json!([text(t)]))),
        ("one of several parts", false, |t| says("user", &json!([text("See:"), text(t)]))),
        ("model", false, |t| says("model", &json!([text(t)]))),
        ("text document", false, |t| {
            let data = STANDARD.encode(t);
            says("user", &json!([{"inlineData": {"mimeType": "text/plain", "data": data}}]))
        }),
        ("name of a document", false, |t| {
            let data = STANDARD.encode("Hello.");
            let data = json!({"mimeType": "text/plain", "data": data, "displayName": t});
            says("user", &json!([{"inlineData": data}]))
        }),
        ("response of a function", false, |t| round(&json!({}), &json!({"output": t}))),
        ("object of a response", false, |t| round(&json!({}), &json!({"a": {"b": [t]}}))),
        ("failure of a function", false, |t| round(&json!({}), &json!({"error": t}))),
        ("part of a response", false, |t| {
            let mut round = round(&json!({}), &json!({}));
            round["contents"][2]["parts"][0]["functionResponse"]["parts"] = json!([text(t)]);
            round
        }),
        ("arguments of a call", false, |t| round(&json!({"q": t}), &json!({"output": "Done."}))),
        ("tool description", true, |t| tool(t, json!({}))),
        ("tool schema", true, |t| tool("Looks.", json!({"parameters": schema(t)}))),
        ("JSON schema of a tool", true, |t| {
            tool("Looks.", json!({"parametersJsonSchema": schema(t)}))
        }),
        ("schema of the answer", false, |t| config(json!({"responseSchema": schema(t)}))),
        ("JSON schema of the answer", false, |t| {
            config(json!({"responseMimeType": "application/json", "responseJsonSchema": schema(t)}))
        }),
        ("stop sequence", false, |t| config(json!({"stopSequences": ["END", t]}))),
    ]
}

pub(super) fn gemini_embedding_places() -> Vec<Place> {
    fn requests(texts: &[&str]) -> Value {
        let request = |part: &&str| json!({"content": {"parts": [text(part)]}});
        json!({"requests": texts.iter().map(request).collect::<Vec<_>>()})
    }
    vec![
        ("content", false, |t| requests(&[t])),
        ("one of several", false, |t| requests(&["Hello.", t])),
        (
            "one of several parts",
            false,
            |t| json!({"requests": [{"content": {"parts": [text("Hello."), text(t)]}}]}),
        ),
    ]
}
