//! Conversations keep their endpoint and their model.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::harness::{Answer, Asked, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    a_conversation_keeps_its_endpoint,
    a_turn_is_sent_as_the_turn_before_it_and_more,
    a_conversation_keeps_the_model_that_has_it_cached,
);

const MODELS: &str = "/api/v1/projects/1/models";

/// A conversation with a trace of its own.
struct Conversation {
    trace: String,
    messages: Vec<Value>,
}

impl Conversation {
    async fn begin(key: &Caller, question: &str) -> Self {
        let trace = key.trace().await;
        Self { trace, messages: vec![json!({"role": "user", "content": question})] }
    }

    /// Sends the conversation, and adds the answer and the next question.
    async fn turn(&mut self, key: &Caller, model: Option<&str>, next: &str) {
        let mut ask = json!({"trace_id": self.trace, "messages": self.messages});
        if let Some(model) = model {
            ask["model"] = model.into();
        }
        let answer = key.post("/api/v1/chat/completions", &ask).await.ok(200);
        self.messages.push(answer["choices"][0]["message"].clone());
        self.messages.push(json!({"role": "user", "content": next}));
    }
}

async fn a_conversation_keeps_its_endpoint(backend: Backend) {
    const CONVERSATIONS: usize = 32;
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mut mocks = Vec::new();
    for _ in 0..3 {
        mocks.push(Mock::always(Answer::text("Fine.")).await);
    }
    let endpoints = |mocks: &[Mock]| -> Value {
        mocks.iter().map(|mock| json!({"base_url": mock.url()})).collect()
    };
    let config = json!({"endpoints": endpoints(&mocks)});
    let model = mocks[0].register_with(
        &owner,
        "m",
        json!({"is_public": false, "additional_config": config}),
    );
    let model = model.await;
    let mut all = Vec::new();
    for number in 0..CONVERSATIONS {
        all.push(Conversation::begin(&key, &format!("Question {number}?")).await);
    }
    // The endpoints that each conversation has come to since the last time, by its first message.
    let homes = |mocks: &[Mock]| {
        let mut homes: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, mock) in mocks.iter().enumerate() {
            for asked in mock.take() {
                let first = asked.body["messages"][0]["content"].as_str().unwrap();
                homes.entry(first.to_owned()).or_default().push(index);
            }
        }
        homes
    };
    for turn in 0..3 {
        for one in &mut all {
            one.turn(&key, Some("m"), &format!("And then, {turn}?")).await;
        }
    }
    let before = homes(&mocks);
    assert_eq!(before.len(), CONVERSATIONS);
    for (first, came) in &before {
        assert!(came.len() == 3 && came.iter().all(|home| *home == came[0]), "{first} {came:?}");
    }
    for index in 0..mocks.len() {
        assert!(before.values().any(|came| came[0] == index), "no conversation is at {index}");
    }
    // The first endpoint goes: the others have another place in the list now.
    let left = json!({"additional_config": {"endpoints": endpoints(&mocks[1..])}});
    let path = format!("{MODELS}/{}", model["id"]);
    owner.patch(&path, &json!({"model_definition": left})).await.ok(200);
    for one in &mut all {
        one.turn(&key, Some("m"), "And now?").await;
    }
    let after = homes(&mocks);
    for (first, came) in &before {
        let (came, now) = (came[0], after[first][0]);
        assert!(if came == 0 { now != 0 } else { now == came }, "{first}: from {came} to {now}");
    }
    // Independent questions of one trace are shared out as ever.
    let trace = key.trace().await;
    for _ in 0..20 {
        let ask = json!({"trace_id": trace, "model": "m", "input": "Hello."});
        key.post("/api/v1/runs", &ask).await.ok(200);
    }
    assert!(mocks[1..].iter().all(|mock| !mock.take().is_empty()));
}

