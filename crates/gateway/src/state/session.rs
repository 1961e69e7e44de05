//! Sessions: the calls that belong to one conversation of an application.
//!
//! A session is known by a keyed hash of its name, or of the beginning of its conversation. The key is
//! the project's and the same on every node and after a restart, so a session is too.

use std::fmt::{self, Formatter};

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use domain::conversation::{Body, Message, Prompt, Role};
use domain::ids::{KeyId, TraceId};
use serde_json::Value;

/// A longer name of a session is none, in bytes.
const LONGEST_NAME: usize = 256;
/// A longer text counts with both its ends alone for a fingerprint, in bytes.
const LONGEST_WHOLE: usize = 1024;
/// The most messages, parts of a message, and tools that count.
const MOST: usize = 32;

/// A session of one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionId([u8; 16]);

impl SessionId {
    /// Its bytes, each spread evenly.
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// The session of a recorded call.
    pub(crate) fn continued(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Half of it as a number.
    pub(crate) fn number(self) -> u64 {
        let [_, _, _, _, _, _, _, _, half @ ..] = self.0;
        u64::from_be_bytes(half)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId(..)")
    }
}

/// Whether a text that a caller sends can name a session.
pub(crate) fn is_session_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
}

/// The key of a project under which sessions and their placeholders are computed.
#[derive(Clone)]
pub(crate) struct SessionKey(hmac::Key);

impl fmt::Debug for SessionKey {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionKey(..)")
    }
}

/// The use of a hash: no hash of one use is one of another.
#[derive(Clone, Copy)]
enum Use {
    Name = 1,
    Trace,
    Conversation,
    Placeholder,
}

impl SessionKey {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, key))
    }

    /// The session of a name.
    pub(crate) fn named(&self, key: KeyId, name: &str) -> SessionId {
        let mut hash = self.begin(Use::Name, key);
        hash.field(name.as_bytes());
        hash.session()
    }

    /// The session that a trace is.
    pub(crate) fn of_trace(&self, key: KeyId, trace: TraceId) -> SessionId {
        let mut hash = self.begin(Use::Trace, key);
        hash.field(trace.0.as_bytes());
        hash.session()
    }

    /// The session of a conversation, by what does not change while it grows: its instructions, the
    /// names of its tools, and its first question. Long texts are read at both ends only: that takes
    /// a few microseconds however long they are, and two conversations that differ nowhere else may
    /// share a session.
    pub(crate) fn of_conversation(&self, key: KeyId, prompt: &Prompt) -> SessionId {
        let mut hash = self.begin(Use::Conversation, key);
        let tools = prompt.params.get("tools").and_then(Value::as_array);
        hash.number(tools.map_or(0, Vec::len));
        for tool in tools.into_iter().flatten().take(MOST) {
            let name = tool.get("function").unwrap_or(tool).get("name");
            hash.text(name.and_then(Value::as_str).unwrap_or_default());
        }
        for message in prompt.messages.iter().take(MOST) {
            hash.message(message);
            if message.role == Role::User {
                break;
            }
        }
        hash.session()
    }

    /// The last part of the placeholder that stands for a value of a session.
    pub(crate) fn tag(&self, SessionId(session): SessionId, kind: &str, value: &str) -> u32 {
        let mut hash = Hash(hmac::Context::with_key(&self.0));
        hash.0.update(&[Use::Placeholder as u8]);
        hash.0.update(&session);
        hash.field(kind.as_bytes());
        hash.field(value.as_bytes());
        let [one, two, three, four, ..] = hash.session().0;
        u32::from_be_bytes([one, two, three, four])
    }

    fn begin(&self, of: Use, key: KeyId) -> Hash {
        let mut hash = Hash(hmac::Context::with_key(&self.0));
        hash.0.update(&[of as u8]);
        hash.0.update(&key.0.to_be_bytes());
        hash
    }
}

struct Hash(hmac::Context);

impl Hash {
    fn number(&mut self, number: usize) {
        self.0.update(&(number as u64).to_be_bytes());
    }

    /// Its length goes first, so that no two lists of fields look alike.
    fn field(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        if bytes.len() <= LONGEST_WHOLE {
            return self.field(bytes);
        }
        self.number(bytes.len());
        self.0.update(&bytes[..LONGEST_WHOLE / 2]);
        self.0.update(&bytes[bytes.len() - LONGEST_WHOLE / 2..]);
    }

