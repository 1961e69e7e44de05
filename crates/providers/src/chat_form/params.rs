//! The parameters of a prompt. An adapter takes those that its format has; any that remain are refused
//! unless they are harmless to leave out.

use std::fmt::Display;

use domain::conversation::{CACHE_BREAKPOINT, CACHE_CONTROL, Message, Prompt, Role};
use domain::model::{Model, Provider};
use serde_json::{Map, Value};

use crate::chat_form::answer::IMAGES;
use crate::chat_form::cache::{self, Keep};
use crate::error::Error;

/// Parameters that change nothing in an answer that its reader relies on: if a format lacks them they
/// are dropped, and reported to the caller. The table in docs/providers.md repeats this list.
const HARMLESS: [&str; 11] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "seed",
    "prompt_cache_key",
    "safety_identifier",
    "prompt_cache_retention",
    "verbosity",
    "thinking",
    CACHE_CONTROL,
];

/// How a model chooses between words: dropped as well where another format was spoken, whose clients
/// send them of their own accord.
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];

/// Parameters that are never left out: the reader of an answer relies on them, or they set where it is
/// made. docs/translation.md repeats this list.
const RELIED_ON: [&str; 8] = [
    "n",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "modalities",
    "functions",
    "function_call",
    "inference_geo",
];

/// The parameters that are not taken yet, and the model that they are for.
#[derive(Debug)]
pub(crate) struct Params<'a> {
    left: Vec<(&'a str, &'a Value)>,
    /// Those that were taken and are left out all the same.
    lost: Vec<&'static str>,
    model: &'a Model,
    messages: &'a [Message],
    is_translated: bool,
    is_lenient: bool,
}

/// The required form of an answer's text.
#[derive(Debug)]
pub(crate) enum Format<'a> {
    /// Any JSON object.
    Json,
    /// JSON that fits a schema.
    Schema { name: &'a str, schema: &'a Value },
}

impl<'a> Params<'a> {
    /// Returns all parameters of a prompt, except those without effect: nulls, and values that ask for
    /// what every model does anyway.
    pub(crate) fn of(prompt: &'a Prompt, model: &'a Model) -> Self {
        let params = prompt.params.iter().map(|(name, value)| (name.as_str(), value));
        let left = params.filter(|(name, value)| !is_idle(name, value)).collect();
        Self {
            left,
            lost: Vec::new(),
            model,
            messages: &prompt.messages,
            is_translated: prompt.is_translated,
            is_lenient: prompt.is_lenient,
        }
    }

    /// Creates the error of a parameter that the model does not take.
    pub(crate) fn unfit(&self, what: impl Display) -> Error {
        Error::unsupported(format!("{what} for model {}", self.model.identifier))
    }

    /// Leaves out a parameter that was taken, if that may be.
    pub(crate) fn lose(&mut self, name: &'static str) -> bool {
        let may_be = self.may_lack(name);
        self.lost.extend(may_be.then_some(name));
        may_be
    }

    /// Whether a parameter that the format lacks may be left out.
    fn may_lack(&self, name: &str) -> bool {
        HARMLESS.contains(&name)
            || (self.is_translated && SAMPLING.contains(&name))
            || (self.is_lenient && !RELIED_ON.contains(&name))
    }

    /// Whether what a model lacks is left out, or fitted to it, rather than refused.
    pub(crate) fn is_lenient(&self) -> bool {
        self.is_lenient
    }

    /// Takes a parameter out if its value is such a one, and returns whether it was.
    pub(crate) fn take_if(&mut self, name: &str, is_such: impl Fn(&Value) -> bool) -> bool {
        let before = self.left.len();
        self.left.retain(|(left, value)| *left != name || !is_such(value));
        self.left.len() < before
    }

