//! Whole answers to canonical replies.

use domain::conversation::Reply;
use serde_json::{Map, Value};

use crate::chat_form::answer::Answer;
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::responses::items::{Item, finish, output, stored, usage};
use crate::wire::error_body::{error_within, names_error};
use crate::wire::json;

pub(super) fn decode(body: &[u8]) -> Result<Reply, Error> {
    let response = json::object(body)?;
    let usage = usage(&response);
    reply(&response).map(|reply| Reply { usage, ..reply }).map_err(|error| error.having_used(usage))
}

fn reply(response: &Map<String, Value>) -> Result<Reply, Error> {
    if names_error(response) {
        return Err(error_within(response));
    }
    if !response.get("output").is_some_and(Value::is_array) {
        return Err(Error::malformed("it has no output"));
    }
    let mut answer = Answer::default();
    let mut refusal = String::new();
    for item in output(response) {
        match Item::of(item) {
            Item::Message(text, refused) => {
                answer.text.push_str(&text);
                refusal.push_str(&refused);
            }
            Item::Reasoning(text) => answer.reasoning.push_str(&text),
            Item::Call(id, name, arguments) => answer.calls.push((id, name, arguments)),
            Item::Other => {}
        }
    }
    answer.refusal = (!refusal.is_empty()).then_some(refusal);
    let finish = finish(response, !answer.calls.is_empty(), answer.refusal.is_some());
    answer.finish = Some(finish.ok_or_else(|| Error::malformed("its response is not complete"))?);
    let name = Some(text(response.get("model"))).filter(|name| !name.is_empty());
    answer.upstream_model = name.map(str::to_owned);
    Ok(Reply { stored: stored(response), ..answer.reply() })
}
