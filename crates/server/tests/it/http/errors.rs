//! Answers to bad input, and the stored form of odd input.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::{Backend, Caller, KEY, Reply, Server, settings, until};

crate::on_every_backend!(
    every_error_is_json,
    a_head_request_calls_no_model,
    a_body_that_is_too_large,
    a_large_body_without_a_key,
    a_body_that_is_no_json,
    a_body_out_of_proportion,
    a_request_that_is_no_http,
    a_length_beyond_all_bounds,
    a_body_that_is_not_what_was_asked_for,
    an_array_is_no_object,
    odd_text_comes_back_unchanged,
    five_megabytes_come_back_unchanged,
    a_body_that_nobody_reads_costs_no_connection,
    a_trace_is_opened_without_a_body,
    request_ids,
    a_project_that_cannot_be_read,
    what_could_be_saved_once_goes_on,
);

async fn every_error_is_json(backend: Backend) {
    let server = Server::start(&backend).await;
    for path in ["/nope", "/api/v1/nope", "/api/v2/traces", "/api/v1/traces/a/b/c", "/%00", "//"] {
        let reply = server.any.get(path).await;
        reply.is(404, &json!({"error": "Not found"}));
        assert!(reply.header("content-type").starts_with("application/json"));
    }
    for (method, path, allow) in [
        ("DELETE", "/up", "GET"),
        ("PUT", "/api/v1/traces", "POST"),
        ("GET", "/api/v1/executions", "POST"),
        ("POST", "/api/v1/projects/1", "PATCH"),
    ] {
        for caller in [&server.any, &server.key()] {
            let reply = caller.send(method, path, None).await;
            assert_eq!(reply.status, 405, "{method} {path}: {}", reply.text);
            assert!(!reply.json()["error"].as_str().unwrap().is_empty());
            assert!(reply.header("allow").contains(allow), "{:?}", reply.headers);
        }
    }
}

