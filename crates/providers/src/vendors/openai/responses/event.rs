//! An event of a stream, as far as it is read.

use serde::Deserialize;
use serde_json::{Map, Value};

/// An event, as far as it is read. Its type is in the data; the name before the data repeats it.
#[derive(Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
    pub(super) delta: Option<Value>,
    pub(super) item: Option<Value>,
    pub(super) input: Option<Value>,
    pub(super) response: Option<Map<String, Value>>,
}

impl Event {
    /// Its kind without what all kinds begin with.
    pub(super) fn what(&self) -> &str {
        self.kind.strip_prefix("response.").unwrap_or(&self.kind)
    }
}
