//! The texts of a whole answer, as it came, that its readers join.

use std::collections::{BTreeMap, HashSet};

use memchr::memmem;

use crate::json_text::{Place, Token, Unreadable, visit};

/// One level of a path: a member of an object, or any item of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Member(&'static str),
    Item,
}
use Level::{Item, Member};

/// The lists of texts that readers join, by the path of their items in an answer, and the members that hold a
/// text: Anthropic's blocks, Gemini's parts, those of chat completions, and OpenAI's items.
const PATHS: [(&[Level], &[&str]); 5] = [
    (&[Member("content"), Item], &["text", "thinking"]),
    (&[Member("candidates"), Item, Member("content"), Member("parts"), Item], &["text"]),
    (&[Member("choices"), Item, Member("message"), Member("content"), Item], &["text", "refusal"]),
    (&[Member("output"), Item, Member("content"), Item], &["text", "refusal"]),
    (&[Member("output"), Item, Member("summary"), Item], &["text"]),
];
/// The paths whose first list holds answers of their own.
const OF_ANSWERS: [usize; 2] = [1, 2];
/// The member that marks the text beside it as a thought. Thoughts are joined apart from other texts.
const THOUGHT: &str = "thought";

/// Whether a replacement in each text of an answer gives another result than the same replacement in the
/// texts as readers join them: what it looks for is split over two texts, or depends on the one before.
pub fn differs_if_joined(
    json: &str,
    replaced: impl Fn(&str) -> String,
) -> Result<bool, Unreadable> {
    let differs = |texts: &Vec<String>| {
        let each: String = texts.iter().map(|text| replaced(text)).collect();
        replaced(&texts.concat()) != each
    };
    Ok(joined_texts(json)?.iter().any(differs))
}

/// Finds the texts that stand apart in an answer and that readers join, such as those of the parts of a
/// content: each list has two texts or more, in their order.
fn joined_texts(json: &str) -> Result<Vec<Vec<String>>, Unreadable> {
    if !may_have_several(json) {
        return Ok(Vec::new());
    }
    let (mut texts, mut thoughts) = (Vec::new(), HashSet::new());
    visit(json, |place, token| match token {
        Token::Name(THOUGHT) if is_true(json, place.range.end) => {
            thoughts.insert(positions(place));
        }
        Token::Text(text) => {
            if let Some(list) = list(place) {
                texts.push((positions(place), list, text.to_owned()));
            }
        }
        _ => {}
    })?;
    let mut joined = BTreeMap::<_, Vec<String>>::new();
    for (positions, list, text) in texts {
        joined.entry((list, thoughts.contains(&positions))).or_default().push(text);
    }
    Ok(joined.into_values().filter(|texts| texts.len() > 1).collect())
}

/// Whether one of the members may be there twice, by their names alone. A name may be spelled with escapes.
fn may_have_several(json: &str) -> bool {
    let is_repeated = |name: &str| {
        let quoted = format!("\"{name}\"");
        let is_name = |at: &usize| {
            let behind = json.get(at + quoted.len()..).unwrap_or_default();
            behind.trim_start().starts_with(':')
        };
        let found = memmem::find_iter(json.as_bytes(), quoted.as_bytes());
        found.filter(is_name).nth(1).is_some()
    };
    let mut names = PATHS.iter().flat_map(|(_, names)| *names);
    json.contains("\\u006") || json.contains("\\u007") || names.any(|name| is_repeated(name))
}

/// Whether the value behind a name is `true`.
fn is_true(json: &str, end: usize) -> bool {
    let value = json.get(end..).and_then(|rest| rest.trim_start().strip_prefix(':'));
    value.is_some_and(|value| value.trim_start().starts_with("true"))
}

/// The list of joined texts that a text belongs to: its path, the member that holds it, and the answer.
fn list(place: &Place<'_, '_>) -> Option<(usize, usize, Option<usize>)> {
    let last = place.depth().checked_sub(1)?;
    let name = place.member(last)?;
    PATHS.iter().enumerate().find_map(|(path, (levels, names))| {
        let member = names.iter().position(|known| *known == name)?;
        let is_level = |(depth, level): (usize, &Level)| match level {
            Member(name) => place.member(depth) == Some(*name),
            Item => place.index(depth).is_some(),
        };
        let is_here = levels.len() == last && levels.iter().enumerate().all(is_level);
        let answer = place.index(1).filter(|_| OF_ANSWERS.contains(&path));
        is_here.then_some((path, member, answer))
    })
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
            {"content": {"parts": [part("alone"), {"functionCall": {"args": part("apart")}}]}},
            {"content": {"parts": [{"text": "no", "thought": false}, part("thought")]}}]});
        assert_eq!(joined(&answer), ["a|b", "x|y", "other|answer", "no|thought"]);
    }

    #[test]
    fn blocks_and_items_are_joined() {
        let block =
            |text: &str| json!({"type": "text", "text": text, "citations": [{"text": "c"}]});
        let answer = json!({"content": [block("a"), {"type": "tool_use", "input": {"text": "i"}},
            {"type": "tool_result", "content": [block("c"), block("d")]}, block("b"),
            {"thinking": "t"}]});
        assert_eq!(joined(&answer), ["a|b"]);
        let item = |text: &str| json!({"content": [{"type": "output_text", "text": text}]});
        assert_eq!(joined(&json!({"output": [item("a"), item("b")]})), ["a|b"]);
        let spelled = r#"{"content": [{"te\u0078t": "a"}, {"te\u0078t": "b"}]}"#;
        assert_eq!(joined_texts(spelled).unwrap(), [["a", "b"]]);
    }
}