    fn message(&mut self, message: &Message) {
        self.field(message.role.as_str().as_bytes());
        match &message.body {
            Body::Empty => {}
            Body::Text(text) => self.text(text),
            Body::Parts(parts) => {
                self.number(parts.len());
                for part in parts.iter().take(MOST) {
                    self.text(part.get("text").and_then(Value::as_str).unwrap_or_default());
                }
            }
        }
    }

    fn session(self) -> SessionId {
        let tag = self.0.sign();
        let mut session = [0; 16];
        session.copy_from_slice(&tag.as_ref()[..16]);
        SessionId(session)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: KeyId = KeyId(7);

    fn key() -> SessionKey {
        SessionKey::new(&[7; 32])
    }

    fn prompt(messages: &[(&str, &str)], tools: &[&str]) -> Prompt {
        let read = |&(role, text): &(&str, &str)| {
            Message::read(json!({"role": role, "content": text})).unwrap()
        };
        let tool = |name: &&str| json!({"type": "function", "function": {"name": name}});
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        let params = json!({"tools": tools}).as_object().unwrap().clone();
        Prompt { messages: messages.iter().map(read).collect(), params, ..Prompt::default() }
    }

    fn of(messages: &[(&str, &str)], tools: &[&str]) -> SessionId {
        key().of_conversation(KEY, &prompt(messages, tools))
    }

    #[test]
    fn a_conversation_is_one_session_while_it_grows() {
        let turns = [
            ("system", "Be brief."),
            ("developer", "Today is Monday."),
            ("user", "How warm is it?"),
            ("assistant", "Mild."),
            ("system", "It is Tuesday now."),
            ("user", "And now?"),
        ];
        let one = of(&turns[..3], &["weather"]);
        for length in 3..=turns.len() {
            assert_eq!(of(&turns[..length], &["weather"]), one, "{length} messages");
        }
        for (other, tools) in [
            ([("system", "Be long."), turns[1], turns[2]], "weather"),
            ([turns[0], turns[1], ("user", "How cold is it?")], "weather"),
            ([turns[0], turns[1], ("assistant", "How warm is it?")], "weather"),
            ([turns[0], turns[1], turns[2]], "wind"),
        ] {
            assert_ne!(of(&other, &[tools]), one, "{other:?} {tools}");
        }
        assert_ne!(of(&turns[..3], &[]), one);
        assert_ne!(key().of_conversation(KeyId(8), &prompt(&turns[..3], &["weather"])), one);
        assert_ne!(
            SessionKey::new(&[8; 32]).of_conversation(KEY, &prompt(&turns[..3], &["weather"])),
            one
        );
    }

    #[test]
    fn both_ends_of_long_texts_count() {
        let long = |first: &str, last: &str| format!("{first}{}{last}", "x".repeat(100_000));
        let one = of(&[("user", &long("a", "b"))], &[]);
        assert_eq!(of(&[("user", &long("a", "b"))], &[]), one);
        for (first, last) in [("b", "b"), ("a", "a"), ("a", "bb")] {
            assert_ne!(of(&[("user", &long(first, last))], &[]), one, "{first} {last}");
        }
    }

    #[test]
    fn names_are_a_keys_own_and_nothing_else() {
        let one = key().named(KEY, "a");
        assert_eq!(key().named(KEY, "a"), one);
        assert_ne!(key().named(KEY, "b"), one);
        assert_ne!(key().named(KeyId(8), "a"), one);
        assert_ne!(SessionKey::new(&[8; 32]).named(KEY, "a"), one);
        let trace = TraceId(uuid::Uuid::nil());
        let name = std::str::from_utf8(trace.0.as_bytes()).unwrap().to_owned();
        assert_ne!(key().of_trace(KEY, trace), key().named(KEY, &name));
        assert!(is_session_name("a") && is_session_name(&"a".repeat(256)));
        assert!(!is_session_name("") && !is_session_name(&"a".repeat(257)));
    }

    #[test]
    fn a_tag_is_that_of_its_session_type_and_value() {
        let (one, other) = (key().named(KEY, "a"), key().named(KEY, "b"));
        let tag = key().tag(one, "EMAIL", "jane@acme.org");
        assert_eq!(key().tag(one, "EMAIL", "jane@acme.org"), tag);
        assert_ne!(key().tag(other, "EMAIL", "jane@acme.org"), tag);
        assert_ne!(key().tag(one, "EMAIL", "june@acme.org"), tag);
        assert_ne!(key().tag(one, "EMAI", "Ljane@acme.org"), tag);
        assert_ne!(SessionKey::new(&[8; 32]).tag(one, "EMAIL", "jane@acme.org"), tag);
        assert_eq!(format!("{one:?} {:?}", key()), "SessionId(..) SessionKey(..)");
    }
}
