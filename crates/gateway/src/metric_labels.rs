//! Labels of metrics with names that users register. Every label is a time series that stays until
//! the process ends, so their number is bounded; later names are counted together.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use metrics::SharedString;

/// The label of all names without one of their own.
const OTHER: &str = "other";

/// A value for each label, mostly handles of metrics: they are made once for a name.
pub(crate) struct ByLabel<T> {
    known: RwLock<BTreeMap<Box<str>, Arc<T>>>,
    other: OnceLock<Arc<T>>,
    most: usize,
    make: fn(SharedString) -> T,
}

impl<T> ByLabel<T> {
    /// The first `most` names have a label of their own.
    pub(crate) const fn new(most: usize, make: fn(SharedString) -> T) -> Self {
        Self { known: RwLock::new(BTreeMap::new()), other: OnceLock::new(), most, make }
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Arc<T> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = known.get(name) {
            return kept.clone();
        }
        let is_full = known.len() >= self.most;
        drop(known);
        if is_full { self.other() } else { self.add(name) }
    }

    fn add(&self, name: &str) -> Arc<T> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster, with this one or with the last free label.
        if let Some(kept) = known.get(name) {
            return kept.clone();
        }
        if known.len() >= self.most {
            return self.other();
        }
        let label = SharedString::from(Arc::<str>::from(name));
        let kept = Arc::new((self.make)(label));
        known.insert(name.into(), kept.clone());
        kept
    }

    fn other(&self) -> Arc<T> {
        self.other.get_or_init(|| Arc::new((self.make)(OTHER.into()))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_have_their_own_and_keep_it() {
        let labels = ByLabel::new(2, |label| label);
        let names = ["a", "b", "a", "c", "b", "d"].map(|name| labels.get(name));
        assert_eq!(names.map(|name| name.to_string()), ["a", "b", "a", "other", "b", "other"]);
    }

    #[test]
    fn a_name_is_made_once() {
        static MADE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let labels = ByLabel::new(1, |_| MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let numbers = ["a", "b", "a", "c", "b"].map(|name| *labels.get(name));
        assert_eq!(numbers, [0, 1, 0, 1, 1]);
    }
}
