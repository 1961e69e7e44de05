//! From a model to its endpoints, in the order to try them.

use domain::model::{Endpoint, Model};

/// Returns the endpoints of a model that lie in an allowed region, in the order to try them; none if
/// the model has no endpoint list.
///
/// Over many seeds each is first in proportion to its weight. If some are passed over, the same holds
/// for the others among themselves: the share of those passed over goes to all others by weight. The
/// same seed gives the same order.
pub fn endpoints<'a>(
    model: &'a Model,
    seed: u64,
    allowed_regions: Option<&[String]>,
) -> Vec<&'a Endpoint> {
    let all = model.config.endpoints.iter();
    let mut waits: Vec<(f64, &Endpoint)> = all
        .filter(|endpoint| allows(allowed_regions, &endpoint.model.region))
        .map(|endpoint| (wait(endpoint.weight, mixed(seed, endpoint.index)), endpoint))
        .collect();
    waits.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    waits.into_iter().map(|(_, endpoint)| endpoint).collect()
}

/// Whether a model or an endpoint with this region tag may be called.
pub(crate) fn allows(allowed_regions: Option<&[String]>, region: &str) -> bool {
    region == "global" || allowed_regions.is_none_or(|allowed| allowed.iter().any(|a| a == region))
}

/// Returns the logarithm of an endpoint's random wait, which is exponentially distributed at the rate
/// of its weight. The probability that a wait ends first is proportional to its rate, independent of
/// the other waits. The logarithm keeps any weight from being too large or too small.
fn wait(weight: f64, random: u64) -> f64 {
    const STEPS: f64 = (1u64 << 52) as f64;
    let uniform = ((random >> 12) as f64 + 0.5) / STEPS;
    (-uniform.ln()).ln() - weight.ln()
}

/// Mixes a seed and an endpoint's index into bits without a pattern, also for consecutive seeds: the
/// mixing function of `SplitMix64`, twice.
fn mixed(seed: u64, index: usize) -> u64 {
    mix(mix(seed).wrapping_add(index as u64))
}

fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
