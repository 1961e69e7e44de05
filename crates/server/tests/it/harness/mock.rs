//! A provider on loopback in the chat-completions format, that answers as scripted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

use super::http::Caller;

/// The provider's reaction to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A whole answer, or a stream of the pieces when a stream is asked for.
    Pieces(Vec<String>),
    /// A stream that breaks off after these pieces, without a last chunk.
    Broken(Vec<String>),
    /// A stream that halts after these pieces until its caller has gone.
    Halting(Vec<String>),
    /// A status with this body.
    Body(u16, &'static str, String),
    /// A body that is shorter than its `Content-Length`.
    Truncated,
    /// A body, or an event of a stream, that goes on for as long as anybody reads.
    Endless,
    /// A body with the header of a compressed one.
    Compressed,
}

impl Answer {
    pub fn text(text: &str) -> Self {
        Self::Pieces(vec![text.to_owned()])
    }

    /// A whole answer of one choice.
    pub fn completion(message: &Value, finish: &str) -> Self {
        Self::json(
            200,
            &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}),
        )
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Self::Body(status, "application/json", body.to_string())
    }
}

/// A call of a tool, as an answer holds it.
pub fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

type Plan = dyn Fn(&Value) -> Answer + Send + Sync;

struct State {
    plan: Box<Plan>,
    delay: Duration,
    usage: Option<(u64, u64)>,
    begun: AtomicUsize,
    served: AtomicUsize,
    gone: AtomicUsize,
    requests: Mutex<Vec<Asked>>,
    /// Whether requests wait for their answers.
    holds: watch::Sender<bool>,
    /// The messages to clients that listen to an MCP server between calls.
    told: broadcast::Sender<Value>,
}

/// A request that the provider got.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The path and query.
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
    /// The body as it came.
    pub text: String,
    /// Whether it listens to the messages of an MCP server between calls.
    listens: bool,
}

/// A provider.
#[derive(Clone)]
pub struct Mock {
    state: Arc<State>,
    port: u16,
}

impl Mock {
    /// A provider that gives every request the same answer at once.
    pub async fn always(answer: Answer) -> Self {
        Self::start(Duration::ZERO, Some((10, 5)), move |_| answer.clone()).await
    }

