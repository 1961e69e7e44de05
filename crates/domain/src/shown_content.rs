//! The parts of a stored content that are shown, copied as text: in the detail of a trace and in exports.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::step::{Step, StepKind};

/// Contents that are nested deeper are not shown: few programs read such JSON.
const DEEPEST: usize = 127;

/// The parts of a [`crate::step::Content`] that are shown. Null counts as absent.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ShownContent<'a> {
    /// The input.
    #[serde(borrow, default)]
    pub input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    /// The content that passed as it came, beside input and output.
    #[serde(borrow, default)]
    pub passed: Option<&'a RawValue>,
}

/// The output that is shown of a step.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Output<'a> {
    /// JSON, as it is stored.
    Json(&'a RawValue),
    /// A text.
    Text(&'a str),
    /// The verdict of a check, which is shown without stored content too.
    Allowed {
        /// Whether the text may pass.
        allowed: bool,
    },
}

/// The message of a model.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    /// Whether there are any, null included.
    #[serde(default, deserialize_with = "is_there")]
    tool_calls: bool,
}

impl<'a> ShownContent<'a> {
    /// Reads a content; `None` if it is nested too deeply or is malformed.
    pub fn read(json: &'a [u8]) -> Option<Self> {
        if is_too_deep(json) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }

    /// The output that is shown of a step: of a run always a text, empty if it only called tools; the
    /// shape of vectors and images, which are not kept, as JSON; the verdict of a check.
    pub fn output(&self, step: &Step) -> Option<Output<'a>> {
        let verdict = || Output::Allowed { allowed: step.reason.is_none() };
        self.stored_output(step.kind).or_else(|| (step.kind == StepKind::Check).then(verdict))
    }

    fn stored_output(&self, kind: StepKind) -> Option<Output<'a>> {
        let output = self.output?;
        if kind != StepKind::Run || !output.get().starts_with('{') {
            return Some(Output::Json(output));
        }
        let message = serde_json::from_str::<Message<'a>>(output.get()).ok();
        let Some(message) = message.filter(|message| message.tool_calls) else {
            return Some(Output::Text(output.get()));
        };
        let text = message.content.filter(|content| content.get().starts_with('"'));
        Some(text.map_or(Output::Text(""), Output::Json))
    }
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

fn is_too_deep(json: &[u8]) -> bool {
    let (mut depth, mut bytes) = (0_usize, json.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return true;
        }
    }
    false
}

/// Continues behind the end of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            // An escaped byte ends nothing.
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}
