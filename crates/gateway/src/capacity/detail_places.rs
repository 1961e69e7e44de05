//! Permits for reading details. An opened content takes as much memory as the largest request and
//! its answer, so only a few are open at a time.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::ProjectId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::cache::Cache;
use crate::error::{Error, Result};

/// Details that are read from the database at a time.
pub(crate) const PLACES: usize = 4;
/// The most details of one project that are read at a time: no project keeps all others waiting.
const PLACES_OF_A_PROJECT: usize = 2;
/// The most projects whose semaphores are kept.
const PROJECTS: usize = 10_000;

/// The permits of a gateway. Both semaphores are fair: the longest waiter is next.
#[derive(Debug)]
pub(crate) struct DetailPlaces {
    all: Arc<Semaphore>,
    of_project: Cache<ProjectId, Arc<Semaphore>>,
}

/// A permit, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_project: OwnedSemaphorePermit,
}

impl Default for DetailPlaces {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(PLACES)),
            of_project: Cache::new(PROJECTS, Duration::MAX),
        }
    }
}

impl DetailPlaces {
    /// Waits for a permit, at most for `patience`.
    pub(crate) async fn take(&self, project: ProjectId, patience: Duration) -> Result<Place> {
        let own = || Arc::new(Semaphore::new(PLACES_OF_A_PROJECT));
        let own = self.of_project.get_or_insert(project, own);
        // A project waits for its own permit first: at most two of its readers stand in the common
        // queue.
        let taken = async {
            let of_project = own.acquire_owned().await?;
            let of_all = self.all.clone().acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>(Place { _of_all: of_all, _of_project: of_project })
        };
        match timeout(patience, taken).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Error::Unavailable("too many details are being read".to_owned())),
        }
    }

    /// The number of free permits.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.all.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_project_takes_all_places() {
        let (places, short) = (DetailPlaces::default(), Duration::from_millis(1));
        let long = Duration::from_mins(1);
        let first = places.take(ProjectId(1), long).await.unwrap();
        let _second = places.take(ProjectId(1), long).await.unwrap();
        assert!(places.take(ProjectId(1), short).await.is_err());
        let _third = places.take(ProjectId(2), long).await.unwrap();
        let _fourth = places.take(ProjectId(3), long).await.unwrap();
        assert!(places.take(ProjectId(4), short).await.is_err());
        assert_eq!(places.free(), 0);
        drop(first);
        let _fifth = places.take(ProjectId(4), long).await.unwrap();
    }
}
