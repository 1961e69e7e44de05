//! Conversations for tests: the possible answers of a model, whole and in pieces.

use std::collections::VecDeque;

use domain::conversation::{Message, Role};
use domain::ids::{StepId, TraceId};
use domain::step::FinishReason;
use domain::time::Timestamp;
use domain::usage::Usage;
use gateway::{ChatReply, Mode, Piece, Refusal, Started};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::inference::canonical::answer::Call;
use crate::inference::canonical::prompt::{
    States, assistant, call, image_part, plain, result, text_part,
};

/// The step of every answer.
pub const STEP: StepId = StepId(7);
/// The usage of every answer.
pub const USED: Usage = Usage {
    prompt: 30,
    cached: 10,
    cache_write: 5,
    cache_write_1h: 2,
    completion: 9,
    reasoning: 4,
    extras: domain::fees::Extras::NONE,
    open: domain::usage::Open { prompt: false, completion: false, detail: false, cache_write: 0 },
};

/// The answer of a model.
#[derive(Clone, Debug, Default)]
pub struct Speech {
    pub thought: String,
    pub text: String,
    pub refusal: String,
    pub calls: Vec<Call>,
    pub state: Option<Value>,
}

/// The trace of every answer.
pub fn trace() -> TraceId {
    TraceId::first_at(Timestamp::default())
}

/// A question, the model's answer to it, and the results of its tools.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub asked: Vec<Asked>,
    pub speech: Speech,
    pub results: Vec<String>,
}

/// A part of a question.
#[derive(Clone, Debug)]
pub enum Asked {
    Text(String),
    Image(String),
}

/// Text with characters that have a meaning in JSON and in streams.
pub fn words() -> impl Strategy<Value = String> {
    "[a-zé\"\\\\{}\\[\\] \n🙂]{0,12}"
}

/// Any answer that a model may give, at least a text or a call.
pub fn speech() -> impl Strategy<Value = Speech> {
    let arguments = prop::collection::btree_map("[a-z]{1,4}", words(), 0..3);
    let calls = prop::collection::vec(("[a-z_]{1,6}", arguments), 0..4);
    let state = prop::option::of(words().prop_map(|text| {
        let content = json!([{"type": "thinking", "thinking": text, "signature": "s"}]);
        json!({"provider": "anthropic", "model": "m", "content": content})
    }));
    let all = (words(), words(), calls, state);
    all.prop_map(|(thought, text, calls, state)| {
        let calls = calls.into_iter().enumerate();
        let calls: Vec<Call> = calls
            .map(|(index, (name, arguments))| Call {
                id: format!("call_{index}"),
                name,
                arguments: json!(arguments).to_string(),
            })
            .collect();
        let text = if calls.is_empty() && text.is_empty() { "said".to_owned() } else { text };
        Speech { thought, text, refusal: String::new(), calls, state }
    })
}

/// A conversation that ends with a question.
pub fn conversation() -> impl Strategy<Value = Vec<Exchange>> {
    let asked = prop_oneof![
        words().prop_map(Asked::Text),
        "[A-Za-z0-9]{4}".prop_map(|data| Asked::Image(format!("data:image/png;base64,{data}"))),
    ];
    let asked = prop::collection::vec(asked, 1..4);
    let results = prop::collection::vec(words(), 4);
    let exchange = (asked, speech(), results).prop_map(|(asked, speech, results)| Exchange {
        asked,
        speech,
        results,
    });
    prop::collection::vec(exchange, 1..5)
}

impl Speech {
    /// As a message of a canonical prompt.
    pub fn message(&self) -> Message {
        let parts = [&self.text, &self.refusal];
        let parts = parts.into_iter().filter(|text| !text.is_empty()).cloned().map(text_part);
        let calls = self.calls.iter();
        let calls = calls.map(|said| call(&said.id, &said.name, &said.arguments));
        let state = self.state.as_ref().and_then(|state| States::default().of(&state.to_string()));
        assistant(parts.collect(), calls.collect(), state)
    }

