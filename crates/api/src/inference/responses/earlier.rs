//! Responses and items of before that a request refers to by the ids of our own answers, from the
//! gateway's record of the project's calls. Those that a provider keeps are left to be found there.

use std::collections::{BTreeMap, BTreeSet};

use domain::conversation::{Body, Message, PROVIDER_STATE};
use domain::ids::StepId;
use gateway::{Caller, EarlierAnswer};
use serde_json::Value;

use crate::app::App;
use crate::http::error::{Failure, Result};
use crate::inference::canonical::prompt::State;
use crate::inference::canonical::read::invalid;
use crate::inference::responses::answer;
use crate::inference::responses::body::ResponsesBody;
use crate::inference::responses::custom_tools::input_of;
use crate::inference::responses::references::{PREVIOUS, previous_unknown, referred, unknown};

/// The kind of the ids of responses.
const RESPONSE: &str = "resp";

/// The most responses that the references of one request may lead to.
const MOST_RESPONSES: usize = 32;
/// The most bytes that references may put into a request: an item may be referred to many times.
const MOST_REFERRED_BYTES: usize = 4 * 1024 * 1024;

/// Puts the conversation before a `previous_response_id` of ours, and the items of all references that
/// are ours, into a request of the vendor's root. Fails as not found on what the project does not have.
pub(crate) async fn resolved(
    app: &App,
    caller: &Caller,
    mut body: ResponsesBody,
) -> Result<ResponsesBody> {
    body.is_root = true;
    let previous = match body.others.get(PREVIOUS) {
        Some(Value::String(id)) => response_of(id).map(|step| (id.clone(), step)),
        _ => None,
    };
    let previous = match previous {
        // A server may have ids of the same form.
        Some((id, _)) if app.gateway.has_stored_response(caller, &id).await? => None,
        previous => previous,
    };
    let references = References::of(&body.input)?;
    if previous.is_none() && references.0.is_empty() {
        return Ok(body);
    }
    body.is_resolved = true;
    if let Some((id, step)) = previous {
        body.others.shift_remove(PREVIOUS);
        let found = app.gateway.earlier_answer(caller, step).await?;
        let EarlierAnswer { messages, answer } = found.ok_or_else(|| previous_unknown(&id))?;
        body.before = messages;
        body.before.push(answer);
        body.previous = Some(id);
    }
    let mut answers = BTreeMap::new();
    for step in references.0.keys() {
        if let Some(answer) = app.gateway.earlier_output(caller, *step).await? {
            answers.insert(*step, answer);
        }
    }
    if let Value::Array(items) = &mut body.input {
        let mut read = Vec::with_capacity(items.len());
        let mut left = MOST_REFERRED_BYTES;
        for item in items.drain(..) {
            match referred(&item) {
                None => read.push(item),
                Some(id) if step_of(id).is_none() => read.push(item),
                Some(id) => {
                    let Some(item) = references.item(id, &answers)? else { continue };
                    left = left.checked_sub(item.to_string().len()).ok_or_else(too_much)?;
                    read.push(item);
                }
            }
        }
        *items = read;
    }
    Ok(body)
}

fn too_much() -> Failure {
    invalid(format!(
        "input refers to items of more than {} MiB: send fewer of them",
        MOST_REFERRED_BYTES / 1024 / 1024
    ))
}

/// The indices of the items that a request refers to, by the step of their response and their kind.
#[derive(Debug, Default)]
struct References(BTreeMap<StepId, BTreeSet<usize>>);

impl References {
    fn of(input: &Value) -> Result<Self> {
        let mut all = Self::default();
        let items = input.as_array().into_iter().flatten();
        for id in items.filter_map(referred) {
            let Some((kind, step, index)) = step_of(id) else { continue };
            let indices = all.0.entry(step).or_default();
            if is_call(kind) {
                indices.extend(index);
            }
            if all.0.len() > MOST_RESPONSES {
                return Err(invalid(format!(
                    "input refers to items of more than {MOST_RESPONSES} responses: send the items \
                     themselves"
                )));
            }
        }
        Ok(all)
    }

    /// The item of an id; none for reasoning that its provider does not require back.
    fn item(&self, id: &str, answers: &BTreeMap<StepId, Message>) -> Result<Option<Value>> {
        let not_found = || unknown("Item", id);
        let (kind, step, index) = step_of(id).ok_or_else(not_found)?;
        let answer = answers.get(&step).ok_or_else(not_found)?;
        match kind {
            "rs" => {
                let state = State::taken(&mut answer.extra.clone());
                Ok(state.map(|state| answer::reasoning(id, "", Some(&state))))
            }
            "msg" => {
                let part = text_of(answer).map(answer::text_part);
                let part = part.ok_or_else(not_found)?;
                Ok(Some(answer::message(id, "completed", Some(part))))
            }
            kind => {
                let calls = answer.extra.get("tool_calls").and_then(Value::as_array);
                let calls = calls.map(Vec::as_slice).unwrap_or_default();
                let place = index.and_then(|index| self.place(step, index, calls.len(), answer));
                let call = place.and_then(|place| calls.get(place)).ok_or_else(not_found)?;
                let of = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
                let function = &call["function"];
                let (call_id, name) = (of(call, "id"), of(function, "name"));
                let arguments = of(function, "arguments").unwrap_or_default();
                let (call_id, name) = (call_id.unwrap_or_default(), name.unwrap_or_default());
                Ok(Some(if kind == "ctc" {
                    let input = input_of(&arguments);
                    answer::custom_call(id, "completed", &call_id, &name, &input)
                } else {
                    answer::function_call(id, "completed", &call_id, &name, &arguments)
                }))
            }
        }
    }

