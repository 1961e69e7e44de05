//! Pass-through: requests that came in this format, and the server's own chunks.
//!
//! In a chunk, the position of an item is its place in the array; its index is the item's own `index`, which
//! is the same in every chunk.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use domain::conversation::{Message, Role, TOOL_FAILED};
use domain::event_template::{EventTemplate, TemplateCache};
use domain::json_text::{self, Edit, Token, member, quoted, rewrite};
use domain::original::{
    Carrier, MOST_PIECES, Original, PieceKind, SourceEvent, SourcePiece, USAGE_ALONE, USAGE_TOO,
    WireFormat,
};
use serde_json::Value;

use crate::adapter::request::Attempt;
use crate::chat_form::answer::IMAGES;
use crate::chat_form::{STATE, STOP_DETAILS, STOP_SEQUENCE, text};
use crate::credentials::chunk_position::Position;
use crate::error::Error;
use crate::vendors::openai::encode::{Dialect, calls_of, has_stream_fields, is_vendor};
use crate::vendors::openai::tier::check_tier;
use crate::wire::json;

/// The gateway's own member of a request.
const TRACE_ID: &str = "trace_id";
/// The two names of the bound on a completion.
const BOUNDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];
const STREAM_OPTIONS: &str = "stream_options";
const INCLUDE_USAGE: &str = "include_usage";
/// The parameters that servers refuse if there are no tools.
const TOOL_PARAMETERS: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];
/// Most strings of one stream that continue at the same time.
const MOST_STRINGS: usize = 65_536;

/// Returns the body with the model's name, a bound on the completion that was lowered or added, and the
/// request to report usage; `None` if it has to be translated.
pub(crate) fn body(
    attempt: &Attempt<'_>,
    original: &Original,
    dialect: Dialect<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    if original.format != WireFormat::ChatCompletions {
        return Ok(None);
    }
    check_priced(attempt)?;
    let Some(body) = original.body.as_ref() else { return Ok(None) };
    if needs_translation(attempt, body) {
        return Ok(None);
    }
    let malformed = |_| Error::unsupported("The body is no JSON object");
    let given = |name: &str| -> Result<Option<&str>, Error> {
        let value = member(body, name).map_err(malformed)?;
        Ok(value.filter(|value| *value != "null"))
    };
    let model = quoted(dialect.model);
    let mut edits = vec![("model", Edit::Set(&model)), (TRACE_ID, Edit::Remove)];
    let bound = attempt.max_output_tokens.map(|bound| bound.to_string());
    if let Some(bound) = bound.as_deref() {
        let mut named = None;
        for name in BOUNDS {
            if given(name)?.is_some() {
                named = Some(name);
            }
        }
        match named {
            // The servers of the newer name may refuse the older one.
            Some("max_tokens") if dialect.bound_name != "max_tokens" => {
                edits.push(("max_tokens", Edit::Remove));
                edits.push((dialect.bound_name, Edit::Set(bound)));
            }
            Some(name) if attempt.max_output_tokens != attempt.prompt.max_output_tokens => {
                edits.push((name, Edit::Set(bound)));
            }
            Some(_) => {}
            None => edits.push((dialect.bound_name, Edit::Set(bound))),
        }
    }
    let options = if attempt.stream && dialect.stream_options {
        with_usage(given(STREAM_OPTIONS)?)?
    } else {
        None
    };
    edits.extend(options.as_deref().map(|options| (STREAM_OPTIONS, Edit::Set(options))));
    Ok(Some(json_text::edited(body, &edits).map_err(malformed)?.into_bytes()))
}

/// The caller's options of a stream, with usage requested: the gateway needs it to compute the cost.
/// `None` if they request it already.
fn with_usage(options: Option<&str>) -> Result<Option<String>, Error> {
    let malformed = |_| Error::unsupported("stream_options is no JSON object");
    let options = options.unwrap_or("{}");
    if member(options, INCLUDE_USAGE).map_err(malformed)? == Some("true") {
        return Ok(None);
    }
    let edits = [(INCLUDE_USAGE, Edit::Set("true"))];
    json_text::edited(options, &edits).map(Some).map_err(malformed)
}

