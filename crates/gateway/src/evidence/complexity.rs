//! How hard a project's recent requests were, for choosing the threshold between its tiers.

use domain::ids::ProjectId;
use domain::time::DAY;

use crate::bounded_read::{bounded, or_none};
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The time that is looked at, in microseconds.
const RECENT: i64 = 7 * DAY;
/// The most steps that are looked at.
const MOST_STEPS: i64 = 5_000;

/// The complexities of a project's recent calls.
#[derive(Clone, Debug, PartialEq)]
pub struct RecentComplexities {
    /// The threshold of the project: a text of this complexity and more is complex.
    pub threshold: f64,
    /// The complexities, 0 to 1, of those of the latest 5,000 steps of the last week that a tier was chosen
    /// for by it.
    pub calls: Vec<f64>,
}

impl RecentComplexities {
    /// The share of the calls, 0 to 1, that another threshold would send to the other tier; `None` without
    /// calls.
    pub fn moved_by(&self, threshold: f64) -> Option<f64> {
        if self.calls.is_empty() {
            return None;
        }
        let is_moved =
            |complexity: &&f64| (**complexity >= threshold) != (**complexity >= self.threshold);
        let moved = self.calls.iter().filter(is_moved).count();
        Some(moved as f64 / self.calls.len() as f64)
    }
}

impl Gateway {
    /// The complexities of recent calls of a project that is a member's to see.
    pub async fn recent_complexities(
        &self,
        member: &Member,
        project: ProjectId,
    ) -> Result<RecentComplexities> {
        let project = self.visible_project(member, project)?;
        let since = self.clock.now().minus_micros(RECENT);
        let calls = bounded(self.store.complexities(project.id(), since, MOST_STEPS)).await;
        let calls = or_none(calls, "the complexities of recent calls are left out")?;
        Ok(RecentComplexities { threshold: project.complexity_threshold(), calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_threshold_moves_the_calls_between_the_two() {
        let recent = RecentComplexities { threshold: 0.5, calls: vec![0.1, 0.4, 0.5, 0.9] };
        assert_eq!(recent.moved_by(0.5), Some(0.0));
        assert_eq!(recent.moved_by(0.4), Some(0.25));
        assert_eq!(recent.moved_by(1.0), Some(0.5));
        assert_eq!(RecentComplexities { threshold: 0.5, calls: Vec::new() }.moved_by(0.1), None);
    }
}
