//! The answer of a stream beside the text of choice 0, put together from its chunks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::safety::answer_strings;
use crate::safety::json_path::JsonPath;
use crate::safety::output_check::AnswerString;
use crate::streaming::by_path::ByPath;

/// The most strings of a stream: the texts, reasoning and tool calls of all choices.
pub(super) const MOST_STRINGS: usize = 16_384;

/// The most bytes of a streamed answer: all of it is kept for the record. Four times the longest
/// answer of any model.
pub(super) const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of the paths of all strings of a stream, and of one of them: its fields and items.
const MAX_WAY_BYTES: usize = 32 * 1024 * 1024;
const LONGEST_WAY: usize = 16 * 1024;

/// The most chunks with calls of tools that are held until the end of a stream that is judged: each is a
/// tree of kilobytes.
pub(super) const MAX_HELD_CHUNKS: usize = 32_768;

/// The most bytes of these chunks together: more than `MAX_HELD_CHUNKS` ordinary ones take.
pub(super) const MAX_HELD_BYTES: usize = 96 * 1024 * 1024;

/// The reason why a stream is left before its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMany {
    #[error(
        "The provider's answer has more than the {MOST_STRINGS} strings that a stream may have"
    )]
    Strings,
    #[error(
        "The provider's answer is longer than the {MAX_OUTPUT_BYTES} bytes that a stream may have"
    )]
    Bytes,
    #[error(
        "The provider's answer has its calls of tools in more than the {MAX_HELD_CHUNKS} pieces that are held"
    )]
    Chunks,
    #[error("The provider's answer has strings under longer names than a stream may have")]
    Ways,
    #[error(
        "The provider's answer has calls of tools that take more than the {MAX_HELD_BYTES} bytes that are held"
    )]
    Held,
}

/// The additions of a chunk beside the text of choice 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    /// Their bytes, with each call of a tool once.
    pub(super) bytes: usize,
    /// Whether a model has written any of them, piece by piece. Notes have other sources, and the
    /// provider's state repeats earlier text.
    pub(super) goes_on: bool,
}

/// The strings of the chunks so far.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    strings: ByPath<String>,
    /// The strings that came whole, and whether each is JSON: most come again with every chunk.
    whole: BTreeSet<(String, bool)>,
    /// The tool calls of choice 0 by their index, and the provider's state that belongs to them.
    calls: BTreeMap<u64, Map<String, Value>>,
    state: Option<Value>,
    /// The bytes of all strings.
    bytes: usize,
    /// The bytes of their paths.
    ways: usize,
}

impl Fragments {
    /// Adds the strings of a chunk.
    pub(super) fn add(&mut self, chunk: &mut Map<String, Value>) -> Result<Added, TooMany> {
        self.add_calls(chunk)?;
        let mut bounds = Ok(());
        for state in answer_strings::states(chunk) {
            answer_strings::of_state(state, &mut |text| {
                if bounds.is_ok() && self.whole.insert((text.to_owned(), false)) {
                    self.bytes += text.len();
                    bounds = self.check();
                }
            });
        }
        let mut added = Added::default();
        answer_strings::each(chunk, |place, text| {
            if bounds.is_err() || place.is_text() {
                return;
            }
            match self.add_string(place, text) {
                Ok(is_new) => {
                    added.goes_on |= place.is_fragment() && !place.is_note();
                    if is_new && !place.is_legacy() {
                        added.bytes += text.len();
                    }
                }
                Err(error) => bounds = Err(error),
            }
        });
        bounds.map(|()| added)
    }

    /// Adds a string, or a piece of one, unless it was added before. Bounded before anything of it
    /// is kept: one chunk may have very many, each with a long path.
    fn add_string(&mut self, place: &JsonPath, text: &str) -> Result<bool, TooMany> {
        if place.is_fragment() {
            let way = place.bytes();
            if way > LONGEST_WAY {
                return Err(TooMany::Ways);
            }
            let (known, ways) = (self.strings.len(), self.ways + way);
            self.strings.at(place, String::new).1.push_str(text);
            if self.strings.len() > known {
                self.ways = ways;
            }
        } else if !self.whole.insert((text.to_owned(), place.is_json())) {
            return Ok(false);
        }
        self.bytes += text.len();
        self.check().map(|()| true)
    }

    fn check(&self) -> Result<(), TooMany> {
        if self.strings.len() + self.whole.len() > MOST_STRINGS {
            return Err(TooMany::Strings);
        }
        if self.bytes > MAX_OUTPUT_BYTES {
            return Err(TooMany::Bytes);
        }
        if self.ways > MAX_WAY_BYTES { Err(TooMany::Ways) } else { Ok(()) }
    }

