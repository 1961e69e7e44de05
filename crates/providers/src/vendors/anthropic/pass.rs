//! Pass-through: requests that came in this format, and the vendor's own events.

use domain::event_template::{EventTemplate, TemplateCache};
use domain::json_text::{self, Edit, quoted};
use domain::original::{Original, PieceKind, SourceEvent, SourcePiece, WireFormat};

use crate::adapter::request::Attempt;
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::anthropic::charges;
use crate::vendors::anthropic::events::Event;
use crate::vendors::anthropic::rules::max_tokens;

/// The gateway's own member of a request.
const TRACE_ID: &str = "trace_id";

/// Returns the body with the model's name, and with the bounds on the completion and on the uses of the
/// vendor's tools if those were lowered.
pub(super) fn body(attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
    let Some(body) = original.body.as_ref().filter(|_| original.format == WireFormat::Messages)
    else {
        return Ok(None);
    };
    let is_lowered = attempt.max_output_tokens != attempt.prompt.max_output_tokens;
    let lowered = is_lowered
        .then(|| max_tokens(attempt, attempt.prompt.thinking_budget()))
        .transpose()?
        .map(|bound| bound.to_string());
    let model = quoted(attempt.model.upstream_name());
    let mut edits = vec![("model", Edit::Set(&model)), (TRACE_ID, Edit::Remove)];
    edits.extend(lowered.as_deref().map(|bound| ("max_tokens", Edit::Set(bound))));
    let unreadable = |_| Error::unsupported("The body is no JSON object");
    let tools = attempt.max_tool_uses.map(|most| charges::bounded_tools(body, most));
    let tools = tools.transpose().map_err(unreadable)?.flatten();
    edits.extend(tools.as_deref().map(|tools| ("tools", Edit::Set(tools))));
    let edited = json_text::edited(body, &edits).map_err(unreadable)?;
    Ok(Some(edited.into_bytes()))
}

/// Returns an event as it came; its place in the answer is not known yet.
pub(super) fn event(
    data: &[u8],
    event: &Event<'_>,
    last: &mut TemplateCache,
) -> Result<SourceEvent, Error> {
    let data = std::str::from_utf8(data).map_err(|_| malformed())?;
    if let Some(repeated) = last.read_with_last(data) {
        return Ok(repeated);
    }
    let read = read(data, event)?;
    last.remember(EventTemplate::of(data, &read.pieces), &read);
    Ok(read)
}

fn malformed() -> Error {
    Error::malformed("an event of the stream is none of the format's")
}

fn read(data: &str, event: &Event<'_>) -> Result<SourceEvent, Error> {
    let block = event.index as u64;
    let delta = &event.delta;
    let continues = match (&*event.kind, &*delta.kind) {
        ("content_block_delta", "text_delta") => Some((PieceKind::Text, "text", &delta.text)),
        ("content_block_delta", "thinking_delta") => {
            Some((PieceKind::Thought, "thinking", &delta.thinking))
        }
        ("content_block_delta", "input_json_delta") => {
            Some((PieceKind::Json, "partial_json", &delta.partial_json))
        }
        _ => None,
    };
    let mut pieces = Vec::new();
    // The reading also finds members that are there twice: what a client reads is then unknown.
    let read = json_text::visit(data, |place, token| {
        if let (Some((kind, name, said)), json_text::Token::Text(_)) = (continues, token)
            && place.is_at(&["delta", name])
        {
            let (range, text) = (place.range.clone(), said.to_string());
            pieces.push(SourcePiece::new(block, kind, range, text));
        }
    });
    read.map_err(|_| malformed())?;
    let ends = (event.kind == "content_block_stop").then_some(block).into_iter().collect();
    let goes_on = event.kind == "content_block_delta" && pieces.is_empty();
    let beside = goes_on.then_some(block);
    let begun = event.content_block.as_ref().map(|block| text(block.get("type")));
    let is_words = |kind| matches!(kind, "text" | "thinking" | "redacted_thinking");
    let begins_call = begun.is_some_and(|kind| !is_words(kind));
    let event = SourceEvent::new(event.kind.to_string(), data.to_owned(), pieces);
    Ok(SourceEvent { ends, beside, begins_call, ..event })
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
