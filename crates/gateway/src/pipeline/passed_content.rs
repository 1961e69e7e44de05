//! The part of a call that went to its provider as it came and has no canonical form, for its record.

use domain::json_text::{self, Edit};
use domain::original::Original;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Members of a request that its canonical form holds, or that differ with each call.
const CANONICAL_MEMBERS: [&str; 5] = ["model", "max_tokens", "stream", "temperature", "trace_id"];
/// Members that it holds unless it lacks a part of the conversation.
const CONVERSATION: [&str; 3] = ["messages", "system", "tools"];
/// Blocks of an answer that its canonical form holds.
pub(crate) const CANONICAL_BLOCKS: [&str; 4] =
    ["text", "thinking", "redacted_thinking", "tool_use"];

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

/// The blocks of a whole answer that its canonical form does not hold.
pub(super) fn blocks(source: &str) -> Vec<Box<RawValue>> {
    let content = json_text::member(source, "content").ok().flatten();
    let blocks = content.and_then(|content| serde_json::from_str::<Vec<&RawValue>>(content).ok());
    let is_beside = |block: &&RawValue| {
        let Ok(read) = serde_json::from_str::<Block<'_>>(block.get()) else { return true };
        let has_citations = read.citations.is_some_and(|all| !matches!(all.get(), "null" | "[]"));
        has_citations || !CANONICAL_BLOCKS.contains(&&*read.kind)
    };
    blocks.into_iter().flatten().filter(is_beside).map(ToOwned::to_owned).collect()
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
}
