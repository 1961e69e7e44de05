//! Breakpoints of prompt caches: the position up to which a provider may keep a prompt, and the time.

use std::iter;

use domain::conversation::{Body, CACHE_BREAKPOINT, CACHE_CONTROL, Message, Prompt};
use domain::model::Model;
use serde_json::{Map, Value};

/// The least time for which the prompt before a breakpoint is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Minutes,
    Hour,
}

impl Keep {
    /// Returns the time in the providers' words, if it is not their default.
    pub(crate) fn ttl(self) -> Option<&'static str> {
        match self {
            Self::Minutes => None,
            Self::Hour => Some("1h"),
        }
    }
}

/// Returns the breakpoint on an object.
pub(crate) fn breakpoint(of: &Map<String, Value>) -> Option<Keep> {
    read(of.get(CACHE_BREAKPOINT), of.get(CACHE_CONTROL))
}

/// Reads our breakpoint, or else the one in the words of callers.
pub(super) fn read(ours: Option<&Value>, control: Option<&Value>) -> Option<Keep> {
    if let Some(kept) = ours {
        return keep(kept.as_str()?);
    }
    let control = control?;
    match crate::chat_form::text(control.get("type")) {
        "ephemeral" => {
            keep(control.get("ttl").map_or("5m", |ttl| ttl.as_str().unwrap_or_default()))
        }
        _ => None,
    }
}

fn keep(ttl: &str) -> Option<Keep> {
    match ttl {
        "5m" => Some(Keep::Minutes),
        "1h" => Some(Keep::Hour),
        _ => None,
    }
}

/// Whether a prompt has breakpoints of the gateway's own making.
pub(crate) fn is_marked(prompt: &Prompt) -> bool {
    let has = |map: &Map<String, Value>| map.contains_key(CACHE_BREAKPOINT);
    let in_message = |message: &Message| {
        has(&message.extra)
            || objects(message.body.parts()).any(has)
            || objects(list(message.extra.get("tool_calls"))).any(has)
    };
    has(&prompt.params)
        || objects(list(prompt.params.get("tools"))).any(has)
        || prompt.messages.iter().any(in_message)
}

/// Whether a breakpoint anywhere in a prompt asks for more than five minutes, or for an unknown time.
/// Formats without the gateway's own breakpoints read the callers' alone.
pub(crate) fn asks_for_an_hour(prompt: &Prompt, reads_ours: bool) -> bool {
    let in_message = |message: &Message| {
        asks_in_members(&message.extra, reads_ours)
            || message.body.parts().iter().any(|part| asks_in_value(part, reads_ours))
    };
    asks_in_members(&prompt.params, reads_ours) || prompt.messages.iter().any(in_message)
}

/// Whether a prompt asks anywhere, in any form, to be cached. A server behind a custom base URL may
/// cache without being asked.
pub(crate) fn may_write(model: &Model, prompt: &Prompt, vendors_host: &str) -> bool {
    let is_vendors = |base: &str| {
        let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
        let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
        let before = host.to_ascii_lowercase();
        before.strip_suffix(vendors_host).is_some_and(|name| name.is_empty() || name.ends_with('.'))
    };
    let base = model.base_url.as_deref().filter(|base| !base.is_empty());
    if !base.is_none_or(is_vendors) {
        return true;
    }
    let in_message =
        |message: &Message| asks_within(&message.extra) || message.body.parts().iter().any(asks);
    asks_within(&prompt.params) || prompt.messages.iter().any(in_message)
}

fn asks(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(asks),
        Value::Object(members) => asks_within(members),
        _ => false,
    }
}

fn asks_within(members: &Map<String, Value>) -> bool {
    let mut members = members.iter();
    members.any(|(name, value)| {
        matches!(name.as_str(), CACHE_BREAKPOINT | CACHE_CONTROL | "cachePoint") || asks(value)
    })
}

fn asks_in_value(value: &Value, reads_ours: bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| asks_in_value(item, reads_ours)),
        Value::Object(members) => asks_in_members(members, reads_ours),
        _ => false,
    }
}

fn asks_in_members(members: &Map<String, Value>, reads_ours: bool) -> bool {
    members.iter().any(|(name, value)| match name.as_str() {
        CACHE_BREAKPOINT => reads_ours && value != "5m",
        CACHE_CONTROL => value.get("ttl").is_some_and(|ttl| !ttl.is_null() && ttl != "5m"),
        _ => asks_in_value(value, reads_ours),
    })
}

/// Returns a prompt without the gateway's own breakpoints, for formats that lack them.
pub(crate) fn unmarked(prompt: &Prompt) -> Prompt {
    let mut prompt = prompt.clone();
    unmark(&mut prompt.params, "tools");
    for message in &mut prompt.messages {
        unmark(&mut message.extra, "tool_calls");
        if let Body::Parts(parts) = &mut message.body {
            unmark_all(parts);
        }
    }
    prompt
}

/// Adds the name of breakpoints to the parameters that were left out.
pub(crate) fn name_dropped(dropped: &mut Vec<String>) {
    if !dropped.iter().any(|name| name == CACHE_CONTROL) {
        dropped.push(CACHE_CONTROL.to_owned());
        dropped.sort_unstable();
    }
}

fn unmark(map: &mut Map<String, Value>, inside: &str) {
    map.shift_remove(CACHE_BREAKPOINT);
    if let Some(Value::Array(items)) = map.get_mut(inside) {
        unmark_all(items);
    }
}

fn unmark_all(items: &mut [Value]) {
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.shift_remove(CACHE_BREAKPOINT);
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn objects(items: &[Value]) -> impl Iterator<Item = &Map<String, Value>> {
    items.iter().filter_map(Value::as_object)
}

/// Returns the last breakpoint of a message that is replaced by its provider's own form.
pub(super) fn last_in(message: &Message) -> Option<Keep> {
    let calls = list(message.extra.get("tool_calls"));
    let inside =
        objects(message.body.parts()).chain(objects(calls)).chain(iter::once(&message.extra));
    inside.filter_map(breakpoint).last()
}
