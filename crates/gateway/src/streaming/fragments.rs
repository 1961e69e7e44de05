//! The answer of a stream beside the text of choice 0, put together from its chunks.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::event_template::EventTemplate;
use domain::json_text::{Place, Token, visit};
use domain::original::SourceEvent;
use domain::source_pieces::TooMuchHeld;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::safety::answer_fields::{FUNCTION, STATE};
use crate::safety::answer_strings;
use crate::safety::as_it_came;
use crate::safety::chunk_parts;
use crate::safety::json_path::JsonPath;
use crate::safety::output_check::AnswerString;
use crate::safety::wire_members;
use crate::streaming::by_path::ByPath;
use crate::streaming::vendor_blocks::{BlockOfEvent, VendorBlocks};

/// Noise of another length in each chunk, by which OpenAI hides the lengths of its words.
const PADDING: &str = "obfuscation";

/// The most strings of a stream: the texts, reasoning and tool calls of all choices.
pub(super) const MAX_STRINGS: usize = 16_384;

/// The most bytes of a streamed answer: all of it is kept for the record. Four times the longest
/// answer of any model.
pub(super) const MAX_OUTPUT_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of the path of a string: its fields and items.
const MAX_PATH_BYTES: usize = 16 * 1024;
/// The most bytes of the paths of all strings of a stream together.
const MAX_ALL_PATHS_BYTES: usize = 32 * 1024 * 1024;

/// The most chunks with calls of tools that are withheld until the end of a stream that is judged:
/// each is a tree of kilobytes.
pub(super) const MAX_WITHHELD_CHUNKS: usize = 32_768;

/// The most bytes of these chunks together: more than `MAX_WITHHELD_CHUNKS` ordinary ones take.
pub(super) const MAX_WITHHELD_BYTES: usize = 96 * 1024 * 1024;

/// Whether a token stands where an event repeats its request: beside the output of the response so far.
fn is_echo(place: &Place<'_, '_>) -> bool {
    place.member(0) == Some("response") && place.member(1) != Some("output")
}

/// The reason why a stream is left before its end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMany {
    #[error("The provider's answer has more than the {MAX_STRINGS} strings that a stream may have")]
    Strings,
    #[error(
        "The provider's answer is longer than the {MAX_OUTPUT_BYTES} bytes that a stream may have"
    )]
    Bytes,
    #[error(
        "The provider's answer has its calls of tools in more than the {MAX_WITHHELD_CHUNKS} pieces that are held"
    )]
    WithheldChunks,
    #[error("The provider's answer has strings under longer names than a stream may have")]
    Paths,
    #[error(
        "The provider's answer has calls of tools that take more than the {MAX_WITHHELD_BYTES} bytes that are held"
    )]
    WithheldBytes,
    #[error("In the provider's answer, {0}")]
    Held(#[from] TooMuchHeld),
}

/// The additions of a chunk beside the text of choice 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    /// Their bytes, with each call of a tool once.
    pub(super) bytes: usize,
    /// Whether a model has written any of them, piece by piece. Notes have other sources, and the
    /// provider's state repeats earlier text.
    pub(super) continues: bool,
}

/// The strings of the chunks so far.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    strings: ByPath<String>,
    /// The strings that came whole, and whether each is JSON: most come again with every chunk.
    whole: BTreeSet<(String, bool)>,
    /// The ids of the tool calls of choice 0 by their index; their strings are among the others.
    call_ids: BTreeMap<u64, String>,
    /// The provider's state that belongs to these calls.
    state: Option<Value>,
    /// The vendor's own blocks.
    vendor: VendorBlocks,
    /// The template of the last event whose strings were added, and its block: events that match it repeat
    /// those strings.
    last_template: Option<EventTemplate>,
    last_block: BlockOfEvent,
    /// The bytes of all strings.
    bytes: usize,
    /// The bytes of their paths.
    path_bytes: usize,
}

