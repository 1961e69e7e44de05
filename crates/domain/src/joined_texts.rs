//! The texts of an answer, as it came, that its readers join.

use std::collections::{BTreeMap, HashMap, HashSet};

use memchr::memmem;

use crate::json_text::{Place, Token, Unreadable, visit};

/// One level of a path: a member of an object, or any item of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Member(&'static str),
    Item,
}
use Level::{Item, Member};

/// The members that hold a text of OpenAI's items.
const OF_ITEMS: &[&str] = &["text", "refusal"];
/// The lists of texts that readers join, by the path of their items in an answer, and the members that hold a
/// text: Anthropic's blocks, Gemini's parts, those of chat completions, and OpenAI's items, in an answer, in
/// an event and in the input of a stored answer. The last two are texts of an event, which events of the same
/// name continue.
const PATHS: [(&[Level], &[&str]); 12] = [
    (&[Member("content"), Item], &["text", "thinking"]),
    (&[Member("candidates"), Item, Member("content"), Member("parts"), Item], &["text"]),
    (&[Member("choices"), Item, Member("message"), Member("content"), Item], OF_ITEMS),
    (&[Member("output"), Item, Member("content"), Item], OF_ITEMS),
    (&[Member("output"), Item, Member("summary"), Item], OF_ITEMS),
    (&[Member("response"), Member("output"), Item, Member("content"), Item], OF_ITEMS),
    (&[Member("response"), Member("output"), Item, Member("summary"), Item], OF_ITEMS),
    (&[Member("item"), Member("content"), Item], OF_ITEMS),
    (&[Member("item"), Member("summary"), Item], OF_ITEMS),
    (&[Member("data"), Item, Member("content"), Item], OF_ITEMS),
    (&[Member("part")], OF_ITEMS),
    (&[], OF_ITEMS),
];
/// The paths whose first list holds answers of their own.
const OF_ANSWERS: [usize; 3] = [1, 2, 9];
/// The member that marks the text beside it as a thought. Thoughts are joined apart from other texts.
const THOUGHT: &str = "thought";
/// The end of the name of events that hold one part of an answer, as a whole.
const DONE: &str = ".done";
/// The most bytes that are kept of the texts that an event may continue, and the most such texts.
const MOST_END_BYTES: usize = 4096;
const MOST_ENDS: usize = 64;

/// A list of texts: the index of its path, that of the member that holds them, the answer that they belong
/// to, and whether they are thoughts.
type List = (usize, usize, Option<usize>, bool);

/// Whether a replacement in each text of an answer gives another result than the same replacement in the
/// texts as readers join them: what it looks for is split over two texts, or depends on the one before.
pub fn differs_if_joined(
    json: &str,
    replaced: impl Fn(&str) -> String,
) -> Result<bool, Unreadable> {
    Ok(!JoinedTexts::default().replaced("", json, replaced)?.is_empty())
}

/// The texts of an answer as readers join them, where they join any.
pub fn joined(json: &str) -> Result<Vec<String>, Unreadable> {
    let lists = lists(json, 2)?.into_values();
    Ok(lists.map(|texts| texts.into_iter().map(|(_, text)| text).collect()).collect())
}

/// The texts of the events of a stream that hold its answer, or parts of it, as a whole.
#[derive(Debug, Default)]
pub struct JoinedTexts {
    /// The ends of the texts so far, by the name of the events that hold them.
    ends: BTreeMap<(String, List), String>,
}

impl JoinedTexts {
    /// Finds the texts that a replacement changes in another way if they are joined, as readers do it. Each is
    /// returned by the byte at which it begins in the event: the first of a list becomes all of it, the others
    /// become empty. Text of earlier events has left already.
    pub fn replaced(
        &mut self,
        event: &str,
        json: &str,
        replaced: impl Fn(&str) -> String,
    ) -> Result<HashMap<usize, String>, Unreadable> {
        let is_part = event.ends_with(DONE);
        let mut changed = HashMap::new();
        for (list, texts) in lists(json, if is_part { 1 } else { 2 })? {
            let key = (event.to_owned(), list);
            let mut joined = self.ends.remove(&key).unwrap_or_default();
            let left = replaced(&joined);
            let mut apart = left.clone();
            for (_, text) in &texts {
                joined.push_str(text);
                apart.push_str(&replaced(text));
            }
            let new = replaced(&joined);
            if new != apart {
                let same = left.chars().zip(new.chars()).take_while(|(left, new)| left == new);
                let same = same.map(|(char, _)| char.len_utf8()).sum();
                let mut rest = new.get(same..).unwrap_or_default().to_owned();
                changed.extend(texts.iter().map(|(at, _)| (*at, std::mem::take(&mut rest))));
            }
            if is_part {
                if self.ends.len() >= MOST_ENDS {
                    self.ends.pop_first();
                }
                let begins = joined.ceil_char_boundary(joined.len().saturating_sub(MOST_END_BYTES));
                self.ends.insert(key, joined.split_off(begins));
            }
        }
        Ok(changed)
    }
}

