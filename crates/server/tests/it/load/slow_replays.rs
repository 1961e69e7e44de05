//! Clients that ask for a kept answer and do not read it.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::{Answer, Backend, KEY, Mock, Setup, free_port, until};

const PATH: &str = "/openai/v1/chat/completions";
/// As many answers of 7 MB as one key may have on their way.
const CLIENTS: usize = 4;
/// A client that reads nothing for a minute is cut off.
const CUT_OFF: Duration = Duration::from_mins(2);

/// Sends a request over a connection that takes little before it is read.
async fn ask(port: u16, body: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer {KEY}\r\nidempotency-key: one\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_a_kept_answer_keeps_no_other_key_out_and_is_cut_off() {
    let address = format!("127.0.0.1:{}", free_port());
    let server = Setup::new(&Backend::Sqlite).env("SLUICE_METRICS_LISTEN", &address);
    let server = server.start().await;
    server.lift_limits().await;
    let piece = "All is well. ".repeat(5_500);
    let mock = Mock::always(Answer::Pieces(vec![piece; 100])).await;
    mock.register(&server.owner().await, "mock").await;
    let body = json!({"model": "mock", "stream": true,
        "messages": [{"role": "user", "content": "Hello."}]});
    let first = server.key().with("idempotency-key", "one").post(PATH, &body).await;
    assert!(first.status == 200 && first.text.len() > 7_000_000, "{}", first.text.len());
    let held = async || -> f64 {
        let told = reqwest::get(format!("http://{address}/metrics")).await.unwrap();
        let told = told.text().await.unwrap();
        let line = told.lines().find(|line| line.starts_with("sluice_replay_memory_bytes "));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let owner = server.owner().await;
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await;
    let other = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    let other = other.with("idempotency-key", "one");
    let text = body.to_string();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(ask(server.port, &text).await);
    }
    let all = (CLIENTS * first.text.len()) as f64;
    until("their answers are charged", async || (held().await >= all).then_some(())).await;
    let refused = server.key().with("idempotency-key", "one").post(PATH, &body).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"), "{}", refused.text);
    for is_replayed in [false, true] {
        let answered = other.post(PATH, &body).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert_eq!(answered.headers.contains_key("idempotency-replayed"), is_replayed);
    }
    let began = Instant::now();
    while held().await > 0.0 {
        assert!(began.elapsed() < CUT_OFF, "they hold {} bytes", held().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for mut client in clients {
        let mut read = Vec::new();
        // It is closed, or reset, before the end of the answer.
        let _ = client.read_to_end(&mut read).await;
        assert!(read.len() < first.text.len(), "{}", read.len());
    }
    assert_eq!(mock.begun(), 2);
}
