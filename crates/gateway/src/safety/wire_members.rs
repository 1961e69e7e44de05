//! The members of vendors' formats that matter to safety in a request as it came: those that the gateway
//! decides, and whose words the others hold.

use domain::json_text::{Place, Token};
use domain::original::WireFormat;
use domain::safety::Origin;

/// The members of a request that the gateway replaces or takes out.
pub(super) fn ours(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::Messages | WireFormat::ChatCompletions => &["model", "trace_id", "stream"],
        WireFormat::GenerateContent => &["model"],
    }
}

/// The members of a request that the gateway decides, and the bytes of the longest name.
const GOVERNED: [&str; 14] = [
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
];
const LONGEST_GOVERNED: usize = 21;
/// Words and names of the formats themselves: judging them would only take time.
pub(super) const FORMAT_WORDS: [&str; 70] = [
    "adaptive",
    "any",
    "assistant",
    "auto",
    "base64",
    "budget_tokens",
    "cache_control",
    "content",
    "custom",
    "description",
    "disabled",
    "document",
    "enabled",
    "ephemeral",
    "function",
    "image_url",
    "include_usage",
    "max_completion_tokens",
    "response_format",
    "stream_options",
    "tool_call_id",
    "tool_calls",
    "image",
    "input_schema",
    "is_error",
    "max_tokens",
    "media_type",
    "messages",
    "metadata",
    "object",
    "output_config",
    "signature",
    "source",
    "stop_sequences",
    "stream",
    "string",
    "system",
    "temperature",
    "text",
    "thinking",
    "tool_choice",
    "tool_result",
    "tool_use",
    "tool_use_id",
    "user",
    "user_id",
    "url",
    "contents",
    "functionCall",
    "functionCallingConfig",
    "functionDeclarations",
    "functionResponse",
    "generationConfig",
    "includeThoughts",
    "inlineData",
    "maxOutputTokens",
    "mimeType",
    "model",
    "output",
    "parameters",
    "parametersJsonSchema",
    "properties",
    "response",
    "safetySettings",
    "systemInstruction",
    "thinkingConfig",
    "thoughtSignature",
    "toolConfig",
    "OBJECT",
    "STRING",
];
/// Whether a member of a request is its list of messages.
pub(super) fn is_conversation(top: &str) -> bool {
    matches!(top, "messages" | "contents")
}

/// Whether a name is that of a member that the gateway decides but for its case: some servers read it
/// as the same.
pub(super) fn is_another_spelling(name: &str) -> bool {
    if name.len() > 2 * LONGEST_GOVERNED {
        return false;
    }
    let folded = name.to_lowercase().to_uppercase();
    GOVERNED.iter().any(|governed| *governed != name && governed.to_uppercase() == folded)
}

/// The index of a message, and whose words its unknown parts are, if its author stands here.
pub(super) fn role(place: &Place<'_, '_>, token: Token<'_>) -> Option<(usize, Origin)> {
    let Token::Text(role) = token else { return None };
    let is_role = place.depth() == 3 && place.member(2) == Some("role");
    let index =
        place.index(1).filter(|_| is_role && place.member(0).is_some_and(is_conversation))?;
    Some((
        index,
        match role {
            "assistant" | "model" => Origin::Assistant,
            "system" | "developer" => Origin::System,
            // A block that nobody knows may hold anybody's words.
            _ => Origin::Other,
        },
    ))
}

/// How far the strings in a member of a request are trusted.
pub(super) fn origin(top: &str) -> Origin {
    match top {
        "system" | "instructions" | "systemInstruction" | "system_instruction" => Origin::System,
        "tools" => Origin::ToolDefinition,
        _ => Origin::Other,
    }
}
