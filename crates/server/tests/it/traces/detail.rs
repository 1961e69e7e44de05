//! Details of traces with large contents, and callers who take their time with them.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Backend, KEY, Server};

/// Contents of the trace, and how large they are.
const CONTENTS: usize = 8;
const LARGE: usize = 3_000_000;
/// Callers who take nothing.
const READERS: usize = 20;
/// The most that all of them may cost together, in kB. Whole details would be 480 MB.
const MOST_MEMORY: u64 = 64 * 1024;

/// Asks for a detail and takes no more than the beginning of the answer.
async fn begin(server: &Server, trace: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], server.port).into()).await.unwrap();
    // Without chunks: the body ends with the connection.
    let head =
        format!("GET /api/v1/traces/{trace} HTTP/1.0\r\nauthorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.0 200");
    stream
}

crate::on_every_backend!(callers_who_take_nothing_cost_little, a_step_without_content_is_shown);

async fn callers_who_take_nothing_cost_little(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    for number in 0..CONTENTS {
        let note = format!("{number} \"quoted\"\n").repeat(LARGE / 11);
        let body = json!({"trace_id": trace, "output": {"note": note, "number": number}});
        key.post("/api/v1/logs", &body).await.ok(200);
    }
    let path = format!("/api/v1/traces/{trace}");
    let before = server.memory();
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(begin(&server, &trace).await);
    }
    // Meanwhile others get all of it.
    let (mut most, mut whole) = (0, None);
    for _ in 0..3 {
        let reply = key.get(&path).await;
        assert_eq!(reply.header("content-type"), "application/json");
        most = most.max(server.memory());
        assert!(whole.is_none_or(|whole: String| whole == reply.text));
        whole = Some(reply.text);
    }
    let whole = whole.unwrap();
    assert!(whole.len() > CONTENTS * LARGE);
    let held = most.saturating_sub(before);
    assert!(held < MOST_MEMORY, "{held} kB for {READERS} callers who take nothing");
    let detail: Value = serde_json::from_str(&whole).unwrap();
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &detail["summary"]["step_count"]), (CONTENTS, &json!(CONTENTS)));
    for (number, step) in steps.iter().enumerate() {
        assert_eq!(step["output"]["number"], number);
        assert!(step["output"]["note"].as_str().unwrap().len() > LARGE * 9 / 10);
    }
    // One of them goes on, and gets the same.
    let mut slow = Vec::new();
    readers.pop().unwrap().read_to_end(&mut slow).await.unwrap();
    let body = slow.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    assert!(slow[body..] == *whole.as_bytes());
    // The others hang up. Nobody waits for what was read for them.
    drop(readers);
    server.stop().await;
    assert!(!server.log().contains("still running"), "{}", server.log());
}

async fn a_step_without_content_is_shown(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let none = key.detail(&trace).await;
    assert_eq!((&none["steps"], &none["summary"]["step_count"]), (&json!([]), &json!(0)));
    let check = async || {
        let body = json!({"trace_id": trace, "input": "Hello."});
        key.post("/api/v1/checks", &body).await.ok(200);
    };
    check().await;
    crate::harness::settings(&server.owner().await, 1, json!({"store_content": false})).await;
    check().await;
    let steps = key.detail(&trace).await["steps"].clone();
    assert_eq!((&steps[0]["input"], &steps[1]["input"]), (&json!("Hello."), &Value::Null));
    assert_eq!(
        (&steps[0]["output"]["allowed"], &steps[1]["output"]),
        (&json!(true), &json!({"allowed": true}))
    );
    let other = trace.replace(|digit: char| digit.is_ascii_digit(), "0");
    key.get(&format!("/api/v1/traces/{other}")).await.is(404, &json!({"error": "Not found"}));
}
