//! The projects whose shared counters are lost, and for how long each of them could not be rebuilt.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use domain::ids::ProjectId;

/// The pause between two attempts to rebuild counters at first: an ordinary rebuild takes some of them.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
/// That pause in the end, once it is a tenth of the time for which the attempts have failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Each project that is lost, with the time since which every attempt to rebuild it has failed, if there was one.
#[derive(Debug, Default)]
pub(crate) struct LostProjects(HashMap<ProjectId, Option<Instant>>);

impl LostProjects {
    /// Adds a project. Returns whether it was not among them.
    pub(crate) fn add(&mut self, project: ProjectId) -> bool {
        match self.0.entry(project) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(None);
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, project: ProjectId) {
        self.0.remove(&project);
    }

    pub(crate) fn all(&self) -> Vec<ProjectId> {
        self.0.keys().copied().collect()
    }

    /// Notes that an attempt to rebuild some projects has failed for those that are still lost. Returns the pause before
    /// the next one, by the project that has failed for the shortest time.
    pub(crate) fn note_failed(&mut self, now: Instant, tried: &[ProjectId]) -> Duration {
        let failing = tried.iter().filter_map(|project| {
            let since = self.0.get_mut(project)?;
            Some(now.duration_since(*since.get_or_insert(now)))
        });
        let shortest = failing.min().unwrap_or_default();
        (shortest / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    /// For how long every attempt to rebuild a project has failed.
    pub(crate) fn failing_for(&self, now: Instant, project: ProjectId) -> Duration {
        let since = self.0.get(&project).copied().flatten();
        since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: ProjectId = ProjectId(1);
    const STUCK: ProjectId = ProjectId(2);

    #[test]
    fn a_project_that_cannot_be_rebuilt_stands_for_no_other() {
        let (began, mut lost) = (Instant::now(), LostProjects::default());
        let after = |millis: u64| began + Duration::from_millis(millis);
        let millis = Duration::from_millis;
        assert!(lost.add(STUCK));
        assert!(!lost.add(STUCK), "it is there");
        assert_eq!(lost.failing_for(after(500), STUCK), Duration::ZERO, "nobody has tried yet");
        for (tried, pause) in [(0, 100), (100, 100), (1_000, 100), (5_000, 500), (30_000, 1_000)] {
            assert_eq!(lost.note_failed(after(tried), &[STUCK]), millis(pause), "after {tried} ms");
            assert_eq!(lost.failing_for(after(tried), STUCK), millis(tried));
        }
        // One that is lost later begins anew, and so do the pauses.
        assert!(lost.add(BUILT));
        assert_eq!(lost.note_failed(after(31_000), &[STUCK, BUILT]), millis(100));
        assert_eq!(lost.failing_for(after(31_500), BUILT), millis(500));
        assert_eq!(lost.failing_for(after(31_500), STUCK), millis(31_500));
        lost.remove(BUILT);
        assert_eq!(lost.all(), [STUCK]);
        assert_eq!(lost.note_failed(after(32_000), &[STUCK, BUILT]), millis(1_000));
        assert!(lost.add(BUILT), "it is lost once more");
        assert_eq!(lost.failing_for(after(40_000), BUILT), Duration::ZERO);
    }
}
