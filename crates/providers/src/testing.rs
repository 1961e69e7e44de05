//! Fixtures shared by the tests of this crate: a model, and a server with scripted behaviour.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::conversation::{Body, Message, Prompt, Role};
use domain::ids::{ModelId, ProjectId};
use domain::model::{Model, ModelConfig, Provider};
use domain::secret::Secret;
use domain::time::Timestamp;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::adapter::request::Attempt;
use crate::client::Client;
use crate::net::egress::Egress;

/// A credential that must appear nowhere.
pub(crate) const CANARY: &str = "canary-key-4711-do-not-print";

pub(crate) fn model(provider: Provider, base_url: Option<&str>) -> Model {
    Model {
        id: ModelId(1),
        project: ProjectId(1),
        name: "A model".to_owned(),
        identifier: "gpt-test".to_owned(),
        provider,
        base_url: base_url.map(str::to_owned),
        api_key: Some(Secret::new(CANARY.to_owned())),
        is_public: provider != Provider::Internal,
        input_price: None,
        output_price: None,
        data_retention_days: 30,
        region: "global".to_owned(),
        currency: "USD".to_owned(),
        config: ModelConfig::default(),
        created_at: Timestamp(0),
    }
}

pub(crate) fn prompt(params: Value) -> Prompt {
    let Value::Object(params) = params else { panic!("parameters are an object") };
    Prompt {
        messages: vec![Message::user("Hello there. How are you?")],
        params,
        ..Prompt::default()
    }
}

/// Messages in the chat-completions form, with parameters.
pub(crate) fn prompt_of(messages: Value, params: Value) -> Prompt {
    let Value::Array(messages) = messages else { panic!("messages are a list") };
    let messages = messages.into_iter().map(|message| {
        let Value::Object(mut extra) = message else { panic!("a message is an object") };
        let role = extra.shift_remove("role").unwrap();
        let body = match extra.shift_remove("content") {
            None | Some(Value::Null) => Body::Empty,
            Some(Value::String(text)) => Body::Text(text),
            Some(Value::Array(parts)) => Body::Parts(parts),
            Some(other) => panic!("{other}"),
        };
        Message { role: Role::parse(role.as_str().unwrap()).unwrap(), body, extra }
    });
    Prompt { messages: messages.collect(), ..prompt(params) }
}

pub(crate) fn attempt<'a>(model: &'a Model, prompt: &'a Prompt) -> Attempt<'a> {
    let deadline = Instant::now() + Duration::from_mins(5);
    Attempt {
        model,
        prompt,
        max_output_tokens: None,
        max_tool_uses: None,
        stream: false,
        trace: None,
        deadline,
    }
}

/// The server's reaction to one request.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) bytes: Vec<u8>,
    pub(crate) after: After,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
    Hang,
    /// Sends these bytes again and again.
    Repeat(&'static [u8]),
}

/// A server on the loopback address that plays its steps, one for each request.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    pub(crate) asked: Arc<Notify>,
    pub(crate) connections: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn new(steps: Vec<Step>) -> Self {
        Self::listening(steps, Step { bytes: json("405 No", "{}"), after: After::Keep }).await
    }

    /// Starts an MCP server, which answers with `heard` to a client that listens for messages between
    /// calls.
    pub(crate) async fn listening(steps: Vec<Step>, heard: Step) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::new(Notify::new());
        let connections = Arc::new(Mutex::new(0));
        let steps = Arc::new(Mutex::new(VecDeque::from(steps)));
        let heard = Arc::new(heard);
        let mut tasks = JoinSet::new();
        let (log, notify, count) = (requests.clone(), asked.clone(), connections.clone());
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let heard = heard.clone();
                open.spawn(serve(socket, steps.clone(), heard, log.clone(), notify.clone()));
            }
        });
        Self { port, requests, asked, connections, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

async fn serve(
    mut socket: TcpStream,
    steps: Arc<Mutex<VecDeque<Step>>>,
    heard: Arc<Step>,
    log: Arc<Mutex<Vec<String>>>,
    asked: Arc<Notify>,
) {
    while let Some(request) = read_request(&mut socket).await {
        let step = if request.starts_with("GET ") && request.contains("mcp-session-id: ") {
            (*heard).clone()
        } else {
            log.lock().unwrap().push(request);
            asked.notify_one();
            let Some(step) = steps.lock().unwrap().pop_front() else { return };
            step
        };
        if socket.write_all(&step.bytes).await.is_err() {
            return;
        }
        match step.after {
            After::Keep => {}
            After::Close => return,
            After::Hang => std::future::pending().await,
            After::Repeat(bytes) => while socket.write_all(bytes).await.is_ok() {},
        }
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        let mut buffer = [0; 4096];
        let n = socket.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&buffer[..n]);
    }
}

/// A whole answer.
pub(crate) const ANSWER: &str = r#"{"model":"real","choices":[{"index":0,"message":{"role":"assistant",
    "content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;

pub(crate) fn client() -> Client {
    Client::new(Egress::default()).unwrap()
}

pub(crate) fn step(bytes: Vec<u8>, after: After) -> Step {
    Step { bytes, after }
}

/// A whole HTTP answer.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

pub(crate) fn json(status: &str, body: &str) -> Vec<u8> {
    reply(status, "content-type: application/json\r\n", body)
}

/// The head of a stream and its first events, each in an HTTP chunk of its own.
pub(crate) fn sse(events: &[&str]) -> Vec<u8> {
    chunked(events.iter().map(|event| format!("data: {event}\n\n")))
}

/// The head of a stream and its first events, all of them in one HTTP chunk.
pub(crate) fn sse_at_once(events: &[&str]) -> Vec<u8> {
    chunked([format!("data: {}\n\n", events.join("\n\ndata: "))])
}

fn chunked(chunks: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
        transfer-encoding: chunked\r\n\r\n"
        .to_vec();
    for chunk in chunks {
        bytes.extend_from_slice(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes());
    }
    bytes
}