    /// As a whole answer.
    pub fn reply(&self, finish: FinishReason) -> ChatReply {
        let mut message = Map::new();
        message.insert("content".to_owned(), json!(self.text));
        message.insert("reasoning_content".to_owned(), json!(self.thought));
        message.insert("refusal".to_owned(), json!(self.refusal));
        let calls = self.calls.iter();
        let calls = calls.map(|said| call(&said.id, &said.name, &said.arguments));
        message.insert("tool_calls".to_owned(), calls.collect());
        if let Some(state) = &self.state {
            message.insert("provider_state".to_owned(), state.clone());
        }
        let native = json!({"choices": [{"index": 0, "message": message}]});
        ChatReply {
            step: STEP,
            trace: trace(),
            model: "m".to_owned(),
            created: Timestamp(1_000_000),
            text: self.text.clone(),
            finish,
            cost: domain::money::Usd::ZERO,
            usage: USED,
            native: native.as_object().cloned(),
            blocked: None,
            dropped: Vec::new(),
            mode: Mode::Translated,
            source: None,
        }
    }

    /// Pieces of the lengths in `sizes`, in characters and repeated, with the pieces of its calls
    /// alternating.
    pub fn pieces(&self, sizes: &[usize], finish: FinishReason) -> Vec<Piece> {
        let mut sizes = sizes.iter().copied().cycle();
        let mut size = move || sizes.next().unwrap_or(1).max(1);
        let mut pieces = Vec::new();
        for thought in cut(&self.thought, &mut size) {
            pieces.push(native(json!({"reasoning_content": thought})));
        }
        for text in cut(&self.text, &mut size) {
            pieces.push(Piece::Text(text));
        }
        for refusal in cut(&self.refusal, &mut size) {
            pieces.push(native(json!({"refusal": refusal})));
        }
        let mut rest = Vec::new();
        for (index, said) in self.calls.iter().enumerate() {
            let begin = json!({"index": index, "id": said.id,
                "function": {"name": said.name, "arguments": ""}});
            pieces.push(native(json!({"tool_calls": [begin]})));
            let arguments = cut(&said.arguments, &mut size);
            rest.push(arguments.into_iter().collect::<VecDeque<_>>());
        }
        while rest.iter().any(|arguments| !arguments.is_empty()) {
            for (index, arguments) in rest.iter_mut().enumerate() {
                for text in arguments.drain(..arguments.len().min(1 + size() % 2)) {
                    let more = json!({"index": index, "function": {"arguments": text}});
                    pieces.push(native(json!({"tool_calls": [more]})));
                }
            }
        }
        if let Some(state) = &self.state {
            pieces.push(native(json!({"provider_state": state})));
        }
        pieces.push(Piece::End { finish, usage: USED, blocked: None });
        pieces
    }
}

impl Exchange {
    /// As messages of a canonical prompt.
    pub fn messages(&self) -> Vec<Message> {
        let asked = self.asked.iter().cloned().map(|asked| match asked {
            Asked::Text(text) => text_part(text),
            Asked::Image(url) => image_part(url, None),
        });
        let mut messages = vec![plain(Role::User, asked.collect()), self.speech.message()];
        for (said, text) in self.speech.calls.iter().zip(&self.results) {
            messages.push(result(said.id.clone(), vec![text_part(text.clone())]).0);
        }
        messages
    }
}

/// The data that is available before the first piece.
pub fn started() -> Started {
    Started {
        step: STEP,
        trace: trace(),
        model: "m".to_owned(),
        created: Timestamp(1_000_000),
        dropped: Vec::new(),
        mode: Mode::Translated,
        has_sources: false,
    }
}

/// A refusal without a finding.
pub fn refusal(reason: &str) -> Refusal {
    Refusal { reason: reason.to_owned(), step: STEP, trace: trace(), cause: None }
}

/// A chunk with content for choice 0.
pub fn native(delta: Value) -> Piece {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    Piece::Native(chunk.as_object().cloned().unwrap_or_default())
}

/// The events of a stream: their names and data.
pub fn events(stream: &str) -> Vec<(String, Value)> {
    let events = stream.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').unwrap();
        let (name, data) =
            (name.strip_prefix("event: ").unwrap(), data.strip_prefix("data: ").unwrap());
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        (name.to_owned(), data)
    });
    events.collect()
}

fn cut(text: &str, size: &mut impl FnMut() -> usize) -> Vec<String> {
    let mut rest: Vec<char> = text.chars().collect();
    let mut cuts = Vec::new();
    while !rest.is_empty() {
        cuts.push(rest.drain(..size().min(rest.len())).collect());
    }
    cuts
}
