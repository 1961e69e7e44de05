//! Settings of projects as they are given: bounded in size and depth, and read.

use domain::settings::Settings;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The deepest nesting of settings and configurations, far below the limit of a JSON parser.
pub(crate) const DEEPEST: usize = 32;
/// The largest settings, in bytes of JSON.
const LARGEST_SETTINGS: usize = 256 * 1024;

/// Reads settings that are not too large.
pub(crate) fn read_settings(settings: &Map<String, Value>) -> Result<Settings> {
    if serde_json::to_string(settings).is_ok_and(|text| text.len() > LARGEST_SETTINGS) {
        return Err(Error::invalid(format!("settings are larger than {LARGEST_SETTINGS} bytes")));
    }
    Settings::parse(settings).map_err(Error::Invalid)
}

/// Whether objects and arrays are nested at most `most` levels deep.
pub(crate) fn is_shallow(value: &Value, most: usize) -> bool {
    let fits = |value: &Value| most > 0 && is_shallow(value, most - 1);
    match value {
        Value::Array(items) => items.iter().all(fits),
        Value::Object(members) => members.values().all(fits),
        _ => true,
    }
}
