//! The endpoints of a model: `additional_config.endpoints`, and their credentials, which are sealed
//! apart from it.
//!
//! A credential belongs to an address. It is kept while its address is in the list, and never goes
//! to another.

use std::sync::Arc;

use domain::model::{Endpoint, Model, Provider, SANDBOX_URL};
use domain::secret::Secret;
use serde_json::{Map, Value};
use store::{ModelRow, SealingKey};

use crate::error::{Error, Result};

/// Their field in `additional_config`.
const LIST: &str = "endpoints";
/// The context that ties the sealed credentials to their field.
const CREDENTIALS: &str = "model:endpoint_keys";
/// The most endpoints of one model.
const MOST: usize = 32;
/// The longest address, as browsers have it.
const LONGEST_URL: usize = 2048;

/// An endpoint as the configuration describes it.
#[derive(Debug)]
pub(crate) struct Given {
    /// `None`: the model's address.
    base_url: Option<String>,
    weight: f64,
    /// `None`: the model's.
    region: Option<String>,
}

/// The credential of an endpoint in a request: not given, removed, or set.
pub(crate) type Asked = Option<Option<Secret>>;

/// The credentials that a row holds, each with the address that it is for, in the order of the list.
pub(crate) struct Held {
    provider: Provider,
    keys: Vec<(Option<String>, Option<Secret>)>,
}

/// Takes the credentials out of a configuration that a request brings: it is stored and shown
/// without them.
pub(crate) fn take_keys(config: &mut Map<String, Value>, faults: &mut Vec<String>) -> Vec<Asked> {
    let Some(Value::Array(entries)) = config.get_mut(LIST) else { return Vec::new() };
    let take = |(index, entry): (usize, &mut Value)| {
        let entry = entry.as_object_mut()?;
        // A caller that sends back the shown configuration does not change anything by this field.
        entry.remove("has_api_key");
        match entry.remove("api_key")? {
            Value::Null => Some(None),
            Value::String(key) => Some(Some(key).filter(|key| !key.is_empty()).map(Secret::new)),
            _ => {
                faults.push(fault(index, "api_key must be a text"));
                None
            }
        }
    };
    entries.iter_mut().take(MOST).enumerate().map(take).collect()
}

/// Which endpoints of a configuration bring a credential, and whether one was set for the same address
/// in the configuration before.
pub(crate) fn brought(
    config: &Map<String, Value>,
    before: &str,
) -> impl Iterator<Item = (usize, bool)> {
    let before: Value = serde_json::from_str(before).unwrap_or_default();
    let was_set = move |url: &Value| {
        let known = before[LIST].as_array().into_iter().flatten();
        known.into_iter().any(|known| known["base_url"] == *url && known["has_api_key"] == true)
    };
    let entries = config.get(LIST).and_then(Value::as_array).into_iter().flatten().enumerate();
    entries
        .filter(|(_, entry)| entry["api_key"].as_str().is_some_and(|key| !key.is_empty()))
        .map(move |(index, entry)| (index, was_set(&entry["base_url"])))
}

/// Reads the list of a configuration; faults are sentences for people.
pub(crate) fn read(config: &Map<String, Value>, faults: &mut Vec<String>) -> Vec<Given> {
    let entries = match config.get(LIST) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) if entries.len() <= MOST => entries,
        Some(Value::Array(_)) => {
            faults.push(format!("additional_config.endpoints must not hold more than {MOST}"));
            return Vec::new();
        }
        Some(_) => {
            faults.push("additional_config.endpoints must be a list".to_owned());
            return Vec::new();
        }
    };
    let mut given = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        match entry.as_object() {
            Some(entry) => given.push(read_one(index, entry, faults)),
            None => faults.push(fault(index, "must be an object")),
        }
    }
    given
}

