//! The draft of a backtest: settings that are not saved, with prices and a cap that only a draft has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use domain::model::Model;
use domain::money::{Price, Usd};
use domain::settings;
use domain::tier::Tier;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::backtest::limits::Caps;
use crate::error::{Error, Faults, Result};
use crate::state::registry::ProjectState;

/// The settings that change what a backtest finds. Others are validated as well, and left out of the job: they
/// may hold credentials.
const EFFECTIVE: [&str; 17] = [
    "safety.block_threshold",
    "safety.pii.action",
    "safety.pii.entities",
    "safety.injection",
    "safety.secrets",
    "safety.rules",
    "safety.recognizers",
    "routing.complexity_threshold",
    "routing_tiers",
    "limits.requests_per_hour",
    "limits.loop_requests",
    "limits.loop_window_seconds",
    "limits.hourly_limit",
    "monthly_budget",
    "allowed_regions",
    "images.blocked_terms",
    PRICES,
];
/// The section of a draft that has prices of models.
const PRICES: &str = "prices";
/// The cap of every key, in the section `limits` of a draft.
const HOURLY_LIMIT: &str = "hourly_limit";
/// The most faults of prices that are named.
const MOST_FAULTS: usize = 20;
const PRICE_NAMES: [&str; 5] = [
    "input_cost_per_1k",
    "output_cost_per_1k",
    "cached_input_cost_per_1k",
    "cache_write_cost_per_1k",
    "cache_write_1h_cost_per_1k",
];

/// A draft, as the job of a backtest holds it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Draft {
    /// The patch of the project's settings, with the two things that only a draft has.
    settings: Map<String, Value>,
    /// The settings of the request that have no effect: `auto_trace`, `safety.output`.
    pub(super) ignored: Vec<String>,
}

/// A project as a draft would have it.
pub(super) struct DraftProject {
    pub(super) state: ProjectState,
    /// The project without the draft.
    pub(super) current: Arc<ProjectState>,
    /// The models that the draft has a price for, as they are without it.
    pub(super) priced: BTreeMap<String, Arc<Model>>,
    /// The cap of every key; the outer `None` leaves each key its own.
    hourly_limit: Option<Option<Usd>>,
    /// The tiers to which the draft gives no other models than the project has now.
    pub(super) unchanged: Vec<Tier>,
}

/// The prices of a model in a draft, by 1,000 tokens. Those that are left out stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prices([Option<Price>; PRICE_NAMES.len()]);

impl Draft {
    /// Keeps what a backtest uses of a patch of settings.
    pub(super) fn of(patch: Map<String, Value>) -> Self {
        let mut ignored = Vec::new();
        let settings = effective(patch, "", &mut ignored);
        Self { settings, ignored }
    }

    /// The names of the sections that are used.
    pub(super) fn sections(&self) -> Vec<&str> {
        self.settings.keys().map(String::as_str).collect()
    }

    /// Refuses faults of what only a draft has; the rest is validated as a change of the project.
    pub(super) fn check(&self, project: &ProjectState) -> Result<()> {
        let mut faults = Faults::default();
        faults.note(self.hourly_limit());
        if let Some(prices) = faults.note(self.prices()) {
            let unknown = prices.keys().filter(|model| !project.models.contains_key(*model));
            let shown = unknown.map(|model| model.chars().take(64).collect::<String>());
            let sentences = shown.map(|model| {
                format!("settings.{PRICES}.{model} is not registered: a price is for a model")
            });
            let sentences = sentences.take(MOST_FAULTS);
            faults.sentences().extend(sentences);
        }
        faults.none()
    }

    /// The project with this draft merged over its settings.
    pub(super) fn apply(&self, current: &Arc<ProjectState>) -> Result<DraftProject> {
        let prices = self.prices()?;
        let mut project = current.project.clone();
        settings::merge(&mut project.settings, self.settings.clone());
        let mut models: HashMap<String, Arc<Model>> = current.models.clone();
        let mut priced = BTreeMap::new();
        for (identifier, prices) in prices {
            if let Some(model) = models.get_mut(&identifier) {
                priced.insert(identifier, model.clone());
                prices.give(Arc::make_mut(model));
            }
        }
        let state = current.drafted(project, models)?;
        let chain = |state: &ProjectState, tier| {
            let models = state.candidates(tier).unwrap_or_default();
            models.iter().map(|model| model.id).collect::<Vec<_>>()
        };
        let is_unchanged = |tier: &Tier| chain(current, *tier) == chain(&state, *tier);
        let unchanged = Tier::ALL.iter().copied().filter(is_unchanged).collect();
        let (current, hourly_limit) = (current.clone(), self.hourly_limit()?);
        Ok(DraftProject { state, current, priced, hourly_limit, unchanged })
    }

