//! The group-commit writer: the only way that traces and steps reach the database.
//!
//! The writes that queue during a commit form the next commit; none is delayed to wait for more. A
//! caller is answered after its own row is on disk. A row that the database refuses fails alone;
//! when the disk or the connection fails, the whole commit does, no row of it is reported as
//! stored, and the next commit starts on a new connection.

mod batch;
mod ledger;
mod lost;
mod postgres;
mod sqlite;
pub(crate) mod table;
mod turns;

use async_recursion::async_recursion as boxed;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use domain::ids::{NodeId, StepId};
use domain::step::Step;
use domain::time::Clock;
use domain::trace::Trace;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::seal::SealingKey;
use crate::search::WrittenTerms;
use crate::session_traces::SessionHash;
use crate::steps::{SealedContent, place};
use crate::stored_responses::StoredResource;
use batch::Batch;
use ledger::Ledger;
pub use lost::{LostCall, Start};
pub(crate) use lost::{nodes_with_open_calls, settle_lost};
pub(crate) use postgres::PostgresCommits;
pub(crate) use sqlite::SqliteCommits;
use table::NewTrace;
use turns::Numbers;

/// The most writes that wait. Above this the gateway refuses requests for the moment.
const MOST_QUEUED_WRITES: usize = 16_384;
/// The most writes that share a commit.
const MOST_BATCH_WRITES: usize = 512;
/// When commits take longer, callers wait for their start: the call could end before it is on disk.
const SLOW_COMMIT_TIME: Duration = Duration::from_millis(5);
/// The longest wait for a slot in the queue, or for a commit.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// One thing to write.
#[derive(Debug)]
pub(crate) enum Write {
    Trace(Box<NewTrace>),
    Start(Box<Start>),
    /// The call of a start was never made.
    Withdraw(StepId),
    Step(Box<Step>, Option<Vec<u8>>, Ends),
    /// An answer that a vendor stores, and its items.
    Stored(Vec<StoredResource>),
}

/// The owner of the start that a step closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// One of this node's.
    Own,
    /// One that was lost with its node.
    Lost,
}

/// A step that is on disk, as an observer receives it.
#[derive(Debug)]
pub struct ObservedStep {
    /// The step.
    pub step: Box<Step>,
    /// Its sealed content, if there is one.
    pub content: Option<SealedContent>,
    /// Whether its call was lost with its node: its end is the time of the settlement, and its usage an
    /// estimate that was made before the call.
    pub is_lost: bool,
}

/// Receives each step once it is on disk. It is called between two commits and must not wait.
pub type StepObserver = Box<dyn Fn(ObservedStep) + Send + Sync>;

#[derive(Debug)]
struct Queued {
    write: Write,
    done: Option<oneshot::Sender<Done>>,
}

/// The result of a write.
#[derive(Debug)]
struct Done {
    result: Result<Option<u64>>,
    /// Returned to the thread that made it: memory is freed there at less cost, and is near when it
    /// is allocated again. `None` if an observer has it.
    _write: Option<Write>,
}

