//! The overrides of a replay: the ways in which it differs from its source.

use aws_lc_rs::digest;
use domain::ids::TraceId;
use domain::money::Usd;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::{Error, Faults, Result};
use crate::state::caller::Caller;

/// The most models that one list names.
const MOST_MODELS: usize = 20;

/// The ways in which a replay differs from its source. Without any of them each call keeps its model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overrides {
    /// The model of every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_model: Option<String>,
    /// Models of which each makes every call, in a trace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare_models: Option<Vec<String>>,
    /// The models of concurrent calls: assigned round-robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_models: Option<Vec<String>>,
    /// The estimated cost above which a call is not made, in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
}

impl Overrides {
    /// Refuses overrides that contradict each other.
    pub(super) fn check_form(&self) -> Result<()> {
        if self.force_model.is_some() && self.compare_models.is_some() {
            let fault = "force_model and compare_models are mutually exclusive";
            return Err(Error::Malformed(fault.to_owned()));
        }
        Ok(())
    }

    /// Refuses overrides that are out of bounds, or name a model that the project does not have or the key
    /// may not call.
    pub(super) fn check(&self, caller: &Caller) -> Result<()> {
        let mut faults = Faults::default();
        let lists =
            [("compare_models", &self.compare_models), ("force_models", &self.force_models)];
        for (name, list) in lists {
            match list.as_ref().map(Vec::len) {
                Some(0) => faults.add(format!("{name} must name a model")),
                Some(count) if count > MOST_MODELS => {
                    faults.add(format!("{name} must not name more than {MOST_MODELS} models"));
                }
                _ => {}
            }
        }
        if self.max_cost.is_some_and(|cost| max_cost(cost).is_none()) {
            faults.add("max_cost must be a number of at least 0, in USD".to_owned());
        }
        faults.none()?;
        let models = self.force_model.iter();
        let mut models =
            models.chain(self.compare_models.iter().chain(&self.force_models).flatten());
        models.try_for_each(|model| caller.check_model(caller.project.model(model)?))
    }

    /// The model of each trace of the replay; `None` if its calls keep theirs.
    pub(super) fn targets(&self) -> Vec<Option<&str>> {
        match &self.compare_models {
            Some(models) => models.iter().map(|model| Some(model.as_str())).collect(),
            None => vec![self.force_model.as_deref()],
        }
    }

    /// The estimated cost above which a call is not made.
    pub(super) fn max_cost(&self) -> Option<Usd> {
        self.max_cost.and_then(max_cost)
    }

    /// The hash of a replay of a trace: equal requests have equal ones. Lists count in their order.
    pub(super) fn hash(&self, trace: TraceId) -> [u8; 32] {
        let canonical = json!({"trace_id": trace, "overrides": self}).to_string();
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        hash
    }
}

fn max_cost(dollars: f64) -> Option<Usd> {
    // NaN is refused too: it compares false.
    if dollars >= 0.0 { Usd::from_dollars(dollars) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Overrides {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn equal_requests_have_equal_hashes() {
        let trace = |number| TraceId(uuid::Uuid::from_u128(number));
        let hash = |json: &str| read(json).hash(trace(1));
        let none = hash("{}");
        assert_eq!(
            none,
            hash(r#"{"force_model": null, "compare_models": null, "max_cost": null}"#)
        );
        assert_eq!(hash(r#"{"max_cost": 1}"#), hash(r#"{"max_cost": 1.0}"#));
        assert_eq!(
            hash(r#"{"max_cost": 2, "force_model": "a"}"#),
            hash(r#"{"force_model": "a", "max_cost": 2.00}"#)
        );
        let different = [
            r#"{"force_model": "a"}"#,
            r#"{"force_models": ["a"]}"#,
            r#"{"compare_models": ["a"]}"#,
            r#"{"compare_models": ["a", "b"]}"#,
            r#"{"compare_models": ["b", "a"]}"#,
            r#"{"compare_models": ["a,b"]}"#,
            r#"{"max_cost": 0}"#,
        ];
        for (index, one) in different.iter().enumerate() {
            assert_ne!(hash(one), none);
            for other in &different[index + 1..] {
                assert_ne!(hash(one), hash(other), "{one} {other}");
            }
        }
        assert_ne!(read("{}").hash(trace(2)), none);
    }

    #[test]
    fn a_cost_is_a_number_that_is_not_negative() {
        for cost in [-0.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert_eq!(max_cost(cost), None, "{cost}");
        }
        assert_eq!(max_cost(0.0), Some(Usd::ZERO));
        assert_eq!(max_cost(0.25), Some(Usd(250_000_000)));
    }
}