/// Refuses what costs more than the prices of a model.
fn check_priced(attempt: &Attempt<'_>) -> Result<(), Error> {
    check_tier(attempt)?;
    let params = &attempt.prompt.params;
    let modalities = params.get("modalities").and_then(Value::as_array);
    let asks_for_other_modalities = modalities.into_iter().flatten().any(|kind| kind != "text");
    if asks_for_other_modalities || params.contains_key("audio") {
        return Err(Error::unpriced(
            "modalities: answers other than text have no price here: ask for text alone",
        ));
    }
    Ok(())
}

/// Whether a request has members that servers of this format refuse and that a translation removes: those
/// that the gateway adds to the answers of other vendors, and those that a vendor's own package leaves in an
/// answer that it sends back.
fn needs_translation(attempt: &Attempt<'_>, body: &str) -> bool {
    let Attempt { prompt, model, .. } = *attempt;
    let tools = prompt.params.get("tools").and_then(Value::as_array);
    let has_tools = tools.is_some() || prompt.params.contains_key("functions");
    let has = |name: &str| matches!(member(body, name), Ok(Some(value)) if value != "null");
    // Servers refuse these parameters without tools. The gateway removes an empty list of tools, and the
    // parameters about it, from the canonical form; the body still has them.
    let has_tool_parameters_without_tools =
        !has_tools && TOOL_PARAMETERS.iter().any(|name| has(name));
    let is_flat = |tool: &Value| {
        tool.get("function").is_none() && matches!(text(tool.get("type")), "" | "function")
    };
    // `annotations` of an answer and the `name` of a result pass, although a translation takes them out: OpenAI
    // takes them, and the callers of another server know what it takes.
    let is_foreign = |message: &Message| match message.role {
        Role::Assistant => message.extra.iter().any(|(name, value)| match name.as_str() {
            STATE | STOP_DETAILS | STOP_SEQUENCE | "parsed" => true,
            IMAGES => is_vendor(model),
            "tool_calls" => value.as_array().is_none_or(Vec::is_empty),
            _ => false,
        }),
        _ => message.extra.contains_key(STATE) || message.extra.contains_key(TOOL_FAILED),
    };
    has_tool_parameters_without_tools
        || tools.into_iter().flatten().any(is_flat)
        || prompt.messages.iter().any(is_foreign)
        || prompt.messages.iter().flat_map(calls_of).any(has_stream_fields)
}

/// Reads the chunks of a stream to pass them through.
#[derive(Debug)]
pub(super) struct PassThrough {
    /// The name by which the caller knows the model.
    model: String,
    /// The strings that have begun.
    blocks: HashMap<StringPath, u64>,
    begun: u64,
    /// The texts of each choice that go on, by the member of the delta that has them.
    texts: HashMap<u64, BTreeMap<&'static str, BTreeSet<u64>>>,
    last: TemplateCache,
}

/// The path of a string in a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct StringPath {
    members: Vec<&'static str>,
    /// The items on the way, the choice first: by their index, if they have one, else by their position.
    items: Vec<u64>,
}

impl PassThrough {
    pub(super) fn new(model: String) -> Self {
        let (blocks, texts) = (HashMap::new(), HashMap::new());
        Self { model, blocks, begun: 0, texts, last: TemplateCache::default() }
    }