/// A handle to the writer. Cheap to clone; the writer stops when all are gone.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Queued>,
    observer: Arc<OnceLock<StepObserver>>,
    /// Whether the last commit met a failure of the disk or the connection.
    failing: Arc<AtomicBool>,
    began: Instant,
    /// Commits count as slow until this many microseconds after `began`; initially unknown.
    slow_until: Arc<AtomicU64>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// The writer and the task that must be run for it.
    pub(crate) fn new<C: Commit>(
        commits: C,
        node: NodeId,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send + use<C>) {
        let (queue, waiting) = mpsc::channel(MOST_QUEUED_WRITES);
        let observer = Arc::new(OnceLock::new());
        let failing = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let slow_until = Arc::new(AtomicU64::new(u64::MAX));
        let work = Loop {
            commits,
            ledger: Ledger::new(node),
            clock,
            open: HashSet::new(),
            terms: WrittenTerms::default(),
            observer: observer.clone(),
            failing: failing.clone(),
            began,
            slow_until: slow_until.clone(),
        };
        (Self { queue, observer, failing, began, slow_until }, work.run(waiting))
    }

    /// Has an observer receive the steps that are stored from now on. There is one at most: a second
    /// call changes nothing.
    pub fn observe(&self, observer: StepObserver) {
        let _ = self.observer.set(observer);
    }

    /// Stores a new trace.
    #[boxed]
    pub async fn trace(&self, trace: Trace) -> Result<()> {
        self.new_trace(NewTrace { trace, session: None }).await
    }

    /// Stores a new trace that takes the calls of a session. Fails with [`Error::Taken`] if another
    /// one does.
    #[boxed]
    pub async fn session_trace(&self, trace: Trace, session: SessionHash) -> Result<()> {
        self.new_trace(NewTrace { trace, session: Some(session) }).await
    }

    async fn new_trace(&self, trace: NewTrace) -> Result<()> {
        self.wait(Write::Trace(Box::new(trace))).await.map(drop)
    }

    /// Stores the start of a provider call without waiting for the disk. False, and nothing is
    /// stored, if the queue is full.
    pub fn enqueue_start(&self, start: Start) -> bool {
        let start = Write::Start(Box::new(start));
        self.queue.try_send(Queued { write: start, done: None }).is_ok()
    }

    /// Stores the start of a provider call and waits for the disk.
    #[boxed]
    pub async fn start(&self, start: Start) -> Result<()> {
        self.wait(Write::Start(Box::new(start))).await.map(drop)
    }

    /// Takes the start of a provider call back that was not made, and waits for the disk.
    #[boxed]
    pub async fn withdraw(&self, step: StepId) -> Result<()> {
        self.wait(Write::Withdraw(step)).await.map(drop)
    }

    /// Stores a step with its content (a [`domain::step::Content`] as JSON), counts it in the
    /// ledger and closes its start, all in one commit. Returns the number of its turn in its trace,
    /// from 1 on, if it is a completed answer of the assistants endpoint.
    pub async fn step(
        &self,
        step: impl Into<Box<Step>>,
        content: Option<(&[u8], &SealingKey)>,
    ) -> Result<Option<u64>> {
        let step = step.into();
        let place = place(step.id);
        let sealed = content.map(|(json, key)| key.seal_content(&place, json)).transpose()?;
        self.wait(Write::Step(step, sealed, Ends::Own)).await
    }

    /// Records an answer that a vendor stores, and its items, and waits for the disk.
    #[boxed]
    pub async fn stored_resources(&self, stored: Vec<StoredResource>) -> Result<()> {
        self.wait(Write::Stored(stored)).await.map(drop)
    }

    /// Whether commits take so long that a call could end before its start is on disk.
    pub fn is_slow(&self) -> bool {
        let now = self.began.elapsed().as_micros() as u64;
        now < self.slow_until.load(Ordering::Relaxed)
    }

    /// Whether the writer takes work.
    pub fn is_alive(&self) -> bool {
        !self.queue.is_closed() && self.queue.capacity() > 0
    }

    /// Whether the last commit met a failure of the disk or the connection.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    async fn wait(&self, write: Write) -> Result<Option<u64>> {
        let (done, answer) = oneshot::channel();
        self.enqueue(Queued { write, done: Some(done) }).await?;
        match tokio::time::timeout(WRITE_TIMEOUT, answer).await {
            Ok(Ok(done)) => done.result,
            Ok(Err(_)) => Err(Error::Unavailable("the writer has stopped".to_owned())),
            Err(_) => Err(Error::Unavailable("the disk takes too long".to_owned())),
        }
    }

    async fn enqueue(&self, queued: Queued) -> Result<()> {
        // The usual case costs no timer, nor room for one.
        let queued = match self.queue.try_send(queued) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                return Err(Error::Unavailable("the writer has stopped".to_owned()));
            }
            Err(mpsc::error::TrySendError::Full(queued)) => queued,
        };
        Box::pin(self.queue.send_timeout(queued, WRITE_TIMEOUT))
            .await
            .map_err(|_| Error::Unavailable("too many writes are waiting".to_owned()))
    }
}

/// One database's way to make a batch durable: all of it or nothing.
pub(crate) trait Commit: Send + 'static {
    /// The time for which commits count as slow after a slow one.
    const SLOW_PERIOD: Duration;

    fn commit(
        &mut self,
        batch: &Batch<'_>,
        node: NodeId,
        ledger: &ledger::Rows,
    ) -> impl Future<Output = Result<Numbers>> + Send;

    /// Lets others queue before a commit that `waiting` writes are waiting for.
    fn give_way(&mut self, _waiting: usize) -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

