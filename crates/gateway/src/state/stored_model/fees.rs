//! `additional_config.prices`: what a vendor charges beside plain tokens, and what it is known to
//! charge if the definition leaves that out.
//!
//! The defaults are those of the vendors' price lists of November 2026.

use domain::fees::{Factor, FeePrices, Surcharge, VendorTool};
use domain::model::Provider;
use domain::money::Usd;
use serde_json::{Map, Value};

use crate::state::stored_model::config::amount;

/// Their field in `additional_config`.
const PRICES: &str = "prices";
/// The largest factor, and the smallest, as a part of 100.
const FACTORS: std::ops::RangeInclusive<f64> = 0.0..=100.0;

/// How a price of a tool is given: its key, and the uses that it is the price of.
const TOOLS: [(VendorTool, &str, i64); 3] = [
    (VendorTool::WebSearch, "web_search_cost_per_1k", 1_000),
    (VendorTool::FileSearch, "file_search_cost_per_1k", 1_000),
    // A use is five minutes.
    (VendorTool::CodeExecution, "code_execution_cost_per_hour", 12),
];

const FACTOR_KEYS: [(Surcharge, &str); 3] = [
    (Surcharge::Fast, "fast_factor"),
    (Surcharge::Priority, "priority_factor"),
    (Surcharge::Us, "us_factor"),
];

/// The prices that a configuration gives; faults are sentences for people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    tools: Vec<(VendorTool, Usd)>,
    factors: Vec<(Surcharge, Factor)>,
}

/// Reads the prices of a configuration.
pub(crate) fn read(config: &Map<String, Value>, faults: &mut Vec<String>) -> Given {
    let mut given = Given::default();
    let prices = match config.get(PRICES) {
        None | Some(Value::Null) => return given,
        Some(Value::Object(prices)) => prices,
        Some(_) => {
            faults.push(format!("additional_config.{PRICES} must be an object"));
            return given;
        }
    };
    let set = |key: &str| prices.get(key).filter(|value| !value.is_null());
    for (tool, key, uses) in TOOLS {
        let Some(value) = set(key) else { continue };
        match value.as_f64().and_then(amount) {
            Some(price) => given.tools.push((tool, of_one(price, uses))),
            None => faults.push(format!(
                "additional_config.{PRICES}.{key} must be an amount in USD that is not negative"
            )),
        }
    }
    for (surcharge, key) in FACTOR_KEYS {
        let Some(value) = set(key) else { continue };
        match value.as_f64().filter(|factor| FACTORS.contains(factor)) {
            // In range by the line before.
            Some(factor) => given.factors.push((surcharge, Factor((factor * 100.0).ceil() as u32))),
            None => faults.push(format!(
                "additional_config.{PRICES}.{key} must be a number from 0 to {}",
                FACTORS.end()
            )),
        }
    }
    given
}

/// The price of one use, if that many cost `price`. Rounded up, so that no sum of uses is too low.
fn of_one(price: Usd, uses: i64) -> Usd {
    Usd(price.0.div_euclid(uses) + i64::from(price.0.rem_euclid(uses) > 0))
}

impl Given {
    /// The prices of a model: those that are given, and for the others those of its vendor, if it is
    /// known to be one of the vendor's own models or reached in public.
    pub(crate) fn of(self, provider: Provider, name: &str, is_vendors: bool) -> FeePrices {
        let mut fees = if is_vendors { list(provider, name) } else { FeePrices::default() };
        for (tool, price) in self.tools {
            fees.tools[tool] = price;
        }
        for (surcharge, factor) in self.factors {
            fees.factors[surcharge] = factor;
        }
        fees
    }
}

