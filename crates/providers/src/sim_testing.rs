//! Drives the simulator of all providers, which judges each request with the vendor's own SDK types.
//! `SLUICE_TEST_SIM` is the URL of its control port; without it, the tests that use it do nothing, or
//! fail if `SLUICE_TEST_ALL` requires all tests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use domain::conversation::{Body, Message, Prompt, Reply, Role, StreamEvent};
use domain::model::{Model, Provider};
use domain::secret::Secret;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::adapter::request::Attempt;
use crate::client::Client;
use crate::error::Error;
use crate::net::egress::Egress;
use crate::testing;

/// The simulator, as one provider.
pub(crate) struct Sim {
    host: String,
    port: u16,
    provider: &'static str,
    pub(crate) client: Client,
}

/// A streamed answer, assembled.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    /// The pieces other than plain text, as one assistant message.
    pub(crate) message: Map<String, Value>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    pub(crate) error: Option<Error>,
}

impl Sim {
    /// Returns the simulator; `None` if there is none.
    pub(crate) fn find(provider: Provider) -> Option<Self> {
        let url = std::env::var("SLUICE_TEST_SIM").ok();
        let all = std::env::var_os("SLUICE_TEST_ALL").is_some();
        assert!(url.is_some() || !all, "SLUICE_TEST_ALL is set, and SLUICE_TEST_SIM is not");
        let url = url?;
        let (host, port) = url.trim_start_matches("http://").split_once(':').unwrap();
        let egress = Egress { allow: vec![host.to_owned()], ..Egress::default() };
        Some(Self {
            host: host.to_owned(),
            port: port.trim_end_matches('/').parse().unwrap(),
            provider: provider.as_str(),
            client: Client::new(egress).unwrap(),
        })
    }

    /// Returns the address that replaces the provider's own; the control port is followed by a port for
    /// each, in this order.
    pub(crate) fn base_url(&self) -> String {
        let order = ["openai", "anthropic", "gemini", "bedrock", "azure", "internal"];
        let place = order.iter().position(|name| *name == self.provider).unwrap();
        format!("http://{}:{}", self.host, self.port + 1 + place as u16)
    }

    pub(crate) fn model(&self, name: &str, key: &str, base_url: &str) -> Model {
        let provider = Provider::parse(self.provider).unwrap();
        Model {
            identifier: name.to_owned(),
            api_key: Some(Secret::new(key.to_owned())),
            ..testing::model(provider, Some(base_url))
        }
    }

    /// Sets the provider's next answers.
    pub(crate) fn script(&self, answers: Value) {
        let scripts = json!({"scripts": [{"provider": self.provider, "answers": answers}]});
        self.control("POST", "/_script", &scripts.to_string());
    }

    /// Returns all violations of the vendors' formats.
    pub(crate) fn violations(&self) -> Value {
        let path = format!("/_violations?provider={}", self.provider);
        self.control("GET", &path, "")["violations"].take()
    }