impl Fragments {
    /// Adds the strings of a chunk.
    pub(super) fn add(&mut self, chunk: &mut Map<String, Value>) -> Result<Added, TooMany> {
        self.add_calls(chunk)?;
        let mut bounds = Ok(());
        answer_strings::visit_state(chunk, |text| {
            if bounds.is_ok() && self.whole.insert((text.to_owned(), false)) {
                self.bytes += text.len();
                bounds = self.check();
            }
        });
        let mut added = Added::default();
        answer_strings::visit_others(chunk, |path, text| {
            if bounds.is_err() {
                return;
            }
            match self.add_string(path, text) {
                Ok(is_new) => {
                    added.continues |= path.continues();
                    if is_new && path.counts_beside_text() {
                        added.bytes += text.len();
                    }
                }
                Err(error) => bounds = Err(error),
            }
        });
        bounds.map(|()| added)
    }

    /// Adds the strings of a provider's own event beside its pieces: the canonical events do not hold
    /// all of them.
    pub(super) fn add_source(&mut self, event: &SourceEvent) -> Result<(), TooMany> {
        if !self.last_template.as_ref().is_some_and(|template| template.matches(event)) {
            self.add_beside_pieces(event)?;
            self.last_template = EventTemplate::of(&event.data, &event.pieces);
        }
        self.bytes += self.vendor.note(event, &self.last_block);
        self.check()
    }

    fn add_beside_pieces(&mut self, event: &SourceEvent) -> Result<(), TooMany> {
        let (mut bounds, mut block) = (Ok(()), BlockOfEvent::default());
        // It was read before.
        let _ = visit(&event.data, |place, token| {
            match token {
                Token::Number(index) if place.is_at(&["index"]) => block.index = index.parse().ok(),
                Token::Text(kind) if place.is_at(&["content_block", "type"]) => {
                    block.begun = Some(kind.to_owned());
                }
                Token::Text(kind) if place.is_at(&["delta", "type"]) => {
                    block.added = Some(kind.to_owned());
                }
                _ => {}
            }
            if let Token::Text(text) = token
                && !event.has_piece_at(place.range.start)
                && place.name() != PADDING
                && !wire_members::is_word_or_id(place, text)
                && !is_echo(place)
                && !wire_members::is_word_of_formats(text)
                && !wire_members::is_label(place, text)
                && bounds.is_ok()
                && !as_it_came::is_binary(place, text)
                && self.whole.insert((text.to_owned(), false))
            {
                self.bytes += text.len();
                bounds = self.check();
            }
        });
        self.last_block = block;
        bounds
    }

    /// The events of the vendor's own blocks, as they came.
    pub(super) fn take_vendor_events(&mut self) -> Vec<Box<RawValue>> {
        self.vendor.take_events()
    }

    /// Adds a string, or a piece of one, unless it was added before. Bounded before anything of it
    /// is kept: one chunk may have very many, each with a long path.
    fn add_string(&mut self, path: &JsonPath, text: &str) -> Result<bool, TooMany> {
        if path.is_fragment() {
            let path_bytes = path.bytes();
            if path_bytes > MAX_PATH_BYTES {
                return Err(TooMany::Paths);
            }
            let known = self.strings.len();
            self.strings.at(path, String::new).1.push_str(text);
            if self.strings.len() > known {
                self.path_bytes += path_bytes;
            }
        } else if !self.whole.insert((text.to_owned(), path.is_json())) {
            return Ok(false);
        }
        self.bytes += text.len();
        self.check().map(|()| true)
    }

    fn check(&self) -> Result<(), TooMany> {
        if self.strings.len() + self.whole.len() > MAX_STRINGS {
            return Err(TooMany::Strings);
        }
        if self.bytes > MAX_OUTPUT_BYTES {
            return Err(TooMany::Bytes);
        }
        if self.path_bytes > MAX_ALL_PATHS_BYTES { Err(TooMany::Paths) } else { Ok(()) }
    }

