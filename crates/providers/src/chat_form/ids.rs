//! Ids of calls that a provider gives none: Gemini before its third generation, and some servers of the
//! chat-completions format. Callers of the gateway need ids. An invented id holds the index of the call
//! in its message, so nothing has to be remembered.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const PREFIX: &str = "call_";
/// Longest id of a response, in characters, that makes an id unique as it is: with it an invented id
/// fits into the 40 that OpenAI's format allows, should the conversation continue there. So does the
/// hash of a longer one.
pub(crate) const MOST_UNIQUE_CHARS: usize = 24;

/// Invents an id for the call at an index among those of its message.
pub(crate) fn invent(index: usize, response_id: &str, name: &str, arguments: &str) -> String {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let fits = response_id.len() <= MOST_UNIQUE_CHARS && response_id.bytes().all(is_known);
    let unique = response_id.replace('_', "");
    if fits && !unique.is_empty() {
        return format!("{PREFIX}{index}_{unique}");
    }
    // Hashed, not cut: a part could not be recognised as an echoed credential any more.
    let mut hasher = DefaultHasher::new();
    match response_id {
        "" => (name, arguments).hash(&mut hasher),
        id => id.hash(&mut hasher),
    }
    format!("{PREFIX}{index}_{:016x}", hasher.finish())
}

/// Returns the index that an invented id stands for.
pub(crate) fn index_of(id: &str) -> Option<usize> {
    let (index, _) = id.strip_prefix(PREFIX)?.split_once('_')?;
    index.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invented_id_says_which_call_it_is() {
        let long = "a_b-".repeat(40);
        for (index, response_id) in [(0, "yk3baLqP"), (7, ""), (999, long.as_str()), (1, "é/%")] {
            let id = invent(index, response_id, "f", "{}");
            assert_eq!(index_of(&id), Some(index));
            assert_eq!(id, invent(index, response_id, "f", "{}"));
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            assert!(id.len() <= 40 && id.bytes().all(legal), "{id}");
        }
        assert_ne!(invent(0, "x", "f", "{}"), invent(0, "y", "f", "{}"));
        assert_ne!(invent(0, "", "f", "{}"), invent(0, "", "g", "{}"));
        assert_ne!(invent(0, &"x".repeat(30), "f", "{}"), invent(0, &"x".repeat(31), "f", "{}"));
        let secret = "sk-canary-0123456789/abcdef+0123456789";
        assert!(
            !invent(0, secret, "f", "{}").contains("sk-"),
            "a part of it would not be recognised"
        );
    }

    #[test]
    fn other_ids_say_nothing() {
        for id in ["", "call_", "call_1", "call_x_y", "toolu_1_2", "call_-1_x"] {
            assert_eq!(index_of(id), None, "{id}");
        }
    }
}
