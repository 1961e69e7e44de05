//! Labels of metrics with names that users register. Every label is a time series that stays until
//! the process ends, so their number is bounded; later names are counted together.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::SharedString;

/// The label of all names without one of their own.
const OTHER: &str = "other";

/// Models with a label of their own: those that were called first.
static MODELS: Labels = Labels::of(200);
/// Projects with a label of their own: those that spent first.
static PROJECTS: Labels = Labels::of(1_000);

/// The label of a model.
pub(crate) fn model(identifier: &str) -> SharedString {
    MODELS.label(identifier)
}

/// The label of a project.
pub(crate) fn project(id: domain::ids::ProjectId) -> SharedString {
    PROJECTS.label(&id.to_string())
}

struct Labels {
    known: RwLock<BTreeSet<Arc<str>>>,
    most: usize,
}

impl Labels {
    const fn of(most: usize) -> Self {
        Self { known: RwLock::new(BTreeSet::new()), most }
    }

    fn label(&self, name: &str) -> SharedString {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(name) {
            return known.clone().into();
        }
        if known.len() >= self.most {
            return OTHER.into();
        }
        drop(known);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let new: Arc<str> = name.into();
        // Another thread may have been faster, with this one or with the last free label.
        if known.len() < self.most {
            known.insert(new.clone());
        }
        if known.contains(&new) { new.into() } else { OTHER.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_have_their_own_and_keep_it() {
        let labels = Labels::of(2);
        let names = ["a", "b", "a", "c", "b", "d"].map(|name| labels.label(name));
        assert_eq!(names.map(|name| name.to_string()), ["a", "b", "a", "other", "b", "other"]);
    }
}
