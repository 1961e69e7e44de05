//! The part of a call that went to its provider as it came and has no canonical form, for its record.

use domain::json_text::{self, Edit};
use domain::original::Original;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Members of a request that its canonical form holds, or that differ with each call.
const CANONICAL_MEMBERS: [&str; 6] =
    ["model", "max_tokens", "max_output_tokens", "stream", "temperature", "trace_id"];
/// Members that it holds unless the request cannot be translated, or loses a part of them by that.
const CONVERSATION: [&str; 5] = ["messages", "system", "tools", "input", "instructions"];
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
    let is_whole = original.untranslatable.is_none() && !original.is_lossy;
    if is_whole && original.files == 0 {
        edits.extend(CONVERSATION.map(|name| (name, Edit::Remove)));
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

/// The blocks or items of a whole answer that its canonical form does not hold.
pub(super) fn blocks(source: &str) -> Vec<Box<RawValue>> {
    let list = |name: &str| {
        let member = json_text::member(source, name).ok().flatten();
        member.and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok())
    };
    let items = list("output").into_iter().flatten();
    let items = items.filter(|item| is_vendors_item(item.get())).map(ToOwned::to_owned);
    let blocks = list("content");
    let is_beside = |block: &&RawValue| {
        let Ok(read) = serde_json::from_str::<Block<'_>>(block.get()) else { return true };
        has_any(read.citations) || !CANONICAL_BLOCKS.contains(&&*read.kind)
    };
    let blocks = blocks.into_iter().flatten().filter(is_beside).map(ToOwned::to_owned);
    blocks.chain(items).collect()
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
        let kept: Vec<String> = blocks(answer).iter().map(|item| item.get().to_owned()).collect();
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

    #[test]
    fn a_conversation_that_loses_a_part_is_kept_whole() {
        let body = r#"{"input":[],"instructions":"s","include":[]}"#;
        let mut original = Original::new(WireFormat::Responses, body.to_owned());
        let told = |original: &Original| {
            serde_json::to_string(&Passed::of(original, &[]).unwrap()).unwrap()
        };
        assert_eq!(told(&original), r#"{"request":{"include":[]}}"#);
        original.is_lossy = true;
        assert_eq!(told(&original), [r#"{"request":"#, body, "}"].concat());
    }
}