async fn a_head_request_calls_no_model(backend: Backend) {
    let server = Server::start(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=Hello");
    for caller in [&server.any, &key] {
        let reply = caller.send("HEAD", &path, None).await;
        assert_eq!((reply.status, reply.header("allow")), (405, "GET,POST"));
    }
    key.get(&path).await.chunks();
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"].as_array().unwrap().len(), 1, "{detail}");
    let read = key.send("HEAD", &format!("/api/v1/traces/{trace}"), None).await;
    assert_eq!(read.status, 200, "what only reads is answered");
}

const LIMIT: usize = 10 * 1024 * 1024;

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

/// A refusal by the HTTP library itself looks like every other error.
async fn a_request_that_is_no_http(backend: Backend) {
    let server = Server::start(&backend).await;
    let long = "a".repeat(70_000);
    let headers = "x-header: value\r\n".repeat(200);
    for (request, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nhost: x\r\ncontent-length: many\r\n\r\n".to_owned(), 400),
        (
            "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"
                .to_owned(),
            400,
        ),
        (format!("GET /up?{long} HTTP/1.1\r\nhost: x\r\n\r\n"), 414),
        (format!("GET /up HTTP/1.1\r\nhost: x\r\n{headers}\r\n"), 431),
    ] {
        let (head, body) = raw(&server, request.as_bytes()).await;
        let start: String = request.chars().take(60).collect();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{start}: {head}");
        let head = head.to_ascii_lowercase();
        assert!(
            head.contains("content-type: application/json") && head.contains("x-request-id: "),
            "{head}"
        );
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(!body["error"].as_str().unwrap().is_empty(), "{body}");
    }
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

/// Sends bytes as they are and reads the answer's head and body until the server closes.
async fn raw(server: &Server, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // A server that closes on what it has not read resets the connection, behind the answer.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

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

/// Executes an input and gives what the detail shows of it.
async fn through(key: &Caller, input: &str) -> Value {
    let trace = key.trace().await;
    let done: Reply = key.execute(&trace, input).await;
    let step = done.ok(200)["step_id"].clone();
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"][0]["id"], step);
    detail["steps"][0].clone()
}

async fn odd_text_comes_back_unchanged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for input in [
        "a\0b\u{1}c\u{7f}",
        "family 👩‍👩‍👧‍👦 flag 🏳️‍🌈 and \u{10ffff}",
        "שלום \u{202e}olleh\u{202c} مرحبا",
        "line\r\nbreak\ttab \"quote\" back\\slash </script>",
        "{{placeholder}} [EMAIL_1] <PII_1> %s ${x}",
        " \n ",
        "",
    ] {
        let step = through(&key, input).await;
        assert_eq!(step["input"], input, "{step}");
    }
    let odd = json!({"a\0b": "c\0d", "emoji": "👩‍👧", "rtl": "\u{202e}x", "n": 1e300, "i": u64::MAX});
    let opened = key.post("/api/v1/traces", &json!({"metadata": odd})).await.ok(201);
    assert_eq!(opened["metadata"], odd);
    let trace = opened["id"].as_str().unwrap();
    key.post("/api/v1/logs", &json!({"trace_id": trace, "output": odd})).await.ok(200);
    let detail = key.detail(trace).await;
    assert_eq!(detail["metadata"], odd);
    assert_eq!(detail["steps"][0]["output"], odd);
    // The words of a stream's prompt are UTF-8 in percent signs.
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=a%00%F0%9F%98%80+b%2Bc");
    key.get(&path).await.chunks();
    assert_eq!(key.detail(&trace).await["steps"][0]["input"], "a\0😀 b+c");
}

async fn five_megabytes_come_back_unchanged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let words = "The quick brown fox 🦊 jumps over the lazy dog; ".repeat(110_000);
    assert!(words.len() > 5_000_000);
    let step = through(&server.key(), &words).await;
    assert!(step["input"] == words.as_str(), "5 MB of words have changed");
    let one = "x".repeat(5_000_000);
    let step = through(&server.key(), &one).await;
    assert!(step["input"] == one.as_str(), "5 MB of one letter have changed");
}

async fn request_ids(backend: Backend) {
    let server = Server::start(&backend).await;
    for sane in ["abc-123", "0192f3a0-7b1c-7def-8000-000000000000", "a.b:c/d_e"] {
        for path in ["/up", "/nope", "/api/v1/traces"] {
            let reply = server.any.with("x-request-id", sane).get(path).await;
            assert_eq!(reply.header("x-request-id"), sane, "{path}");
        }
    }
    let long = "a".repeat(500);
    let mut seen = std::collections::HashSet::new();
    for odd in ["", "a b", "<script>", "a\"b", "x;y", "%0d%0a", &long] {
        let reply = server.any.with("x-request-id", odd).get("/up").await;
        let id = reply.header("x-request-id").to_owned();
        assert!(!id.is_empty() && id != odd, "{odd}: {id}");
        assert!(seen.insert(id), "{odd}: every request has its own");
    }
}

/// A setting that a newer version would not save is no reason to lock a project out.
async fn what_could_be_saved_once_goes_on(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        // Only PostgreSQL has a client that can write past the gateway; the registry is the same.
        return;
    }
    let server = Server::start(&backend).await;
    let deep = "{\"in\":".repeat(40) + "1" + &"}".repeat(40);
    let saved = format!(
        "{{\"limits\": {{\"loop_window_seconds\": 100000}}, \"own\": {deep},
           \"safety\": {{\"pii\": {{\"entities\": [\"EMIAL\"]}}}}}}"
    );
    let label = format!("{{\"infrastructure\": \"{}\"}}", "x".repeat(5_000));
    server.sql(&format!(
        "UPDATE projects SET settings = '{saved}'; UPDATE models SET config = '{label}';
         UPDATE counters SET value = value + 1 WHERE name = 'registry'"
    ));
    let (key, owner) = (server.key(), server.owner().await);
    until("the change is noticed", async || {
        let project = owner.get("/api/v1/projects/1").await.ok(200);
        (project["settings"]["limits"]["loop_window_seconds"] == 100_000).then_some(())
    })
    .await;
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": "sandbox", "input": "Hello."});
    key.post("/api/v1/runs", &ask).await.ok(200);
    settings(&owner, 1, json!({"monthly_budget": 5})).await;
}

/// Its own requests say so; the log does too, once.
async fn a_project_that_cannot_be_read(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        // Only PostgreSQL has a client that can write past the gateway; the registry is the same.
        return;
    }
    let server = Server::start(&backend).await;
    let changed = "UPDATE counters SET value = value + 1 WHERE name = 'registry'";
    server.sql(&format!("UPDATE projects SET settings = '{{\"limits\": 5}}'; {changed}"));
    let key = server.key();
    let refused = until("the change is noticed", async || {
        let reply = key.get("/api/v1/traces").await;
        (reply.status != 200).then_some(reply)
    });
    let refused = refused.await;
    refused.says(503, "cannot read the project");
    assert_eq!(refused.json()["code"], "project_unreadable");
    assert_eq!(refused.header("x-should-retry"), "false");
    let owner = server.owner().await;
    owner.get("/api/v1/projects/1").await.says(503, "cannot read the project");
    owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await.ok(201);
    let told = server.log().matches("a project cannot be read and is not served").count();
    assert_eq!(told, 1, "{}", server.log());
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
        // Many clients send the body after the head. Who does not wait for it has answered, and
        // closed the connection, when another request has come and gone.
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
