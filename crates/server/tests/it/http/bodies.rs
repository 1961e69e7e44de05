//! Bodies that are too large, malformed, or not what was asked for.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::{Backend, Caller, KEY, Server};

use crate::http::errors::raw;

crate::on_every_backend!(
    a_body_that_is_too_large,
    a_large_body_without_a_key,
    a_body_that_is_no_json,
    a_body_out_of_proportion,
    a_length_beyond_all_bounds,
    a_body_that_is_not_what_was_asked_for,
    an_array_is_no_object,
    a_body_that_nobody_reads_costs_no_connection,
    a_trace_is_opened_without_a_body
);

async fn a_body_that_is_too_large(backend: Backend) {
    let server = Server::start(&backend).await;
    for size in [LIMIT + 1, 12 * 1024 * 1024, 50 * 1024 * 1024] {
        let reply = server.key().send("POST", "/api/v1/traces", Some(vec![b' '; size])).await;
        reply.says(413, "10485760");
    }
    let mut whole = vec![b' '; LIMIT];
    whole[..2].copy_from_slice(b"{}");
    server.key().send("POST", "/api/v1/traces", Some(whole)).await.ok(201);
}

/// A caller without a key is refused unread and receives the reason, however large the body.
async fn a_large_body_without_a_key(backend: Backend) {
    let server = Server::start(&backend).await;
    for size in [100_000, 1_000_000, 9_000_000] {
        let reply = server.any.send("POST", "/api/v1/traces", Some(vec![b' '; size])).await;
        reply.is(401, &json!({"error": "Unauthorized"}));
    }
}

