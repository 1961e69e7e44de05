//! The paths of strings in a stream that continue from chunk to chunk. Adapters of vendors' formats
//! write no other paths; servers of the chat-completions format have more names for them.

/// A kind of position in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
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
const WAYS: [(Way, &str, Way); 29] = [
    (Way::Whole, "delta", Way::Delta),
    (Way::Delta, "content", Way::Content),
    (Way::Delta, "refusal", Way::Words),
    (Way::Delta, "tool_calls", Way::Calls),
    (Way::Delta, "function_call", Way::Calls),
    (Way::Delta, "audio", Way::Sound),
    (Way::Delta, "reasoning", Way::Thoughts),
    (Way::Delta, "reasoning_content", Way::Thoughts),
    (Way::Delta, "reasoning_details", Way::Thoughts),
    (Way::Delta, "reasoning_summary", Way::Thoughts),
    (Way::Delta, "reasoning_text", Way::Thoughts),
    (Way::Delta, "thinking", Way::Thoughts),
    (Way::Delta, "thinking_blocks", Way::Thoughts),
    (Way::Delta, "thinking_content", Way::Thoughts),
    (Way::Delta, "thought", Way::Thoughts),
    (Way::Delta, "thoughts", Way::Thoughts),
    (Way::Content, "text", Way::Content),
    (Way::Content, "refusal", Way::Words),
    (Way::Content, "reasoning", Way::Thoughts),
    (Way::Content, "thinking", Way::Thoughts),
    (Way::Thoughts, "content", Way::Thoughts),
    (Way::Thoughts, "summary", Way::Thoughts),
    (Way::Thoughts, "text", Way::Thoughts),
    (Way::Thoughts, "thinking", Way::Thoughts),
    (Way::Calls, "function", Way::Calls),
    (Way::Calls, "custom", Way::Calls),
    (Way::Calls, "arguments", Way::Words),
    (Way::Calls, "input", Way::Words),
    (Way::Sound, "transcript", Way::Words),
];

impl Way {
    /// Returns the position inside a member, with its name.
    pub(crate) fn into(self, name: &str) -> Option<(&'static str, Self)> {
        let next = WAYS.iter().find(|(from, member, _)| *from == self && *member == name);
        next.map(|(_, member, to)| (*member, *to))
    }

    /// Whether its strings may be in a list.
    pub(crate) fn has_items(self) -> bool {
        matches!(self, Self::Content | Self::Thoughts | Self::Calls)
    }

    /// Whether a string here continues in the next chunk.
    pub(crate) fn goes_on(self) -> bool {
        matches!(self, Self::Content | Self::Thoughts | Self::Words)
    }
}