/// The prices of a vendor's list.
fn list(provider: Provider, name: &str) -> FeePrices {
    let mut fees = FeePrices::default();
    let per_1k = |dollars: i64| Usd(dollars * 1_000_000);
    match provider {
        // "Pricing" and "Fast mode" of Anthropic's manual.
        Provider::Anthropic => {
            fees.tools[VendorTool::WebSearch] = per_1k(10);
            fees.tools[VendorTool::CodeExecution] = of_one(Usd(50_000_000), 12);
            fees.factors[Surcharge::Fast] = Factor(fast_factor(name));
            fees.factors[Surcharge::Us] = Factor(110);
        }
        // "Pricing" of OpenAI's manual. Models without reasoning pay more for a search; the factor of
        // the priority tier differs by model and is the highest of them.
        Provider::Openai | Provider::Azure => {
            let is_older = name.contains("gpt-4");
            fees.tools[VendorTool::WebSearch] = per_1k(if is_older { 25 } else { 10 });
            fees.tools[VendorTool::FileSearch] = Usd(2_500_000);
            // A container is paid for as a whole.
            fees.tools[VendorTool::CodeExecution] = Usd(30_000_000);
            fees.factors[Surcharge::Priority] = Factor(250);
        }
        Provider::Gemini => fees.tools[VendorTool::WebSearch] = per_1k(35),
        Provider::Bedrock | Provider::Internal => {}
    }
    fees
}

/// The factor of Anthropic's fast mode, in hundredths: twice the price, but six times for the models
/// that had it first. A model that is not known costs as much as the dearest.
fn fast_factor(name: &str) -> u32 {
    const TWICE: [&str; 4] = ["opus-4-8", "opus-5", "fable-5", "mythos-5"];
    if TWICE.iter().any(|model| name.contains(model)) { 200 } else { 600 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fees(config: Value, provider: Provider, name: &str, is_vendors: bool) -> FeePrices {
        let mut faults = Vec::new();
        let given = read(config.as_object().unwrap(), &mut faults);
        assert_eq!(faults, [""; 0]);
        given.of(provider, name, is_vendors)
    }

    #[test]
    fn a_vendors_list_applies_to_its_own_models() {
        let of = |provider, name| fees(json!({}), provider, name, true);
        let claude = of(Provider::Anthropic, "claude-opus-4-6");
        assert_eq!(claude.tools[VendorTool::WebSearch], Usd(10_000_000), "10 USD per 1,000");
        assert_eq!(claude.tools[VendorTool::CodeExecution], Usd(4_166_667), "0.05 USD an hour");
        assert_eq!(claude.factors[Surcharge::Fast], Factor(600));
        assert_eq!(claude.factors[Surcharge::Us], Factor(110));
        for (name, factor) in
            [("claude-opus-4-8", 200), ("claude-opus-5-5", 200), ("claude-of-tomorrow", 600)]
        {
            assert_eq!(of(Provider::Anthropic, name).factors[Surcharge::Fast], Factor(factor));
        }
        let gpt = of(Provider::Openai, "gpt-5");
        assert_eq!(gpt.tools[VendorTool::WebSearch], Usd(10_000_000));
        assert_eq!(gpt.tools[VendorTool::FileSearch], Usd(2_500_000));
        assert_eq!(gpt.tools[VendorTool::CodeExecution], Usd(30_000_000), "0.03 USD a container");
        assert_eq!(gpt.factors[Surcharge::Priority], Factor(250));
        let own = fees(json!({}), Provider::Anthropic, "my-own", false);
        assert_eq!(own, FeePrices::default(), "a server of one's own costs what it is given");
    }

    #[test]
    fn prices_of_ones_own_win() {
        let config = json!({"prices": {"web_search_cost_per_1k": 0, "fast_factor": 1.5,
            "code_execution_cost_per_hour": 0.12, "of_tomorrow": "kept", "us_factor": null}});
        let own = fees(config.clone(), Provider::Anthropic, "claude-opus-4-6", true);
        assert_eq!(own.tools[VendorTool::WebSearch], Usd::ZERO);
        assert_eq!(own.tools[VendorTool::CodeExecution], Usd(10_000_000));
        assert_eq!(own.factors[Surcharge::Fast], Factor(150));
        assert_eq!(own.factors[Surcharge::Us], Factor(110));
        let private = fees(config, Provider::Anthropic, "my-own", false);
        assert_eq!(private.factors[Surcharge::Fast], Factor(150));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for (prices, fault) in [
            (json!([]), "additional_config.prices must be an object"),
            (
                json!({"web_search_cost_per_1k": -1}),
                "additional_config.prices.web_search_cost_per_1k must be an amount in USD that is \
                 not negative",
            ),
            (
                json!({"fast_factor": "6"}),
                "additional_config.prices.fast_factor must be a number from 0 to 100",
            ),
        ] {
            let config = json!({"prices": prices});
            let mut faults = Vec::new();
            read(config.as_object().unwrap(), &mut faults);
            assert_eq!(faults, [fault]);
        }
    }
}
