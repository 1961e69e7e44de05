//! From a model to its endpoints, in the order to try them.

use domain::model::{Endpoint, Model};

/// The endpoints of a model that lie in an allowed region, in the order to try them; none where
/// the model has but its own place.
///
/// Over many seeds each is first as often as its weight says. Where some are passed over, the same
/// holds for the others among themselves: what was theirs goes to all others by weight. The same
/// seed gives the same order.
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

/// How long an endpoint waits for its turn: exponentially distributed, at the rate of its weight.
/// The first of several such waits ends as often as its rate says, whoever else waits. It is told
/// as its logarithm, so that no weight is too large or too small.
fn wait(weight: f64, random: u64) -> f64 {
    const STEPS: f64 = (1u64 << 52) as f64;
    let uniform = ((random >> 12) as f64 + 0.5) / STEPS;
    (-uniform.ln()).ln() - weight.ln()
}

/// Bits without a pattern for an endpoint and a seed, also where seeds are counted up: the mixing
/// function of `SplitMix64`, twice.
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
