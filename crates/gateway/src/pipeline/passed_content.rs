//! The part of a call that went to its provider as it came and has no canonical form, for its record.

use std::collections::BTreeMap;

use domain::json_text::{self, Edit};
use domain::original::{Original, WireFormat};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Members of a request that its canonical form holds, or that differ with each call.
const CANONICAL_MEMBERS: [&str; 6] =
    ["model", "max_tokens", "max_output_tokens", "stream", "temperature", "trace_id"];
/// The member with the tools, which it holds unless it lacks some that only the vendor has.
const TOOLS: &str = "tools";
/// Members that it holds unless it lacks a part of the conversation.
fn conversation(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::Messages | WireFormat::ChatCompletions => &["messages", "system", TOOLS],
        WireFormat::Responses => &["input", "instructions", TOOLS],
        WireFormat::GenerateContent => {
            &["contents", "systemInstruction", "system_instruction", TOOLS]
        }
    }
}

/// Parts of an answer of Gemini's that its canonical form holds, and members of the candidate beside them
/// that it holds or that say nothing.
const CANONICAL_PARTS: [&str; 5] =
    ["text", "thought", "thoughtSignature", "functionCall", "inlineData"];
const CANONICAL_OF_CANDIDATE: [&str; 6] =
    ["content", "finishReason", "index", "safetyRatings", "avgLogprobs", "tokenCount"];
/// Blocks of an answer that its canonical form holds.
pub(crate) const CANONICAL_BLOCKS: [&str; 4] =
    ["text", "thinking", "redacted_thinking", "tool_use"];
/// Items of an answer that it holds, but for the members that only a vendor has.
const CANONICAL_ITEMS: [&str; 4] = ["message", "reasoning", "function_call", "custom_tool_call"];

/// The content of a call beside its canonical form.
#[derive(Debug, Serialize)]
pub(crate) struct Passed<'a> {
    /// The members of the request, as the provider received them.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    /// The blocks of the answer, or the events of a streamed one, as they came.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    answer: &'a [Box<RawValue>],
}

impl<'a> Passed<'a> {
    /// The content of a call with this request and answer; `None` if there is none.
    pub(crate) fn of(original: &Original, answer: &'a [Box<RawValue>]) -> Option<Self> {
        let request = original.body.as_deref().and_then(|body| request(body, original));
        let passed = Self { request, answer };
        (passed.request.is_some() || !passed.answer.is_empty()).then_some(passed)
    }
}

fn request(body: &str, original: &Original) -> Option<Box<RawValue>> {
    let mut edits: Vec<_> = CANONICAL_MEMBERS.map(|name| (name, Edit::Remove)).to_vec();
    let is_partial = original.is_partial || original.untranslatable.is_some();
    if !is_partial && original.files == 0 {
        let held = conversation(original.format).iter();
        let held = held.filter(|name| **name != TOOLS || !original.lacks_tools);
        edits.extend(held.map(|name| (*name, Edit::Remove)));
    }
    let rest = json_text::edited(body, &edits).ok()?;
    let is_empty = rest.bytes().all(|byte| b"{} \t\r\n".contains(&byte));
    RawValue::from_string(rest).ok().filter(|_| !is_empty)
}

/// A block of an answer, as far as it shows whether the canonical form holds it.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    citations: Option<&'a RawValue>,
}

/// The parts of a whole answer that its canonical form does not hold.
pub(super) fn of_answer(source: &str, format: WireFormat) -> Vec<Box<RawValue>> {
    match format {
        WireFormat::Messages => blocks(source),
        WireFormat::ChatCompletions => further_choices(source),
        WireFormat::GenerateContent => candidates(source),
        WireFormat::Responses => items(source),
    }
}

/// The parts and other members of the first candidate that the canonical form does not hold, and all
/// further candidates.
fn candidates(source: &str) -> Vec<Box<RawValue>> {
    let all = json_text::member(source, "candidates").ok().flatten();
    let all = all.and_then(|all| serde_json::from_str::<Vec<&RawValue>>(all).ok());
    let mut kept = Vec::new();
    for candidate in all.into_iter().flatten() {
        let read = members(candidate);
        let is_first = read.get("index").is_none_or(|index| matches!(index.get(), "0" | "null"));
        if !is_first || read.is_empty() {
            kept.push(candidate.to_owned());
            continue;
        }
        let content = read.get("content").map(|content| members(content));
        let parts = content.and_then(|content| content.get("parts").copied());
        let parts =
            parts.and_then(|parts| serde_json::from_str::<Vec<&RawValue>>(parts.get()).ok());
        let is_canonical = |part: &&RawValue| {
            members(part).keys().all(|name| CANONICAL_PARTS.contains(&name.as_str()))
        };
        let parts = parts.into_iter().flatten().filter(|part| !is_canonical(part));
        kept.extend(parts.map(ToOwned::to_owned));
        let others = read.iter().filter(|(name, value)| {
            !CANONICAL_OF_CANDIDATE.contains(&name.as_str()) && value.get() != "null"
        });
        let others = others.map(|(name, value)| format!("{{{}:{value}}}", json_text::quoted(name)));
        kept.extend(others.filter_map(|other| RawValue::from_string(other).ok()));
    }
    kept
}

