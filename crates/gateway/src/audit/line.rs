//! An audit event as a line of JSON: written by an export, read to verify it. No I/O.

use std::borrow::Cow;

use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use store::{AuditRecord, ChainPlace, LinkHash};

use crate::error::{Error, Result};

/// The fields of a line, in their order.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    id: i64,
    event: Cow<'a, str>,
    actor: Option<Cow<'a, str>>,
    actor_id: Option<i64>,
    target_type: Option<Cow<'a, str>>,
    target_id: Option<Cow<'a, str>>,
    ip: Cow<'a, str>,
    user_agent: Cow<'a, str>,
    /// As it is stored, byte for byte: the hash covers it so.
    metadata: Box<RawValue>,
    /// To the microsecond: the hash covers it so.
    occurred_at: String,
    org_id: i64,
    node: Option<i64>,
    link: Option<i64>,
    previous: Option<String>,
    hash: Option<String>,
}

/// Adds an event as a line.
pub(super) fn write(record: &AuditRecord, out: &mut Vec<u8>) -> Result<()> {
    let fault = |error: serde_json::Error| Error::Internal(format!("an audit event: {error}"));
    let stored = RawValue::from_string(record.metadata.clone());
    let metadata = match stored.ok().filter(|json| !json.get().contains(['\n', '\r'])) {
        Some(metadata) => metadata,
        // One unreadable event hides no other, and breaks no line; its hash does not fit in any case.
        None => {
            let shown = json!({"unreadable": record.metadata}).to_string();
            RawValue::from_string(shown).map_err(fault)?
        }
    };
    let place = record.place;
    let digits = |hash: Option<LinkHash>| hash.map(|hash| hash.to_string());
    let line = Line {
        id: record.id,
        event: Cow::Borrowed(&record.event),
        actor: record.actor.as_deref().map(Cow::Borrowed),
        actor_id: record.actor_id,
        target_type: record.target_type.as_deref().map(Cow::Borrowed),
        target_id: record.target_id.as_deref().map(Cow::Borrowed),
        ip: Cow::Borrowed(&record.ip),
        user_agent: Cow::Borrowed(&record.user_agent),
        metadata,
        occurred_at: record.at.exact(),
        org_id: record.org,
        node: place.map(|place| place.node),
        link: place.map(|place| place.link),
        previous: digits(place.and_then(|place| place.previous)),
        hash: digits(place.and_then(|place| place.hash)),
    };
    serde_json::to_writer(&mut *out, &line).map_err(fault)?;
    out.push(b'\n');
    Ok(())
}

/// Reads an event from a line. The fault is for people.
pub(super) fn read(line: &[u8]) -> std::result::Result<AuditRecord, String> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let at = Timestamp::parse(&line.occurred_at);
    let hash = |digits: Option<String>| LinkHash::parse(&digits?);
    let place = line.node.map(|node| ChainPlace {
        node,
        // Links count from 1 on.
        link: line.link.unwrap_or_default(),
        previous: hash(line.previous),
        hash: hash(line.hash),
    });
    Ok(AuditRecord {
        id: line.id,
        org: line.org_id,
        event: line.event.into_owned(),
        actor_id: line.actor_id,
        actor: line.actor.map(Cow::into_owned),
        target_type: line.target_type.map(Cow::into_owned),
        target_id: line.target_id.map(Cow::into_owned),
        ip: line.ip.into_owned(),
        user_agent: line.user_agent.into_owned(),
        metadata: line.metadata.get().to_owned(),
        at: at.ok_or_else(|| "occurred_at is no time".to_owned())?,
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(metadata: &str) -> AuditRecord {
        let hash = |byte| Some(LinkHash([byte; 32]));
        AuditRecord {
            id: 9,
            org: 1,
            event: "key_created".to_owned(),
            actor_id: Some(2),
            actor: Some("a\"@b.test".to_owned()),
            target_type: None,
            target_id: None,
            ip: "::1".to_owned(),
            user_agent: "\u{e9}".to_owned(),
            metadata: metadata.to_owned(),
            at: Timestamp(1_795_000_000_000_001),
            place: Some(ChainPlace { node: 3, link: 4, previous: hash(1), hash: hash(0xab) }),
        }
    }

    fn line(record: &AuditRecord) -> String {
        let mut text = Vec::new();
        write(record, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_line_brings_an_event_back_byte_for_byte() {
        let plain = AuditRecord { place: None, ..record("{}") };
        for event in [record(r#"{"b": 1e-7 ,"a":"\u00e9"}"#), record("{}"), plain] {
            let read = read(line(&event).as_bytes()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{event:?}"));
            let previous = LinkHash([1; 32]);
            assert_eq!(read.hash_after(previous), event.hash_after(previous));
        }
    }

    #[test]
    fn metadata_that_was_tampered_with_breaks_no_line() {
        for metadata in ["", "{", "{} {}", "{\n}", "{\r}"] {
            let text = line(&record(metadata));
            assert_eq!(text.lines().count(), 1, "{text}");
            assert_eq!(text.matches('\r').count(), 0);
            let shown = read(text.as_bytes()).unwrap().metadata;
            assert_eq!(shown, json!({"unreadable": metadata}).to_string());
        }
    }
}
