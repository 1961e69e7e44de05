//! The memory that a JSON text takes as a tree, computed from its bytes before the tree is built.
//!
//! A tree of `serde_json` takes up to three hundred times the bytes that it is read from: `[[]]` is four
//! bytes, and a list has room for four values of 72 bytes. So input from a caller or a provider is weighed
//! first. One pass, no allocation; malformed JSON is weighed as far as it goes, and left for the parser to
//! refuse.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Deeper nesting is not weighed: no tree of it is built. (`serde_json` stops at 128, but not in members
/// that it passes over, and continues behind them.)
const MAX_DEPTH: usize = 127;
/// The beginning of names by which `serde_json` marks values of its own. An object that has such a name is
/// read as the JSON in the string beside it: a tree that has not been weighed.
const RESERVED: &[u8] = b"$serde_json::private::";
/// A value in a list: the size of `serde_json::Value` with ordered maps.
const VALUE: usize = 72;
/// A member of an object beside its name: hash, name and value.
const MEMBER: usize = 8 + 24 + VALUE;
/// The least number of values that a list has room for.
const LEAST_ITEMS: usize = 4;
/// The smallest allocation.
const LEAST_ALLOCATION: usize = 16;

/// The most bytes of a tree for each byte of its text, beside the allowance of any tree.
const TREE_BYTES_PER_BYTE: usize = 6;
/// The bytes recorded when a string is judged, beside its own.
const BYTES_PER_STRING: usize = 96;
/// The bytes that the trees of all texts that one [`InnerJson`] reads may take, beside their proportion:
/// thousands of short calls of tools, or points of a diagram.
const INNER_ALLOWANCE: usize = 32 * 1024 * 1024;

/// The size of a JSON text as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonWeight {
    /// Values of every kind: lists, objects, strings, numbers, words.
    pub values: usize,
    /// Strings among them, and names of members.
    pub strings: usize,
    /// How deeply lists and objects are nested: 0 for a bare string or number.
    pub depth: usize,
    /// Whether it is nested more deeply than trees may be. Nothing behind that position is counted.
    pub is_too_deep: bool,
    /// Whether a member has a name that the parser keeps for itself. It is not to be read as a tree.
    pub has_reserved_name: bool,
    /// The most bytes that building the tree takes, the strings' own bytes included.
    pub bytes: usize,
}

/// A list or an object whose end has not been read yet.
#[derive(Clone, Copy, Default)]
struct Open {
    is_object: bool,
    items: usize,
}

impl Open {
    /// The bytes that it takes with `items` items. Both kinds grow by doubling.
    fn bytes(self) -> usize {
        match (self.items, self.is_object) {
            (0, _) => 0,
            (items, false) => items.next_power_of_two().max(LEAST_ITEMS) * VALUE,
            (items, true) => {
                // The index of an object is a hash table that is filled to seven eighths; there is room
                // for as many members as it takes.
                let slots = (items * 8 / 7 + 1).next_power_of_two().max(4);
                slots * 7 / 8 * MEMBER + slots * 9 + 32
            }
        }
    }
}

impl JsonWeight {
    /// The bytes that the tree takes while its strings are judged.
    pub fn judged_bytes(&self) -> usize {
        self.bytes + self.strings * BYTES_PER_STRING
    }

    /// Whether the tree of a text of `length` bytes is in proportion to it. Any tree may take `allowance`
    /// bytes beside its proportion.
    pub fn is_in_proportion(&self, length: usize, allowance: usize) -> bool {
        self.judged_bytes() <= allowance + TREE_BYTES_PER_BYTE * length
    }

    /// Weighs a JSON text.
    pub fn of(json: &[u8]) -> Self {
        let mut weight = Self::default();
        let mut open = [Open::default(); MAX_DEPTH + 1];
        let (mut depth, mut at, mut largest) = (0_usize, 0, 0);
        let mut last_is_reserved = false;
        while let Some(&byte) = json.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    let length = string_length(&json[at..]);
                    last_is_reserved = is_reserved(&json[at..at + length]);
                    at += length + 1;
                    weight.strings += 1;
                    weight.bytes += length.max(LEAST_ALLOCATION);
                    weight.values += 1;
                    open[depth].items += 1;
                }
                // The string before it was a name, not a value.
                b':' => {
                    weight.has_reserved_name |= last_is_reserved;
                    weight.values = weight.values.saturating_sub(1);
                    open[depth].items = open[depth].items.saturating_sub(1);
                }
                b'[' | b'{' => {
                    weight.values += 1;
                    open[depth].items += 1;
                    if depth == MAX_DEPTH {
                        weight.is_too_deep = true;
                        break;
                    }
                    depth += 1;
                    weight.depth = weight.depth.max(depth);
                    open[depth] = Open { is_object: byte == b'{', items: 0 };
                }
                b']' | b'}' => {
                    let bytes = open[depth].bytes();
                    weight.bytes += bytes;
                    largest = largest.max(bytes);
                    depth = depth.saturating_sub(1);
                }
                b',' | b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => {
                    at += scalar_length(&json[at..]);
                    weight.values += 1;
                    open[depth].items += 1;
                }
            }
        }
        // A list or object without an end has been built up to there; one that grows is there twice for a
        // moment.
        for open in &open[1..=depth] {
            weight.bytes += open.bytes();
            largest = largest.max(open.bytes());
        }
        weight.bytes += VALUE + largest / 2;
        weight
    }
}

