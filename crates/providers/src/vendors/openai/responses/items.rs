//! The items of an answer in the canonical form.

use domain::fees::{Extras, Surcharge};
use domain::step::FinishReason;
use domain::stored_responses::{LONGEST_ID, MOST_ITEMS, StoredItem, StoredResponse, added_tools};
use domain::usage::Usage;
use serde_json::{Map, Value, json};

use crate::chat_form::text;
use crate::vendors::openai::decode;
use crate::vendors::openai::responses::charges;
use crate::vendors::openai::tier::{SERVICE_TIER, is_priority};

/// The member that names a container, of a call of the code interpreter or of a shell's environment.
const CONTAINER_ID: &str = "container_id";

/// One item, as far as it has a canonical form.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    /// A message: its text, and its refusal.
    Message(String, String),
    /// Reasoning in words.
    Reasoning(String),
    /// A call of one of the caller's tools: its id, the name and the arguments.
    Call(String, String, String),
    /// A call of a vendor's tool, and whatever is new.
    Other,
}

impl Item {
    pub(super) fn of(item: &Value) -> Self {
        let member = |name: &str| text(item.get(name)).to_owned();
        match text(item.get("type")) {
            "message" => {
                let parts = || item.get("content").and_then(Value::as_array).into_iter().flatten();
                let all = |kind: &str, name: &str| {
                    let of_kind = parts().filter(|part| text(part.get("type")) == kind);
                    of_kind.map(|part| text(part.get(name))).collect::<String>()
                };
                Self::Message(all("output_text", "text"), all("refusal", "refusal"))
            }
            "reasoning" => {
                let of = |name: &str| item.get(name).and_then(Value::as_array);
                let parts = ["summary", "content"].into_iter().filter_map(of).flatten();
                Self::Reasoning(parts.map(|part| text(part.get("text"))).collect())
            }
            "function_call" => Self::Call(member("call_id"), member("name"), member("arguments")),
            "custom_tool_call" => {
                Self::Call(member("call_id"), member("name"), as_arguments(text(item.get("input"))))
            }
            _ => Self::Other,
        }
    }
}

/// The input of a custom tool as the one argument of a function.
pub(super) fn as_arguments(input: &str) -> String {
    json!({"input": input}).to_string()
}

/// The items of a response.
pub(super) fn output(response: &Map<String, Value>) -> &[Value] {
    response.get("output").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Why a response ended; `None` if it did not end as an answer does.
pub(super) fn finish(
    response: &Map<String, Value>,
    calls_tools: bool,
    refuses: bool,
) -> Option<FinishReason> {
    match text(response.get("status")) {
        "completed" | "" if calls_tools => Some(FinishReason::ToolCalls),
        "completed" | "" if refuses => Some(FinishReason::Refusal),
        "completed" | "" => Some(FinishReason::Stop),
        "incomplete" => {
            let details = response.get("incomplete_details");
            Some(match text(details.and_then(|details| details.get("reason"))) {
                "content_filter" => FinishReason::ContentFilter,
                _ => FinishReason::Length,
            })
        }
        _ => None,
    }
}

/// The usage that a response reports. The counts are those of chat completions under other names. Uses of the
/// vendor's tools are charged for whether or not tokens are reported.
pub(super) fn usage(response: &Map<String, Value>) -> Option<Usage> {
    let mut extras = Extras::NONE;
    for item in output(response) {
        charges::see(item, &mut extras);
    }
    extras.surcharges[Surcharge::Priority] = is_priority(text(response.get(SERVICE_TIER)));
    let Some(reported) = response.get("usage").filter(|usage| usage.is_object()) else {
        return extras.has_uses().then(|| Usage { extras, ..Usage::unknown() });
    };
    let mut counts = Map::new();
    for (theirs, name) in [
        ("input_tokens", "prompt_tokens"),
        ("output_tokens", "completion_tokens"),
        ("total_tokens", "total_tokens"),
        ("input_tokens_details", "prompt_tokens_details"),
        ("output_tokens_details", "completion_tokens_details"),
    ] {
        if let Some(count) = reported.get(theirs) {
            counts.insert(name.to_owned(), count.clone());
        }
    }
    decode::usage(Some(&Value::Object(counts))).map(|usage| Usage { extras, ..usage })
}

/// The parts of a response that the vendor stores; `None` if there are none.
pub(super) fn stored(response: &Map<String, Value>) -> Option<StoredResponse> {
    let id = |of: Option<&Value>| {
        let id = text(of);
        (!id.is_empty() && id.len() <= LONGEST_ID).then(|| id.to_owned())
    };
    let items = || output(response).iter().take(MOST_ITEMS);
    let of_shell = |item: &Value| id(item.get("environment")?.get(CONTAINER_ID));
    let container = |item: &Value| id(item.get(CONTAINER_ID)).or_else(|| of_shell(item));
    let mut containers: Vec<String> = items().filter_map(container).collect();
    containers.sort_unstable();
    containers.dedup();
    let is_stored = response.get("store") != Some(&Value::Bool(false));
    let stored_item = |item: &Value| {
        let tools = charges::lasting_tools(added_tools(item));
        id(item.get("id")).map(|id| StoredItem { id, tools })
    };
    let items = items().filter_map(stored_item).collect();
    let id = id(response.get("id")).filter(|_| is_stored || !containers.is_empty())?;
    Some(StoredResponse { id, is_stored, items, containers })
}
