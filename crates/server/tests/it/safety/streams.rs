//! Streams whose outputs are redacted or blocked: words leave while the provider still speaks, and
//! nothing of what was found does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::harness::{Backend, Caller, Server, first_step, hang_up_after, settings};

crate::on_every_backend!(
    words_leave_while_the_provider_still_speaks,
    a_finding_ends_the_stream_and_the_call,
    who_hangs_up_leaves_what_has_left,
    a_slow_reader_slows_the_provider,
);

const LEAK: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n";
/// The endpoints that stream.
const DOORS: [&str; 5] = [
    "/api/v1/executions/stream",
    "/api/v1/chat/completions",
    "/api/v1/messages",
    "/api/v1/responses",
    "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
];

/// A provider that sends the rest of its answer on demand, and notes callers that hang up.
struct Provider {
    port: u16,
    go: Arc<Notify>,
    gone: Arc<Notify>,
}

impl Provider {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (go, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (told, noted) = (go.clone(), gone.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(BufReader::new(stream), told.clone(), noted.clone()));
            }
        });
        Self { port, go, gone }
    }

    async fn register(&self, owner: &Caller) {
        let fields = json!({"name": "m", "identifier": "m", "provider": "openai",
            "base_url": format!("http://127.0.0.1:{}/v1", self.port), "is_public": false,
            "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6});
        let model = json!({"model_definition": fields});
        owner.post("/api/v1/projects/1/models", &model).await.ok(201);
    }
}

/// The body of a request.
async fn asked(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).await? > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// Answers one request: a half, the other one on demand, and the end if anybody waits for it.
async fn serve(
    mut stream: BufReader<TcpStream>,
    go: Arc<Notify>,
    gone: Arc<Notify>,
) -> std::io::Result<()> {
    let mut body = asked(&mut stream).await?;
    let waits = String::from_utf8_lossy(&body).contains("Wait for ever");
    let (half, other) = LEAK.split_at(12);
    let first = ["The first", " words leave: ", half].map(|text| chunk(text, &Value::Null));
    stream.write_all((HEAD.to_owned() + &first.concat()).as_bytes()).await?;
    go.notified().await;
    let rest = [other, " is what", " it was."].map(|text| chunk(text, &Value::Null));
    stream.write_all(rest.concat().as_bytes()).await?;
    if waits {
        stream.read_to_end(&mut body).await?;
        gone.notify_one();
        return Ok(());
    }
    let done = "data: [DONE]\n\n";
    let end = format!("{:x}\r\n{done}\r\n0\r\n\r\n", done.len());
    stream.write_all((chunk("", &json!("stop")) + &end).as_bytes()).await
}

fn chunk(text: &str, finish: &Value) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": finish});
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [choice]});
    let event = format!("data: {chunk}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

async fn started(backend: &Backend, action: &str) -> (Server, Caller, Provider) {
    let server = Server::unlimited(backend).await;
    let owner = server.owner().await;
    let provider = Provider::start().await;
    provider.register(&owner).await;
    let act = json!({"action": action});
    let tiers = json!({"simple": "m", "complex": "m", "secure": "m"});
    let change =
        json!({"routing_tiers": tiers, "safety": {"output": {"secrets": act, "pii": act}}});
    settings(&owner, 1, change).await;
    let key = server.key();
    (server, key, provider)
}

fn question(door: &str, text: &str) -> Value {
    match door {
        "/api/v1/executions/stream" => json!({"input": text}),
        "/api/v1/responses" => json!({"model": "m", "stream": true, "input": text}),
        path if path.starts_with("/gemini") => json!({"contents": [{"parts": [{"text": text}]}]}),
        _ => json!({"model": "m", "max_tokens": 99, "stream": true,
            "messages": [{"role": "user", "content": text}]}),
    }
}

/// Asks, and has the provider go on when its first words have come. Gives all that came.
async fn heard(key: &Caller, provider: &Provider, door: &str, trace: &str, text: &str) -> String {
    let request = key.request("POST", door).header("content-type", "application/json");
    let request = request.header("x-trace-id", trace);
    let mut body = question(door, text);
    if door == DOORS[0] {
        body["trace_id"] = trace.into();
    }
    let mut response = request.body(body.to_string()).send().await.unwrap();
    let mut heard = String::new();
    let mut told = false;
    while let Some(bytes) = response.chunk().await.unwrap() {
        heard.push_str(std::str::from_utf8(&bytes).unwrap());
        if !told && heard.contains("leave: ") {
            provider.go.notify_one();
            told = true;
        }
    }
    assert!(told, "{door}: {heard}");
    heard
}

async fn words_leave_while_the_provider_still_speaks(backend: Backend) {
    let (_server, key, provider) = started(&backend, "redact").await;
    for door in DOORS {
        let trace = key.trace().await;
        let heard = heard(&key, &provider, door, &trace, "Speak.").await;
        assert!(!heard.contains("ghp_") && !heard.contains("x7Kd92"), "{door}: {heard}");
        assert!(heard.contains("[GITHUB_TOKEN_1_"), "{door}: {heard}");
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!(step["security"]["secret_leaked"], true, "{step}");
        let stored = step["output"].as_str().unwrap();
        assert!(stored.starts_with("The first words leave: [GITHUB_TOKEN_1_"), "{step}");
        assert!(stored.ends_with("] is what it was."), "{step}");
    }
}

async fn a_finding_ends_the_stream_and_the_call(backend: Backend) {
    let (_server, key, provider) = started(&backend, "block").await;
    let ends = ["content_filter", "content_filter", "refusal", "refusal", "SAFETY"];
    for (door, end) in DOORS.iter().zip(ends) {
        let trace = key.trace().await;
        let heard = heard(&key, &provider, door, &trace, "Wait for ever.").await;
        // The provider has not ended: it was left.
        provider.gone.notified().await;
        assert!(!heard.contains("ghp_") && !heard.contains("x7Kd92"), "{door}: {heard}");
        assert!(heard.contains(end) && heard.contains("github_token"), "{door}: {heard}");
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!((&step["type"], &step["status"]), (&json!("run"), &json!("completed")));
        assert_eq!(step["finish_reason"], "content_filter", "{step}");
        assert_eq!(step["output"], "The first words leave: ", "{step}");
        assert_eq!(step["security"]["secret_leaked"], true, "{step}");
        assert_eq!(step["cost_estimated"], true, "{step}");
        assert!(step["completion_tokens"].as_i64().unwrap() > 5, "{step}");
    }
}

async fn who_hangs_up_leaves_what_has_left(backend: Backend) {
    let (_server, key, _provider) = started(&backend, "redact").await;
    let trace = key.trace().await;
    let request = key.request("POST", DOORS[1]).header("content-type", "application/json");
    let request = request.header("x-trace-id", &trace);
    let body = question(DOORS[1], "Speak.").to_string();
    let response = request.body(body).send().await.unwrap();
    hang_up_after(response, "leave: ").await;
    let step = first_step(&key, &trace).await;
    assert_eq!(step["status"], "cancelled", "{step}");
    // The beginning of what may have become a finding was held back.
    assert_eq!(step["output"], "The first words leave: ", "{step}");
    assert_eq!(step["cost_estimated"], true, "{step}");
}

/// The most that buffers between a provider and a caller may take: the kernel's are a few MiB each.
const BUFFERED: usize = 40 * 1024 * 1024;

/// Says so many bytes and more, and how many until nobody took any for a second.
async fn pour(mut stream: BufReader<TcpStream>) -> std::io::Result<usize> {
    asked(&mut stream).await?;
    let words = chunk(&"words ".repeat(4_000), &Value::Null);
    let mut said = HEAD.len();
    stream.write_all(HEAD.as_bytes()).await?;
    while said < BUFFERED {
        let taken = timeout(Duration::from_secs(1), stream.write_all(words.as_bytes())).await;
        match taken {
            Ok(written) => written?,
            Err(_) => break,
        }
        said += words.len();
    }
    Ok(said)
}

async fn a_slow_reader_slows_the_provider(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    Provider { port, go: Arc::default(), gone: Arc::default() }.register(&owner).await;
    let trace = key.trace().await;
    let request = key.request("POST", DOORS[1]).header("content-type", "application/json");
    let request = request.header("x-trace-id", &trace);
    let request = request.body(question(DOORS[1], "Speak for ever.").to_string());
    let poured = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        pour(BufReader::new(stream)).await
    });
    // Its head is read, and nothing of its body.
    let response = request.send().await.unwrap();
    let said = poured.await.unwrap().unwrap();
    assert!(said < BUFFERED, "the provider was never stopped");
    drop(response);
}
