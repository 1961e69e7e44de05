//! The metadata of a trace, as a request carries it.

use gateway::Error;
use serde_json::{Map, Value};

use crate::http::error::Result;
use crate::http::json_text::JsonText;

/// The metadata that a caller gives of a trace. A text that is far too long is not read as a tree.
pub fn metadata(given: Option<JsonText>) -> Result<Option<Map<String, Value>>> {
    let Some(JsonText(given)) = given else { return Ok(None) };
    // White space does not count, within reason.
    if given.get().len() > 4 * gateway::MAX_METADATA_BYTES {
        return Err(gateway::metadata_too_large().into());
    }
    match serde_json::from_str(given.get()) {
        Ok(Value::Null) => Ok(None),
        Ok(Value::Object(metadata)) => Ok(Some(metadata)),
        // A text that is nested too deeply is no tree.
        Err(_) => Err(gateway::too_deep().into()),
        Ok(_) => Err(Error::invalid("Metadata must be a JSON object").into()),
    }
}