fn read_one(index: usize, entry: &Map<String, Value>, faults: &mut Vec<String>) -> Given {
    // A misspelt `api_key` would be shown to everybody.
    let known = ["base_url", "weight", "region", "has_api_key"];
    if let Some(key) = entry.keys().find(|key| !known.contains(&key.as_str())) {
        let what = format!("has no '{key}', only base_url, api_key, weight, region");
        faults.push(fault(index, &what));
    }
    let set = |key: &str| entry.get(key).filter(|value| !value.is_null());
    let mut text = |key: &str, longest: usize| {
        let value = set(key)?;
        let sound = |text: &&str| text.len() <= longest && !text.contains('\0');
        let text = value.as_str().filter(sound);
        if text.is_none() {
            faults.push(fault(index, &format!("{key} must be a text of at most {longest} bytes")));
        }
        text.filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    let base_url = text("base_url", LONGEST_URL);
    let region = text("region", 255);
    let weight = set("weight").map_or(Some(1.0), Value::as_f64);
    let weight = weight.filter(|weight| weight.is_finite() && *weight > 0.0);
    if weight.is_none() {
        faults.push(fault(index, "weight must be a number above 0"));
    }
    Given { base_url, weight: weight.unwrap_or(1.0), region }
}

fn fault(index: usize, what: &str) -> String {
    format!("additional_config.endpoints[{index}] {what}")
}

/// Checks the addresses at which a row's model is called: its own, unless none of its endpoints is
/// there, and those of its endpoints.
pub(crate) fn check_addresses(
    row: &ModelRow,
    given: &[Given],
    egress_allow: &[String],
    faults: &mut Vec<String>,
) {
    let check =
        |url| providers::validate_base_url(row.provider, url, row.is_public, egress_allow).err();
    let own = row.base_url.as_deref();
    if own.is_some() || given.is_empty() || given.iter().any(|one| one.base_url.is_none()) {
        faults.extend(check(own));
    }
    for (index, endpoint) in given.iter().enumerate() {
        match endpoint.address(row) {
            Some(SANDBOX_URL) => faults.push(fault(index, "must not be the sandbox")),
            _ if endpoint.base_url.is_none() => {}
            url => faults.extend(check(url).map(|what| fault(index, &format!("is wrong: {what}")))),
        }
    }
}

impl Given {
    fn address<'a>(&'a self, row: &'a ModelRow) -> Option<&'a str> {
        self.base_url.as_deref().or(row.base_url.as_deref())
    }
}

impl Held {
    /// The credentials that a row holds before it is changed.
    pub(crate) fn of(row: &ModelRow, given: &[Given], sealing: &SealingKey) -> Result<Self> {
        let mut keys = open_keys(row, sealing)?.into_iter();
        let address = |endpoint: &Given| endpoint.address(row).map(str::to_owned);
        let keys =
            given.iter().map(|endpoint| (address(endpoint), keys.next().flatten())).collect();
        Ok(Self { provider: row.provider, keys })
    }

    /// Takes the next credential for an address.
    fn take(&mut self, provider: Provider, address: Option<&str>) -> Option<Secret> {
        let mut keys = self.keys.iter();
        let found = keys.position(|(known, _)| known.as_deref() == address)?;
        let (_, key) = self.keys.remove(found);
        key.filter(|_| provider == self.provider)
    }
}

/// Seals the credentials of a row's endpoints: those that a request brings, and for the others
/// those that are held for the same address. Notes in the configuration which endpoint has one.
pub(crate) fn settle(
    row: &mut ModelRow,
    mut config: Map<String, Value>,
    given: &[Given],
    asked: Vec<Asked>,
    mut held: Held,
    sealing: &SealingKey,
) -> Result<()> {
    row.endpoint_keys = None;
    let Some(Value::Array(entries)) = config.get_mut(LIST) else { return Ok(()) };
    let mut asked = asked.into_iter();
    let mut keys = Vec::with_capacity(given.len());
    for (endpoint, entry) in given.iter().zip(entries) {
        // Taken in any case: the next endpoint at this address has the next one.
        let kept = held.take(row.provider, endpoint.address(row));
        let key: Option<Secret> = asked.next().flatten().unwrap_or(kept);
        entry["has_api_key"] = key.is_some().into();
        keys.push(key);
    }
    row.config = Value::Object(config).to_string();
    if keys.iter().any(Option::is_some) {
        let plain: Vec<_> = keys.iter().map(|key| key.as_ref().map(Secret::expose)).collect();
        let plain = serde_json::to_vec(&plain).map_err(|error| unreadable(row, &error))?;
        row.endpoint_keys = Some(sealing.seal(CREDENTIALS, &plain)?);
    }
    Ok(())
}

/// The credentials of a row's endpoints, in the order of its list.
pub(crate) fn open_keys(row: &ModelRow, sealing: &SealingKey) -> Result<Vec<Option<Secret>>> {
    let Some(sealed) = &row.endpoint_keys else { return Ok(Vec::new()) };
    let plain = sealing.open(CREDENTIALS, sealed)?;
    let keys: Vec<Option<String>> =
        serde_json::from_slice(&plain).map_err(|error| unreadable(row, &error))?;
    Ok(keys.into_iter().map(|key| key.map(Secret::new)).collect())
}

/// Without the message of the parser: it may quote its input.
fn unreadable(row: &ModelRow, error: &serde_json::Error) -> Error {
    Error::Internal(format!("model {}: credentials of endpoints ({:?})", row.id, error.classify()))
}

/// The model as it is called at each of its endpoints. One at the model's own address uses the
/// model's credential if it has none.
pub(crate) fn place(model: &Model, given: Vec<Given>, keys: Vec<Option<Secret>>) -> Vec<Endpoint> {
    let mut bare = model.clone();
    bare.config.all.remove(LIST);
    let mut keys = keys.into_iter();
    let place = |(index, endpoint): (usize, Given)| {
        let base_url = endpoint.base_url.or_else(|| model.base_url.clone());
        let shared = model.api_key.as_ref().filter(|_| base_url == model.base_url);
        let api_key = keys.next().flatten().or_else(|| shared.cloned());
        let mut own = Model { base_url, api_key, ..bare.clone() };
        if let Some(region) = endpoint.region {
            // If the endpoint names its region of the provider, the model's region is not used.
            if providers::is_aws_region(&region) {
                own.config.all.remove("region");
            }
            own.region = region;
        }
        Endpoint { index, weight: endpoint.weight, model: Arc::new(own) }
    };
    given.into_iter().enumerate().map(place).collect()
}
