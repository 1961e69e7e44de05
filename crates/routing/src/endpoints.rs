//! From a model to its endpoints, in the order to try them.

use domain::model::{Endpoint, Model};

/// The basis of the order of a model's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The number of a call: each call has an order of its own.
    Call(u64),
    /// The identity of a session: all of its calls have the same order.
    Session([u8; 16]),
}

/// Returns the endpoints of a model that lie in an allowed region, in the order to try them; none if
/// the model has no endpoint list.
///
/// Over many calls, or many sessions, each is first in proportion to its weight. If some are passed
/// over, the same holds for the others among themselves: the share of those passed over goes to all
/// others by weight. The same call or session gives the same order.
///
/// The order of a session is a weighted rendezvous: each endpoint draws a number from the session and
/// from its own address, and from nothing else. So when an endpoint goes, only its sessions move, and
/// one that comes takes its share and moves no other session, wherever it stands in the list.
pub fn endpoints<'a>(
    model: &'a Model,
    order: Order,
    allowed_regions: Option<&[String]>,
) -> Vec<&'a Endpoint> {
    let all = model.config.endpoints.iter();
    let mut waits: Vec<(f64, &Endpoint)> = Vec::with_capacity(all.len());
    let mut identities: Vec<u64> = Vec::new();
    for endpoint in all.filter(|one| allows_region(allowed_regions, &one.model.region)) {
        let random = match order {
            Order::Call(number) => mixed(number, endpoint.index as u64),
            Order::Session(session) => {
                let identity = identity(&endpoint.model);
                // Endpoints that differ in their credential alone are told apart by their order.
                let alike = identities.iter().filter(|&&known| known == identity).count();
                identities.push(identity);
                drawn(session, identity.wrapping_add(alike as u64))
            }
        };
        waits.push((wait(endpoint.weight, random), endpoint));
    }
    waits.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    waits.into_iter().map(|(_, endpoint)| endpoint).collect()
}

/// Whether a model or an endpoint with this region tag may be called.
pub fn allows_region(allowed_regions: Option<&[String]>, region: &str) -> bool {
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

/// A number for an endpoint's address and region, which does not depend on its place in the list.
fn identity(model: &Model) -> u64 {
    let address = model.base_url.as_deref().unwrap_or_default();
    hashed(hashed(0, address.as_bytes()), model.region.as_bytes())
}

/// Adds a text to a hash. Operators write the texts: the hash needs no key of its own.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    let mut hash = mixed(hash, bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

/// The number that an endpoint draws for a session.
fn drawn(session: [u8; 16], identity: u64) -> u64 {
    let session = u128::from_le_bytes(session);
    mixed(mixed(identity, session as u64), (session >> 64) as u64)
}

/// Mixes two numbers into bits without a pattern, also for consecutive numbers: the mixing function of
/// `SplitMix64`, twice.
fn mixed(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number))
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