struct Loop<C> {
    commits: C,
    ledger: Ledger,
    clock: Clock,
    /// Calls of this node whose start is in the database.
    open: HashSet<i64>,
    terms: WrittenTerms,
    observer: Arc<OnceLock<StepObserver>>,
    failing: Arc<AtomicBool>,
    began: Instant,
    slow_until: Arc<AtomicU64>,
}

impl<C: Commit> Loop<C> {
    async fn run(mut self, mut waiting: mpsc::Receiver<Queued>) {
        let mut queued = Vec::with_capacity(MOST_BATCH_WRITES);
        while waiting.recv_many(&mut queued, MOST_BATCH_WRITES).await > 0 {
            // Tasks that are about to queue get to run: on a busy machine that makes commits larger
            // and fewer.
            self.commits.give_way(queued.len()).await;
            while queued.len() < MOST_BATCH_WRITES
                && let Ok(more) = waiting.try_recv()
            {
                queued.push(more);
            }
            let began = Instant::now();
            self.commit(&mut queued).await;
            let took = began.elapsed();
            self.note_pace(took);
            metrics::gauge!("sluice_writer_queue_depth").set(waiting.len() as f64);
            metrics::histogram!("sluice_commit_seconds").record(took.as_secs_f64());
        }
    }

    /// Records whether commits are slow: the last one, or on some databases one of the last second.
    fn note_pace(&self, took: Duration) {
        let now = self.began.elapsed();
        let known = self.slow_until.load(Ordering::Relaxed);
        // One small commit proves little: the next ones may have statements to prepare.
        let is_first = known == u64::MAX;
        let slow = is_first || took > SLOW_COMMIT_TIME;
        let until = if slow { now + C::SLOW_PERIOD } else { Duration::ZERO };
        let until = until.as_micros() as u64;
        if until > known || known <= now.as_micros() as u64 || is_first {
            self.slow_until.store(until, Ordering::Relaxed);
        }
    }

    async fn commit(&mut self, queued: &mut Vec<Queued>) {
        let (writes, waiting): (Vec<Write>, Vec<_>) =
            queued.drain(..).map(|queued| (queued.write, queued.done)).unzip();
        let all = self.attempt(&writes).await;
        let alone = writes.len() > 1 && all.as_ref().is_err_and(Error::is_of_one_row);
        for (write, done) in writes.into_iter().zip(waiting) {
            let result =
                if alone { self.attempt(std::slice::from_ref(&write)).await } else { all.clone() };
            let result = result.map(|numbers| numbers.of(&write));
            if let Err(error) = &result {
                metrics::counter!("sluice_dropped_total", "what" => "write").increment(1);
                tracing::error!(%error, "a write failed");
            }
            let is_stored = result.is_ok();
            let (write, observed) = match (write, self.observer.get()) {
                (Write::Step(step, content, ends), Some(observer)) if is_stored => {
                    let content = content.map(|sealed| SealedContent::new(step.id, sealed));
                    let is_lost = ends == Ends::Lost;
                    (None, Some((observer, ObservedStep { step, content, is_lost })))
                }
                (write, _) => (Some(write), None),
            };
            if let Some(done) = done {
                // The caller may have given up; a stored row stays stored.
                let _ = done.send(Done { result, _write: write });
            }
            if let Some((observer, step)) = observed {
                observer(step);
            }
        }
    }

    async fn attempt(&mut self, writes: &[Write]) -> Result<Numbers> {
        let batch = Batch::of(writes, &self.open, &self.terms);
        let counted = self.ledger.count(&batch.steps, self.clock.now());
        let commit = self.commits.commit(&batch, self.ledger.node(), &counted);
        let result = match tokio::time::timeout(WRITE_TIMEOUT, commit).await {
            Ok(result) => result,
            Err(_) => Err(Error::Unavailable("the disk takes too long".to_owned())),
        };
        let failing = result.as_ref().is_err_and(|error| !error.is_of_one_row());
        self.failing.store(failing, Ordering::Relaxed);
        if failing {
            self.ledger.begin_anew();
        }
        if result.is_ok() {
            self.ledger.keep(counted);
            self.terms.note(&batch.terms);
            self.open.extend(batch.starts.iter().map(|start| start.step.0));
            batch.closed.iter().for_each(|id| {
                self.open.remove(id);
            });
        }
        result
    }
}