/// The choices that the canonical form does not hold.
fn further_choices(source: &str) -> Vec<Box<RawValue>> {
    let is_further = |choice: &&RawValue| {
        let members = members(choice);
        members.get("index").is_some_and(|index| !matches!(index.get(), "0" | "null"))
    };
    list(source, "choices").into_iter().filter(is_further).map(ToOwned::to_owned).collect()
}

/// The members of an object, each as it is spelled; none of anything else.
fn members(value: &RawValue) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// An item of an answer in the Responses format, in the same way.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    content: Option<Vec<Part<'a>>>,
}

/// A part of an item.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(default, borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(default, borrow)]
    logprobs: Option<&'a RawValue>,
}

fn has_any(member: Option<&RawValue>) -> bool {
    member.is_some_and(|all| !matches!(all.get(), "null" | "[]"))
}

/// Whether an item of an answer is the vendor's own, or has members that are.
pub(crate) fn is_vendors_item(item: &str) -> bool {
    let Ok(item) = serde_json::from_str::<Item<'_>>(item) else { return true };
    let parts = item.content.iter().flatten();
    let mut members = parts.flat_map(|part| [part.annotations, part.logprobs]);
    !CANONICAL_ITEMS.contains(&&*item.kind)
        || has_any(item.encrypted_content)
        || members.any(has_any)
}

/// The items of a list of an answer.
fn list<'a>(source: &'a str, name: &str) -> Vec<&'a RawValue> {
    let member = json_text::member(source, name).ok().flatten();
    member.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

fn items(source: &str) -> Vec<Box<RawValue>> {
    let items = list(source, "output").into_iter();
    items.filter(|item| is_vendors_item(item.get())).map(ToOwned::to_owned).collect()
}

