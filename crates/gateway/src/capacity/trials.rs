//! Room for trials of safety settings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use domain::ids::ProjectId;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::lock::lock;

/// The most trials at a time.
const MAX_TRIALS: usize = 2;

/// Room for trials: one for a project, and [`MAX_TRIALS`] in all.
#[derive(Debug)]
pub(crate) struct Trials {
    all: Arc<Semaphore>,
    projects: Mutex<HashMap<ProjectId, Weak<Semaphore>>>,
}

/// Room for one trial, until it is dropped.
pub(crate) type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Default for Trials {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_TRIALS)), projects: Mutex::default() }
    }
}

impl Trials {
    /// Waits for room.
    pub(crate) async fn place(
        &self,
        project: ProjectId,
    ) -> std::result::Result<Place, AcquireError> {
        let own = {
            let mut projects = lock(&self.projects);
            projects.retain(|_, places| places.strong_count() > 0);
            let known = projects.get(&project).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let own = Arc::new(Semaphore::new(1));
                projects.insert(project, Arc::downgrade(&own));
                own
            })
        };
        // In this order: those who wait for their own project take up no room.
        let own = own.acquire_owned().await?;
        Ok((own, self.all.clone().acquire_owned().await?))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_trial_for_a_project_and_two_in_all() {
        let trials = Trials::default();
        let at_once = |project| trials.place(ProjectId(project)).now_or_never();
        let first = trials.place(ProjectId(1)).await.unwrap();
        assert!(at_once(1).is_none());
        let second = trials.place(ProjectId(2)).await.unwrap();
        assert!(at_once(3).is_none());
        drop(second);
        drop(at_once(3).unwrap().unwrap());
        assert!(at_once(1).is_none());
        drop(first);
        assert!(at_once(1).is_some());
        assert!(lock(&trials.projects).len() <= 1, "nothing is kept of projects without trials");
    }
}
