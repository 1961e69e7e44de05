//! A thread for long work that nobody waits for.

use std::sync::mpsc::{SyncSender, sync_channel};

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Result};

/// The lowest priority that a thread can have.
#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

type Work = Box<dyn FnOnce() + Send>;

/// A thread of its own for the time that other threads leave to the processors (on Linux; elsewhere it is a thread
/// like others). It ends when this is dropped and its last piece of work is done, and the gateway's stop
/// waits for that.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    work: SyncSender<Work>,
}

impl BackgroundThread {
    /// Starts a thread.
    pub(crate) fn start(name: &str, tasks: &TaskTracker) -> Result<Self> {
        // The one piece that waits is that of a caller who has not waited for the one before.
        let (work, received) = sync_channel::<Work>(1);
        let running = tasks.token();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            lower_priority();
            while let Ok(work) = received.recv() {
                work();
            }
            drop(running);
        });
        thread.map_err(|error| Error::Internal(format!("a thread cannot start: {error}")))?;
        Ok(Self { work })
    }

    /// Does a piece of work, and waits for it. Callers keep pieces short: a stop waits for the one that
    /// runs.
    pub(crate) async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let gone = || Error::Internal("a background thread has ended".to_owned());
        let (send, done) = oneshot::channel();
        // Without a receiver nobody wants the result any more.
        let work = Box::new(move || drop(send.send(work())));
        self.work.try_send(work).map_err(|_| gone())?;
        done.await.map_err(|_| gone())
    }
}

/// Has all other threads go before this one.
fn lower_priority() {
    // The idle policy is more than the least priority: to the scheduler of Linux a processor is free on which
    // only such threads run, so that it places one that wakes there rather than behind another.
    #[cfg(target_os = "linux")]
    {
        use thread_priority as threads;
        let idle = threads::ThreadSchedulePolicy::Normal(threads::NormalThreadSchedulePolicy::Idle);
        // It sets the priority of the policy as well, and fails where the process has a lower one.
        let own = threads::thread_native_id();
        let lowered =
            threads::set_thread_priority_and_policy(own, threads::ThreadPriority::Min, idle);
        let is_idle = threads::thread_schedule_policy().is_ok_and(|policy| policy == idle);
        if let (false, Err(error)) = (is_idle, lowered) {
            let priority = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
            let kept = priority.err();
            tracing::warn!(?error, ?kept, "background work runs without the idle policy");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_an_idle_thread_that_ends() {
        let tasks = TaskTracker::new();
        let mut thread = BackgroundThread::start("background", &tasks).unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        assert_eq!(thread.run(name).await.unwrap().as_deref(), Some("background"));
        #[cfg(target_os = "linux")]
        {
            use thread_priority::NormalThreadSchedulePolicy::{Idle, Other};
            use thread_priority::ThreadSchedulePolicy::Normal;
            let policy = || thread_priority::thread_schedule_policy().unwrap();
            assert_eq!(thread.run(policy).await.unwrap(), Normal(Idle));
            assert_eq!(policy(), Normal(Other), "other threads keep theirs");
        }
        tasks.close();
        assert!(thread.run(|| panic!("on purpose")).await.is_err());
        assert!(thread.run(|| ()).await.is_err(), "nothing waits for a thread that is gone");
        tasks.wait().await;
    }
}
