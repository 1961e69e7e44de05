use serde_json::json as value;
use tokio::time::Duration;

use super::*;
use crate::net::egress::Egress;
use crate::testing::{After, CANARY, Server, Step, json, reply, sse};

fn step(bytes: Vec<u8>) -> Step {
    Step { bytes, after: After::Keep }
}

fn result(id: u32, result: Value) -> Vec<u8> {
    json("200 OK", &value!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

fn error(id: u32, status: &str, message: &str) -> Vec<u8> {
    let error = value!({"code": -32602, "message": message});
    json(status, &value!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
}

fn greeting() -> [Step; 2] {
    greeting_with("")
}

/// A greeting that is answered with these headers.
fn greeting_with(headers: &str) -> [Step; 2] {
    let told = value!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"}});
    let told = value!({"jsonrpc": "2.0", "id": 0, "result": told}).to_string();
    let headers = format!("content-type: application/json\r\n{headers}");
    [step(reply("200 OK", &headers, &told)), step(reply("202 Accepted", "", ""))]
}

fn tool(name: &str) -> Value {
    value!({"name": name, "description": "Tells.", "inputSchema": {"type": "object"}})
}

fn listed(tools: Vec<Value>) -> Step {
    step(result(1, value!({"tools": tools})))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn client() -> McpClient {
    McpClient::new(Client::new(Egress::default()).unwrap())
}

fn address(server: &Server) -> McpAddress {
    McpAddress::read(&server.url()).unwrap()
}

/// Returns the result of opening and listing at a server with this behaviour.
async fn open(steps: Vec<Step>) -> Result<(McpSession, Vec<McpTool>), McpError> {
    let server = Server::new(steps).await;
    let opened = listed_by(client().open(&address(&server), None, || (), soon()).await).await;
    // The server lives as long as the test's runtime.
    std::mem::forget(server);
    opened
}

async fn listed_by(
    opened: Result<McpSession, McpError>,
) -> Result<(McpSession, Vec<McpTool>), McpError> {
    let session = opened?;
    let tools = session.tools(soon()).await?;
    Ok((session, tools))
}

/// Returns the result of a call to a server with this behaviour.
async fn call(steps: Vec<Step>) -> Result<McpAnswer, McpError> {
    let steps = greeting().into_iter().chain([listed(vec![tool("weather")])]).chain(steps);
    let (session, _) = open(steps.collect()).await.unwrap();
    session.call("weather", Map::new(), soon()).await
}

#[tokio::test]
async fn tools_are_listed_and_called_with_the_token() {
    let answer = value!({"content": [{"type": "text", "text": "18 C"}]});
    let message = value!({"jsonrpc": "2.0", "id": 2, "result": answer}).to_string();
    let progress = value!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "busy"}});
    let mut streamed = sse(&[&progress.to_string(), &message]);
    streamed.extend_from_slice(b"0\r\n\r\n");
    let steps = greeting().into_iter().chain([listed(vec![tool("weather")]), step(streamed)]);
    let server = Server::new(steps.collect()).await;
    let token = Secret::new(CANARY.to_owned());
    let session = client().open(&address(&server), Some(&token), || (), soon()).await.unwrap();
    let tools = session.tools(soon()).await.unwrap();
    let schema = value!({"type": "object"}).as_object().unwrap().clone();
    let expected =
        McpTool { name: "weather".to_owned(), description: Some("Tells.".to_owned()), schema };
    assert_eq!(tools, [expected]);
    let arguments = value!({"city": "Bonn"}).as_object().unwrap().clone();
    let answer = session.call("weather", arguments, soon()).await.unwrap();
    assert_eq!(answer, McpAnswer { text: "18 C".to_owned(), is_error: false });
    let requests = server.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 4, "{requests:?}");
    let bearer = format!("authorization: Bearer {CANARY}");
    assert!(requests.iter().all(|request| request.contains(&bearer)), "{requests:?}");
    assert!(requests[3].contains("mcp-protocol-version: 2025-06-18"), "{}", requests[3]);
    assert!(requests[3].contains(r#""arguments":{"city":"Bonn"}"#), "{}", requests[3]);
    assert!(!format!("{session:?}").contains(CANARY));
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_is_told_apart() {
    let broken = Step { bytes: Vec::new(), after: After::Close };
    let cut = Step { bytes: sse(&["{}"]), after: After::Close };
    let html = reply("200 OK", "content-type: text/html\r\n", "<html>");
    let long = format!("{}\r\n", " ".repeat(4 * 1024 * 1024));
    for (steps, fault) in [
        (vec![broken], McpError::Unreachable),
        (vec![step(json("500 Oh", "{}"))], McpError::Status(500)),
        (vec![step(json("401 No", "no"))], McpError::Status(401)),
        (
            vec![step(reply("307 Go", "location: http://127.0.0.1:1/\r\n", ""))],
            McpError::Status(307),
        ),
        (vec![step(html)], McpError::Malformed),
        (vec![step(json("200 OK", "{\"jsonrpc\":"))], McpError::Malformed),
        (vec![step(json("200 OK", &long))], McpError::TooMuch("its answer is longer than 4 MiB")),
        (
            vec![step(error(2, "200 OK", "no such city"))],
            McpError::Refused("no such city".to_owned()),
        ),
        (
            vec![step(error(2, "400 Bad", "no such city"))],
            McpError::Refused("no such city".to_owned()),
        ),
        (vec![cut], McpError::Unreachable),
    ] {
        assert_eq!(call(steps).await.unwrap_err(), fault);
    }
}

#[tokio::test]
async fn an_answer_without_end_is_left() {
    // The first stream has one message that never ends, the second messages that never answer.
    let message = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(1000));
    for (said, part) in [("x".repeat(0x4000), "1 MiB"), (message, "4 MiB")] {
        let chunk = format!("{:x}\r\n{said}\r\n", said.len()).into_bytes();
        let endless = Step { bytes: sse(&[]), after: After::Repeat(chunk.leak()) };
        let fault = call(vec![endless]).await.unwrap_err();
        assert!(fault.to_string().contains(part), "{fault}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let steps = greeting().into_iter().chain([listed(vec![tool("weather")])]);
    let hangs = Step { bytes: Vec::new(), after: After::Hang };
    let (session, _) = open(steps.chain([hangs]).collect()).await.unwrap();
    let deadline = Instant::now() + Duration::from_millis(50);
    assert_eq!(session.call("weather", Map::new(), deadline).await, Err(McpError::Late));
}

#[tokio::test]
async fn lists_are_bounded() {
    let list = async |steps: Vec<Step>| {
        open(greeting().into_iter().chain(steps).collect()).await.map(|(_, tools)| tools.len())
    };
    let tools = |count: usize| (0..count).map(|n| tool(&format!("t{n}"))).collect::<Vec<_>>();
    assert_eq!(list(vec![listed(tools(128))]).await, Ok(128));
    let fault = list(vec![listed(tools(129))]).await.unwrap_err();
    assert_eq!(fault, McpError::TooMuch("it has more than 128 tools"));
    let mut wordy = tool("t");
    wordy["description"] = "x".repeat(512 * 1024).into();
    let fault = list(vec![listed(vec![wordy])]).await.unwrap_err();
    assert_eq!(fault, McpError::TooMuch("it says more than 512 KiB of its tools"));
    let page = |id| step(result(id, value!({"tools": [], "nextCursor": "again"})));
    let fault = list((1..=32).map(page).collect()).await.unwrap_err();
    assert_eq!(fault, McpError::TooMuch("the list of its tools does not end"));
}

#[tokio::test]
async fn nobody_there_and_nothing_allowed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |url: &str| McpAddress::read(url).unwrap();
    let open = async |url: &str| client().open(&at(url), None, || (), soon()).await.map(drop);
    assert_eq!(open(&format!("http://127.0.0.1:{free}/mcp")).await, Err(McpError::Unreachable));
    for never in ["http://169.254.169.254/mcp", "http://metadata.google.internal/mcp"] {
        assert_eq!(open(never).await, Err(McpError::Forbidden), "{never}");
    }
}

#[tokio::test]
async fn a_refusal_holds_no_token() {
    let words = format!("the token {CANARY} is not known");
    let server = Server::new(vec![step(error(0, "400 Bad", &words))]).await;
    let token = Secret::new(CANARY.to_owned());
    let fault = client().open(&address(&server), Some(&token), || (), soon()).await.unwrap_err();
    assert_eq!(fault, McpError::Refused("the token *** is not known".to_owned()));
}

#[tokio::test]
async fn what_a_server_says_of_the_conversation_is_heard() {
    let changed = value!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let answer = value!({"content": []});
    let answer = value!({"jsonrpc": "2.0", "id": 2, "result": answer}).to_string();
    let mut streamed = sse(&[&changed.to_string(), &answer]);
    streamed.extend_from_slice(b"0\r\n\r\n");
    let again = step(result(3, value!({"tools": []})));
    let gone = step(error(4, "404 No", "gone"));
    let rest = [listed(vec![tool("weather")]), step(streamed), again, gone];
    let steps = greeting_with("mcp-session-id: s-1\r\n").into_iter().chain(rest);
    let (session, _) = open(steps.collect()).await.unwrap();
    assert!(session.is_stateful() && session.changes() == 0 && !session.is_closed());
    session.call("weather", Map::new(), soon()).await.unwrap();
    // The report is handled beside the answer.
    let late = soon();
    while session.changes() == 0 {
        assert!(Instant::now() < late);
        tokio::task::yield_now().await;
    }
    // A list that was requested before the report is reported as outdated, also after another request.
    assert_eq!(session.tools(soon()).await, Ok(vec![]));
    assert_eq!(session.changes(), 1);
    let gone = session.call("weather", Map::new(), soon()).await;
    assert_eq!(gone, Err(McpError::Gone));

    let steps = greeting().into_iter().chain([listed(vec![])]);
    let (session, _) = open(steps.collect()).await.unwrap();
    assert!(!session.is_stateful());
}

#[tokio::test]
async fn what_a_server_says_between_calls_is_heard() {
    let changed = value!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    // The stream is longer than any answer may be, and still read.
    let log = value!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "x".repeat(1_000_000)}});
    let log = log.to_string();
    let said = sse(&[&log, &log, &log, &log, &log, &changed.to_string()]);
    let heard = Step { bytes: said, after: After::Hang };
    let steps = greeting_with("mcp-session-id: s-1\r\n").into_iter().collect();
    let server = Server::listening(steps, heard).await;
    let told = Arc::new(tokio::sync::Notify::new());
    let tell = told.clone();
    let on_change = move || tell.notify_one();
    let session = client().open(&address(&server), None, on_change, soon()).await.unwrap();
    tokio::time::timeout_at(soon(), told.notified()).await.unwrap();
    assert!(session.changes() == 1 && !session.is_closed());

    // Servers that answer the listener with nothing, or nonsense, are used as before.
    for odd in [json("405 No", "{}"), json("200 OK", "{}"), sse(&["nonsense"]), Vec::new()] {
        let steps = greeting_with("mcp-session-id: s-1\r\n").into_iter();
        let steps = steps.chain([listed(vec![tool("weather")])]).collect();
        let heard = Step { bytes: odd, after: After::Close };
        let server = Server::listening(steps, heard).await;
        let opened = client().open(&address(&server), None, || (), soon()).await;
        listed_by(opened).await.unwrap();
    }
}

#[tokio::test]
async fn good_bye_is_said_to_who_knows_the_conversation() {
    let steps = greeting_with("mcp-session-id: s-1\r\n").into_iter();
    let server = Server::new(steps.chain([step(reply("200 OK", "", ""))]).collect()).await;
    let session = client().open(&address(&server), None, || (), soon()).await.unwrap();
    session.close().await;
    let requests = server.requests.lock().unwrap().clone();
    assert!(requests.last().unwrap().starts_with("DELETE /"), "{requests:?}");
    assert!(requests.last().unwrap().contains("mcp-session-id: s-1"), "{requests:?}");
}
