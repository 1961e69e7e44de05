//! Notifications from requests that ask for jobs to the runners on this node.

use domain::job::JobKind;
use tokio::sync::Notify;

/// A notification for each kind of job.
#[derive(Debug, Default)]
pub(crate) struct JobWakes([Notify; JobKind::ALL.len()]);

impl JobWakes {
    /// Wakes the runner of a kind: a job waits, or one has ended.
    pub(crate) fn wake(&self, kind: JobKind) {
        if let Some(notify) = self.0.get(kind as usize) {
            notify.notify_one();
        }
    }

    /// Waits until the runner of a kind is woken.
    pub(crate) async fn woken(&self, kind: JobKind) {
        match self.0.get(kind as usize) {
            Some(notify) => notify.notified().await,
            None => std::future::pending().await,
        }
    }
}
