//! Files of text in requests, values behind codes, and values in several parts.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(
    a_credential_in_a_file_reaches_nobody,
    personal_data_in_a_file_is_replaced_within_it,
    a_value_is_found_behind_a_code_and_over_parts,
    a_file_with_personal_data_stays_private,
);

const MAIL: &str = "jane.doe@acme.org";
const TOKEN: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
/// A picture of one pixel.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn file(text: &str) -> String {
    STANDARD.encode(text)
}

/// A text of ASCII in escapes.
fn written(text: &str, sign: &str, digits: usize) -> String {
    let escapes: Vec<String> = text.bytes().map(|byte| format!("{sign}{byte:0digits$X}")).collect();
    escapes.concat()
}

/// Content parts with a file, as vendors write them and as nobody does.
fn attached(text: &str) -> Vec<Value> {
    let code = file(text);
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let escaped = written(text, "%", 2);
    vec![
        json!({"type": "file", "file": {"filename": "a.txt", "file_data": format!("data:text/plain;base64,{code}")}}),
        json!({"type": "file", "file": {"filename": "a.txt", "file_data": code}}),
        json!({"type": "input_file", "file_data": format!("data:application/pdf;base64,{code}")}),
        json!({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": code}}),
        json!({"type": "document", "source": {"type": "text", "data": text}}),
        json!({"inlineData": {"mimeType": "image/png", "data": code}}),
        json!({"document": {"format": "txt", "source": {"bytes": code}}}),
        json!({"type": "input_audio", "input_audio": {"data": code, "format": "wav"}}),
        json!({"type": "image_url", "image_url": {"url": format!("DATA:image/png;base64,{code}")}}),
        json!({"type": "image_url", "image_url": {"url": format!("data:image/svg+xml,{escaped}")}}),
        json!({"type": "own", "own": [{"x": format!("data:text/plain;charset=utf-16;base64,{}", STANDARD.encode(wide))}]}),
        json!({"type": "text", "text": format!("See ![it](data:text/plain;base64,{code}).")}),
    ]
}

fn ask(trace: &str, content: &Value) -> Value {
    json!({"trace_id": trace, "model": "mock", "messages": [{"role": "user", "content": content}]})
}

async fn answers(text: &'static str) -> Mock {
    Mock::always(Answer::text(text)).await
}

async fn a_credential_in_a_file_reaches_nobody(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = (server.key(), answers("Fine.").await);
    mock.register(&server.owner().await, "mock").await;
    let trace = key.trace().await;
    for part in attached(&format!("The deploy token is {TOKEN}.\nKeep it.")) {
        let body = ask(&trace, &json!([{"type": "text", "text": "Sum it up."}, part]));
        let refused = key.post("/api/v1/chat/completions", &body).await.ok(200);
        let cause = &refused["cause"];
        assert_eq!(cause["category"], "secret", "{part}: {refused}");
        assert_eq!((&cause["message"], &cause["field"]), (&json!(0), &json!("content")), "{part}");
    }
    assert_eq!(mock.begun(), 0);
}

async fn personal_data_in_a_file_is_replaced_within_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |body| {
        let part = &body["messages"][0]["content"][0];
        let data = part["file"]["file_data"].as_str().unwrap();
        let code = data.strip_prefix("data:text/csv;base64,").unwrap();
        Answer::text(&String::from_utf8(STANDARD.decode(code).unwrap()).unwrap())
    })
    .await;
    mock.register(&server.owner().await, "mock").await;
    let trace = key.trace().await;
    let text = format!("name,mail\nJane,{MAIL}\nJim,{MAIL}\n");
    let part = json!({"type": "file", "file": {"filename": "a.csv",
        "file_data": format!("data:text/csv;base64,{}", file(&text))}});
    let picture = json!({"type": "image_url", "image_url": {"url": PIXEL}});
    let body = ask(&trace, &json!([part, picture]));
    let answer = key.post("/api/v1/chat/completions", &body).await.ok(200);
    // The text that the model read in the file comes back as it was.
    assert_eq!(answer["choices"][0]["message"]["content"], text);
    let sent = mock.last();
    let content = &sent["messages"][0]["content"];
    assert_eq!(content[1], picture);
    let data = content[0]["file"]["file_data"].as_str().unwrap();
    let read = STANDARD.decode(data.strip_prefix("data:text/csv;base64,").unwrap()).unwrap();
    let read = String::from_utf8(read).unwrap();
    assert!(!read.contains(MAIL) && read.starts_with("name,mail\nJane,[EMAIL_1_"), "{read}");
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"][0]["security"]["pii_detected"], true);
    let other = answers("Fine.").await;
    other.register(&server.owner().await, "other").await;
    let text = format!("Mail {MAIL}, please.");
    for part in attached(&text) {
        let mut body = ask(&trace, &json!([{"type": "text", "text": "Sum it up."}, part]));
        body["model"] = json!("other");
        key.post("/api/v1/chat/completions", &body).await.ok(200);
        let sent = other.last()["messages"][0]["content"][1].clone();
        assert_ne!(sent, part);
        let sent = sent.to_string();
        // Neither as it stands nor behind the code.
        assert!(!sent.contains(MAIL) && !sent.contains(&file(&text)[..28]), "{part}: {sent}");
    }
}

