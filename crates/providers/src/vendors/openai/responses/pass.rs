//! Pass-through: requests that came in this format, and the vendor's own events.

use std::borrow::Cow;

use domain::json_text::{self, Edit, Token, quoted};
use domain::original::{Original, PieceKind, SourceEvent, SourcePiece, WireFormat};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::adapter::request::Attempt;
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::responses::charges::{self, MAX_TOOL_CALLS};
use crate::vendors::openai::responses::event::Event;
use crate::vendors::openai::tier::check_tier;

/// The gateway's own member of a request.
const TRACE_ID: &str = "trace_id";
/// The most parts of one item that are told apart: as many of its content, and of its summary.
const MOST_PARTS: u64 = 1 << 20;

/// Returns the body with the model's name, and with the bounds on the completion and on the calls of the
/// vendor's tools if those were lowered.
pub(super) fn body(
    attempt: &Attempt<'_>,
    original: &Original,
    name: &str,
) -> Result<Option<Vec<u8>>, Error> {
    if original.format != WireFormat::Responses {
        return Ok(None);
    }
    check_tier(attempt)?;
    charges::check(attempt.prompt)?;
    let Some(body) = &original.body else { return Ok(None) };
    let is_lowered = attempt.max_output_tokens != attempt.prompt.max_output_tokens;
    let lowered = attempt.max_output_tokens.filter(|_| is_lowered).map(|bound| bound.to_string());
    let model = quoted(name);
    let mut edits = vec![("model", Edit::Set(&model)), (TRACE_ID, Edit::Remove)];
    edits.extend(lowered.as_deref().map(|bound| ("max_output_tokens", Edit::Set(bound))));
    let uses = attempt.max_tool_uses.and_then(|most| charges::bounded(attempt.prompt, body, most));
    edits.extend(uses.as_deref().map(|bound| (MAX_TOOL_CALLS, Edit::Set(bound))));
    let edited = json_text::edited(body, &edits);
    let edited = edited.map_err(|_| Error::unsupported("The body is no JSON object"))?;
    Ok(Some(edited.into_bytes()))
}

/// An item of an input.
#[derive(Deserialize)]
struct InputItem<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    encrypted_content: Option<&'a RawValue>,
}

/// Returns a body without the encrypted reasoning of its input. The ids of what was written after it go as
/// well: by its id an item asks for the reasoning before it.
pub(super) fn without_encrypted_thoughts(body: &[u8]) -> Option<Vec<u8>> {
    let body = std::str::from_utf8(body).ok()?;
    let input = json_text::member(body, "input").ok()??;
    let items: Vec<&RawValue> = serde_json::from_str(input).ok()?;
    let mut kept = Vec::with_capacity(items.len());
    for item in &items {
        let item = item.get();
        match serde_json::from_str::<InputItem<'_>>(item) {
            Ok(read) if read.kind == "reasoning" && read.encrypted_content.is_some() => {}
            // A message needs no type.
            Ok(read)
                if ["", "message", "function_call", "custom_tool_call"].contains(&&*read.kind) =>
            {
                kept.push(Cow::Owned(json_text::edited(item, &[("id", Edit::Remove)]).ok()?));
            }
            _ => kept.push(Cow::Borrowed(item)),
        }
    }
    let input = format!("[{}]", kept.join(","));
    let edited = json_text::edited(body, &[("input", Edit::Set(&input))]);
    edited.ok().filter(|_| kept.len() < items.len()).map(String::into_bytes)
}

/// Returns an event as it came. Its piece is the `delta` that most events of this format have, whatever
/// it continues: text, code, the transcript of a sound.
pub(super) fn event(data: &[u8], event: &Event) -> Result<SourceEvent, Error> {
    let malformed = || Error::malformed("an event of the stream is none of the format's");
    let data = std::str::from_utf8(data).map_err(|_| malformed())?;
    let of = event.what();
    let item = event.output_index.unwrap_or(0).wrapping_mul(2 * MOST_PARTS);
    let part = event.content_index.or(event.summary_index).unwrap_or(0).min(MOST_PARTS - 1);
    let kind_of_part = u64::from(event.summary_index.is_some());
    let block = item.wrapping_add(2 * part + kind_of_part);
    let kind = match of.strip_suffix(".delta") {
        Some(what) if what.ends_with("arguments") => Some(PieceKind::Json),
        Some(what) if what.starts_with("reasoning") => Some(PieceKind::Thought),
        Some(_) => Some(PieceKind::Text),
        None => None,
    };
    let mut pieces = Vec::new();
    // The reading also finds members that are there twice: what a client reads is then unknown.
    let read = json_text::visit(data, |place, token| {
        if let (Some(kind), Token::Text(text)) = (kind, token)
            && place.is_at(&["delta"])
        {
            let (range, text) = (place.range.clone(), text.to_owned());
            pieces.push(SourcePiece::new(block, kind, range, text));
        }
    });
    read.map_err(|_| malformed())?;
    let has_place = event.output_index.is_some();
    let end = of.rsplit('.').next();
    let is_over = end == Some("done") && has_place;
    let goes_on = has_place && !is_over && pieces.is_empty() && end != Some("added");
    let begun = event.item.as_ref().filter(|_| of == "output_item.added");
    let begins_call =
        begun.is_some_and(|item| !matches!(text(item.get("type")), "message" | "reasoning"));
    Ok(SourceEvent {
        ends: is_over.then_some(block).into_iter().collect(),
        beside: goes_on.then_some(block),
        begins_call,
        ..SourceEvent::new(event.kind.clone(), data.to_owned(), pieces)
    })
}
