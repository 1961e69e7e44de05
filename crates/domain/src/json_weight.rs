//! The memory that a JSON text takes as a tree, computed from its bytes before the tree is built.
//!
//! A tree of `serde_json` takes up to three hundred times the bytes that it is read from: `[[]]` is four
//! bytes, and a list has room for four values of 72 bytes. So what a caller or a provider sends is
//! weighed first. One pass, no allocation; what is no JSON is weighed as far as it goes, and left for the
//! parser to refuse.

/// Deeper nesting is not weighed: no parser of ours reads it (`serde_json` stops at 128).
const MAX_DEPTH: usize = 127;
/// A value in a list: the size of `serde_json::Value` with ordered maps.
const VALUE: usize = 72;
/// A member of an object beside its name: hash, name and value.
const MEMBER: usize = 8 + 24 + VALUE;
/// A list has room for so many values at least.
const LEAST_ITEMS: usize = 4;
/// The least that an allocation takes.
const LEAST_ALLOCATION: usize = 16;

/// The most bytes of a tree for each byte of its text, beside what any tree may take.
const TREE_BYTES_PER_BYTE: usize = 6;
/// What judging a string notes of it, beside its bytes.
const BYTES_PER_STRING: usize = 96;

/// The size of a JSON text as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonWeight {
    /// Values of every kind: lists, objects, strings, numbers, words.
    pub values: usize,
    /// Strings among them, and names of members.
    pub strings: usize,
    /// How deeply lists and objects are nested: 0 for a bare string or number.
    pub depth: usize,
    /// Whether it is nested more deeply than a parser reads. Nothing behind that place is counted.
    pub is_too_deep: bool,
    /// The most bytes that building the tree takes, the strings' own bytes included.
    pub bytes: usize,
}

/// A list or an object whose end has not come yet.
#[derive(Clone, Copy, Default)]
struct Open {
    is_object: bool,
    items: usize,
}

impl Open {
    /// The bytes that it takes with so many items. Both kinds grow by doubling.
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

    /// Whether the tree of a text of so many bytes is in proportion to it, where any tree may take as many
    /// bytes as `allowance`.
    pub fn is_in_proportion(&self, length: usize, allowance: usize) -> bool {
        self.judged_bytes() <= allowance + TREE_BYTES_PER_BYTE * length
    }

    /// Weighs a JSON text.
    pub fn of(json: &[u8]) -> Self {
        let mut weight = Self::default();
        let mut open = [Open::default(); MAX_DEPTH + 1];
        let (mut depth, mut at, mut largest) = (0_usize, 0, 0);
        while let Some(&byte) = json.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    let length = string_length(&json[at..]);
                    at += length + 1;
                    weight.strings += 1;
                    weight.bytes += length.max(LEAST_ALLOCATION);
                    weight.values += 1;
                    open[depth].items += 1;
                }
                // The string before it was a name, not a value.
                b':' => {
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
        // What never ends has been built up to there; what grows is there twice for a moment.
        for open in &open[1..=depth] {
            weight.bytes += open.bytes();
            largest = largest.max(open.bytes());
        }
        weight.bytes += VALUE + largest / 2;
        weight
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
    use serde_json::Value;

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
