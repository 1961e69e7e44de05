//! The texts of a whole answer, as it came, that its readers join.

use std::collections::{BTreeMap, HashSet};

use memchr::memmem;

use crate::json_text::{Place, Token, Unreadable, quoted, visit};

/// The members whose texts are joined if several items of an answer have them.
const TEXTS: [&str; 3] = ["text", "thinking", "refusal"];
/// The member that marks the text beside it as a thought. Thoughts are joined apart from other texts.
const THOUGHT: &str = "thought";
/// The lists whose items are answers of their own.
const ANSWERS: [&str; 2] = ["choices", "candidates"];

/// Finds the texts that stand apart in an answer and that readers join, such as those of the parts of a
/// content: each list has two texts or more, in their order.
pub fn joined_texts(json: &str) -> Result<Vec<Vec<String>>, Unreadable> {
    let is_repeated = |name: &str| {
        let name = quoted(name);
        memmem::find_iter(json.as_bytes(), name.as_bytes()).nth(1).is_some()
    };
    // A name may be spelled with escapes.
    if !TEXTS.iter().any(|name| is_repeated(name)) && !json.contains("\\u") {
        return Ok(Vec::new());
    }
    let (mut texts, mut thoughts) = (Vec::new(), HashSet::new());
    visit(json, |place, token| match token {
        Token::Name(THOUGHT) => {
            thoughts.insert(positions(place));
        }
        Token::Text(text) if TEXTS.contains(&member(place)) => {
            let answer = place.member(0).filter(|top| ANSWERS.contains(top));
            let answer = answer.and_then(|_| place.index(1));
            let names: Vec<String> = (0..place.depth())
                .filter_map(|depth| place.member(depth).map(str::to_owned))
                .collect();
            texts.push((positions(place), (answer, names), text.to_owned()));
        }
        _ => {}
    })?;
    let mut joined = BTreeMap::<_, Vec<String>>::new();
    for (positions, place, text) in texts {
        joined.entry((place, thoughts.contains(&positions))).or_default().push(text);
    }
    Ok(joined.into_values().filter(|texts| texts.len() > 1).collect())
}

/// The member that holds a token, and no list in it; empty if there is none.
fn member<'p>(place: &'p Place<'_, '_>) -> &'p str {
    place.depth().checked_sub(1).and_then(|last| place.member(last)).unwrap_or_default()
}

/// The positions of the items around a token.
fn positions(place: &Place<'_, '_>) -> Vec<usize> {
    (0..place.depth()).filter_map(|depth| place.index(depth)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn joined(answer: &Value) -> Vec<String> {
        joined_texts(&answer.to_string()).unwrap().iter().map(|texts| texts.join("|")).collect()
    }

    #[test]
    fn the_parts_of_one_content_are_joined() {
        let part = |text: &str| json!({"text": text});
        let answer = json!({"candidates": [
            {"content": {"parts": [part("a"), {"text": "x", "thought": true}, part("b"),
                {"thought": true, "text": "y"}]}},
            {"content": {"parts": [part("other"), part("answer")]}},
            {"content": {"parts": [part("alone")]}}]});
        assert_eq!(joined(&answer), ["a|b", "x|y", "other|answer"]);
    }

    #[test]
    fn blocks_and_items_are_joined() {
        let block =
            |text: &str| json!({"type": "text", "text": text, "citations": [{"text": "c"}]});
        let answer = json!({"content": [block("a"), {"type": "tool_use", "input": {"text": "i"}},
            block("b"), {"thinking": "t"}]});
        assert_eq!(joined(&answer), ["c|c", "a|b"]);
        let item = |text: &str| json!({"content": [{"type": "output_text", "text": text}]});
        assert_eq!(joined(&json!({"output": [item("a"), item("b")]})), ["a|b"]);
        let spelled = r#"{"content": [{"te\u0078t": "a"}, {"te\u0078t": "b"}]}"#;
        assert_eq!(joined_texts(spelled).unwrap(), [["a", "b"]]);
    }
}