async fn a_value_is_found_behind_a_code_and_over_parts(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = (server.key(), answers("Fine.").await);
    mock.register(&server.owner().await, "mock").await;
    let trace = key.trace().await;
    let (one, two) = TOKEN.split_at(17);
    let escaped = written(TOKEN, "\\u", 4);
    let text = |text: &str| json!({"type": "text", "text": text});
    for content in [
        json!(format!("Read {}, please.", file(TOKEN))),
        json!(format!("Read {escaped}, please.")),
        json!([text(&format!("My key is {one}")), text(two)]),
        json!([text(&format!("My key is {one}")), {"type": "image_url", "image_url": {"url": PIXEL}}, text(two)]),
    ] {
        let refused = key.post("/api/v1/chat/completions", &ask(&trace, &content)).await.ok(200);
        assert_eq!(refused["cause"]["category"], "secret", "{content}");
    }
    assert_eq!(mock.begun(), 0);
    let blocks = json!([{"type": "text", "text": format!("The key is {one}")}, {"type": "text", "text": two}]);
    let body = json!({"trace_id": trace, "model": "mock", "max_tokens": 10, "system": blocks,
        "messages": [{"role": "user", "content": "Hello."}]});
    let refused = key.post("/api/v1/messages", &body).await.ok(200);
    assert_eq!((&refused["cause"]["category"], mock.begun()), (&json!("secret"), 0));
    // The pieces are replaced, each where it stands.
    let (mail, rest) = MAIL.split_at(9);
    let body =
        ask(&trace, &json!([text(&format!("Write to {mail}")), text(&format!("{rest} today"))]));
    key.post("/api/v1/chat/completions", &body).await.ok(200);
    let sent = mock.last();
    let content = &sent["messages"][0]["content"];
    let (one, two) = (content[0]["text"].as_str().unwrap(), content[1]["text"].as_str().unwrap());
    assert!(one.starts_with("Write to [EMAIL_1_") && two.starts_with("[EMAIL_1_"), "{content}");
    let tag = |text: &str| text[text.find("_1_").unwrap()..].split(']').next().map(str::to_owned);
    assert_ne!(tag(one), tag(two), "each has a placeholder of its own: {content}");
}

async fn a_file_with_personal_data_stays_private(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (public, private) = (answers("Public.").await, answers("Private.").await);
    public.register_with(&owner, "public", json!({"is_public": true})).await;
    private.register_with(&owner, "private", json!({"is_public": false})).await;
    let tiers = json!({"simple": "public", "complex": "public", "secure": "private"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let trace = key.trace().await;
    let said = format!("Sum this up: data:text/plain;base64,{}", file(&format!("Mail {MAIL}.")));
    let done = key.execute(&trace, &said).await.ok(200);
    assert_eq!((&done["model"], public.begun()), (&json!("private"), 0));
    assert!(private.last().to_string().contains(&said), "the input is not changed");
}
