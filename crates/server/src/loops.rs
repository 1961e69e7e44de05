//! Event loops, one for each processor.
//!
//! A connection stays with the loop that it was given to, and so do the calls that it carries and the
//! connections to providers that these use: none of their data moves from one processor's cache to
//! another's, and no thread has to be woken to share the work. Work that serves no connection
//! (accepting, jobs, writers) is left to the runtime that the process began with.
//!
//! Large requests leave their loop: reading, judging, sending on and recording megabytes takes tens of
//! milliseconds at a time, which all other requests of the loop would wait for. They run on threads of
//! their own with a lower priority.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The longest time for which threads that block may continue at the end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// The nice value of threads for large requests: a third of the weight of others.
const LOW_PRIORITY: i32 = 5;
/// Freed memory is returned to the system this often.
const RELEASE_PERIOD: Duration = Duration::from_secs(10);
/// Memory that C libraries have freed is returned every so many of these periods: that takes their locks.
const TRIM_TICKS: u32 = 6;
/// The longest time that a worker waits for the others to wake.
const MEETING_TIMEOUT: Duration = Duration::from_millis(1);

/// The number of loops: one for each processor that this process may use.
pub(crate) fn count() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// A runtime whose threads return freed memory before they wait.
fn runtime(workers: usize, name: String) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).thread_name(name).enable_all();
    builder.on_thread_park(allocator::collect_if_requested);
    builder
}

/// The loops on which connections are served; one set for a process.
#[derive(Clone)]
pub(crate) struct Loops {
    all: Arc<[Loop]>,
    /// For requests with large bodies.
    large: Handle,
    /// The counter by which the next request of an HTTP/2 connection gets its loop.
    next_loop: Arc<AtomicUsize>,
}

struct Loop {
    handle: Handle,
    slots: Arc<()>,
}

/// A connection's slot at a loop, given back when it is dropped.
pub(crate) struct LoopSlot {
    _counted: Arc<()>,
}

impl Loops {
    /// Starts the loops.
    pub(crate) fn start() -> std::io::Result<(Self, Threads)> {
        let (mut loops, mut threads) = (Vec::new(), Threads(Vec::new()));
        for number in 0..count() {
            // One worker. While it judges a long text, `block_in_place` hands the loop to another thread.
            let runtime = runtime(1, format!("loop-{number}")).build()?;
            loops.push(Loop { handle: runtime.handle().clone(), slots: Arc::default() });
            threads.0.push(runtime);
        }
        let runtime = runtime(count(), "large".to_owned()).on_thread_start(give_way).build()?;
        let large = runtime.handle().clone();
        threads.0.push(runtime);
        Ok((Self { all: loops.into(), large, next_loop: Arc::default() }, threads))
    }

    /// The runtime for requests with large bodies.
    pub(crate) fn large(&self) -> &Handle {
        &self.large
    }

    /// A slot at the loop with the fewest connections, and the handle for spawning on it.
    pub(crate) fn assign(&self) -> (LoopSlot, &Handle) {
        let assigned = |&at: &usize| Arc::strong_count(&self.all[at].slots);
        let quietest = &self.all[(0..self.all.len()).min_by_key(assigned).unwrap_or_default()];
        (LoopSlot { _counted: quietest.slots.clone() }, &quietest.handle)
    }

    /// Returns freed memory to the system now and then until the gateway stops. A thread returns its
    /// own before it waits; those of the loops, of large requests and of this runtime that wait already
    /// are woken for it.
    pub(crate) async fn release_memory(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(RELEASE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0_u32;
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            allocator::request_collection();
            if number.is_multiple_of(TRIM_TICKS) {
                allocator::trim();
            }
            number = number.wrapping_add(1);
            let woken = TaskTracker::new();
            for each in self.all.iter() {
                woken.spawn_on(std::future::ready(()), &each.handle);
            }
            for runtime in [&self.large, &Handle::current()] {
                // One for each worker, which keeps it until all have one.
                let meeting = Arc::new(Meeting::default());
                for _ in 0..count() {
                    let meeting = meeting.clone();
                    woken.spawn_on(async move { meeting.attend(count()) }, runtime);
                }
            }
            woken.close();
            if stop.run_until_cancelled(woken.wait()).await.is_none() {
                return;
            }
        }
    }

