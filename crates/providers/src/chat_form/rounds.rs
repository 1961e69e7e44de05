//! Rounds of tools in a conversation: calls of the model's, and the results that answer them.

use std::collections::HashMap;

use domain::conversation::{Message, Role};
use serde_json::Value;

use crate::chat_form::text;
use crate::error::Error;

/// Most characters of refused ids in an error.
const MOST_SHOWN_CHARS: usize = 200;

/// Refuses a conversation in which a call has no result, or a result no call: every vendor would refuse
/// all of it. Calls at the end of the conversation may yet be answered.
pub(crate) fn check(messages: &[Message]) -> Result<(), Error> {
    let mut round = Round::default();
    for (index, message) in messages.iter().enumerate() {
        match message.role {
            // The application's messages are no part of a round.
            Role::System | Role::Developer => {}
            Role::Assistant => {
                if round.is_followed {
                    round.end()?;
                    round = Round::default();
                }
                round.ask(index, message)?;
            }
            Role::User => round.is_followed = true,
            Role::Tool => round.answer(index, text(message.extra.get("tool_call_id")))?,
        }
    }
    if round.is_followed { round.end() } else { Ok(()) }
}

/// The model's messages before anybody else's, and the messages of the others before its next one.
#[derive(Default)]
struct Round<'a> {
    /// The ids of its calls in order, each with the index of its message.
    calls: Vec<(usize, &'a str)>,
    /// Whether a call of this id is answered.
    answered: HashMap<&'a str, bool>,
    /// Whether results came without an id, which may be those of any call.
    has_nameless: bool,
    is_followed: bool,
}

impl<'a> Round<'a> {
    fn ask(&mut self, index: usize, message: &'a Message) -> Result<(), Error> {
        let calls_before = self.calls.len();
        let calls = message.extra.get("tool_calls").and_then(Value::as_array);
        let ids = calls.into_iter().flatten().map(|call| text(call.get("id")));
        for id in ids.filter(|id| !id.is_empty()) {
            self.calls.push((index, id));
            if self.answered.insert(id, false).is_some() {
                let id = shown(id);
                return Err(Error::in_message(index, format!("two calls have the id {id}")));
            }
        }
        // The model continues without the results.
        self.is_followed = calls_before > 0 && calls_before == self.calls.len();
        Ok(())
    }

    fn answer(&mut self, index: usize, id: &str) -> Result<(), Error> {
        self.is_followed = true;
        if id.is_empty() {
            // A result in the legacy form has only the name of the tool.
            self.has_nameless = true;
            return Ok(());
        }
        if let Some(answered) = self.answered.get_mut(id) {
            *answered = true;
            return Ok(());
        }
        let id = shown(id);
        Err(Error::in_message(index, format!("tool_call_id {id} answers no tool call before it")))
    }

    fn end(&self) -> Result<(), Error> {
        if self.has_nameless {
            return Ok(());
        }
        let calls = self.calls.iter();
        let missing: Vec<_> =
            calls.filter(|(_, id)| self.answered.get(*id) == Some(&false)).collect();
        let Some(&&(index, _)) = missing.first() else { return Ok(()) };
        let ids = missing.iter().map(|(_, id)| *id).collect::<Vec<_>>().join(", ");
        let ids = shown(&ids);
        Err(Error::in_message(index, format!("no result for tool_call_id {ids}")))
    }
}

fn shown(ids: &str) -> String {
    ids.chars().take(MOST_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;
    use serde_json::{Value, json};

    use crate::error::ErrorKind;
    use crate::testing::{attempt, model, prompt_of};
    use crate::vendors::adapter;

    const PROVIDERS: [Provider; 5] = [
        Provider::Openai,
        Provider::Azure,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Bedrock,
    ];

    fn user() -> Value {
        json!({"role": "user", "content": "Go on."})
    }

    fn calls(ids: &[&str]) -> Value {
        let calls = ids.iter().map(|id| {
            json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
        });
        json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Value>()})
    }

    fn result(id: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": "1"})
    }

    fn says() -> Value {
        json!({"role": "assistant", "content": "It is so."})
    }

    /// Returns the error for which a provider does not receive these messages.
    fn fault(provider: Provider, messages: &Value) -> Option<String> {
        let base = matches!(provider, Provider::Azure | Provider::Internal);
        let model = model(provider, base.then_some("http://127.0.0.1/v1"));
        let prompt = prompt_of(messages.clone(), json!({}));
        let error = adapter(provider).encode(&attempt(&model, &prompt)).err()?;
        assert!(matches!(error.kind, ErrorKind::Unsupported(_)), "{error}");
        Some(error.to_string())
    }

    #[test]
    fn every_call_has_a_result_and_every_result_a_call() {
        let ab = || calls(&["a", "b"]);
        let missing = |ids: &str| format!("messages[1]: no result for tool_call_id {ids}");
        let orphan = |index: usize| {
            format!("messages[{index}]: tool_call_id x answers no tool call before it")
        };
        for (messages, told) in [
            (json!([user(), ab(), result("a")]), missing("b")),
            (json!([user(), ab(), result("a"), user()]), missing("b")),
            (json!([user(), ab(), result("a"), says(), result("b")]), missing("b")),
            (json!([user(), ab(), user()]), missing("a, b")),
            (json!([user(), result("x"), user()]), orphan(1)),
            (json!([user(), calls(&["a"]), result("x")]), orphan(2)),
            (json!([user(), calls(&["x"]), result("x"), says(), user(), result("x")]), orphan(5)),
            (json!([user(), ab(), says()]), missing("a, b")),
            (
                json!([user(), calls(&["a", "a"]), result("a"), user()]),
                "messages[1]: two calls have the id a".to_owned(),
            ),
        ] {
            for provider in PROVIDERS {
                let fault = fault(provider, &messages);
                assert_eq!(fault.as_deref(), Some(&*told), "{provider:?} {messages}");
            }
        }
    }

    #[test]
    fn what_a_provider_may_take_is_sent() {
        let system = json!({"role": "system", "content": "Be brief."});
        for messages in [
            json!([user(), calls(&["a", "b"])]),
            json!([user(), calls(&["a", "b"]), system]),
            json!([user(), calls(&["a", "b"]), result("b"), result("a")]),
            json!([user(), calls(&["a", "b"]), result("b"), user(), system, result("a"), says()]),
            json!([user(), calls(&["a"]), calls(&["b"]), result("a"), result("b"), user()]),
            json!([user(), calls(&["a"]), result("a"), calls(&["a"]), result("a"), user()]),
        ] {
            for provider in PROVIDERS {
                assert_eq!(fault(provider, &messages), None, "{provider:?} {messages}");
            }
        }
    }

    #[test]
    fn servers_that_others_run_are_sent_everything() {
        let trimmed = json!([result("x"), user(), calls(&["a"]), user()]);
        assert_eq!(fault(Provider::Internal, &trimmed), None);
        assert!(fault(Provider::Openai, &trimmed).is_some());
    }

    #[test]
    fn results_of_the_legacy_form_have_no_id() {
        let legacy = json!({"role": "function", "name": "f", "content": "1"});
        let asked = json!({"role": "assistant", "content": null,
            "function_call": {"name": "f", "arguments": "{}"}});
        for messages in
            [json!([user(), calls(&["a"]), legacy, user()]), json!([user(), asked, legacy, user()])]
        {
            assert_eq!(fault(Provider::Openai, &messages), None, "{messages}");
        }
    }
}
