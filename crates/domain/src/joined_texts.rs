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
const PATHS: [(&[Level], &[&str]); 13] = [
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
    (&[Member("data"), Item, Member("summary"), Item], OF_ITEMS),
    (&[Member("part")], OF_ITEMS),
    (&[], OF_ITEMS),
];
/// The paths whose first list holds answers of their own.
const OF_ANSWERS: [usize; 4] = [1, 2, 9, 10];
/// The member, and the type of a part, that mark the text beside them as a thought. Thoughts are joined apart
/// from other texts.
const THOUGHT: &str = "thought";
const REASONING: &str = "reasoning_text";
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
    /// returned by the byte at which it begins in the event. Text of earlier events has left already.
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
            let mut each = Vec::with_capacity(texts.len());
            for (at, text) in &texts {
                joined.push_str(text);
                each.push((*at, replaced(text)));
            }
            let new = replaced(&joined);
            note_changes(&left, each, &new, &mut changed);
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

/// Notes the texts of a list in which its joined replacement differs from those of its texts, each with the
/// byte at which it begins; `left` goes before them and stays as it is. The difference stands in the first of
/// the texts that it covers, the others lose it.
fn note_changes(
    left: &str,
    each: Vec<(usize, String)>,
    new: &str,
    changed: &mut HashMap<usize, String>,
) {
    let texts = each.iter().map(|(_, text)| text.as_str());
    let apart: String = std::iter::once(left).chain(texts).collect();
    if apart == new {
        return;
    }
    let bytes = |same: (char, char)| same.0.len_utf8();
    let alike = |same: &(char, char)| same.0 == same.1;
    let head: usize = apart.chars().zip(new.chars()).take_while(alike).map(bytes).sum();
    let (old_rest, new_rest) = (&apart[head..], &new[head..]);
    let behind = old_rest.chars().rev().zip(new_rest.chars().rev());
    let tail: usize = behind.take_while(alike).map(bytes).sum();
    let (end, mut middle) = (apart.len() - tail, Some(&new_rest[..new_rest.len() - tail]));
    let mut from = left.len();
    for (at, text) in each {
        let to = from + text.len();
        let is_covered = from < end && to > head;
        let has_insertion = head == end && from <= head && head <= to && middle.is_some();
        if is_covered || has_insertion {
            let (before, behind) = (head.max(from) - from, end.min(to) - from);
            let kept = [&text[..before], middle.take().unwrap_or_default(), &text[behind..]];
            changed.insert(at, kept.concat());
        }
        from = to;
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
        Token::Text(REASONING) if place.name() == "type" => {
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
        assert_eq!(left("response.completed", &[event]), ["a ***", "", " b", "c"]);
        let event = json!({"response": {"output": [item(&["a secret", "b"])]}});
        assert_eq!(left("response.completed", &[event]), ["a ***", "b"], "it is not split");
        let stored = json!({"data": [item(&["sec"]), item(&["ret"])]});
        assert_eq!(left("", &[stored]), ["sec", "ret"], "each item is a message of its own");
    }

    #[test]
    fn what_depends_on_the_text_before_changes_where_it_stands() {
        // A word behind an address is part of it.
        let replaced = |text: &str| match text.split_once("//") {
            Some(_) => text.to_owned(),
            None => text.replace("[mail]", "jo@acme.org"),
        };
        let item = |text: &str| json!({"content": [{"type": "output_text", "text": text}]});
        let thought =
            json!({"content": [{"type": "reasoning_text", "text": "see https://a.example/"}]});
        let changes = |output: Value| {
            let json = json!({"response": {"output": output}}).to_string();
            let changed =
                JoinedTexts::default().replaced("response.completed", &json, replaced).unwrap();
            changed.into_values().collect::<Vec<_>>()
        };
        assert_eq!(
            changes(json!([item("see https://a.example/"), item("[mail] it is")])),
            ["[mail] it is"]
        );
        assert_eq!(changes(json!([thought, item("[mail] it is")])), [""; 0], "another text");
        let mut events = JoinedTexts::default();
        let event = |text: &str| json!({"text": text}).to_string();
        for text in ["Mail [mail]", "//x"] {
            let changed = events.replaced("response.output_text.done", &event(text), replaced);
            assert_eq!(changed.unwrap(), HashMap::new(), "what has left does not come again");
        }
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
