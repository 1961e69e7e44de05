//! The chain of audit events: what a hash covers, byte by byte. No I/O.
//!
//! Every run of a process has a chain of its own, so that no process waits for another. A link is
//! `SHA-256(previous hash || canonical form)`. The first link of a chain continues the hash over the heads of
//! all other chains at that moment, so that a chain cannot be taken away as a whole once another has begun.

use std::borrow::Cow;
use std::fmt;

use aws_lc_rs::digest;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

/// The kind of the events whose metadata is updated after they are written.
pub(crate) const RECOUNTED: &str = "perimeter_block";
/// The member of their metadata that is updated, which no hash covers.
const COUNT: &str = "count";

/// The hash of a link: SHA-256, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHash(pub [u8; 32]);

impl LinkHash {
    /// Reads a hash from its digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Reads a hash from a column; `None` if it is of another length.
    pub(crate) fn stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    fn finish(context: digest::Context) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }
}

impl fmt::Display for LinkHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// The node of the chain.
    pub node: i64,
    /// The number of its last link.
    pub link: i64,
    /// The hash of its last link; `None` if the stored one is no hash.
    pub hash: Option<LinkHash>,
}

/// The hash that the first link of a chain continues: over the heads of all other chains, by their nodes, as
/// `[[node,link,"hash"],...]`.
pub(crate) fn hash_of_heads(heads: impl Iterator<Item = ChainHead>) -> LinkHash {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(b"[");
    for (at, ChainHead { node, link, hash }) in heads.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let hash = hash.map_or_else(String::new, |hash| hash.to_string());
        context.update(format!("{comma}[{node},{link},\"{hash}\"]").as_bytes());
    }
    context.update(b"]");
    LinkHash::finish(context)
}

/// The fields of an event that its hash covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered<'a> {
    pub(crate) org: i64,
    pub(crate) event: &'a str,
    pub(crate) actor_id: Option<i64>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) target_type: Option<&'a str>,
    pub(crate) target_id: Option<&'a str>,
    pub(crate) ip: &'a str,
    pub(crate) user_agent: &'a str,
    /// The text of a JSON object, as it is stored.
    pub(crate) metadata: &'a str,
    pub(crate) at: Timestamp,
}

impl Covered<'_> {
    /// The hash of the event as a link of a chain.
    pub(crate) fn hash(&self, node: i64, link: i64, previous: LinkHash) -> LinkHash {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&previous.0);
        context.update(self.canonical(node, link).as_bytes());
        LinkHash::finish(context)
    }

    /// The canonical form: a JSON array without white space. The metadata stands in it as it is stored, since
    /// a text that is parsed and written again may differ. It cannot pass for another field: the strings
    /// before it are quoted, and the number behind it follows the last comma.
    fn canonical(&self, node: i64, link: i64) -> String {
        let fields = json!([
            node,
            link,
            self.org,
            self.event,
            self.actor_id,
            self.actor,
            self.target_type,
            self.target_id,
            self.ip,
            self.user_agent,
        ]);
        let fields = fields.to_string();
        let open = fields.strip_suffix(']').unwrap_or(&fields);
        format!("{open},{},{}]", self.lasting_metadata(), self.at.0)
    }

    /// The metadata without what is updated later.
    fn lasting_metadata(&self) -> Cow<'_, str> {
        if self.event != RECOUNTED {
            return Cow::Borrowed(self.metadata);
        }
        match serde_json::from_str::<Map<String, Value>>(self.metadata) {
            Ok(mut metadata) => {
                // The order of the others stays.
                metadata.shift_remove(COUNT);
                Cow::Owned(Value::Object(metadata).to_string())
            }
            // Nobody writes such a text: it is hashed as it stands, and its hash does not fit.
            Err(_) => Cow::Borrowed(self.metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: Covered<'_> = Covered {
        org: 1,
        event: "key_created",
        actor_id: Some(2),
        actor: Some("a@b.test"),
        target_type: Some("key"),
        target_id: Some("7"),
        ip: "::1",
        user_agent: "curl \"8\"",
        metadata: r#"{"b":0.1,"a":1}"#,
        at: Timestamp(1_795_000_000_000_001),
    };
    const NONE: LinkHash = LinkHash([0; 32]);

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let form = r#"[3,4,1,"key_created",2,"a@b.test","key","7","::1","curl \"8\"",{"b":0.1,"a":1},1795000000000001]"#;
        assert_eq!(EVENT.canonical(3, 4), form);
        // printf with 32 zero bytes and the form, through sha256sum.
        let hash = "8a3f4488515c3685e3d8128eb6b58c0b5c190595072f118c046ff708d42ba26b";
        assert_eq!(EVENT.hash(3, 4, NONE).to_string(), hash);
        assert_eq!(LinkHash::parse(hash), Some(EVENT.hash(3, 4, NONE)));
        let empty = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";
        assert_eq!(hash_of_heads([].into_iter()).to_string(), empty, "of []");
        let head = |node, link, hash| ChainHead { node, link, hash };
        let heads = [head(1, 2, Some(NONE)), head(3, 1, None)];
        let zeros = "0".repeat(64);
        let text = format!("[[1,2,\"{zeros}\"],[3,1,\"\"]]");
        let of_text = digest::digest(&digest::SHA256, text.as_bytes());
        assert_eq!(hash_of_heads(heads.into_iter()).0, of_text.as_ref());
    }

    #[test]
    fn every_field_counts() {
        let hash = EVENT.hash(3, 4, NONE);
        let others = [
            Covered { org: 2, ..EVENT },
            Covered { event: "key_revoked", ..EVENT },
            Covered { actor_id: None, ..EVENT },
            Covered { actor: None, ..EVENT },
            Covered { target_type: Some("model"), ..EVENT },
            Covered { target_id: None, ..EVENT },
            Covered { ip: "::2", ..EVENT },
            Covered { user_agent: "curl", ..EVENT },
            Covered { metadata: r#"{"b":0.1,"a":2}"#, ..EVENT },
            Covered { at: Timestamp(EVENT.at.0 + 1), ..EVENT },
        ];
        for other in others {
            assert_ne!(other.hash(3, 4, NONE), hash, "{other:?}");
        }
        assert_ne!(EVENT.hash(4, 4, NONE), hash);
        assert_ne!(EVENT.hash(3, 5, NONE), hash);
        assert_ne!(EVENT.hash(3, 4, hash), hash);
    }

    #[test]
    fn only_the_count_of_perimeter_blocks_may_change() {
        let block = |metadata| Covered { event: RECOUNTED, metadata, ..EVENT }.hash(1, 1, NONE);
        let first = block(r#"{"why":"invalid key","count":1,"others":2}"#);
        assert_eq!(block(r#"{"why":"invalid key","count":900,"others":2}"#), first);
        assert_ne!(block(r#"{"why":"revoked key","count":1,"others":2}"#), first);
        assert_ne!(block(r#"{"why":"invalid key","count":1,"others":3}"#), first);
        let key = |metadata| Covered { metadata, ..EVENT }.hash(1, 1, NONE);
        assert_ne!(key(r#"{"count":1}"#), key(r#"{"count":2}"#));
    }
}