    /// A provider that takes its time and answers by plan.
    pub async fn start(
        delay: Duration,
        usage: Option<(u64, u64)>,
        plan: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(State {
            plan: Box::new(plan),
            delay,
            usage,
            begun: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
            requests: Mutex::default(),
            holds: watch::Sender::new(false),
            told: broadcast::channel(16).0,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                // A peer that goes away is what some tests want.
                tokio::spawn(async move {
                    let _ = serve(stream, &state).await;
                });
            }
        });
        Self { state, port }
    }

    /// Answers nothing from now on, until [`Mock::release`].
    pub fn hold(&self) {
        self.state.holds.send_replace(true);
    }

    /// Answers what it has held, and what comes.
    pub fn release(&self) {
        self.state.holds.send_replace(false);
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Requests that came in whole.
    pub fn begun(&self) -> usize {
        self.state.begun.load(Ordering::SeqCst)
    }

    /// Answers that went out whole, to somebody who was there.
    pub fn served(&self) -> usize {
        self.state.served.load(Ordering::SeqCst)
    }

    /// Requests whose caller had gone before the answer.
    pub fn gone(&self) -> usize {
        self.state.gone.load(Ordering::SeqCst)
    }

    /// Tells all who listen between calls, as MCP clients do.
    pub async fn tell(&self, message: Value) {
        let told = || async { self.state.told.send(message.clone()).ok() };
        super::until("somebody listens", told).await;
    }

    pub fn requests(&self) -> Vec<Asked> {
        self.state.requests.lock().unwrap().clone()
    }

    /// The requests since the last time.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.state.requests.lock().unwrap())
    }

    /// The last request's body.
    pub fn last(&self) -> Value {
        self.requests().pop().unwrap().body
    }

    /// Registers this provider as a private model with prices, and gives the definition.
    pub async fn register(&self, owner: &Caller, identifier: &str) -> Value {
        self.register_with(owner, identifier, json!({"is_public": false})).await
    }

    /// The same with more fields.
    pub async fn register_with(&self, owner: &Caller, identifier: &str, more: Value) -> Value {
        let mut fields = json!({
            "name": identifier, "identifier": identifier, "provider": "openai",
            "base_url": self.url(), "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6,
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({"model_definition": fields});
        owner.post("/api/v1/projects/1/models", &body).await.ok(201)["model_definition"].clone()
    }
}

async fn serve(stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let Some(asked) = read(&mut stream).await? else { return Ok(()) };
        if asked.listens {
            return tell_all(&mut stream, state.told.subscribe()).await;
        }
        state.begun.fetch_add(1, Ordering::SeqCst);
        state.requests.lock().unwrap().push(asked.clone());
        if !state.delay.is_zero() && hung_up(&mut stream, state.delay).await {
            state.gone.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        let released = state.holds.subscribe().wait_for(|holds| !holds).await.map(drop);
        released.map_err(|_| std::io::ErrorKind::BrokenPipe)?;
        let answer = (state.plan)(&asked.body);
        let streams = asked.body["stream"] == true;
        if matches!(answer, Answer::Endless) {
            pour(&mut stream, kind(streams)).await;
            state.gone.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        let closes = matches!(answer, Answer::Truncated | Answer::Broken(_));
        let halts = matches!(answer, Answer::Halting(_));
        for part in write(answer, streams, state.usage) {
            let written = stream.write_all(part.as_bytes()).await;
            if written.is_err() && halts {
                // It may go before all is written.
                state.gone.fetch_add(1, Ordering::SeqCst);
            }
            written?;
            stream.flush().await?;
            if streams {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        if halts {
            if hung_up(&mut stream, Duration::from_mins(10)).await {
                state.gone.fetch_add(1, Ordering::SeqCst);
            }
            return Ok(());
        }
        state.served.fetch_add(1, Ordering::SeqCst);
        if closes {
            return stream.shutdown().await;
        }
    }
}

fn kind(streams: bool) -> &'static str {
    if streams { "text/event-stream" } else { "application/json" }
}

/// Writes until the caller closes the connection.
async fn pour(stream: &mut BufReader<TcpStream>, kind: &str) {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
    let more = http_chunk(&"data: x".repeat(8192));
    let mut next = head;
    while stream.write_all(next.as_bytes()).await.is_ok() {
        next.clone_from(&more);
    }
}

/// Passes messages on as long as anybody listens.
async fn tell_all(
    stream: &mut BufReader<TcpStream>,
    mut told: broadcast::Receiver<Value>,
) -> std::io::Result<()> {
    stream.write_all(STREAM_HEAD.as_bytes()).await?;
    while let Ok(message) = told.recv().await {
        stream.write_all(http_chunk(&format!("data: {message}\n\n")).as_bytes()).await?;
    }
    Ok(())
}

/// Waits, and returns whether the caller went away meanwhile.
async fn hung_up(stream: &mut BufReader<TcpStream>, delay: Duration) -> bool {
    let said = tokio::time::timeout(delay, stream.fill_buf()).await;
    said.is_ok_and(|said| said.map_or(true, <[u8]>::is_empty))
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut headers = HashMap::new();
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let gets = line.starts_with("GET ");
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let listens = gets && headers.contains_key("mcp-session-id");
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(Asked {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        text,
        listens,
    }))
}

/// The parts of a response, each of which is flushed.
fn write(answer: Answer, streams: bool, usage: Option<(u64, u64)>) -> Vec<String> {
    let usage = usage.map(|(prompt, completion)| {
        json!({"prompt_tokens": prompt, "completion_tokens": completion,
            "total_tokens": prompt + completion})
    });
    match answer {
        Answer::Pieces(pieces) if streams => stream(&pieces, true, usage.as_ref()),
        Answer::Broken(pieces) | Answer::Halting(pieces) => stream(&pieces, false, None),
        Answer::Pieces(pieces) => {
            let message = json!({"role": "assistant", "content": pieces.concat()});
            let mut body = json!({
                "id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000,
                "model": "mock-upstream",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            });
            if let Some(usage) = usage {
                body["usage"] = usage;
            }
            vec![whole(200, "application/json", &body.to_string())]
        }
        Answer::Body(status, kind, body) => vec![whole(status, kind, &body)],
        Answer::Compressed => vec![format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-encoding: gzip\r\n\
             content-length: 2\r\n\r\n\u{1f}x",
            kind(streams)
        )],
        Answer::Endless => unreachable!("it is poured"),
        Answer::Truncated => vec![
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n\
             {\"id\":\"chatcmpl-mock\",\"choices\":[{\"index\":0,\"mess"
                .to_owned(),
        ],
    }
}

fn whole(status: u16, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Mock\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";

fn http_chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn stream(pieces: &[String], ends: bool, usage: Option<&Value>) -> Vec<String> {
    let chunk = |choices: Value| {
        let body = json!({
            "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "mock-upstream", "choices": choices,
        });
        http_chunk(&format!("data: {body}\n\n"))
    };
    let mut parts = vec![STREAM_HEAD.to_owned()];
    for piece in pieces {
        let delta = json!({"content": piece});
        parts.push(chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}])));
    }
    if ends {
        parts.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])));
        if let Some(usage) = usage {
            let body = json!({
                "id": "chatcmpl-mock", "object": "chat.completion.chunk",
                "created": 1_700_000_000, "model": "mock-upstream", "choices": [], "usage": usage,
            });
            parts.push(http_chunk(&format!("data: {body}\n\n")));
        }
        parts.push(http_chunk("data: [DONE]\n\n"));
        parts.push("0\r\n\r\n".to_owned());
    }
    parts
}
