//! A thread for long work that nobody waits for.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Result};

/// The lowest priority that a thread can have.
#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

/// A stop waits this long for the last piece of work. On a busy machine other threads may leave a thread of this
/// priority no time at all, and a process without privileges cannot raise it again.
const STOP_WAIT: Duration = Duration::from_secs(2);

type Work = Box<dyn FnOnce() + Send>;

/// A thread of its own for the time that other threads leave to the processors (on Linux; elsewhere it is a thread
/// like others). It ends when this is dropped and its last piece of work is done. A stop of the gateway waits for that
/// a little while, and leaves a piece that takes longer to the end of the process.
#[derive(Debug)]
pub(crate) struct BackgroundThread {
    work: SyncSender<Work>,
}

impl BackgroundThread {
    /// Starts a thread of the tasks that end after `stopping`.
    pub(crate) fn start(
        name: &str,
        tasks: &TaskTracker,
        stopping: &CancellationToken,
    ) -> Result<Self> {
        // The one piece that waits is that of a caller who has not waited for the one before.
        let (work, received) = sync_channel::<Work>(1);
        let (running, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            lower_priority();
            while let Ok(work) = received.recv() {
                work();
            }
            drop(running);
        });
        thread.map_err(|error| Error::Internal(format!("a thread cannot start: {error}")))?;
        tasks.spawn(watch(name.to_owned(), ended, stopping.clone()));
        Ok(Self { work })
    }

    /// Does a piece of work, and waits for it, in vain if it gets no time: a caller gives up at a stop. Pieces are
    /// short, and nothing but their result matters: the end of the process may cut one off.
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

/// Waits until a thread has ended, and at a stop no longer than a stop may wait.
async fn watch(name: String, ended: oneshot::Receiver<()>, stopping: CancellationToken) {
    let stop = async {
        stopping.cancelled().await;
        tokio::time::sleep(STOP_WAIT).await;
    };
    tokio::select! {
        // Its end drops the sender.
        _ = ended => {}
        () = stop => tracing::warn!(name, "background work is cut off: it gets no time to end"),
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
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let mut thread = BackgroundThread::start("background", &tasks, &stopping).unwrap();
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

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_a_while_for_work_that_gets_no_time() {
        let (tasks, stopping) = (TaskTracker::new(), CancellationToken::new());
        let mut thread = BackgroundThread::start("background", &tasks, &stopping).unwrap();
        let (time, starved) = std::sync::mpsc::channel::<()>();
        let (begun, began) = oneshot::channel();
        let run = thread.run(move || {
            begun.send(()).unwrap();
            starved.recv().unwrap_err();
        });
        tokio::select! {
            _ = run => panic!("it gets no time"),
            begun = began => begun.unwrap(),
        }
        drop(thread);
        tasks.close();
        let waits = tokio::time::timeout(Duration::from_hours(1), tasks.wait()).await;
        assert!(waits.is_err(), "there is no stop");
        stopping.cancel();
        let stopped = tokio::time::Instant::now();
        tasks.wait().await;
        assert_eq!(stopped.elapsed(), STOP_WAIT);
        drop(time);
    }
}