    /// Takes any parameter.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a Value> {
        let at = self.left.iter().position(|(left, _)| *left == name)?;
        Some(self.left.swap_remove(at).1)
    }

    /// Takes a number between two bounds; one beyond them is the nearest bound where requests are
    /// fitted to models.
    pub(crate) fn number(
        &mut self,
        name: &str,
        bounds: std::ops::RangeInclusive<f64>,
    ) -> Result<Option<f64>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.as_f64();
        let number = if self.is_lenient {
            number.map(|number| number.clamp(*bounds.start(), *bounds.end()))
        } else {
            number.filter(|number| bounds.contains(number))
        };
        number.map(Some).ok_or_else(|| {
            let (least, most) = bounds.into_inner();
            self.unfit(format_args!("{name} must be a number from {least} to {most}"))
        })
    }

    /// Takes a string.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let text = value.as_str().map(Some);
        text.ok_or_else(|| self.unfit(format_args!("{name} must be a string")))
    }

    /// Takes the breakpoint after the whole prompt.
    pub(crate) fn breakpoint(&mut self) -> Option<Keep> {
        let ours = self.take(CACHE_BREAKPOINT);
        cache::read(ours, self.take(CACHE_CONTROL))
    }

    /// Takes `stop`: one string or several.
    pub(crate) fn stop(&mut self) -> Result<Vec<&'a str>, Error> {
        let stop = self.take("stop");
        let invalid = || self.unfit("stop must be a string or an array of strings");
        match stop {
            None => Ok(Vec::new()),
            Some(Value::String(stop)) => Ok(vec![stop]),
            Some(Value::Array(stops)) => {
                stops.iter().map(|stop| stop.as_str().ok_or_else(invalid)).collect()
            }
            Some(_) => Err(invalid()),
        }
    }

    /// Takes `response_format`. `None` is plain text.
    pub(crate) fn format(&mut self) -> Result<Option<Format<'a>>, Error> {
        let Some(format) = self.take("response_format") else { return Ok(None) };
        match format.get("type").and_then(Value::as_str) {
            Some("text") => Ok(None),
            Some("json_object") => Ok(Some(Format::Json)),
            Some("json_schema") => {
                let spec = format.get("json_schema");
                let schema = spec.and_then(|spec| spec.get("schema"));
                let schema = schema
                    .filter(|schema| schema.is_object())
                    .ok_or_else(|| self.unfit("response_format.json_schema needs a schema"))?;
                let name = spec.and_then(|spec| spec.get("name")).and_then(Value::as_str);
                Ok(Some(Format::Schema { name: name.unwrap_or("answer"), schema }))
            }
            _ => Err(self.unfit("response_format.type must be text, json_object or json_schema")),
        }
    }

    /// Finishes: returns the names of dropped parameters, or an error that names one that cannot be
    /// dropped.
    pub(crate) fn finish(self) -> Result<Vec<String>, Error> {
        let mut dropped: Vec<String> = self.lost.iter().map(|name| (*name).to_owned()).collect();
        for (name, _) in &self.left {
            let name: &str = name;
            let name = if name == CACHE_BREAKPOINT { CACHE_CONTROL } else { name };
            if !self.may_lack(name) {
                let name: String = name.chars().take(64).collect();
                return Err(Error::lacking(self.model, name));
            }
            dropped.push(shown(name));
        }
        dropped.extend(lost(self.messages, self.model).map(str::to_owned));
        dropped.sort_unstable();
        Ok(dropped)
    }
}

/// Returns a name of the caller's as it may stand in a list in a header.
fn shown(name: &str) -> String {
    let fits = |c: char| c.is_ascii_graphic() && c != ',';
    name.chars().take(64).map(|c| if fits(c) { c } else { '?' }).collect()
}

/// Whether a parameter has no effect.
fn is_idle(name: &str, value: &Value) -> bool {
    match (name, value) {
        (_, Value::Null) | ("stream_options", _) => true,
        ("n", value) => value.as_u64() == Some(1),
        ("frequency_penalty" | "presence_penalty" | "top_logprobs", value) => {
            value.as_f64() == Some(0.0)
        }
        ("logprobs" | "store" | "echo", value) => value == &Value::Bool(false),
        ("logit_bias", value) => value.as_object().is_some_and(Map::is_empty),
        ("tools" | "functions" | "modalities" | "stop", Value::Array(list)) => {
            list.is_empty() || (name == "modalities" && list.iter().all(|kind| kind == "text"))
        }
        _ => false,
    }
}

/// Returns the names of members that only this format's messages have: the name of the speaker, the
/// detail of an image, and images of the model's own, which only Gemini takes back.
fn lost<'a>(messages: &'a [Message], model: &'a Model) -> impl Iterator<Item = &'static str> {
    let is_named = |message: &Message| {
        message.role != Role::Tool && message.extra.get("name").is_some_and(|name| !name.is_null())
    };
    let is_close = |part: &Value| {
        let detail = part.pointer("/image_url/detail").or_else(|| part.get("detail"));
        detail.is_some_and(|detail| !detail.is_null() && detail != "auto")
    };
    let has_close = |message: &Message| message.body.parts().iter().any(is_close);
    let names = messages.iter().any(is_named).then_some("messages.name");
    let details = messages.iter().any(has_close).then_some("image_url.detail");
    let has_images = |message: &Message| message.extra.get(IMAGES).is_some_and(Value::is_array);
    let is_lost = model.provider != Provider::Gemini && messages.iter().any(has_images);
    let images = is_lost.then_some("messages.images");
    names.into_iter().chain(details).chain(images)
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;
    use serde_json::json;

    use crate::testing::{attempt, model, prompt_of};
    use crate::vendors::adapter;

    #[test]
    fn what_messages_lose_is_named() {
        let image = json!({"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"});
        let parts = json!([{"type": "image_url", "image_url": image}]);
        let closely = json!([{"role": "user", "name": "ann", "content": parts}]);
        let plainly = json!([{"role": "user", "content": "Hello.", "name": null}]);
        for provider in [Provider::Anthropic, Provider::Gemini, Provider::Bedrock] {
            let model = model(provider, None);
            let dropped = |messages| {
                let prompt = prompt_of(messages, json!({}));
                adapter(provider).encode(&attempt(&model, &prompt)).unwrap().dropped
            };
            assert_eq!(dropped(closely.clone()), ["image_url.detail", "messages.name"]);
            assert!(dropped(plainly.clone()).is_empty(), "{provider:?}");
            let prompt_with_image = json!([{"role": "user", "content": "Paint."},
                {"role": "assistant", "content": "So.", "images": [parts[0]]},
                {"role": "user", "content": "Bluer."}]);
            let lost = ["image_url.detail", "messages.images"];
            let is_lost = provider != Provider::Gemini;
            assert_eq!(
                dropped(prompt_with_image).contains(&lost[1].to_owned()),
                is_lost,
                "{provider:?}"
            );
        }
    }
}