    /// The place among an answer's calls of the item with this index. The items before the calls are
    /// not recorded as such; a caller that refers to all calls shows where they begin.
    fn place(&self, step: StepId, index: usize, calls: usize, answer: &Message) -> Option<usize> {
        let referred = self.0.get(&step)?;
        let first = *referred.first()?;
        let before = if referred.len() == calls {
            first
        } else {
            let has = |name: &str| answer.extra.get(name).is_some_and(|value| !value.is_null());
            let reasons = has(PROVIDER_STATE) || has("reasoning_content");
            usize::from(reasons) + usize::from(text_of(answer).is_some())
        };
        index.checked_sub(before)
    }
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "fc" | "ctc")
}

/// The text of an answer, if it has one.
fn text_of(answer: &Message) -> Option<&str> {
    let refusal = answer.extra.get("refusal").and_then(Value::as_str);
    match &answer.body {
        Body::Text(text) if !text.is_empty() => Some(text),
        _ => refusal.filter(|text| !text.is_empty()),
    }
}

/// The step of a response of ours by its id.
fn response_of(id: &str) -> Option<StepId> {
    step_of(id).filter(|(kind, ..)| *kind == RESPONSE).map(|(_, step, _)| step)
}

/// The kind, step and index in an id that an answer of ours gave: `resp_7`, `msg_7_0`.
fn step_of(id: &str) -> Option<(&str, StepId, Option<usize>)> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse());
    let mut words = id.split('_');
    let kind = words.next()?;
    let step = number(words.next()?)?.ok().filter(|step: &i64| *step > 0)?;
    let index = match words.next() {
        None => None,
        Some(index) => Some(usize::try_from(number(index)?.ok()?).ok()?),
    };
    let is_ours = match kind {
        RESPONSE => index.is_none(),
        "rs" | "msg" | "fc" | "ctc" => index.is_some(),
        _ => false,
    };
    (is_ours && words.next().is_none()).then_some((kind, StepId(step), index))
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::{Map, json};

    use super::*;
    use crate::inference::responses::references::REFERENCE;

    #[test]
    fn ids_of_ours_name_their_step() {
        for (id, expected) in [
            ("resp_7", Some(("resp", 7, None))),
            ("msg_7_0", Some(("msg", 7, Some(0)))),
            ("fc_12_3", Some(("fc", 12, Some(3)))),
            ("ctc_12_3", Some(("ctc", 12, Some(3)))),
            ("rs_1_0", Some(("rs", 1, Some(0)))),
            ("resp_68af4030592c81938ec0a5fbab4a3e9f", None),
            ("resp_7_0", None),
            ("msg_7", None),
            ("msg_7_0_1", None),
            ("msg_-7_0", None),
            ("msg_0_0", None),
            ("msg_99999999999999999999_0", None),
            ("msg__0", None),
            ("call_7_0", None),
            ("", None),
        ] {
            let found = step_of(id).map(|(kind, step, index)| (kind, step.0, index));
            assert_eq!(found, expected, "{id}");
        }
    }

    #[test]
    fn a_reference_becomes_the_item_that_it_stands_for() {
        let call = |id: &str, arguments: &str| {
            json!({"id": id, "type": "function",
                "function": {"name": "f", "arguments": arguments}})
        };
        let message = |extra: Value, text: &str| Message {
            role: domain::conversation::Role::Assistant,
            body: Body::Text(text.to_owned()),
            extra: match extra {
                Value::Object(extra) => extra,
                _ => Map::new(),
            },
        };
        let calls = json!({"tool_calls": [call("a", "{\"x\":1}"), call("b", "{\"input\":\"+\"}")]});
        let answers = BTreeMap::from([
            (StepId(1), message(calls, "Both.")),
            (StepId(2), message(json!({"provider_state": {"provider": "p"}}), "Hm.")),
        ]);
        let of = |ids: &[&str]| {
            let input: Value = ids.iter().map(|id| json!({"type": REFERENCE, "id": id})).collect();
            let references = References::of(&input)?;
            ids.iter().map(|id| references.item(id, &answers)).collect::<Result<Vec<_>>>()
        };
        let all = of(&["msg_1_0", "fc_1_1", "ctc_1_2"]).unwrap();
        let all: Vec<Value> = all.into_iter().flatten().collect();
        assert_eq!(all[0]["content"][0]["text"], "Both.");
        assert_eq!((&all[1]["call_id"], &all[1]["arguments"]), (&json!("a"), &json!("{\"x\":1}")));
        assert_eq!((&all[2]["call_id"], &all[2]["input"]), (&json!("b"), &json!("+")));
        let shifted: Vec<Value> =
            of(&["fc_1_2", "fc_1_3"]).unwrap().into_iter().flatten().collect();
        assert_eq!(shifted[1]["call_id"], "b", "whatever stood before the calls");
        assert_eq!(of(&["fc_1_2"]).unwrap()[0].as_ref().unwrap()["call_id"], "b");
        let state = of(&["rs_2_0"]).unwrap().remove(0).unwrap();
        assert_eq!(state["encrypted_content"], "{\"provider\":\"p\"}");
        assert!(of(&["rs_1_0"]).unwrap()[0].is_none(), "nothing requires it back");
        for unknown in ["fc_1_9", "fc_2_1", "msg_3_0"] {
            let failure = of(&[unknown]).unwrap_err();
            assert_eq!(failure.status(), StatusCode::NOT_FOUND, "{unknown}");
        }
        let many: Vec<String> = (1..=257).map(|step| format!("msg_{step}_0")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(of(&many).unwrap_err().status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
}