fn blocks(source: &str) -> Vec<Box<RawValue>> {
    let blocks = list(source, "content");
    let is_beside = |block: &&RawValue| {
        let Ok(read) = serde_json::from_str::<Block<'_>>(block.get()) else { return true };
        has_any(read.citations) || !CANONICAL_BLOCKS.contains(&&*read.kind)
    };
    blocks.into_iter().filter(is_beside).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use domain::original::WireFormat;

    use super::*;

    fn passed(body: &str, untranslatable: Option<&str>) -> Option<String> {
        let mut original = Original::new(WireFormat::Messages, body.to_owned());
        original.untranslatable = untranslatable.map(str::to_owned);
        Passed::of(&original, &[]).map(|passed| serde_json::to_string(&passed).unwrap())
    }

    #[test]
    fn only_what_the_canonical_form_lacks_is_kept_beside_it() {
        let plain = r#"{"model": "m", "max_tokens": 9, "messages": [], "system": "s"}"#;
        assert_eq!(passed(plain, None), None);
        let more = r#"{"model": "m", "messages": [], "new": {"n": 1.50}}"#;
        assert_eq!(passed(more, None).unwrap(), r#"{"request":{ "new": {"n": 1.50}}}"#);
        let kept = r#"{"request":{ "messages": [], "new": {"n": 1.50}}}"#;
        assert_eq!(passed(more, Some("a block")).unwrap(), kept, "all of the conversation");
        let mut partial = Original::new(WireFormat::Messages, more.to_owned());
        partial.is_partial = true;
        let passed = serde_json::to_string(&Passed::of(&partial, &[])).unwrap();
        assert_eq!(passed, kept, "the vendor's own blocks are in nothing else");
    }

    #[test]
    fn the_vendors_own_parts_of_candidates_are_kept() {
        let format = WireFormat::GenerateContent;
        let answer = r#"{"candidates": [
            {"content": {"parts": [{"text": "a", "thoughtSignature": "s"}, {"executableCode": {"n": 1.0}},
                {"text": "b", "partMetadata": {}}, {"functionCall": {}}], "role": "model"},
                "finishReason": "STOP", "groundingMetadata": {"x": 1.50}, "citationMetadata": null},
            {"index": 1, "content": {}}]}"#;
        let kept: Vec<String> =
            of_answer(answer, format).iter().map(|part| part.get().to_owned()).collect();
        let expected = [
            r#"{"executableCode": {"n": 1.0}}"#,
            r#"{"text": "b", "partMetadata": {}}"#,
            r#"{"groundingMetadata":{"x": 1.50}}"#,
            r#"{"index": 1, "content": {}}"#,
        ];
        assert_eq!(kept, expected);
        assert!(
            of_answer(r#"{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}"#, format)
                .is_empty()
        );
        let body = r#"{"contents": [], "tools": [], "new": 1}"#;
        let mut original = Original::new(format, body.to_owned());
        let request = |original: &Original| {
            serde_json::to_string(&Passed::of(original, &[]).unwrap()).unwrap()
        };
        assert_eq!(request(&original), r#"{"request":{ "new": 1}}"#);
        original.untranslatable = Some("a part".to_owned());
        assert_eq!(request(&original), format!("{{\"request\":{body}}}"));
    }

    #[test]
    fn the_further_choices_of_an_answer_are_kept() {
        let kept = |answer: &str| {
            let kept = of_answer(answer, WireFormat::ChatCompletions);
            kept.iter().map(|choice| choice.get().to_owned()).collect::<Vec<_>>()
        };
        let answer = r#"{"choices": [{"index":1,"message":{"content":"b"}},
            {"index": 0, "message": {"content": "a"}}, {"index":2,"message":{}}]}"#;
        let expected = [r#"{"index":1,"message":{"content":"b"}}"#, r#"{"index":2,"message":{}}"#];
        assert_eq!(kept(answer), expected);
        assert!(kept(r#"{"choices": [{"message": {"content": "a"}}]}"#).is_empty());
    }

    #[test]
    fn the_vendors_own_blocks_of_an_answer_are_kept() {
        let answer = r#"{"content": [{"type": "text", "text": "a", "citations": null},
            {"type":"server_tool_use","input":{"q":1.0}}, {"type":"tool_use"},
            {"type":"text","text":"b","citations":[{"url":"x"}]}, {"type": 7}]}"#;
        let kept: Vec<String> = blocks(answer).iter().map(|block| block.get().to_owned()).collect();
        assert_eq!(
            kept,
            [
                r#"{"type":"server_tool_use","input":{"q":1.0}}"#,
                r#"{"type":"text","text":"b","citations":[{"url":"x"}]}"#,
                r#"{"type": 7}"#,
            ]
        );
        assert!(blocks("{}").is_empty());
    }

    #[test]
    fn the_vendors_own_items_of_an_answer_are_kept() {
        let answer = r#"{"output": [{"type": "message", "content": [{"text": "a", "annotations": []}]},
            {"type":"web_search_call","action":{"n":1.0}}, {"type": "function_call"},
            {"type":"message","content":[{"annotations":[{"url":"x"}]}]}, {"type": 7},
            {"type": "reasoning", "encrypted_content": null},
            {"type":"reasoning","encrypted_content":"e"}]}"#;
        let kept: Vec<String> = items(answer).iter().map(|item| item.get().to_owned()).collect();
        assert_eq!(
            kept,
            [
                r#"{"type":"web_search_call","action":{"n":1.0}}"#,
                r#"{"type":"message","content":[{"annotations":[{"url":"x"}]}]}"#,
                r#"{"type": 7}"#,
                r#"{"type":"reasoning","encrypted_content":"e"}"#,
            ]
        );
    }

    /// The cost of a call may depend on them. The conversation is stored once.
    #[test]
    fn tools_that_only_the_vendor_has_are_kept_without_the_conversation() {
        for (format, conversation) in [
            (WireFormat::Messages, r#""messages":[],"system":"s","#),
            (WireFormat::Responses, r#""input":[],"instructions":"s","#),
            (WireFormat::GenerateContent, r#""contents":[],"systemInstruction":{},"#),
        ] {
            let body =
                format!(r#"{{"model":"m",{conversation}"tools":[{{"type":"web_search"}}]}}"#);
            let mut original = Original::new(format, body);
            assert!(Passed::of(&original, &[]).is_none(), "{format:?}: the canonical form has all");
            original.lacks_tools = true;
            let told = serde_json::to_string(&Passed::of(&original, &[]).unwrap()).unwrap();
            assert_eq!(told, r#"{"request":{"tools":[{"type":"web_search"}]}}"#, "{format:?}");
        }
    }

    #[test]
    fn a_conversation_that_loses_a_part_is_kept_whole() {
        let body = r#"{"input":[],"instructions":"s","include":[]}"#;
        let mut original = Original::new(WireFormat::Responses, body.to_owned());
        let told = |original: &Original| {
            serde_json::to_string(&Passed::of(original, &[]).unwrap()).unwrap()
        };
        assert_eq!(told(&original), r#"{"request":{"include":[]}}"#);
        original.is_partial = true;
        assert_eq!(told(&original), [r#"{"request":"#, body, "}"].concat());
    }
}