async fn a_body_that_is_no_json(backend: Backend) {
    let server = Server::start(&backend).await;
    let key = server.key();
    let plain = key.request("POST", "/api/v1/traces").body("{}");
    Caller::try_send(plain).await.unwrap().says(415, "application/json");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let odd = key.request("POST", "/api/v1/traces").header("content-type", kind).body("{}");
        Caller::try_send(odd).await.unwrap().says(415, "application/json");
    }
    for kind in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"] {
        let fine = key.request("POST", "/api/v1/traces").header("content-type", kind).body("{}");
        Caller::try_send(fine).await.unwrap().ok(201);
    }
    for (path, body) in [
        ("executions", "{"),
        ("executions", ""),
        ("executions", "nonsense"),
        ("executions", r#"{"trace_id": "a", "input": "b"} x"#),
        ("executions", r#"{"trace_id": "a", "input": "\ud800"}"#),
        ("chat/completions", r#"{"trace_id":"a","messages":[{"role":"user","content":"\udc00"}]}"#),
        ("logs", r#"{"trace_id": "a", "output": {"a": "\ud83d"}}"#),
        ("traces", &"[".repeat(100_000)),
        ("traces", &r#"{"metadata":"#.repeat(50_000)),
    ] {
        malformed(&key, path, body.as_bytes()).await;
    }
    // Also where nobody reads it: in a field that is not known, and behind an object.
    for path in ["executions", "traces", "logs", "checks"] {
        for body in [
            &b"{\"trace_id\": \"a\", \"input\": \"\xff\xfe\"}"[..],
            b"{\"zz\": \"\xc3\"}",
            b"{\"z\xfe\": 1}",
            b"{\"zz\": \"\xed\xa0\x80\"}",
        ] {
            malformed(&key, path, body).await;
        }
    }
}

/// JSON that takes far more memory than its bytes is not read at all.
async fn a_body_out_of_proportion(backend: Backend) {
    let server = Server::start(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let (shallow, deep, deeper) = (nested(100), nested(200), nested(50_000));
    let list_of = |item: &str| format!("[{}]", vec![item; 200_000].join(","));
    let log = |value: &str| format!(r#"{{"trace_id":"{trace}","output":{{"a":{value}}}}}"#);
    let chat = |value: &str| {
        let messages = r#"[{"role":"user","content":"Hello"}]"#;
        format!(r#"{{"trace_id":"{trace}","messages":{messages},"model":"sandbox","x":{value}}}"#)
    };
    let send = async |path: &str, body: String| {
        key.send("POST", &format!("/api/v1/{path}"), Some(body.into_bytes())).await
    };
    for deep in [&deep, &deeper] {
        for (path, body) in [("logs", log(deep)), ("chat/completions", chat(deep))] {
            send(path, body).await.says(422, "nested too deeply");
        }
        let metadata = format!(r#"{{"metadata":{{"a":{deep}}}}}"#);
        send("traces", metadata).await.says(422, "nested too deeply");
    }
    // Values behind or beside one that is too deep are not read either, even if it is in a part that nobody reads.
    let (dense, quoted) = (list_of("[]"), list_of("[]").replace('"', "\\\""));
    let messages = r#""messages":[{"role":"user","content":"Hello"}],"model":"sandbox""#;
    for ahead in [
        format!(r#""stream_options":{{"x":{deep}}}"#),
        format!(r#""a":{{"$serde_json::private::RawValue":"{quoted}"}}"#),
        format!(r#""a":{{"\u0024serde_json::private::R\u0061wValue":"{quoted}"}}"#),
    ] {
        let body = format!(r#"{{"trace_id":"{trace}",{ahead},{messages},"z":{dense}}}"#);
        let reply = send("chat/completions", body).await;
        assert_eq!(reply.status, 422, "{}", reply.text);
        let body = format!(r#"{{"trace_id":"{trace}",{ahead},"input":"Hello","tools":{dense}}}"#);
        assert_eq!(send("executions", body).await.status, 422);
    }
    let short = r#"{"trace_id":"x","a":{"$serde_json::private::RawValue":"[[]]"}}"#;
    send("chat/completions", short.to_owned()).await.says(422, "reserved");
    // A log that is accepted is shown.
    let shown = async |levels: usize| {
        let log = format!(r#"{{"trace_id":"{trace}","output":{{"a":{}}}}}"#, nested(levels - 2));
        let reply = send("logs", log).await;
        (reply.status, reply)
    };
    let (status, reply) = shown(127).await;
    assert_eq!(status, 200);
    let step = reply.json()["step_id"].clone();
    let detail = key.get(&format!("/api/v1/traces/{trace}")).await.text;
    // The answer itself is nested too deeply for our own reader.
    let noted = format!(r#"{{"id":{step},"type":"log","output":{{"a":[[["#);
    assert!(detail.contains(&noted), "{detail}");
    assert_eq!(shown(128).await.0, 422);
    send("logs", log(&shallow)).await.ok(200);
    send("chat/completions", chat(&shallow)).await.ok(200);
    let list = |item: &str| format!("[{}]", vec![item; 2_000_000 / item.len()].join(","));
    for item in ["\"\"", "0", "{}", "[[[[[[]]]]]]", r#"{"a":{}}"#] {
        let reply = send("chat/completions", chat(&list(item))).await;
        reply.says(422, "too many values for its size");
        // A log is kept as it was given: no tree is made of it.
        send("logs", log(&list(item))).await.ok(200);
    }
    let sentences =
        list(r#""A sentence of an ordinary length, as people write them in messages.""#);
    send("chat/completions", chat(&sentences)).await.ok(200);
}

/// A length that cannot be read to its end is refused before anything of it has come.
async fn a_length_beyond_all_bounds(backend: Backend) {
    let server = Server::start(&backend).await;
    for length in ["10000000000", "9000000000000000000"] {
        let head = format!(
            "POST /api/v1/traces HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{{"
        );
        let (head, body) = raw(&server, head.as_bytes()).await;
        assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["error"], format!("The body is larger than {LIMIT} bytes"));
    }
}

async fn a_body_that_is_not_what_was_asked_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let missing = |name: &str| json!({"error": format!("Missing required parameter: {name}")});
    let messages = json!([{"role": "user", "content": "x"}]);
    for (path, body, name) in [
        ("executions", json!({"input": "x"}), "trace_id"),
        ("executions", json!({"trace_id": trace}), "input"),
        ("runs", json!({"trace_id": trace, "input": "x"}), "model"),
        ("checks", json!({"trace_id": trace}), "input"),
        ("logs", json!({"trace_id": trace}), "output"),
        ("simulate", json!({"project_id": 1}), "input"),
        ("chat/completions", json!({"trace_id": trace}), "messages"),
        ("chat/completions", json!({"messages": messages}), "trace_id"),
    ] {
        key.post(&format!("/api/v1/{path}"), &body).await.is(400, &missing(name));
    }
    let stream = "/api/v1/executions/stream";
    key.get(stream).await.is(400, &missing("trace_id"));
    key.get(&format!("{stream}?trace_id={trace}")).await.is(400, &missing("input"));
    for (path, body) in [
        ("executions", json!({"trace_id": 1, "input": "x"})),
        ("executions", json!({"trace_id": trace, "input": ["x"]})),
        ("executions", json!({"trace_id": trace, "input": null})),
        ("executions", json!({"trace_id": trace, "input": "x", "tools": "none"})),
        ("executions", json!({"trace_id": trace, "input": "x", "parent_step_id": "1"})),
        ("executions", json!("x")),
        ("traces", json!({"revenue": "1.5"})),
        ("chat/completions", json!({"trace_id": trace, "messages": "x"})),
        ("chat/completions", json!({"trace_id": trace, "messages": messages, "tools": "x"})),
        ("chat/completions", json!({"trace_id": trace, "messages": [{"content": "x"}]})),
    ] {
        let reply = key.post(&format!("/api/v1/{path}"), &body).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.text);
    }
    for (path, body, error) in [
        ("traces", json!({"metadata": [1]}), "etadata"),
        ("traces", json!({"metadata": "x"}), "etadata"),
        ("traces", json!({"revenue": -1}), "evenue"),
        (
            "executions",
            json!({"trace_id": trace, "input": "x",
            "tool_results": [{"tool_call_id": "a", "content": "b"}]}),
            "parent_step_id",
        ),
        (
            "runs",
            json!({"trace_id": trace, "model": "nope", "input": "x"}),
            "Model not authorized or found: nope",
        ),
        (
            "runs",
            json!({"trace_id": trace, "model": "sandbox", "input": "x",
            "parent_step_id": 999_999}),
            "parent",
        ),
        (
            "chat/completions",
            json!({"trace_id": trace, "model": "nope", "messages": messages}),
            "Model not authorized or found: nope",
        ),
    ] {
        key.post(&format!("/api/v1/{path}"), &body).await.says(422, error);
    }
    let both = "/api/v1/stats?window=24&start_date=2026-01-01&end_date=2026-01-02";
    assert_eq!(key.get(both).await.status, 400);
    assert_eq!(key.detail(&trace).await["steps"], json!([]), "none of it is a step");
}

async fn an_array_is_no_object(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    for (path, body) in [
        ("executions", json!([trace, "x"])),
        ("executions/stream", json!([trace, "x"])),
        ("runs", json!([trace, "sandbox", "x"])),
        ("checks", json!([trace, "x"])),
        ("logs", json!([trace, {}])),
        ("traces", json!([])),
        ("traces", json!([{"a": 1}, 1.5])),
        ("simulate", json!(["x", 1])),
    ] {
        let reply = key.post(&format!("/api/v1/{path}"), &body).await;
        assert_eq!(reply.status, 400, "{path} {body}: {}", reply.text);
    }
    assert_eq!(key.detail(&trace).await["steps"], json!([]));
}

async fn a_body_that_nobody_reads_costs_no_connection(backend: Backend) {
    let server = Server::start(&backend).await;
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let mut stream = BufReader::new(stream);
    for (asked, status) in [
        ("POST /api/v1/nope", 404),
        ("PUT /up", 405),
        ("POST /api/v1/projects", 401),
        ("POST /api/v1/executions", 401),
        ("POST /api/v1/session", 415),
        ("GET /up", 200),
    ] {
        // Many clients send the body after the head. A server that does not wait for it has answered,
        // and closed the connection, when another request has come and gone.
        let head = format!("{asked} HTTP/1.1\r\nhost: sluice\r\ncontent-length: 2\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        server.any.get("/up").await.ok(200);
        stream.write_all(b"{}").await.unwrap();
        assert_eq!(next_status(&mut stream).await, status, "{asked}");
    }
}

async fn a_trace_is_opened_without_a_body(backend: Backend) {
    let server = Server::start(&backend).await;
    let opened = server.key().send("POST", "/api/v1/traces", None).await.ok(201);
    assert_eq!((&opened["metadata"], &opened["revenue"]), (&Value::Null, &Value::Null));
}

const LIMIT: usize = 10 * 1024 * 1024;

async fn malformed(key: &Caller, path: &str, body: &[u8]) {
    let reply = key.send("POST", &format!("/api/v1/{path}"), Some(body.to_vec())).await;
    assert_eq!(reply.status, 400, "{path} {}: {}", String::from_utf8_lossy(body), reply.text);
    assert!(
        reply.json()["error"].as_str().unwrap().starts_with("Malformed JSON"),
        "{}",
        reply.text
    );
    assert!(reply.text.len() < 500);
}

/// The status of the next answer on a connection; its body is read too.
async fn next_status(stream: &mut BufReader<TcpStream>) -> u16 {
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).await.unwrap(), 0, "the connection was closed");
        if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
            status = rest[..3].parse().unwrap();
        } else if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        } else if line == "\r\n" {
            stream.read_exact(&mut vec![0; length]).await.unwrap();
            return status;
        }
    }
}