    fn add_calls(&mut self, chunk: &Map<String, Value>) -> Result<(), TooMany> {
        if let Some(state) = chunk_parts::state(chunk) {
            self.state = Some(state.clone());
        }
        for piece in chunk_parts::call_pieces(chunk) {
            let is_full = self.call_ids.len() >= MAX_STRINGS;
            if let Entry::Vacant(begun) = self.call_ids.entry(piece.index) {
                if is_full {
                    return Err(TooMany::Strings);
                }
                begun.insert(piece.id.to_owned());
            }
        }
        Ok(())
    }

    /// The message of choice 0, if it calls tools.
    pub(super) fn message(&self, text: &str) -> Option<Value> {
        let mut message = self.redacted_message(text, &[])?;
        if let Some(state) = &self.state {
            message[STATE] = state.clone();
        }
        Some(message)
    }

    /// The message of choice 0 with the strings of [`Fragments::judged_strings`] replaced, and
    /// without the provider's state: that repeats the replaced text.
    pub(super) fn redacted_message(&self, text: &str, new: &[Option<String>]) -> Option<Value> {
        if self.call_ids.is_empty() {
            return None;
        }
        let ids = self.call_ids.iter();
        let mut calls: BTreeMap<u64, Value> = ids.map(|(index, id)| (*index, call(id))).collect();
        for (path, old, new) in self.replacements(new) {
            let Some((index, field)) = path.tool_call() else { continue };
            let function = calls.get_mut(&index).and_then(|call| call.get_mut(FUNCTION));
            if let Some(Value::String(whole)) =
                function.and_then(|function| function.get_mut(field))
            {
                whole.push_str(new.unwrap_or(old));
            }
        }
        let content = if text.is_empty() { Value::Null } else { text.into() };
        let calls: Vec<Value> = calls.into_values().collect();
        Some(json!({"role": "assistant", "content": content, "tool_calls": calls}))
    }

    /// All strings, after the text of choice 0.
    pub(super) fn judged_strings<'a>(&'a self, text: &'a str) -> Vec<AnswerString<'a>> {
        let strings = self.strings.iter().map(|(path, text)| (text, path.is_json()));
        let whole = self.whole.iter().map(|(text, is_json)| (text, *is_json));
        let vendor =
            self.vendor.arguments().map(|text| AnswerString { text: text.into(), is_json: true });
        let others = strings
            .chain(whole)
            .map(|(text, is_json)| AnswerString { text: text.as_str().into(), is_json });
        std::iter::once(AnswerString::text(text)).chain(others).chain(vendor).collect()
    }

    /// The replacement of the strings of [`Fragments::judged_strings`] by these.
    pub(super) fn replaced_by(&self, new: &[Option<String>]) -> Replacement {
        let replaced = self.replacements(new);
        Replacement(
            replaced.filter_map(|(path, _, new)| Some((path.clone(), new?.to_owned()))).collect(),
        )
    }

    /// The strings that came in pieces, each with its replacement among those of
    /// [`Fragments::judged_strings`], if it has one.
    fn replacements<'a>(
        &'a self,
        new: &'a [Option<String>],
    ) -> impl Iterator<Item = (&'a JsonPath, &'a str, Option<&'a str>)> {
        // The text of choice 0 comes before them.
        let new = new.iter().skip(1).map(Option::as_deref).chain(std::iter::repeat(None));
        self.strings.iter().zip(new).map(|((path, old), new)| (path, old.as_str(), new))
    }
}

/// A call of a function in the form of a whole answer, without its strings.
fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "", "arguments": ""}})
}

/// The replacement of strings of an answer whose chunks have all come: the first piece of a string
/// becomes all of it, the others become empty.
#[derive(Debug)]
pub(super) struct Replacement(HashMap<JsonPath, String>);

