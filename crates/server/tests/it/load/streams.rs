//! A thousand streams at the same time: each event comes once and in order, and nothing is kept.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::harness::{Backend, KEY, Server};

const STREAMS: usize = 1_000;
const EVENTS: usize = 200;
/// The first fills pools and caches, the others must find their room there.
const ROUNDS: usize = 6;
/// The most memory that an allocator may hold beyond that of the earlier rounds, in kB. The part for each of the
/// event loops goes up and down by as much; 14 kB that each stream leaves behind are more.
const SLACK: u64 = 40 * 1024;

/// The text of one event. It comes back as it is, so it has no characters that JSON escapes.
fn piece(stream: usize, event: usize) -> String {
    format!("{stream}:{event} ")
}

/// A provider that begins to answer when as many have asked as there are streams.
fn provider() -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    // All may come at the same moment.
    let listener = socket.listen(u32::try_from(STREAMS).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let all_here = Arc::new(Barrier::new(STREAMS));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(serve(BufReader::new(stream), all_here.clone()));
        }
    });
    port
}

/// Answers one request after the other, each event in a write of its own.
async fn serve(mut stream: BufReader<TcpStream>, all_here: Arc<Barrier>) -> std::io::Result<()> {
    while let Some(number) = asked(&mut stream).await? {
        all_here.wait().await;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        for event in 0..EVENTS {
            let delta = format!(r#"{{"content":"{}"}}"#, piece(number, event));
            stream.write_all(chunk(&delta, "null").as_bytes()).await?;
            tokio::task::yield_now().await;
        }
        let done = "data: [DONE]\n\n";
        let end = format!("{:x}\r\n{done}\r\n0\r\n\r\n", done.len());
        stream.write_all((chunk("{}", r#""stop""#) + &end).as_bytes()).await?;
    }
    Ok(())
}

fn chunk(delta: &str, finish: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Reads a request, and gives the number of the stream that it asks for.
async fn asked(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<usize>> {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await? > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    if line.is_empty() {
        return Ok(None);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let text = body["messages"][0]["content"].as_str().unwrap();
    Ok(Some(text.strip_prefix("Stream ").unwrap().parse().unwrap()))
}

/// Asks for one stream and gives the whole response.
async fn ask(port: u16, trace: Arc<str>, number: usize) -> (usize, String) {
    let messages = json!([{"role": "user", "content": format!("Stream {number}")}]);
    let body = json!({"trace_id": &*trace, "model": "m", "messages": messages, "stream": true});
    let body = body.to_string();
    let mut request = String::new();
    write!(
        request,
        "POST /api/v1/chat/completions HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    (number, response)
}

/// The body of a chunked response.
fn body(response: &str) -> String {
    let (head, mut rest) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{response}");
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    body
}

/// Asserts that a response has each event of a stream, once and in order, and its end.
fn check(number: usize, response: &str) {
    let body = body(response);
    let content = |event: &str| {
        let (_, after) = event.split_once(r#""content":""#)?;
        Some(after.split_once('"')?.0.to_owned()).filter(|text| !text.is_empty())
    };
    let found: Vec<String> = body.split_terminator("\n\n").filter_map(content).collect();
    let expected: Vec<String> = (0..EVENTS).map(|event| piece(number, event)).collect();
    assert_eq!(found, expected);
    assert!(body.contains(r#""finish_reason":"stop""#), "{body}");
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_lose_nothing_and_leave_nothing() {
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    assert!(files as usize > 3 * STREAMS, "{files} open files are not enough");
    let server = Server::unlimited(&Backend::Sqlite).await;
    let fields = json!({"name": "m", "identifier": "m", "provider": "openai", "is_public": false,
        "base_url": format!("http://127.0.0.1:{}/v1", provider())});
    let model = json!({"model_definition": fields});
    server.owner().await.post("/api/v1/projects/1/models", &model).await.ok(201);
    let key = server.key();
    let mut memory = Vec::new();
    for _ in 0..ROUNDS {
        let trace: Arc<str> = key.trace().await.into();
        let mut streams = JoinSet::new();
        for number in 0..STREAMS {
            streams.spawn(ask(server.port, trace.clone(), number));
        }
        while let Some(done) = streams.join_next().await {
            let (number, response) = done.unwrap();
            check(number, &response);
        }
        let detail = key.detail(&trace).await;
        let steps = detail["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["status"] == "completed"));
        assert_eq!(steps.len(), STREAMS);
        memory.push(server.memory());
    }
    println!("kB after each round: {memory:?}");
    // A single round shows little: what the allocator keeps goes up and down.
    let (first, last) = memory.split_at(ROUNDS / 2);
    let (most, least) = (first.iter().max().unwrap(), last.iter().min().unwrap());
    assert!(*least < most + SLACK, "kB after each round: {memory:?}");
}
