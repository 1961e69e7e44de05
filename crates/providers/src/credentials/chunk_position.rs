//! The paths of strings in a stream that continue from chunk to chunk. Adapters of vendors' formats
//! write no other paths; servers of the chat-completions format have more names for them.

/// A kind of position in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Any position not on a path to a string that continues: strings come whole.
    Whole,
    Delta,
    /// The text of an answer, as one string or in parts.
    Content,
    /// The reasoning before it.
    Thoughts,
    /// Calls of tools.
    Calls,
    Sound,
    /// Other strings that continue.
    Words,
}

/// The members of chunks on paths to strings that continue from chunk to chunk. Every other string
/// comes whole.
const CONTINUED_STRINGS: [(Position, &str, Position); 29] = [
    (Position::Whole, "delta", Position::Delta),
    (Position::Delta, "content", Position::Content),
    (Position::Delta, "refusal", Position::Words),
    (Position::Delta, "tool_calls", Position::Calls),
    (Position::Delta, "function_call", Position::Calls),
    (Position::Delta, "audio", Position::Sound),
    (Position::Delta, "reasoning", Position::Thoughts),
    (Position::Delta, "reasoning_content", Position::Thoughts),
    (Position::Delta, "reasoning_details", Position::Thoughts),
    (Position::Delta, "reasoning_summary", Position::Thoughts),
    (Position::Delta, "reasoning_text", Position::Thoughts),
    (Position::Delta, "thinking", Position::Thoughts),
    (Position::Delta, "thinking_blocks", Position::Thoughts),
    (Position::Delta, "thinking_content", Position::Thoughts),
    (Position::Delta, "thought", Position::Thoughts),
    (Position::Delta, "thoughts", Position::Thoughts),
    (Position::Content, "text", Position::Content),
    (Position::Content, "refusal", Position::Words),
    (Position::Content, "reasoning", Position::Thoughts),
    (Position::Content, "thinking", Position::Thoughts),
    (Position::Thoughts, "content", Position::Thoughts),
    (Position::Thoughts, "summary", Position::Thoughts),
    (Position::Thoughts, "text", Position::Thoughts),
    (Position::Thoughts, "thinking", Position::Thoughts),
    (Position::Calls, "function", Position::Calls),
    (Position::Calls, "custom", Position::Calls),
    (Position::Calls, "arguments", Position::Words),
    (Position::Calls, "input", Position::Words),
    (Position::Sound, "transcript", Position::Words),
];

impl Position {
    /// Returns the position inside a member, with its name.
    pub(crate) fn into(self, name: &str) -> Option<(&'static str, Self)> {
        let next =
            CONTINUED_STRINGS.iter().find(|(from, member, _)| *from == self && *member == name);
        next.map(|(_, member, to)| (*member, *to))
    }

    /// Whether its strings may be in a list.
    pub(crate) fn has_items(self) -> bool {
        matches!(self, Self::Content | Self::Thoughts | Self::Calls)
    }

    /// Whether a string here continues in the next chunk.
    pub(crate) fn continues(self) -> bool {
        matches!(self, Self::Content | Self::Thoughts | Self::Words)
    }
}
