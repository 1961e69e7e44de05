//! The contents of `additional_config` of a model.

use std::time::Duration;

use domain::fees::FeePrices;
use domain::model::{ModelConfig, Provider};
use domain::money::Usd;
use domain::settings::whole;
use serde_json::{Map, Value};
use store::ModelRow;

use crate::error::{Error, Result};
use crate::state::stored_model::endpoints::{self, Given};

/// The longest label, identifier or region that is saved. Labels are keys of the ledger, and an index
/// takes no more than some 2,700 bytes.
pub(crate) const LONGEST_TEXT: usize = 255;

/// The configuration that a row holds. A label that was saved when there was no limit is cut off.
pub(crate) fn stored(row: &ModelRow) -> Result<(ModelConfig, Vec<Given>)> {
    let (mut config, given) = read(&row.config)
        .map_err(|faults| Error::Internal(format!("model {}: {}", row.id, faults.join("; "))))?;
    if let Some(label) = &mut config.infrastructure {
        label.truncate(label.floor_char_boundary(LONGEST_TEXT));
    }
    Ok((config, given))
}

/// Refuses texts that a stored configuration may hold, but that are not saved any more.
pub(crate) fn check_texts(config: &ModelConfig, provider: Provider) -> Result<()> {
    let mut faults = Vec::new();
    for (key, text) in [
        ("infrastructure", &config.infrastructure),
        ("fallback_identifier", &config.fallback),
        ("upstream_model", &config.upstream_model),
    ] {
        if text.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            faults.push(format!(
                "additional_config.{key} is too long (maximum is {LONGEST_TEXT} bytes)"
            ));
        }
    }
    // They become parts of an address there.
    let parts: &[&str] = match provider {
        Provider::Azure => &["api_version", "deployment"],
        Provider::Bedrock => &["region"],
        _ => &[],
    };
    for key in parts {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = |text: &str| !text.is_empty() && text.len() <= 64 && text.chars().all(fits);
        let value = config.all.get(*key).filter(|value| !value.is_null());
        if value.is_some_and(|value| !value.as_str().is_some_and(is_name)) {
            faults.push(format!(
                "additional_config.{key} must be a text of at most 64 letters, digits, '-', '_' and '.'"
            ));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

/// Reads `additional_config`, and the endpoints in it, which need the rest of the model to become
/// complete.
pub(crate) fn read(text: &str) -> std::result::Result<(ModelConfig, Vec<Given>), Vec<String>> {
    let all: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| vec![format!("additional_config: {error}")])?;
    let mut faults = Vec::new();
    let mut fault =
        |key: &str, what: &str| faults.push(format!("additional_config.{key} must be {what}"));
    let set = |key: &str| all.get(key).filter(|value| !value.is_null());
    let mut text = |key: &str| {
        let value = set(key)?;
        let text = value.as_str().filter(|text| !text.is_empty() && !text.contains('\0'));
        if text.is_none() {
            fault(key, "a text that is not blank");
        }
        text.map(str::to_owned)
    };
    let infrastructure = text("infrastructure");
    let fallback = text("fallback_identifier");
    let upstream_model = text("upstream_model");
    let mut count = |key: &str| {
        let value = set(key)?;
        let count = whole(value).filter(|count| (1..=100_000_000).contains(count));
        if count.is_none() {
            fault(key, "a whole number from 1 to 100,000,000");
        }
        count
    };
    let max_output_tokens = count("max_output_tokens");
    let context_window = count("context_window");
    let timeout = count("timeout_ms").map(Duration::from_millis);
    let mut price = |key: &str| {
        let value = set(key)?;
        let price = value.as_f64().and_then(amount);
        if price.is_none() {
            fault(key, "an amount in USD that is not negative");
        }
        price
    };
    let cached_input_price = price("cached_input_cost_per_1k");
    let cache_write_price = price("cache_write_cost_per_1k");
    let cache_write_1h_price = price("cache_write_1h_cost_per_1k");
    let image_price = price("cost_per_image");
    if set("responses").is_some_and(|value| !value.is_boolean()) {
        faults.push("additional_config.responses must be true or false".to_owned());
    }
    let given = endpoints::read(&all, &mut faults);
    if !faults.is_empty() {
        return Err(faults);
    }
    let config = ModelConfig {
        infrastructure,
        fallback,
        upstream_model,
        max_output_tokens,
        context_window,
        timeout,
        cached_input_price,
        cache_write_price,
        cache_write_1h_price,
        image_price,
        fees: FeePrices::default(),
        endpoints: Vec::new(),
        all,
    };
    Ok((config, given))
}

/// An amount in USD; `None` if it is negative, too large or not a number.
pub(crate) fn amount(dollars: f64) -> Option<Usd> {
    Usd::from_dollars(dollars).filter(|_| dollars >= 0.0)
}