    fn hourly_limit(&self) -> Result<Option<Option<Usd>>> {
        let limits = self.settings.get("limits").and_then(Value::as_object);
        match limits.and_then(|limits| limits.get(HOURLY_LIMIT)) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(given) => match amount(given) {
                Some(limit) => Ok(Some(Some(limit))),
                None => Err(Error::invalid(format!(
                    "settings.limits.{HOURLY_LIMIT} must be an amount in USD that is not negative, or null"
                ))),
            },
        }
    }

    fn prices(&self) -> Result<BTreeMap<String, Prices>> {
        let given = match self.settings.get(PRICES) {
            None | Some(Value::Null) => return Ok(BTreeMap::new()),
            Some(Value::Object(given)) => given,
            Some(_) => return Err(Error::invalid(format!("settings.{PRICES} must be an object"))),
        };
        let mut faults = Faults::default();
        let mut all = BTreeMap::new();
        for (model, given) in given {
            if faults.sentences().len() >= MOST_FAULTS {
                break;
            }
            if let Some(prices) = faults.note(Prices::read(model, given)) {
                all.insert(model.clone(), prices);
            }
        }
        faults.sentences().truncate(MOST_FAULTS);
        faults.none()?;
        Ok(all)
    }
}

/// The part of a patch that has an effect; the rest is named. `above` is where the patch stands in the settings.
fn effective(
    patch: Map<String, Value>,
    above: &str,
    ignored: &mut Vec<String>,
) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in patch {
        let path = format!("{above}{name}");
        let below = format!("{path}.");
        let is_effective = !name.contains('.') && EFFECTIVE.contains(&path.as_str());
        let is_above = EFFECTIVE.iter().any(|known| known.starts_with(&below));
        // A section that is null has its defaults.
        if is_effective || (is_above && !value.is_object()) {
            kept.insert(name, value);
        } else if is_above && let Value::Object(members) = value {
            kept.insert(name, Value::Object(effective(members, &below, ignored)));
        } else {
            ignored.push(path);
        }
    }
    kept
}

impl Prices {
    fn read(model: &str, given: &Value) -> Result<Self> {
        let shown: String = model.chars().take(64).collect();
        let Some(given) = given.as_object() else {
            return Err(Error::invalid(format!("settings.{PRICES}.{shown} must be an object")));
        };
        let mut faults = Faults::default();
        let mut prices = Self::default();
        for (name, value) in given {
            if faults.sentences().len() >= MOST_FAULTS {
                break;
            }
            let place = PRICE_NAMES.iter().position(|known| known == name);
            match (place, amount(value)) {
                (Some(place), Some(price)) => prices.0[place] = Some(price),
                (Some(_), None) => faults.add(format!(
                    "settings.{PRICES}.{shown}.{name} must be an amount in USD that is not negative"
                )),
                (None, _) => {
                    let name: String = name.chars().take(64).collect();
                    faults.add(format!(
                        "settings.{PRICES}.{shown}.{name} is not known: it is one of {}",
                        PRICE_NAMES.join(", ")
                    ));
                }
            }
        }
        faults.none()?;
        Ok(prices)
    }

    /// Gives a model these prices. Those of its cache belong to its price of the input, as everywhere.
    fn give(&self, model: &mut Model) {
        let [input, output, cached, write, write_1h] = self.0;
        let config = &mut model.config;
        if input.is_some() && input != model.input_price {
            config.cached_input_price = None;
            config.cache_write_price = None;
            config.cache_write_1h_price = None;
        }
        model.input_price = input.or(model.input_price);
        model.output_price = output.or(model.output_price);
        config.cached_input_price = cached.or(config.cached_input_price);
        config.cache_write_price = write.or(config.cache_write_price);
        config.cache_write_1h_price = write_1h.or(config.cache_write_1h_price);
    }
}

impl DraftProject {
    /// The caps of keys by the draft, if each has the one that it has now without it.
    pub(super) fn caps(&self, now: &Caps) -> Caps {
        self.hourly_limit.map_or_else(|| now.clone(), Caps::Every)
    }
}

fn amount(value: &Value) -> Option<Usd> {
    value.as_f64().filter(|dollars| *dollars >= 0.0).and_then(Usd::from_dollars)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_without_effect_are_named_and_left_out() {
        let patch = json!({
            "safety": {
                "output": {"secrets": {"action": "block"}},
                "review_threshold": 0.5,
                "pii": {"action": "block", "restore": false},
                "injection": {"application": "block"},
                "rules": [],
            },
            "auto_trace": true,
            "limits": {"strict": true, "loop_requests": null},
            "images": null,
            "routing": {"of_tomorrow": 1},
            "safety.rules": [],
            "prices": {"m": {"input_cost_per_1k": 1}},
        });
        let draft = Draft::of(patch.as_object().unwrap().clone());
        assert_eq!(
            draft.ignored,
            [
                "safety.output",
                "safety.review_threshold",
                "safety.pii.restore",
                "auto_trace",
                "limits.strict",
                "routing.of_tomorrow",
                "safety.rules",
            ]
        );
        let kept = json!({
            "safety": {"pii": {"action": "block"}, "injection": {"application": "block"}, "rules": []},
            "limits": {"loop_requests": null},
            "images": null,
            "routing": {},
            "prices": {"m": {"input_cost_per_1k": 1}},
        });
        assert_eq!(Value::Object(draft.settings), kept);
    }
}
