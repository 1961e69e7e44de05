//! Errors of every route, and the stored form of odd input.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Backend, Caller, Reply, Server, settings, until};

crate::on_every_backend!(
    every_error_is_json,
    a_head_request_calls_no_model,
    a_request_that_is_no_http,
    odd_text_comes_back_unchanged,
    five_megabytes_come_back_unchanged,
    request_ids,
    a_project_that_cannot_be_read,
    what_could_be_saved_once_goes_on
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

/// Sends bytes as they are and reads the answer's head and body until the server closes.
pub async fn raw(server: &Server, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // A server that closes on what it has not read resets the connection, behind the answer.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
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

/// Its own requests get the error; the log has it once.
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