/// The approximate bytes that a tree takes. Its depth is limited by the parser that built it.
pub fn tree_bytes(tree: &Value) -> usize {
    VALUE + beside_value(tree)
}

/// The bytes of a tree outside its own `Value`.
fn beside_value(tree: &Value) -> usize {
    let text = |text: &String| text.len().max(LEAST_ALLOCATION);
    match tree {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(said) => text(said),
        Value::Array(list) => {
            let own = Open { is_object: false, items: list.len() }.bytes();
            own + list.iter().map(beside_value).sum::<usize>()
        }
        Value::Object(object) => {
            let own = Open { is_object: true, items: object.len() }.bytes();
            let member = |(name, value)| text(name) + beside_value(value);
            own + object.iter().map(member).sum::<usize>()
        }
    }
}

/// Whether a JSON text may have a name that the parser keeps for itself: a quick look at texts that are too
/// short to be weighed. Every text that has one is found, and few others.
pub fn may_have_reserved_name(json: &[u8]) -> bool {
    memchr::memchr2_iter(b'$', b'\\', json).any(|at| {
        at.checked_sub(1).is_some_and(|before| json[before] == b'"') && is_reserved(&json[at..])
    })
}

/// Whether the bytes of a string begin as no name may.
fn is_reserved(mut string: &[u8]) -> bool {
    RESERVED.iter().all(|expected| match string {
        [b'\\', b'u', digits @ ..] => {
            let digit = |digit: &u8| (*digit as char).to_digit(16);
            let number =
                digits.iter().take(4).try_fold(0, |all, next| Some(16 * all + digit(next)?));
            string = digits.get(4..).unwrap_or_default();
            number == Some(u32::from(*expected))
        }
        [first, rest @ ..] => {
            string = rest;
            first == expected
        }
        [] => false,
    })
}

/// Reads JSON inside strings of other JSON, such as the arguments of calls: its tree is not weighed with
/// the rest. A text whose tree would take too much is read as if it were no JSON.
#[derive(Debug)]
pub struct InnerJson {
    allowance: usize,
}

impl Default for InnerJson {
    fn default() -> Self {
        Self { allowance: INNER_ALLOWANCE }
    }
}

impl InnerJson {
    /// A reader for trees that are kept for longer than they are looked at: all of them together may take
    /// at most `allowance` bytes beside their proportion.
    pub fn within(allowance: usize) -> Self {
        Self { allowance }
    }

    /// Reads one text. Its bytes out of proportion are taken from the allowance of all.
    pub fn read<T: DeserializeOwned>(&mut self, json: &str) -> Option<T> {
        let weight = JsonWeight::of(json.as_bytes());
        let beyond = weight.bytes.saturating_sub(TREE_BYTES_PER_BYTE * json.len());
        if weight.is_too_deep || weight.has_reserved_name || beyond > self.allowance {
            return None;
        }
        let read = serde_json::from_str(json).ok()?;
        self.allowance -= beyond;
        Some(read)
    }
}

/// The bytes before the quote that ends a string.
fn string_length(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if rest[at] == b'"' {
            return at;
        }
        at += 2;
    }
    rest.len()
}