impl Replacement {
    /// Replaces the strings of a chunk; the chunks follow in the order in which they came. The
    /// provider's state is left out: it repeats the replaced text.
    pub(super) fn apply(&mut self, chunk: &mut Map<String, Value>) {
        answer_strings::visit(chunk, |path, text| {
            if let Some(new) = self.0.get_mut(path) {
                *text = std::mem::take(new);
            }
        });
        answer_strings::drop_state(chunk);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use domain::original::{PieceKind, SourcePiece};

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
    fn what_an_event_adds_beside_its_piece_is_judged_once_it_differs() {
        let event = |text: &str, note: &str| {
            let text = format!(r#"{{"delta":{{"text":"{text}"}},"note":"{note}"}}"#);
            let mut pieces = Vec::new();
            visit(&text, |place, token| {
                if let (Token::Text(text), "text") = (token, place.name()) {
                    let (range, text) = (place.range.clone(), text.to_owned());
                    pieces.push(SourcePiece::new(0, PieceKind::Text, range, text));
                }
            })
            .unwrap();
            SourceEvent::new("content_block_delta".to_owned(), text, pieces)
        };
        let mut fragments = Fragments::default();
        for (text, note) in [("a", "first"), ("b", "first"), ("c", "second"), ("d", "first")] {
            fragments.add_source(&event(text, note)).unwrap();
        }
        let judged: Vec<_> =
            fragments.judged_strings("").into_iter().map(|part| part.text).collect();
        assert_eq!(judged, ["", "first", "second"]);
    }

    #[test]
    fn only_short_words_are_taken_for_ids() {
        let judged = |id: &str| {
            let data = json!({"item": {"id": id, "type": id}}).to_string();
            let mut fragments = Fragments::default();
            fragments.add_source(&SourceEvent::new("added".to_owned(), data, Vec::new()))?;
            Ok::<_, TooMany>(fragments.judged_strings("").len() > 1)
        };
        assert_eq!(judged("msg_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b"), Ok(false));
        for words in ["jane.doe@acme.org", "the key is here", &"x".repeat(129)] {
            assert_eq!(judged(words), Ok(true), "{words}");
        }
    }

    #[test]
    fn calls_leave_and_are_kept_as_they_were_redacted() {
        let (mut fragments, mut split_choices) = (Fragments::default(), BTreeSet::new());
        let mut chunks = vec![
            chunk(0, &call(Some("push"), "{\"n\": 1, \"token\": \"ab"), None),
            chunk(0, &call(None, "cd\"}"), None),
            chunk(0, &json!({"provider_state": {"thinking": "abcd"}}), Some("tool_calls")),
        ];
        let mut held = Vec::new();
        for chunk in &mut chunks {
            fragments.add(chunk).unwrap();
            held.extend(chunk_parts::split_indivisible(chunk, &mut split_choices));
        }
        assert_eq!(chunks[0]["choices"][0]["delta"], json!({"content": "Hm"}));
        let said: Vec<String> =
            fragments.judged_strings("HmHm").iter().map(|said| said.text.to_string()).collect();
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
        let said = fragments.judged_strings("");
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
        assert_eq!(Fragments::default().add(&mut many), Err(TooMany::Paths));
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
        let mut split_choices = BTreeSet::new();
        let mut other = chunk(1, &json!({"content": "Done"}), Some("stop"));
        assert!(chunk_parts::split_indivisible(&mut other, &mut split_choices).is_none());
        let mut calls = chunk(2, &call(Some("push"), "{}"), None);
        assert!(chunk_parts::split_indivisible(&mut calls, &mut split_choices).is_some());
        let mut end = chunk(2, &json!({}), Some("tool_calls"));
        let held = chunk_parts::split_indivisible(&mut end, &mut split_choices).unwrap();
        assert_eq!(held["choices"][0]["finish_reason"], "tool_calls");
        assert!(end["choices"][0]["finish_reason"].is_null());
    }
}
