//! Routing: the properties of a prompt, the tier that follows from them, the models to try, and the
//! endpoints of each.
//!
//! Pure functions over texts and registry entries: no clock, no I/O, no settings, no provider. Safety
//! findings come in as booleans; the caller tracks which circuits are open.

mod affinity;
mod classify;
mod counts;
mod endpoints;
mod features;
mod forest;
mod intent;
mod languages;
mod lexicon;
mod material;
mod resolve;
#[cfg(test)]
mod testing;
mod weights;
mod words;

pub use affinity::{Affinity, Candidates, Warm, affinity};
pub use classify::{Classification, DEFAULT_THRESHOLD, Shape, classify, sensitive, tier};
pub use endpoints::{Order, allows_region, endpoints};
pub use features::{Features, NAMES, measure};
pub use resolve::{MAX_CHAIN, Unresolved, chain, estimate_cost, resolve};