    /// Returns a chunk as it came, but for the name of the model. `is_end`: no choice continues.
    pub(super) fn event(&mut self, data: &[u8], is_end: bool) -> Result<SourceEvent, Error> {
        let malformed = || Error::malformed("a chunk of the stream is none of the format's");
        let mended = json::mended(data);
        let came =
            std::str::from_utf8(mended.as_deref().unwrap_or(data)).map_err(|_| malformed())?;
        if let Some(repeated) = self.last.read_with_last(came) {
            return Ok(repeated);
        }
        let mut scan = ChunkScan::default();
        let named = rewrite(came, |place, token| {
            let (range, items) = (&place.range, positions(place));
            match token {
                Token::Text(text) if place.is_at(&["model"]) && text != self.model => {
                    let by = quoted(&self.model).len() as isize - range.len() as isize;
                    scan.shift = Shift { after: range.start, by };
                    return Some(self.model.clone());
                }
                Token::Text(text) if !text.is_empty() && items.len() == 1 && is_reason(place) => {
                    scan.ended.extend(items);
                }
                Token::Text(text) => {
                    if let (false, Some(member)) = (text.is_empty(), member_that_goes_on(place)) {
                        scan.going_on.insert((items[0], member));
                    }
                    if let Some(members) = continued(place) {
                        let path = StringPath { members, items };
                        scan.strings.push((path, range.clone(), text.to_owned()));
                    }
                }
                Token::Number(number) if place.name() == "index" && !items.is_empty() => {
                    if let Ok(index) = number.parse() {
                        scan.indices.entry(items).or_insert(index);
                    }
                }
                Token::Name(_) | Token::Number(_) => {}
            }
            match place.member(0) {
                Some("usage") => scan.has_usage |= place.depth() > 1,
                Some("choices") => scan.has_choices |= place.depth() > 1,
                _ => {}
            }
            None
        });
        let data = named.map_err(|_| malformed())?.unwrap_or_else(|| came.to_owned());
        if scan.strings.len() > MOST_PIECES {
            return Err(Error::malformed("too many strings go on in one chunk of the stream"));
        }
        let name = match (scan.has_usage, scan.has_choices) {
            (true, false) => USAGE_ALONE,
            (true, true) => USAGE_TOO,
            (false, _) => "",
        };
        let template = match &scan.strings[..] {
            // An empty text is no sign that its string goes on.
            [(_, range, text)] if !text.is_empty() => EventTemplate::around(came, range),
            _ => None,
        };
        let mut pieces = Vec::with_capacity(scan.strings.len());
        scan.drop_repeated_choices();
        let mut ends = self.interrupted(&scan);
        for (path, range, text) in std::mem::take(&mut scan.strings) {
            let kind = kind(&path);
            let path = scan.with_indices(path);
            let (choice, member) = (path.items[0], ordered_member(&path.members));
            let block = self.block(path)?;
            if kind != PieceKind::Json && !text.is_empty() {
                self.texts.entry(choice).or_default().entry(member).or_default().insert(block);
            }
            let range = scan.shift.apply(range);
            pieces.push(SourcePiece::new(block, kind, range, text));
        }
        ends.extend(self.ended(&scan));
        let event = SourceEvent {
            ends,
            is_end,
            carrier: Carrier::Chunk,
            ..SourceEvent::new(name.to_owned(), data, pieces)
        };
        self.last.remember(template, &event);
        Ok(event)
    }

    /// The number of a string.
    fn block(&mut self, path: StringPath) -> Result<u64, Error> {
        if let Some(block) = self.blocks.get(&path) {
            return Ok(*block);
        }
        if self.blocks.len() >= MOST_STRINGS {
            return Err(Error::malformed("too many strings of the stream go on at once"));
        }
        self.begun += 1;
        self.blocks.insert(path, self.begun);
        Ok(self.begun)
    }

    /// The texts that other strings of their choice follow. They may go on later.
    fn interrupted(&mut self, scan: &ChunkScan) -> Vec<u64> {
        let mut going_on = HashMap::<u64, Vec<&str>>::new();
        for (position, member) in &scan.going_on {
            let choice = scan.index_at(&[*position]).unwrap_or(*position);
            going_on.entry(choice).or_default().push(member);
        }
        let mut over = Vec::new();
        for (choice, members) in going_on {
            let Some(texts) = self.texts.get_mut(&choice) else { continue };
            texts.retain(|member, blocks| {
                let goes_on = members.contains(member);
                if !goes_on {
                    over.extend(std::mem::take(blocks));
                }
                goes_on
            });
        }
        over
    }

    /// The strings of the choices that end.
    fn ended(&mut self, scan: &ChunkScan) -> Vec<u64> {
        let choices: HashSet<u64> = scan
            .ended
            .iter()
            .map(|position| scan.index_at(&[*position]).unwrap_or(*position))
            .collect();
        let mut ends = Vec::new();
        if !choices.is_empty() {
            self.texts.retain(|choice, _| !choices.contains(choice));
            self.blocks.retain(|path, block| {
                let is_over = path.items.first().is_some_and(|choice| choices.contains(choice));
                ends.extend(is_over.then_some(*block));
                !is_over
            });
        }
        ends
    }
}