async fn a_conversation_keeps_the_model_that_has_it_cached(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let message = json!({"role": "assistant", "content": "Fine."});
    let answer = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2000, "completion_tokens": 5, "total_tokens": 2005,
            "prompt_tokens_details": {"cached_tokens": 1900}}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    // A thousand tokens in the cache of the large model would cost 0.054 USD again.
    for (name, input, cached) in [("large", 0.06, 0.006), ("small", 0.03, 0.003)] {
        let fields = json!({"is_public": false, "input_cost_per_1k": input,
            "output_cost_per_1k": 0.1, "additional_config": {"cached_input_cost_per_1k": cached}});
        mock.register_with(&owner, name, fields).await;
    }
    let tiers = json!({"simple": "small", "complex": "large", "secure": "large"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let hard = format!("Prove that there are infinitely many primes. {}", "Step. ".repeat(1200));
    let mut one = Conversation::begin(&key, &hard).await;
    one.turn(&key, None, "Thanks!").await;
    one.turn(&key, None, "Thanks again!").await;
    let detail = key.detail(&one.trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let models: Vec<&Value> = steps.iter().map(|step| &step["model"]).collect();
    assert_eq!(models, ["large", "large"], "{detail}");
    let reasons = detail["routing_decision"]["reasons"].to_string();
    assert!(reasons.contains("kept: 2,000 cached tokens, 0.11 USD"), "{detail}");
    // A session with nothing in the cache goes where routing sends it, and up at once.
    let mut other = Conversation::begin(&key, "Thanks!").await;
    other.turn(&key, None, &hard).await;
    other.turn(&key, None, "Thanks!").await;
    let detail = key.detail(&other.trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let models: Vec<&Value> = steps.iter().map(|step| &step["model"]).collect();
    assert_eq!(models, ["small", "large"], "{detail}");
}

/// A provider that answers in the format of whoever asks.
async fn provider(owner: &Caller, vendor: &str) -> Mock {
    let answer = if vendor == "anthropic" {
        let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "mock",
            "content": [{"type": "text", "text": "Fine."}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
        Answer::json(200, &answer)
    } else {
        Answer::text("Fine.")
    };
    let mock = Mock::always(answer).await;
    mock.register_with(owner, vendor, json!({"is_public": false, "provider": vendor})).await;
    mock
}

/// The bytes of a request up to the bracket that closes its conversation, and those after it.
fn split(asked: &Asked) -> (&str, &str) {
    let messages = asked.body["messages"].to_string();
    let at = asked.text.find(&messages).expect("the conversation is in the request");
    asked.text.split_at(at + messages.len() - 1)
}

/// A vendor's prompt cache reads what a request has in common with an earlier one from its first byte.
async fn a_turn_is_sent_as_the_turn_before_it_and_more(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let description = "Commits. Sign as noreply@acme.org.";
    let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
    let function = json!({"name": "commit", "description": description, "parameters": schema});
    let tools = [
        (
            "openai",
            "/openai/v1/chat/completions",
            json!({"type": "function", "function": function}),
        ),
        (
            "anthropic",
            "/anthropic/v1/messages",
            json!({"name": "commit", "description": description, "input_schema": schema}),
        ),
    ];
    for (vendor, path, tool) in tools {
        let mock = provider(&owner, vendor).await;
        let mut messages = Vec::new();
        for said in ["Hello.", "Write to jane@acme.org.", "And to joe@acme.org.", "Thanks!"] {
            messages.push(json!({"role": "user", "content": said}));
            let ask = json!({"model": vendor, "max_tokens": 50, "messages": messages,
                "tools": [tool]});
            key.post(path, &ask).await.ok(200);
            messages.push(json!({"role": "assistant", "content": "Fine."}));
        }
        let sent = mock.take();
        assert_eq!(sent.len(), 4);
        for pair in sent.windows(2) {
            let [(earlier, after), (later, rest)] = [split(&pair[0]), split(&pair[1])];
            assert!(later.starts_with(earlier), "{later} does not begin as {earlier}");
            assert_eq!(after, rest, "what follows the conversation is the same");
            assert!(!pair[1].text.contains("@acme.org"), "{}", pair[1].text);
        }
    }
}
