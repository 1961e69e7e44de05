//! The members of a request that the gateway governs, and the trust in the author of each other member.

use domain::json_text::{Place, Token};
use domain::original::WireFormat;
use domain::safety::Origin;

/// The members of a request that the gateway replaces or removes itself: their strings are not judged, since
/// they are not sent as they came. They are fewer than [`GOVERNED_MEMBERS`], of which the gateway reads most
/// and sends them on.
pub(super) fn replaced_members(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::Messages | WireFormat::ChatCompletions | WireFormat::Responses => {
            &["model", "trace_id", "stream"]
        }
        WireFormat::GenerateContent => &["model"],
    }
}

/// The members of a request by which the gateway decides: it reads, bounds, replaces or refuses them. In
/// another spelling they would escape it, see [`is_another_spelling`].
const GOVERNED_MEMBERS: [&str; 23] = [
    "model",
    "trace_id",
    "stream",
    "max_tokens",
    "messages",
    "max_completion_tokens",
    "stream_options",
    "n",
    "best_of",
    "service_tier",
    "modalities",
    "audio",
    "web_search_options",
    "tools",
    "background",
    "conversation",
    "input",
    "max_output_tokens",
    "max_tool_calls",
    "multi_agent",
    "previous_response_id",
    "prompt",
    "store",
];
/// The bytes of the longest name in [`GOVERNED_MEMBERS`].
const LONGEST_GOVERNED: usize = 21;

/// Words and names of the formats themselves, in order: judging them would only take time.
const FORMAT_WORDS: [&str; 98] = [
    "OBJECT",
    "STRING",
    "adaptive",
    "any",
    "array",
    "assistant",
    "auto",
    "base64",
    "batch",
    "boolean",
    "budget_tokens",
    "cache_control",
    "chat.completion",
    "content",
    "content_filter",
    "contents",
    "custom",
    "default",
    "description",
    "disabled",
    "document",
    "enabled",
    "end_turn",
    "ephemeral",
    "flex",
    "function",
    "functionCall",
    "functionCallingConfig",
    "functionDeclarations",
    "functionResponse",
    "generationConfig",
    "high",
    "image",
    "image_url",
    "includeThoughts",
    "include_usage",
    "inlineData",
    "input_schema",
    "input_text",
    "integer",
    "is_error",
    "json_object",
    "json_schema",
    "length",
    "low",
    "maxOutputTokens",
    "max_completion_tokens",
    "max_tokens",
    "media_type",
    "medium",
    "message",
    "messages",
    "metadata",
    "mimeType",
    "model",
    "model_context_window_exceeded",
    "number",
    "object",
    "output",
    "output_config",
    "output_text",
    "parameters",
    "parametersJsonSchema",
    "pause_turn",
    "priority",
    "properties",
    "refusal",
    "required",
    "response",
    "response_format",
    "safetySettings",
    "signature",
    "source",
    "standard",
    "stop",
    "stop_sequence",
    "stop_sequences",
    "stream",
    "stream_options",
    "string",
    "system",
    "systemInstruction",
    "temperature",
    "text",
    "text/plain",
    "thinking",
    "thinkingConfig",
    "thoughtSignature",
    "toolConfig",
    "tool_call_id",
    "tool_calls",
    "tool_choice",
    "tool_result",
    "tool_use",
    "tool_use_id",
    "url",
    "user",
    "user_id",
];

/// The members of an answer that label it.
const LABELS: [&str; 5] = ["id", "model", "modelVersion", "responseId", "system_fingerprint"];
/// The members of an event that hold the kind of something, or its id.
const WORDS_AND_IDS: [&str; 3] = ["type", "id", "item_id"];
/// The bytes of the longest label.
const LONGEST_LABEL: usize = 128;

/// The beginning of the kind of a video, the members that have the kind of a file, and those with the
/// settings of a video, in both spellings of Gemini's.
const VIDEO: &str = "video/";
const KINDS: [&str; 2] = ["mimeType", "mime_type"];
const VIDEO_SETTINGS: [&str; 2] = ["videoMetadata", "video_metadata"];

/// Whether a member of a request is its list of messages.
pub(super) fn is_conversation(top: &str) -> bool {
    matches!(top, "messages" | "contents" | "input")
}

/// Whether a name differs from that of a governed member in its case alone: some servers read the two as
/// the same.
pub(super) fn is_another_spelling(name: &str) -> bool {
    if name.len() > 2 * LONGEST_GOVERNED {
        return false;
    }
    if name.is_ascii() {
        let mut governed = GOVERNED_MEMBERS.iter();
        return governed.any(|governed| *governed != name && governed.eq_ignore_ascii_case(name));
    }
    let folded = name.to_lowercase().to_uppercase();
    GOVERNED_MEMBERS.iter().any(|governed| *governed != name && governed.to_uppercase() == folded)
}

/// The index of a message and the trust in its author, if this token is the author's role or the type of an
/// item that defines tools. The unknown parts of the message have that trust.
pub(super) fn role(place: &Place<'_, '_>, token: Token<'_>) -> Option<(usize, Origin)> {
    let Token::Text(word) = token else { return None };
    let is_inner = place.depth() == 3 && place.member(0).is_some_and(is_conversation);
    let index = place.index(1).filter(|_| is_inner)?;
    let origin = match (place.member(2)?, word) {
        ("type", "additional_tools" | "tool_search_output") => Origin::ToolDefinition,
        ("role", "assistant" | "model") => Origin::Assistant,
        ("role", "system" | "developer") => Origin::System,
        // A block that nobody knows may hold anybody's words.
        ("role", _) => Origin::Other,
        _ => return None,
    };
    Some((index, origin))
}

/// How far the strings in a member of a request are trusted.
pub(super) fn origin(top: &str) -> Origin {
    match top {
        "system" | "instructions" | "systemInstruction" | "system_instruction" => Origin::System,
        "tools" | "functions" => Origin::ToolDefinition,
        _ => Origin::Other,
    }
}

/// Whether a token shows that a file beside it, or in it, is a video.
pub(super) fn is_of_video(place: &Place<'_, '_>, token: Token<'_>) -> bool {
    match token {
        Token::Name(name) => VIDEO_SETTINGS.contains(&name),
        Token::Text(text) => {
            let kind =
                if KINDS.contains(&place.name()) { Some(text) } else { text.strip_prefix("data:") };
            let kind = kind.and_then(|kind| kind.get(..VIDEO.len()));
            kind.is_some_and(|kind| kind.eq_ignore_ascii_case(VIDEO))
        }
        Token::Number(_) => false,
    }
}

/// Whether a text is a word of the formats themselves.
pub(crate) fn is_word_of_formats(text: &str) -> bool {
    FORMAT_WORDS.binary_search(&text).is_ok()
}

/// Whether a string of an answer is a label of the provider's on all of it, which no model writes.
pub(crate) fn is_label(place: &Place<'_, '_>, text: &str) -> bool {
    let is_outer = match place.depth() {
        1 => true,
        2 => matches!(place.member(0), Some("message" | "response")),
        _ => false,
    };
    is_outer && text.len() <= LONGEST_LABEL && LABELS.contains(&place.name())
}

/// Whether a string of an event is the kind of something or its id: a word, of letters that words and ids have.
pub(crate) fn is_word_or_id(place: &Place<'_, '_>, text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
    WORDS_AND_IDS.contains(&place.name())
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_formats_are_in_order() {
        assert!(FORMAT_WORDS.is_sorted());
    }
}
