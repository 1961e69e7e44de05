//! Chunks of a streamed answer, taken apart.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::inference::canonical::answer::{taken_text, thought};
use crate::inference::canonical::block_sequencer::{BlockSequencer, ContentKind};
use crate::inference::canonical::prompt::State;

/// Reads the chunks of one answer.
#[derive(Debug, Default)]
pub(crate) struct ChunkReader {
    calls: Vec<Calling>,
    by_index: HashMap<u64, usize>,
}

/// A call as far as it is read.
#[derive(Debug)]
struct Calling {
    id: String,
    /// The arguments that came before the name; `None` once the name is there.
    early: Option<String>,
}

impl ChunkReader {
    /// Passes on the content of choice 0 in a chunk; these endpoints request no other choice.
    pub(crate) fn read(&mut self, mut chunk: Map<String, Value>, sequencer: &mut BlockSequencer) {
        let Some(Value::Array(choices)) = chunk.remove("choices") else { return };
        let first = choices
            .into_iter()
            .find(|choice| choice.get("index").is_none_or(|index| index.as_u64() == Some(0)));
        let Some(Value::Object(mut delta)) =
            first.and_then(|mut choice| choice.get_mut("delta").map(Value::take))
        else {
            return;
        };
        sequencer.text(ContentKind::Thought, thought(&mut delta));
        sequencer.text(ContentKind::Text, content(&mut delta));
        sequencer.text(ContentKind::Refusal, taken_text(&mut delta, "refusal"));
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            for call in calls {
                self.call(call, sequencer);
            }
        }
        if let Some(state) = State::taken(&mut delta) {
            sequencer.state(state);
        }
    }

    fn call(&mut self, call: Value, sequencer: &mut BlockSequencer) {
        let Value::Object(mut call) = call else { return };
        let id = taken_text(&mut call, "id");
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
        let mut function = match call.remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        let place = self.place(index, id);
        let (name, text) =
            (taken_text(&mut function, "name"), taken_text(&mut function, "arguments"));
        let calling = &mut self.calls[place];
        match &mut calling.early {
            None => sequencer.arguments(place, &text),
            Some(early) => {
                early.push_str(&text);
                if !name.is_empty() {
                    let text = calling.early.take().unwrap_or_default();
                    sequencer.call(place, calling.id.clone(), name);
                    sequencer.arguments(place, &text);
                }
            }
        }
    }

    /// The call that a piece belongs to; the first piece of each has its id.
    fn place(&mut self, index: u64, id: String) -> usize {
        *self.by_index.entry(index).or_insert_with(|| {
            self.calls.push(Calling { id, early: Some(String::new()) });
            self.calls.len() - 1
        })
    }
}

/// The text of a piece: a string, or parts that are text.
fn content(delta: &mut Map<String, Value>) -> String {
    match delta.remove("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()
        }
        _ => String::new(),
    }
}