    /// Spreads the simultaneous requests of one connection over all loops.
    pub(crate) fn spread(&self, tasks: &TaskTracker) -> Spread {
        Spread { loops: self.clone(), tasks: tasks.clone() }
    }
}

/// Keeps the workers of a runtime awake until all are.
#[derive(Default)]
struct Meeting {
    present: Mutex<usize>,
    all_here: Condvar,
}

impl Meeting {
    /// Waits for the others, but not for those that are at work.
    fn attend(&self, expected: usize) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present += 1;
        self.all_here.notify_all();
        let waits = |present: &mut usize| *present < expected;
        drop(self.all_here.wait_timeout_while(present, MEETING_TIMEOUT, waits));
    }
}

/// Lets other threads of the machine run before this one.
fn give_way() {
    // On Linux the priority is that of the calling thread.
    if let Err(error) = rustix::process::setpriority_process(None, LOW_PRIORITY) {
        tracing::debug!(%error, "a thread for large requests keeps its priority");
    }
}

/// The runtimes of the loops, which their owner shuts down.
pub(crate) struct Threads(Vec<Runtime>);

impl Threads {
    /// Ends the loops. Tasks that still run there are dropped.
    pub(crate) async fn close(mut self) {
        let runtimes = std::mem::take(&mut self.0);
        let closed = tokio::task::spawn_blocking(move || {
            for runtime in runtimes {
                runtime.shutdown_timeout(STOP_TIMEOUT);
            }
        });
        if closed.await.is_err() {
            tracing::error!("the event loops did not end as they should");
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Nothing may wait here: another runtime is at work.
        self.0.drain(..).for_each(Runtime::shutdown_background);
    }
}

/// Runs the requests of an HTTP/2 connection at one loop after the other: a client may send all it
/// has over one connection.
#[derive(Clone)]
pub(crate) struct Spread {
    loops: Loops,
    tasks: TaskTracker,
}

impl<F> hyper::rt::Executor<F> for Spread
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let Loops { all, next_loop, .. } = &self.loops;
        let turn = next_loop.fetch_add(1, Ordering::Relaxed);
        self.tasks.spawn_on(future, &all[turn % all.len()].handle);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hyper::rt::Executor as _;
    use tokio::sync::mpsc;

    use super::*;

    async fn thread_of(handle: &Handle) -> std::thread::ThreadId {
        handle.spawn(async { std::thread::current().id() }).await.unwrap()
    }

    #[tokio::test]
    async fn connections_are_shared_out_evenly_and_stay_where_they_are() {
        let (loops, threads) = Loops::start().unwrap();
        let count = loops.all.len();
        let mut assigned = Vec::new();
        for _ in 0..2 {
            let mut met = HashSet::new();
            for _ in 0..count {
                let (slot, handle) = loops.assign();
                assert_eq!(thread_of(handle).await, thread_of(handle).await);
                met.insert(thread_of(handle).await);
                assigned.push(slot);
            }
            assert_eq!(met.len(), count);
        }
        // A connection that ends makes room.
        assigned.remove(0);
        let (_slot, handle) = loops.assign();
        assert_eq!(handle.id(), loops.all[0].handle.id());
        threads.close().await;
    }

    #[tokio::test]
    async fn requests_of_one_connection_are_spread_over_all_loops() {
        let (loops, threads) = Loops::start().unwrap();
        let tasks = TaskTracker::new();
        let (send, mut ran) = mpsc::unbounded_channel();
        for _ in 0..loops.all.len() {
            let send = send.clone();
            loops
                .spread(&tasks)
                .execute(async move { send.send(std::thread::current().id()).unwrap() });
        }
        drop(send);
        let mut met = HashSet::new();
        while let Some(thread) = ran.recv().await {
            met.insert(thread);
        }
        assert_eq!(met.len(), loops.all.len());
        tasks.close();
        tasks.wait().await;
        threads.close().await;
    }
}
