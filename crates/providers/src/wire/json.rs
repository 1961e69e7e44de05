//! Lenient reading of providers' JSON.
//!
//! Some cut a text between the two halves of a character and escape each half by itself. That is
//! JSON, but no text: strict readers refuse the whole answer for it.

use domain::json_weight::{JsonWeight, may_have_reserved_name};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::Error;

/// A text up to this size is weighed only if it may have a reserved name: otherwise its tree is small.
const UNWEIGHED_BYTES: usize = 16 * 1024;
/// Bytes that the tree of any answer may take: log probabilities of thousands of tokens, each with the
/// twenty likeliest, are as dense as any honest answer.
const TREE_ALLOWANCE: usize = 64 * 1024 * 1024;
/// Replacement for half a character.
const REPLACEMENT: &[u8; 6] = b"\\ufffd";

/// Reads JSON, with a replacement for each half of a character.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_slice(&mended),
        None => Err(error),
    })
}

/// Reads an answer that must be an object, unless it has too many values for its size.
pub(crate) fn object(json: &[u8]) -> Result<Map<String, Value>, Error> {
    check_weight(json)?;
    read(json).map_err(|_| Error::malformed("it is no JSON object"))
}

/// Reads any value, within the bounds of [`check_weight`]; `None` if it is no JSON.
pub(crate) fn value(json: &[u8]) -> Option<Value> {
    check_weight(json).ok()?;
    read(json).ok()
}

/// Refuses JSON whose tree would take far more than its bytes.
pub(crate) fn check_weight(json: &[u8]) -> Result<(), Error> {
    if json.len() <= UNWEIGHED_BYTES && !may_have_reserved_name(json) {
        return Ok(());
    }
    let weight = JsonWeight::of(json);
    if weight.is_too_deep {
        return Err(Error::malformed("it is nested too deeply"));
    }
    if weight.has_reserved_name {
        return Err(Error::malformed("it has a name that is reserved"));
    }
    if !weight.is_in_proportion(json.len(), TREE_ALLOWANCE) {
        return Err(Error::malformed(format_args!(
            "it has too many values for its size ({} in {} bytes)",
            weight.values,
            json.len()
        )));
    }
    Ok(())
}

/// Returns the JSON with a replacement for each escape of half a character that lacks the other half;
/// `None` if there is none.
pub(crate) fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(before) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += before;
        at += match unit(&json[at..]) {
            Some(0xD800..0xDC00) if matches!(unit(&json[at + 6..]), Some(0xDC00..0xE000)) => 12,
            Some(0xD800..0xE000) => {
                let mended = mended.get_or_insert_with(|| json.to_vec());
                mended[at..at + 6].copy_from_slice(REPLACEMENT);
                6
            }
            Some(_) => 6,
            // A backslash behind this one begins no escape.
            None => 2,
        };
    }
    mended
}

/// Returns the number in an escape such as `\ud83d`, if one begins here.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn halves_of_characters_are_replaced() {
        for (sent, read_as) in [
            (r#""plain \n \" \u00e9""#, Some("plain \n \" é")),
            (r#""\ud83d\ude42""#, Some("🙂")),
            (r#""\uD83D\uDE42""#, Some("🙂")),
            (r#""\ud83d""#, Some("\u{fffd}")),
            (r#""\ude42""#, Some("\u{fffd}")),
            (r#""a\ud83d b\ude42""#, Some("a\u{fffd} b\u{fffd}")),
            (r#""\ud83d\ud83d\ude42""#, Some("\u{fffd}🙂")),
            (r#""\ud83d\ude42\ude42""#, Some("🙂\u{fffd}")),
            (r#""\ude42\ud83d""#, Some("\u{fffd}\u{fffd}")),
            (r#""\ud83d\n""#, Some("\u{fffd}\n")),
            (r#""\ud83d\u0041""#, Some("\u{fffd}A")),
            (r#""\\ud83d \ud83d""#, Some("\\ud83d \u{fffd}")),
            (r#""\\\ud83d""#, Some("\\\u{fffd}")),
            (r#""\ud83d"#, None),
            (r#""\ud8"#, None),
            (r#""\"#, None),
            (r#""\ud83d" x"#, None),
        ] {
            assert_eq!(read::<String>(sent.as_bytes()).ok().as_deref(), read_as, "{sent}");
        }
        assert_eq!(
            read::<Value>(br#"{"\ude42": ["\ud83d"]}"#).unwrap(),
            json!({"\u{fffd}": ["\u{fffd}"]})
        );
    }

    #[test]
    fn what_has_no_halves_is_left_alone() {
        for sent in [r#""\ud83d\ude42 \\ud83d""#, "no json", "", "\\", "\\u", "\\ud83"] {
            assert_eq!(mended(sent.as_bytes()), None, "{sent}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in r#"[\\ud83e"+x]{0,40}"#) {
            let _ = read::<Value>(text.as_bytes());
            if let Some(mended) = mended(text.as_bytes()) {
                prop_assert_eq!(super::mended(&mended), None);
            }
        }
    }
}