/// The parts of a chunk that matter here, as they are met from its beginning to its end.
#[derive(Default)]
struct ChunkScan {
    /// The strings that continue: their paths by positions, their ranges and texts.
    strings: Vec<(StringPath, Range<usize>, String)>,
    /// The index of each item that has one, by the positions of the items around it and its own.
    indices: HashMap<Vec<u64>, u64>,
    /// The positions of choices that end.
    ended: Vec<u64>,
    /// The members of deltas with text or calls in this chunk, each with the position of its choice.
    going_on: HashSet<(u64, &'static str)>,
    has_usage: bool,
    has_choices: bool,
    /// The shift of all bytes after the model's name, which is replaced by another.
    shift: Shift,
}

/// A replacement in a text moves the bytes after it.
#[derive(Clone, Copy, Default)]
struct Shift {
    /// The bytes that begin after this one move.
    after: usize,
    /// The number of bytes by which the replacement is longer.
    by: isize,
}

impl Shift {
    /// The place of a range after the replacement.
    fn apply(self, range: Range<usize>) -> Range<usize> {
        if self.after >= range.start {
            return range;
        }
        let Range { start, end } = range;
        start.saturating_add_signed(self.by)..end.saturating_add_signed(self.by)
    }
}

impl ChunkScan {
    /// The index of the item at these positions, if it has one.
    fn index_at(&self, positions: &[u64]) -> Option<u64> {
        self.indices.get(positions).copied()
    }

    /// Leaves out the strings of choices with the index of an earlier one: the canonical form has the first
    /// alone, and what is no piece is judged beside it. A choice without an index is the first.
    fn drop_repeated_choices(&mut self) {
        let mut first = HashMap::new();
        let (indices, strings) = (&self.indices, &mut self.strings);
        strings.retain(|(path, _, _)| {
            let choice = indices.get(&path.items[..1]).copied().unwrap_or(0);
            *first.entry(choice).or_insert(path.items[0]) == path.items[0]
        });
    }

    /// A path by positions, with the index of each item that has one in the place of its position.
    fn with_indices(&self, path: StringPath) -> StringPath {
        let own = |level: usize| self.index_at(&path.items[..=level]).unwrap_or(path.items[level]);
        // Parts of a content are one text.
        if path.members == ["content"] || path.members == ["content", "text"] {
            return StringPath { items: vec![own(0)], members: vec!["content"] };
        }
        StringPath { items: (0..path.items.len()).map(own).collect(), members: path.members }
    }
}

fn kind(path: &StringPath) -> PieceKind {
    match (ordered_member(&path.members), path.members.last()) {
        (_, Some(&"arguments")) => PieceKind::Json,
        ("content" | "refusal" | "tool_calls" | "audio", _) => PieceKind::Text,
        _ => PieceKind::Thought,
    }
}

/// The positions of the items around a token.
fn positions(place: &json_text::Place<'_, '_>) -> Vec<u64> {
    (0..place.depth()).filter_map(|depth| place.index(depth)).map(|index| index as u64).collect()
}

fn is_reason(place: &json_text::Place<'_, '_>) -> bool {
    place.depth() == 3
        && place.member(0) == Some("choices")
        && place.member(2) == Some("finish_reason")
}

/// The member of a delta that holds a string, if its order among others matters to readers: texts and calls.
fn member_that_goes_on(place: &json_text::Place<'_, '_>) -> Option<&'static str> {
    let is_in_delta = place.member(0) == Some("choices")
        && place.index(1).is_some()
        && place.member(2) == Some("delta");
    let (_, delta) = Position::Whole.into("delta").filter(|_| is_in_delta)?;
    let (name, position) = delta.into(place.member(3)?)?;
    match continued(place) {
        Some(members) => Some(ordered_member(&members)),
        None => (position == Position::Calls).then_some(name),
    }
}

/// The member of a delta whose strings follow those of others. Thoughts among the parts of a content are
/// none of its text.
fn ordered_member(members: &[&'static str]) -> &'static str {
    match members {
        ["content", thoughts @ ("thinking" | "reasoning"), ..] => thoughts,
        [first, ..] => first,
        [] => "",
    }
}

/// The members below the delta on the way to a string, if it is one that continues from chunk to chunk.
fn continued(place: &json_text::Place<'_, '_>) -> Option<Vec<&'static str>> {
    let is_in_list = place.index(1).is_some();
    if place.member(0) != Some("choices") || !is_in_list || place.member(2) != Some("delta") {
        return None;
    }
    let (_, mut position) = Position::Whole.into("delta")?;
    let mut members = Vec::with_capacity(3);
    for depth in 3..place.depth() {
        match place.member(depth) {
            Some(name) => {
                let (name, inner) = position.into(name)?;
                members.push(name);
                position = inner;
            }
            None if position.has_items() => {}
            None => return None,
        }
    }
    position.continues().then_some(members)
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