    fn add_calls(&mut self, chunk: &Map<String, Value>) -> Result<(), TooMany> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        let first = |choice: &&Value| choice.get("index").is_none_or(|index| index == 0);
        let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) else {
            return Ok(());
        };
        let Some(delta) = choice.get("delta") else { return Ok(()) };
        if let Some(state) = delta.get(answer_strings::STATE) {
            self.state = Some(state.clone());
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
            let is_full = self.calls.len() >= MOST_STRINGS;
            match self.calls.get_mut(&index) {
                None if is_full => return Err(TooMany::Strings),
                None => drop(self.calls.insert(index, whole_call(call))),
                Some(known) => {
                    // A name may come after the first arguments.
                    for field in ["name", "arguments"] {
                        let more = call["function"][field].as_str().unwrap_or_default();
                        let function = known.get_mut("function");
                        let said = function.and_then(|function| function.get_mut(field));
                        if let Some(Value::String(said)) = said {
                            said.push_str(more);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The message of choice 0, if it calls tools.
    pub(super) fn message(&self, text: &str) -> Option<Value> {
        message(text, &self.calls, self.state.as_ref())
    }

    /// The message of choice 0 with the strings of [`Fragments::said`] replaced, and without the
    /// provider's state: that repeats the replaced text.
    pub(super) fn redacted_message(&self, text: &str, new: &[Option<String>]) -> Option<Value> {
        let mut calls = self.calls.clone();
        for ((place, old), new) in self.strings.iter().zip(new.iter().skip(1)) {
            let (Some(index), Some(new)) = (place.tool_call(), new) else { continue };
            let field = if place.is_json() { "arguments" } else { "name" };
            let said = calls.get_mut(&index)?.get_mut("function")?.get_mut(field)?;
            // A string that cannot be replaced is not kept.
            let whole = said.as_str().filter(|said| said.contains(old.as_str()))?;
            *said = whole.replacen(old.as_str(), new, 1).into();
        }
        message(text, &calls, None)
    }

    /// All strings, after the text of choice 0.
    pub(super) fn said<'a>(&'a self, text: &'a str) -> Vec<AnswerString<'a>> {
        let strings = self.strings.iter().map(|(place, text)| (text, place.is_json()));
        let whole = self.whole.iter().map(|(text, is_json)| (text, *is_json));
        let others = strings
            .chain(whole)
            .map(|(text, is_json)| AnswerString { text: text.as_str().into(), is_json });
        std::iter::once(AnswerString::text(text)).chain(others).collect()
    }

    /// The replacement of the strings of [`Fragments::said`] by these.
    pub(super) fn replaced_by(&self, new: &[Option<String>]) -> Replacement {
        let new = self.strings.iter().zip(new.iter().skip(1));
        Replacement(
            new.filter_map(|((place, _), new)| Some((place.clone(), new.clone()?))).collect(),
        )
    }
}

/// The message of choice 0, if it calls tools, with its provider's state.
fn message(
    text: &str,
    calls: &BTreeMap<u64, Map<String, Value>>,
    state: Option<&Value>,
) -> Option<Value> {
    if calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    let calls: Vec<&Map<String, Value>> = calls.values().collect();
    let mut message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    if let Some(state) = state {
        message[answer_strings::STATE] = state.clone();
    }
    Some(message)
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

/// The replacement of strings of an answer whose chunks have all come: the first piece of a string
/// becomes all of it, the others become empty.
#[derive(Debug)]
pub(super) struct Replacement(HashMap<JsonPath, String>);

impl Replacement {
    /// Replaces the strings of a chunk; the chunks follow in the order in which they came. The
    /// provider's state is left out: it repeats the replaced text.
    pub(super) fn apply(&mut self, chunk: &mut Map<String, Value>) {
        answer_strings::each(chunk, |place, text| {
            if let Some(new) = self.0.get_mut(place) {
                *text = std::mem::take(new);
            }
        });
        answer_strings::drop_state(chunk);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chunk(choice: u64, delta: &Value, end: Option<&str>) -> Map<String, Value> {
        let choice = json!({"index": choice, "delta": delta, "finish_reason": end});
        Map::from_iter([("choices".to_owned(), json!([choice]))])
    }

    fn call(name: Option<&str>, arguments: &str) -> Value {
        let mut call = json!({"index": 3, "function": {"arguments": arguments}});
        if let Some(name) = name {
            (call["id"], call["function"]["name"]) = ("a".into(), name.into());
        }
        json!({"content": "Hm", "tool_calls": [call]})
    }

    #[test]
    fn calls_leave_and_are_kept_as_they_were_redacted() {
        let (mut fragments, mut parted) = (Fragments::default(), BTreeSet::new());
        let mut chunks = vec![
            chunk(0, &call(Some("push"), "{\"n\": 1, \"token\": \"ab"), None),
            chunk(0, &call(None, "cd\"}"), None),
            chunk(0, &json!({"provider_state": {"thinking": "abcd"}}), Some("tool_calls")),
        ];
        let mut held = Vec::new();
        for chunk in &mut chunks {
            fragments.add(chunk).unwrap();
            held.extend(answer_strings::part_whole(chunk, &mut parted));
        }
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"content": "Hm"}));
        let said: Vec<String> =
            fragments.said("HmHm").iter().map(|said| said.text.to_string()).collect();
        assert_eq!(said, ["HmHm", "{\"n\": 1, \"token\": \"abcd\"}", "push", "abcd"]);
        let new = [None, Some("{\"n\": 1, \"token\": \"[X]\"}".to_owned()), None, None];
        let mut replacement = fragments.replaced_by(&new);
        for chunk in &mut held {
            replacement.apply(chunk);
        }
        let arguments = |chunk: &Map<String, Value>| {
            let call = &chunk["choices"][0]["delta"]["tool_calls"][0];
            call["function"]["arguments"].as_str().map(str::to_owned)
        };
        let left: Vec<_> = held.iter().map(arguments).collect();
        assert_eq!(left, [new[1].clone(), Some(String::new()), None]);
        assert_eq!(held[2]["choices"][0]["delta"], json!({}));
        let message = fragments.redacted_message("HmHm", &new).unwrap();
        let function = json!({"name": "push", "arguments": new[1]});
        let call = json!({"id": "a", "type": "function", "function": function});
        let kept = json!({"role": "assistant", "content": "HmHm", "tool_calls": [call]});
        assert_eq!(message, kept);
    }

    #[test]
    fn what_the_providers_of_all_choices_want_back_is_judged() {
        let mut fragments = Fragments::default();
        for (choice, thought) in [(0, "one"), (1, "two"), (0, "three")] {
            let state = json!({"provider_state": {"thinking": thought}});
            fragments.add(&mut chunk(choice, &state, None)).unwrap();
        }
        let said = fragments.said("");
        for thought in ["one", "two", "three"] {
            assert!(said.iter().any(|said| said.text == thought), "{thought}");
        }
    }

    /// The bytes kept for each string include none that a provider can make long.
    #[test]
    fn the_ways_to_strings_are_bounded() {
        let long = "n".repeat(500_000);
        let strings: Vec<_> = (0..5_000).map(|_| json!("x")).collect();
        let kinds: Vec<_> = (0..5_000).map(|_| json!({"text": "x"})).collect();
        for delta in [
            json!({ long.as_str(): strings }),
            json!({"a": [{"type": long.as_str(), "index": [long.as_str()], "b": kinds}]}),
        ] {
            let taken = allocation_counter::measure(|| {
                let mut chunk = chunk(0, &delta, None);
                let _ = Fragments::default().add(&mut chunk);
            });
            assert!(taken.bytes_max < 20_000_000, "{}", taken.bytes_max);
        }
        let mut many = chunk(0, &json!({ long.as_str(): strings }), None);
        assert_eq!(Fragments::default().add(&mut many), Err(TooMany::Ways));
        let calls: Vec<_> = (0..100_000).map(|index| json!({"index": index})).collect();
        let mut many = chunk(0, &json!({"tool_calls": calls}), None);
        assert_eq!(Fragments::default().add(&mut many), Err(TooMany::Strings));
    }

    #[test]
    fn a_name_may_come_after_the_first_piece() {
        let mut fragments = Fragments::default();
        let first =
            json!({"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{"}}]});
        let second =
            json!({"tool_calls": [{"index": 0, "function": {"name": "push", "arguments": "}"}}]});
        for delta in [first, second] {
            fragments.add(&mut chunk(0, &delta, None)).unwrap();
        }
        let message = fragments.message("").unwrap();
        let function = json!({"name": "push", "arguments": "{}"});
        assert_eq!(message["tool_calls"][0]["function"], function);
    }

    #[test]
    fn a_further_choice_ends_after_its_calls() {
        let mut parted = BTreeSet::new();
        let mut other = chunk(1, &json!({"content": "Done"}), Some("stop"));
        assert!(answer_strings::part_whole(&mut other, &mut parted).is_none());
        let mut calls = chunk(2, &call(Some("push"), "{}"), None);
        assert!(answer_strings::part_whole(&mut calls, &mut parted).is_some());
        let mut end = chunk(2, &json!({}), Some("tool_calls"));
        let held = answer_strings::part_whole(&mut end, &mut parted).unwrap();
        assert_eq!(held["choices"][0]["finish_reason"], "tool_calls");
        assert!(end["choices"][0]["finish_reason"].is_null());
    }
}
