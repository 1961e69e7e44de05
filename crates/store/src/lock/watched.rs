//! Locks are released when their connection ends. So it is watched, and they are taken again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::postgres::Session;
use crate::error::Error;

/// How often the connection is checked, and how often it is opened anew. Well below the time for which a lock is free
/// before its node is judged gone: until the next check this node goes on recording.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Locks that are held by a connection, and a task that watches it.
#[derive(Debug)]
pub(crate) struct Watched {
    session: Arc<Session>,
    /// Cancelled when another process has the locks.
    displaced: CancellationToken,
    /// Whether the locks are held, as far as is known.
    held: watch::Receiver<bool>,
    stopping: DropGuard,
    tasks: TaskTracker,
}

impl Watched {
    pub(super) fn new(session: Session) -> Self {
        let (displaced, stopping) = (CancellationToken::new(), CancellationToken::new());
        let (session, tasks) = (Arc::new(session), TaskTracker::new());
        let (is_held, held) = watch::channel(true);
        let watching = watch(session.clone(), is_held, displaced.clone());
        let stopped = stopping.clone();
        tasks.spawn(async move { stopped.run_until_cancelled(watching).await });
        Self { session, displaced, held, stopping: stopping.drop_guard(), tasks }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Whether the locks are held, as far as is known.
    pub(super) fn held(&self) -> watch::Receiver<bool> {
        self.held.clone()
    }

    /// Waits until another process has the locks.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }

    pub(super) async fn release(self) {
        drop(self.stopping);
        self.tasks.close();
        self.tasks.wait().await;
        self.session.release().await;
    }
}

/// Watches the connection until another process has the locks.
async fn watch(session: Arc<Session>, is_held: watch::Sender<bool>, displaced: CancellationToken) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_lost = false;
    loop {
        ticks.tick().await;
        if !is_lost && session.is_alive().await {
            continue;
        }
        is_held.send_replace(false);
        if !is_lost {
            tracing::warn!("the connection that holds the database lock is lost");
        }
        match session.retake().await {
            Ok(()) => {
                tracing::info!("the database lock is held again");
                is_lost = false;
                is_held.send_replace(true);
            }
            Err(Error::InUse(why)) => {
                tracing::error!(%why, "the database lock is lost to another process");
                displaced.cancel();
                return;
            }
            Err(error) => {
                // Logged once: while the database is away, all other parts log that too.
                if !is_lost {
                    tracing::warn!(%error, "the database lock is not held");
                }
                is_lost = true;
            }
        }
    }
}