/// Finds the lists of texts that readers join, such as those of the parts of a content, with `least` texts or
/// more. Each text comes with the byte at which it begins, in their order.
fn lists(json: &str, least: usize) -> Result<BTreeMap<List, Vec<(usize, String)>>, Unreadable> {
    if least > 1 && !may_have_several(json) {
        return Ok(BTreeMap::new());
    }
    let (mut texts, mut thoughts) = (Vec::new(), HashSet::new());
    visit(json, |place, token| match token {
        Token::Name(THOUGHT) if is_true(json, place.range.end) => {
            thoughts.insert(positions(place));
        }
        Token::Text(text) => {
            if let Some(list) = list(place) {
                texts.push((positions(place), list, (place.range.start, text.to_owned())));
            }
        }
        _ => {}
    })?;
    let mut lists = BTreeMap::<List, Vec<_>>::new();
    for (positions, (path, member, answer), text) in texts {
        let list = (path, member, answer, thoughts.contains(&positions));
        lists.entry(list).or_default().push(text);
    }
    lists.retain(|_, texts| texts.len() >= least);
    Ok(lists)
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
    let is_spelled = json.contains("\\u006") || json.contains("\\u007");
    is_spelled || ["text", "thinking", "refusal"].into_iter().any(is_repeated)
}

/// Whether the value behind a name is `true`.
fn is_true(json: &str, end: usize) -> bool {
    let value = json.get(end..).and_then(|rest| rest.trim_start().strip_prefix(':'));
    value.is_some_and(|value| value.trim_start().starts_with("true"))
}

/// The list of texts that a text belongs to: its path, the member that holds it, and the answer.
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
        let lists = lists(&answer.to_string(), 2).unwrap().into_values();
        let texts = |texts: Vec<(usize, String)>| texts.into_iter().map(|(_, text)| text);
        lists.map(|list| texts(list).collect::<Vec<_>>().join("|")).collect()
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
        assert_eq!(super::joined(spelled).unwrap(), ["ab"]);
    }

    /// The texts of events of one name after the replacement of `secret`.
    fn left(name: &str, events: &[Value]) -> Vec<String> {
        let mut joined = JoinedTexts::default();
        let replaced = |text: &str| text.replace("secret", "***");
        let mut left = Vec::new();
        for event in events {
            let json = event.to_string();
            let changed = joined.replaced(name, &json, replaced).unwrap();
            visit(&json, |place, token| {
                if let (Token::Text(text), "text" | "refusal") = (token, place.name()) {
                    let new = changed.get(&place.range.start);
                    left.push(new.cloned().unwrap_or_else(|| replaced(text)));
                }
            })
            .unwrap();
        }
        left
    }

    #[test]
    fn a_text_that_is_split_is_replaced_where_it_began() {
        let item = |texts: &[&str]| {
            let parts = texts.iter().map(|text| json!({"type": "output_text", "text": text}));
            json!({"type": "message", "content": parts.collect::<Value>()})
        };
        let event = json!({"response": {"output": [item(&["a sec", "ret", " b"]), item(&["c"])]}});
        assert_eq!(left("response.completed", &[event]), ["a *** bc", "", "", ""]);
        let event = json!({"response": {"output": [item(&["a secret", "b"])]}});
        assert_eq!(left("response.completed", &[event]), ["a ***", "b"], "it is not split");
        let stored = json!({"data": [item(&["sec"]), item(&["ret"])]});
        assert_eq!(left("", &[stored]), ["sec", "ret"], "each item is a message of its own");
    }

    #[test]
    fn a_text_that_is_split_over_events_does_not_leave_whole() {
        let part = |text: &str| json!({"part": {"type": "output_text", "text": text}});
        let parts = ["a sec", "ret b", " sec", "ond"].map(part);
        let name = "response.content_part.done";
        assert_eq!(left(name, &parts), ["a sec", "*** b", " sec", "ond"]);
        assert_eq!(left("response.completed", &parts[..2]), ["a sec", "ret b"]);
        let texts = ["sec", "ret"].map(|text| json!({"text": text}));
        assert_eq!(left("response.output_text.done", &texts), ["sec", "***"]);
        let item = |text: &str| json!({"item": {"content": [{"text": text}]}});
        let items = ["sec", "ret"].map(item);
        assert_eq!(left("response.output_item.done", &items), ["sec", "***"]);
    }

    #[test]
    fn only_so_much_of_earlier_events_is_kept() {
        let mut joined = JoinedTexts::default();
        for number in 0..2 * MOST_ENDS {
            let event = json!({"text": "é".repeat(MOST_END_BYTES)}).to_string();
            joined.replaced(&format!("{number}.done"), &event, str::to_owned).unwrap();
        }
        assert_eq!(joined.ends.len(), MOST_ENDS);
        assert!(joined.ends.values().all(|end| end.len() <= MOST_END_BYTES));
    }
}