/// The bytes of a number or a word behind its first.
fn scalar_length(rest: &[u8]) -> usize {
    let ends = |byte: &u8| b",]}[{:\" \t\r\n".contains(byte);
    rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_are_those_of_the_tree() {
        for (json, values, strings, depth) in [
            ("1", 1, 0, 0),
            (r#""a\"]b""#, 1, 1, 0),
            ("[]", 1, 0, 1),
            (r#"[1, -2.5e3, true, null, "x"]"#, 6, 1, 1),
            (r#"{"a": {"b": ["\\", {}]}, "c": "[{"}"#, 6, 5, 4),
            (r#" { "a" : 1 } "#, 2, 1, 1),
        ] {
            let weight = JsonWeight::of(json.as_bytes());
            assert_eq!(
                (weight.values, weight.strings, weight.depth),
                (values, strings, depth),
                "{json}"
            );
        }
    }

    #[test]
    fn depth_has_an_end() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(!JsonWeight::of(deep(127).as_bytes()).is_too_deep);
        assert!(serde_json::from_str::<Value>(&deep(127)).is_ok());
        assert!(JsonWeight::of(deep(128).as_bytes()).is_too_deep);
        assert!(serde_json::from_str::<Value>(&deep(128)).is_err());
        assert!(JsonWeight::of("[".repeat(1_000_000).as_bytes()).is_too_deep);
    }

    #[test]
    fn names_of_the_parser_are_found() {
        let inner = format!("[{}]", vec!["[]"; 1_000].join(","));
        for name in [
            "$serde_json::private::RawValue",
            r"\u0024serde_json::private::RawValue",
            r"$serde_json\u003a\u003Aprivate::R\u0061wValue",
            r"$\u0073erde_json::private::Number",
        ] {
            for json in [
                format!(r#"{{"{name}":"{inner}"}}"#),
                format!(r#"[1,{{"a":0,"{name}" : "{inner}"}}]"#),
            ] {
                assert!(JsonWeight::of(json.as_bytes()).has_reserved_name, "{json}");
                assert!(may_have_reserved_name(json.as_bytes()), "{json}");
                assert_eq!(InnerJson::default().read::<Value>(&json), None);
            }
        }
        // The parser does build the tree that is to be avoided.
        let token = format!(r#"{{"$serde_json::private::RawValue":"{inner}"}}"#);
        assert!(serde_json::from_str::<Value>(&token).unwrap().is_array());
    }

    #[test]
    fn other_names_and_all_texts_are_free() {
        for json in [
            r#"{"a":"$serde_json::private::RawValue"}"#,
            r#"["$serde_json::private::RawValue"]"#,
            r#"{"$serde_json":1,"$ref":"x","$serde_json::privat":2}"#,
            r#"{"a":"the name \"$serde_json::private::RawValue\": is odd"}"#,
            r#"{"\\u0024serde_json::private::RawValue":1}"#,
            r#"{"\u00":1}"#,
            r#"{"$""#,
        ] {
            assert!(!JsonWeight::of(json.as_bytes()).has_reserved_name, "{json}");
        }
        assert!(!may_have_reserved_name(br#"{"$ref":"\n costs \"$5\""}"#));
    }

    #[test]
    fn inner_json_is_read_within_an_allowance_for_all() {
        let dense = |values: usize| format!(r#"{{"a":[{}]}}"#, vec!["[]"; values].join(","));
        let mut inner = InnerJson::default();
        assert!(inner.read::<Value>(&dense(1_000_000)).is_none());
        let read = (0..100).filter(|_| inner.read::<Value>(&dense(20_000)).is_some()).count();
        assert!((5..50).contains(&read), "{read}");
        let mut inner = InnerJson::default();
        for _ in 0..20_000 {
            assert!(inner.read::<Value>(r#"{"city":"Oslo","days":3,"metric":true}"#).is_some());
        }
        let long = format!(r#"{{"path":"a.rs","content":"{}"}}"#, "let x = 1;\\n".repeat(900_000));
        assert!(InnerJson::default().read::<Value>(&long).is_some());
        assert!(
            InnerJson::default().read::<Value>(&("[".repeat(128) + &"]".repeat(128))).is_none()
        );
    }

    #[test]
    fn no_tree_takes_more_than_it_weighs() {
        let list = |item: &str| format!("[{}]", vec![item; 5_000].join(","));
        let object = |value: &str| {
            let members: Vec<_> = (0..5_000).map(|n| format!("\"{n:x}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        };
        let items = [
            "\"\"",
            "0",
            "null",
            "{}",
            "[]",
            "[0]",
            r#"{"a":0}"#,
            r#"{"a":0,"b":1,"c":2,"d":3}"#,
            "[[[[0]]]]",
            r#"{"type":"text","text":"some words"}"#,
            "\"a string of some forty bytes, all told\"",
            "1.5",
            r#"{"role":"user","content":"ok"}"#,
            "[0,0,0,0,0]",
        ];
        for json in items.iter().flat_map(|item| [list(item), object(item)]) {
            let weight = JsonWeight::of(json.as_bytes()).bytes as u64;
            let taken = allocation_counter::measure(|| {
                serde_json::from_str::<Value>(&json).unwrap();
            });
            let taken = taken.bytes_max;
            let start: String = json.chars().take(40).collect();
            assert!(taken <= weight, "{start}: takes {taken}, weighs {weight}");
            assert!(weight <= 3 * taken, "{start}: takes {taken}, weighs {weight}");
            let built = tree_bytes(&serde_json::from_str(&json).unwrap()) as u64;
            assert!(built <= weight && weight <= 2 * built, "{start}: {built} of {weight}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in r#"[\[\]{}",:\\0a ]{0,60}"#) {
            let weight = JsonWeight::of(bytes.as_bytes());
            prop_assert!(weight.values <= bytes.len());
            if let Ok(tree) = serde_json::from_str::<Value>(&bytes) {
                // Members of one name are one in the tree.
                prop_assert!(count(&tree) <= weight.values, "{}", bytes);
            }
        }
    }

    /// Values of a tree.
    fn count(tree: &Value) -> usize {
        1 + match tree {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.values().map(count).sum(),
            _ => 0,
        }
    }
}
