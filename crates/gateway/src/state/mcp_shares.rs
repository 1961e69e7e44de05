//! The most conversations that each project may keep: one project alone cannot use up those of all.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Mutex;

use domain::ids::ProjectId;

use crate::lock::lock;

/// The conversations that each project keeps, the last used at the end.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    most: usize,
    used: Mutex<HashMap<ProjectId, VecDeque<K>>>,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// At most `most` for each project.
    pub(crate) fn of(most: usize) -> Self {
        Self { most, used: Mutex::default() }
    }

    /// Notes that a project uses one. If it has too many now, returns the one that it has not used
    /// for the longest time: that one goes.
    pub(crate) fn note(&self, project: ProjectId, key: &K) -> Option<K> {
        let mut used = lock(&self.used);
        let own = used.entry(project).or_default();
        if let Some(known) = own.iter().position(|known| known == key) {
            own.remove(known);
        }
        own.push_back(key.clone());
        if own.len() > self.most { own.pop_front() } else { None }
    }

    /// Forgets those that are kept no more.
    pub(crate) fn retain(&self, is_kept: impl Fn(&K) -> bool) {
        let mut used = lock(&self.used);
        used.retain(|_, own| {
            own.retain(&is_kept);
            !own.is_empty()
        });
    }
}
