//! What a streamed answer says beside the text of choice 0, put together from its chunks.

use std::collections::{BTreeMap, HashMap};

use domain::conversation::StreamEvent;
use serde_json::{Map, Value, json};

use crate::leaves::{self, Place};
use crate::output::Said;

/// The strings of the chunks so far.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    strings: Vec<(Place, String)>,
    /// Where each string is that came whole: most come with every chunk again.
    whole: HashMap<String, usize>,
    /// The tool calls of choice 0 by their index, and what its provider wants back with them.
    calls: BTreeMap<u64, Map<String, Value>>,
    state: Option<Value>,
}

impl Fragments {
    /// Takes in what a chunk says. Returns how many bytes that is, beside the text of choice 0.
    pub(super) fn add(&mut self, chunk: &mut Map<String, Value>) -> usize {
        self.add_calls(chunk);
        let mut more = 0;
        leaves::each(chunk, |place, text| {
            if !place.is_fragment() {
                if !self.whole.contains_key(text) {
                    more += text.len();
                    self.whole.insert(text.clone(), self.strings.len());
                    self.strings.push((place.clone(), text.clone()));
                }
                return;
            }
            if place.is_text() {
                return;
            }
            more += text.len();
            match self.strings.iter_mut().find(|(known, _)| known == place) {
                Some((_, said)) => said.push_str(text),
                None => self.strings.push((place.clone(), text.clone())),
            }
        });
        more
    }

    fn add_calls(&mut self, chunk: &Map<String, Value>) {
        let choices = chunk.get("choices").and_then(Value::as_array);
        let first = |choice: &&Value| choice.get("index").is_none_or(|index| index == 0);
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else { return };
        let Some(delta) = choice.get("delta") else { return };
        if let Some(state) = delta.get(leaves::STATE) {
            self.state = Some(state.clone());
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
            match self.calls.get_mut(&index) {
                None => drop(self.calls.insert(index, whole_call(call))),
                Some(known) => {
                    let more = call.pointer("/function/arguments").and_then(Value::as_str);
                    if let Some(Value::String(said)) =
                        known.get_mut("function").and_then(|function| function.get_mut("arguments"))
                    {
                        said.push_str(more.unwrap_or_default());
                    }
                }
            }
        }
    }

    /// The message of choice 0, where it calls tools.
    pub(super) fn message(&self, text: &str) -> Option<Value> {
        if self.calls.is_empty() {
            return None;
        }
        let content = if text.is_empty() { Value::Null } else { text.into() };
        let calls: Vec<&Map<String, Value>> = self.calls.values().collect();
        let mut message = json!({"role": "assistant", "content": content, "tool_calls": calls});
        if let Some(state) = &self.state {
            message[leaves::STATE] = state.clone();
        }
        Some(message)
    }

    /// Everything, after the text of choice 0.
    pub(super) fn said<'a>(&'a self, text: &'a str) -> Vec<Said<'a>> {
        let others = self.strings.iter();
        let others = others
            .map(|(place, text)| Said { text: text.as_str().into(), is_json: place.is_json() });
        let mut said: Vec<Said<'_>> = std::iter::once(Said::text(text)).chain(others).collect();
        if let Some(state) = &self.state {
            leaves::of_state(state, &mut |text| said.push(Said::text(text)));
        }
        said
    }

    /// What puts these strings in the place of what [`Fragments::said`] has given.
    pub(super) fn replaced_by(self, new: Vec<Option<String>>) -> Replacement {
        let mut new = new.into_iter();
        let text = new.next().flatten().map(New::of);
        let mut changed = Vec::from_iter(text.is_some().then_some(Some(0)));
        let mut fragments = Vec::new();
        let mut by_index: HashMap<usize, String> = HashMap::new();
        for (index, ((place, _), new)) in self.strings.into_iter().zip(new).enumerate() {
            let Some(new) = new else { continue };
            changed.push(place.choice());
            if place.is_fragment() {
                fragments.push((place, New::of(new)));
            } else {
                by_index.insert(index, new);
            }
        }
        let whole = self.whole.into_iter();
        let whole = whole.filter_map(|(old, index)| Some((old, by_index.remove(&index)?)));
        Replacement { text, fragments, whole: whole.collect(), changed }
    }
}

/// A call as its first piece has it, in the form of a whole answer.
fn whole_call(piece: &Value) -> Map<String, Value> {
    let text = |path: &str| piece.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let function =
        json!({"name": text("/function/name"), "arguments": text("/function/arguments")});
    Map::from_iter([
        ("id".to_owned(), text("/id").into()),
        ("type".to_owned(), "function".into()),
        ("function".to_owned(), function),
    ])
}

/// What takes the place of strings of an answer whose chunks have all come.
#[derive(Debug)]
pub(super) struct Replacement {
    text: Option<New>,
    fragments: Vec<(Place, New)>,
    whole: HashMap<String, String>,
    /// The choices of what is replaced.
    changed: Vec<Option<u64>>,
}

/// A string that was in pieces: the first piece becomes all of it, the others become nothing.
#[derive(Debug)]
struct New {
    rest: String,
}

impl New {
    fn of(text: String) -> Self {
        Self { rest: text }
    }

    fn next(&mut self) -> String {
        std::mem::take(&mut self.rest)
    }
}

impl Replacement {
    /// The whole text of choice 0, if it is replaced.
    pub(super) fn text(&self) -> Option<String> {
        self.text.as_ref().map(|new| new.rest.clone())
    }

    /// Replaces what an event says; in the order in which the events came.
    pub(super) fn apply(&mut self, event: &mut StreamEvent) {
        match event {
            StreamEvent::Text(text) => {
                if let Some(new) = &mut self.text {
                    *text = new.next();
                }
            }
            StreamEvent::Native { chunk, .. } => {
                leaves::each(chunk, |place, text| {
                    if let Some(new) = self.replaced(place, text) {
                        *text = new;
                    }
                });
                // They need not come with the text that they tell.
                leaves::drop_logprobs(chunk, &self.changed);
                leaves::drop_state(chunk);
            }
            _ => {}
        }
    }

    fn replaced(&mut self, place: &Place, text: &str) -> Option<String> {
        if !place.is_fragment() {
            return self.whole.get(text).cloned();
        }
        if place.is_text() {
            return self.text.as_mut().map(New::next);
        }
        self.fragments.iter_mut().find(|(known, _)| known == place).map(|(_, new)| new.next())
    }
}