    /// Sends a control request to the simulator: to read what it received, or to clear it.
    pub(crate) fn control(&self, method: &str, path: &str, body: &str) -> Value {
        let mut socket = TcpStream::connect((&*self.host, self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n\
            content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        socket.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    pub(crate) async fn complete(&self, model: &Model, prompt: &Prompt) -> Result<Reply, Error> {
        self.client.complete(attempt(model, prompt)).await
    }

    pub(crate) async fn stream(&self, model: &Model, prompt: &Prompt) -> Result<Heard, Error> {
        let mut stream = self.client.stream(attempt(model, prompt)).await?;
        let mut heard = Heard::default();
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(events) => events.into_iter().for_each(|event| heard.take(event)),
                Err(error) => heard.error = Some(error),
            }
        }
        Ok(heard)
    }

    /// Tests a round of parallel calls, one that follows from it, and the last answer, whole and in
    /// small pieces of a stream. The answers are those of the script.
    pub(crate) async fn chain(&self, model: &Model, params: &Value, rounds: &Value) {
        for streamed in [false, true] {
            let mut rounds = rounds.clone();
            for round in rounds.as_array_mut().unwrap() {
                round["split_bytes"] = json!(7);
            }
            let count = rounds.as_array().unwrap().len();
            self.script(rounds);
            let mut prompt = prompt(&[("system", "Be brief."), ("user", "Compare.")], params);
            for round in 1..=count {
                let (text, extra, finish) = if streamed {
                    let heard = self.stream(model, &prompt).await.unwrap();
                    assert!(heard.error.is_none(), "{:?}", heard.error);
                    (heard.text, heard.message, heard.finish)
                } else {
                    let reply = self.complete(model, &prompt).await.unwrap();
                    (reply.text.clone(), assistant(&reply), reply.finish)
                };
                if round == count {
                    assert_eq!((text.as_str(), finish), ("It is so.", Some(FinishReason::Stop)));
                    break;
                }
                assert_eq!(finish, Some(FinishReason::ToolCalls), "{extra:?}");
                let calls = extra["tool_calls"].as_array().unwrap().clone();
                let body = if text.is_empty() { Body::Empty } else { Body::Text(text) };
                prompt.messages.push(Message { role: Role::Assistant, body, extra });
                for call in calls {
                    let mut result = message("tool", "18 C");
                    result.extra.insert("tool_call_id".to_owned(), call["id"].clone());
                    prompt.messages.push(result);
                }
            }
            assert_eq!(self.violations(), json!([]));
        }
    }
}

impl Heard {
    fn take(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Text(text) => self.text.push_str(&text),
            StreamEvent::Finish(finish) => self.finish = Some(finish),
            StreamEvent::Usage(usage) => self.usage = Some(usage),
            StreamEvent::Model(_)
            | StreamEvent::Prompt(_)
            | StreamEvent::Source(_)
            | StreamEvent::Stored(_)
            | StreamEvent::Done => {}
            StreamEvent::Native { text, chunk } => {
                self.text.push_str(&text);
                let delta = chunk["choices"][0]["delta"].as_object().cloned().unwrap_or_default();
                for (name, value) in delta {
                    match name.as_str() {
                        "tool_calls" => self.calls(value),
                        "role" | "content" | "refusal" => {}
                        _ => drop(self.message.insert(name, value)),
                    }
                }
            }
        }
    }

    fn calls(&mut self, pieces: Value) {
        let Value::Array(pieces) = pieces else { return };
        let all = self.message.entry("tool_calls").or_insert_with(|| json!([]));
        let all = all.as_array_mut().unwrap();
        for mut piece in pieces {
            let index = piece["index"].as_u64().unwrap() as usize;
            match all.get_mut(index) {
                Some(call) => {
                    let arguments = &mut call["function"]["arguments"];
                    let more = piece["function"]["arguments"].as_str().unwrap();
                    *arguments = (arguments.as_str().unwrap().to_owned() + more).into();
                }
                None => {
                    piece.as_object_mut().unwrap().shift_remove("index");
                    all.push(piece);
                }
            }
        }
    }
}

/// Returns the members of an answer that the next request repeats, beside its text.
fn assistant(reply: &Reply) -> Map<String, Value> {
    let Some(native) = &reply.native else { return Map::new() };
    let mut message = native["choices"][0]["message"].as_object().unwrap().clone();
    message.retain(|name, _| matches!(&**name, "tool_calls" | "provider_state"));
    message
}

fn attempt<'a>(model: &'a Model, prompt: &'a Prompt) -> Attempt<'a> {
    let deadline = Instant::now() + Duration::from_secs(30);
    Attempt { deadline, ..testing::attempt(model, prompt) }
}

pub(crate) fn message(role: &str, text: &str) -> Message {
    let role = Role::parse(role).unwrap();
    Message { role, body: Body::Text(text.to_owned()), extra: Map::new() }
}

pub(crate) fn prompt(messages: &[(&str, &str)], params: &Value) -> Prompt {
    Prompt {
        messages: messages.iter().map(|(role, text)| message(role, text)).collect(),
        params: params.as_object().unwrap().clone(),
        ..Prompt::default()
    }
}

/// Two tools in the function-calling form.
pub(crate) fn tools() -> Value {
    json!([
        {"type": "function", "function": {"name": "weather", "description": "The weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                "required": ["city"]}}},
        {"type": "function", "function": {"name": "now"}},
    ])
}

/// Rounds for [`Sim::chain`]: two calls at once, one without arguments, one that follows from them.
pub(crate) fn rounds() -> Value {
    json!([
        {"text": "I look.", "tool_calls": [
            {"name": "weather", "arguments": {"city": "Rome é"}},
            {"name": "now", "arguments": {}}]},
        {"tool_calls": [{"name": "now", "arguments": {}}]},
        {"text": "It is so."},
    ])
}
