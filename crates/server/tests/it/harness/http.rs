//! Speaking HTTP and judging what comes back.

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

/// Somebody who calls the API.
#[derive(Clone)]
pub struct Caller {
    pub client: Client,
    pub base: String,
    headers: Vec<(String, String)>,
}

/// An HTTP response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Caller {
    pub fn new(client: Client, base: String) -> Self {
        Self { client, base, headers: Vec::new() }
    }

    /// The same caller with a header on every request.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut caller = self.clone();
        caller.headers.retain(|(known, _)| known != name);
        caller.headers.push((name.to_owned(), value.to_owned()));
        caller
    }

    /// The value of a header that every request of theirs has.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{path}", self.base));
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Sends a request; `Err` when there was no answer.
    pub async fn try_send(request: RequestBuilder) -> Result<Reply, reqwest::Error> {
        let response = request.send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Reply { status, headers, text: response.text().await? })
    }

    pub async fn send(&self, method: &str, path: &str, body: Option<Vec<u8>>) -> Reply {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let sent = Self::try_send(request).await;
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error:?}"))
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, Some(body.to_string().into_bytes())).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, Some(body.to_string().into_bytes())).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, None).await
    }

    /// Opens a trace and gives its id.
    pub async fn trace(&self) -> String {
        let opened = self.post("/api/v1/traces", &serde_json::json!({})).await.ok(201);
        opened["id"].as_str().unwrap().to_owned()
    }

    /// Executes an input on a trace.
    pub async fn execute(&self, trace: &str, input: &str) -> Reply {
        let body = serde_json::json!({"trace_id": trace, "input": input});
        self.post("/api/v1/executions", &body).await
    }

    /// A trace with its steps.
    pub async fn detail(&self, trace: &str) -> Value {
        self.get(&format!("/api/v1/traces/{trace}")).await.ok(200)
    }
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|error| panic!("no JSON ({error}) in {} {}", self.status, self.text))
    }

    /// The body, when the status is this one.
    #[track_caller]
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Asserts status and whole body.
    #[track_caller]
    pub fn is(&self, status: u16, body: &Value) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(&self.json(), body);
    }

    /// Asserts a validation failure whose first sentence is this one.
    #[track_caller]
    pub fn invalid(&self, error: &str) {
        self.is(422, &serde_json::json!({"error": error, "errors": [error]}));
    }

    /// Asserts a status and a text in the error.
    #[track_caller]
    pub fn says(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        let error = self.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(part), "'{part}' is not in: {}", self.text);
    }

    /// Asserts a status and a text in the error of a vendor's form.
    #[track_caller]
    pub fn tells(&self, status: u16, part: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        let error = self.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(part), "'{part}' is not in: {}", self.text);
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The events of a stream: what stands after each `data: `.
    pub fn events(&self) -> Vec<String> {
        assert_eq!(self.status, 200, "{}", self.text);
        assert_eq!(self.header("content-type").split(';').next(), Some("text/event-stream"));
        let lines = self.text.lines().filter(|line| !line.is_empty());
        let data = |line: &str| line.strip_prefix("data: ").map(str::to_owned);
        lines.map(|line| data(line).unwrap_or_else(|| panic!("no event: {line}"))).collect()
    }

    /// The events of a stream whose events have names: the data, which holds the same names.
    pub fn named_events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text);
        assert_eq!(self.header("content-type").split(';').next(), Some("text/event-stream"));
        let events = self.text.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
            data
        });
        events.collect()
    }

    /// The chunks of a stream that ended with `[DONE]`.
    pub fn chunks(&self) -> Vec<Value> {
        let mut events = self.events();
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{}", self.text);
        events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

/// Encodes a text for a query string.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let spell = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(spell).collect()
}
