//! The fields of an answer in the chat-completions format, and what their strings are. Visitor,
//! paths and the splitting of chunks read these lists, so a new field is entered here alone; a
//! field that no list has holds ordinary strings, which are judged, restored and kept.

use std::borrow::Cow;

pub(crate) use domain::conversation::PROVIDER_STATE as STATE;
use domain::conversation::{STOP_DETAILS, STOP_SEQUENCE};

/// The field of a choice that holds its message: all of it, or what a chunk adds.
pub(super) const MESSAGE: &str = "message";
pub(super) const DELTA: &str = "delta";
/// The text of an answer.
pub(super) const CONTENT: &str = "content";
/// The text of one part of a content.
pub(super) const TEXT: &str = "text";
/// A refusal has its reason in a field of its own.
pub(super) const REFUSAL: &str = "refusal";
pub(super) const TOOL_CALLS: &str = "tool_calls";
/// A call of a tool, in the form from before there could be several. Adapters write it once more
/// among the others.
pub(super) const LEGACY_CALL: &str = "function_call";
/// The function of a tool call: its name, and its arguments in JSON.
pub(crate) const FUNCTION: &str = "function";
pub(crate) const NAME: &str = "name";
pub(crate) const ARGUMENTS: &str = "arguments";
/// Repeats the text, token by token.
pub(super) const LOGPROBS: &str = "logprobs";
/// The bytes of a sound, beside its transcript.
pub(super) const AUDIO: &str = "audio";
pub(super) const AUDIO_BYTES: &str = "data";
pub(super) const TRANSCRIPT: &str = "transcript";

/// Words of the format itself, and what the gateway or the provider sets: no model writes them.
const FORMAT_FIELDS: [&str; 13] = [
    "id",
    "object",
    "created",
    "model",
    "type",
    "role",
    "index",
    "finish_reason",
    "system_fingerprint",
    "service_tier",
    "usage",
    "obfuscation",
    // Returned to the provider as it came, or its signatures do not fit any more.
    STATE,
];

/// Notes to the text: they come whole, beside strings that come in pieces.
pub(super) const NOTES: [&str; 4] = ["annotations", "citations", STOP_DETAILS, STOP_SEQUENCE];
/// The type of the text, at any depth: it comes whole as well.
pub(super) const LABELS: [&str; 5] = ["channel", "format", "phase", "recipient", "status"];

/// Fields in which a picture, a sound or a film may stand. Any other string is words, whatever it
/// looks like: a model could disguise forbidden text as a picture.
pub(super) const MEDIA: [&str; 7] =
    [AUDIO, "b64_json", "image", "image_url", "images", "inline_data", "video"];

/// Fields of a message that are of use only as a whole.
pub(super) const INDIVISIBLE: [&str; 3] = [TOOL_CALLS, LEGACY_CALL, STATE];

/// The fields on the paths of almost all strings.
const COMMON: [&str; 9] =
    [DELTA, CONTENT, MESSAGE, TOOL_CALLS, FUNCTION, ARGUMENTS, NAME, TEXT, REFUSAL];

/// Whether the strings in a field of an object count.
pub(super) fn is_visited(name: &str, is_in_audio: impl FnOnce() -> bool) -> bool {
    !FORMAT_FIELDS.contains(&name) && name != LOGPROBS && !(name == AUDIO_BYTES && is_in_audio())
}

/// The name of a field in a form that can be kept. The common ones need no allocation.
pub(super) fn kept_name(name: &str) -> Cow<'static, str> {
    match COMMON.iter().find(|common| **common == name) {
        Some(common) => Cow::Borrowed(common),
        None => Cow::Owned(name.to_owned()),
    }
}
