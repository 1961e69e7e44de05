//! Work on long texts, done beside the threads that serve requests and shared fairly by callers.
//!
//! Reading or judging a long text would delay the other requests of its thread. So the thread hands
//! these requests to another one meanwhile, and only a limited number of threads does that at a
//! time. The rest waits in a queue of queues: permits go round the projects, and within a project
//! round its keys. A project never has all permits while there are two or more. If the queue is
//! full, the newest waiter of the project and key with the most waiters gives way. A caller who
//! hangs up leaves the queue, and judging for it ends.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use checks::GiveUp;
use domain::ids::{KeyId, ProjectId};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::capacity::hang_up::HangUp;
use crate::error::{Error, Result};

/// Work on a text of more bytes takes a permit.
const LONG_TEXT: usize = 32 * 1024;
/// The most texts of one project that wait for a permit.
const MAX_WAITING: usize = 1024;
/// The most texts that wait for a permit.
const MAX_WAITING_IN_ALL: usize = 8192;
/// A text that has waited this long is refused.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// The caller for whom work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    project: Option<ProjectId>,
    key: Option<KeyId>,
}

impl Share {
    /// Work for a key of a project.
    pub fn of_key(project: ProjectId, key: KeyId) -> Self {
        Self { project: Some(project), key: Some(key) }
    }

    /// Work for a project that no key has asked for.
    pub fn of_project(project: ProjectId) -> Self {
        Self { project: Some(project), key: None }
    }

    /// Work for requests of the control plane that belong to no project: they share one queue.
    pub fn of_control() -> Self {
        Self { project: None, key: None }
    }
}

/// The permits of this process: one per processor.
static PLACES: LazyLock<Places> =
    LazyLock::new(|| Places::new(available_parallelism().map_or(1, NonZero::get)));

/// Does work on a text of `bytes` bytes: at once if it is short, else when the caller's turn has
/// come. Fails when the queue or the wait is too long.
pub async fn offload<T>(share: Share, bytes: usize, work: impl FnOnce() -> T) -> Result<T> {
    if is_done_here(bytes) {
        return Ok(work());
    }
    let _place = PLACES.take(share).await?;
    Ok(block_in_place(work))
}

/// Does work that nobody has to wait for as [`offload`] does, but only if it can begin at once; `None` if all
/// permits are taken.
pub fn try_offload<T>(share: Share, bytes: usize, work: impl FnOnce() -> T) -> Option<T> {
    if is_done_here(bytes) {
        return Some(work());
    }
    let _place = PLACES.try_take(share)?;
    Some(block_in_place(work))
}

/// Judges a text of `bytes` bytes as [`offload`] does work, while its caller waits: fails when the
/// caller has hung up, so that nothing follows from a verdict on a part of the text.
pub(crate) async fn offload_judging<T>(
    share: Share,
    bytes: usize,
    judge: impl FnOnce(GiveUp<'_>) -> T,
) -> Result<T> {
    let hang_up = HangUp::of_current_request();
    let has_left = || hang_up.has_happened();
    let judged = offload(share, bytes, || judge(GiveUp::All(&has_left))).await?;
    if hang_up.has_happened() {
        metrics::counter!("sluice_texts_abandoned_total").increment(1);
        return Err(Error::Busy { why: "The caller has hung up", retry_after: 1 });
    }
    Ok(judged)
}

/// Does work that is bounded otherwise, such as by permits of its own: at once.
pub(crate) fn hand_over<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if is_done_here(bytes) { work() } else { block_in_place(work) }
}

/// Does work that must be done, because its subject is paid for: it queues, and waits without a
/// limit. There is one such piece of work for a call that is in flight.
pub(crate) async fn offload_always<T>(share: Share, bytes: usize, work: impl FnOnce() -> T) -> T {
    if is_done_here(bytes) {
        return work();
    }
    let _place = PLACES.take_always(share).await;
    block_in_place(work)
}

fn is_done_here(bytes: usize) -> bool {
    bytes <= LONG_TEXT || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

/// A limited number of pieces of work at a time, and a queue for the rest.
#[derive(Clone, Debug)]
struct Places(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// The most permits of one project.
    most: usize,
    waiting: usize,
    /// The next number of a waiter.
    next: u64,
    running: HashMap<Option<ProjectId>, usize>,
    /// Projects with waiters, the next in turn first.
    lanes: VecDeque<Lane>,
}

/// The waiters of one project, by key; the key that is next in turn first.
#[derive(Debug)]
struct Lane {
    project: Option<ProjectId>,
    keys: VecDeque<(Option<KeyId>, VecDeque<Waiter>)>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    /// Whether its work is paid for: it waits however long the queue is.
    is_owed: bool,
    granted: oneshot::Sender<Place>,
}

/// A held permit; it goes to the next waiter when it is dropped.
#[derive(Debug)]
struct Place {
    places: Places,
    project: Option<ProjectId>,
}

impl Places {
    fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            free: count,
            most: count.saturating_sub(1).max(1),
            waiting: 0,
            next: 0,
            running: HashMap::new(),
            lanes: VecDeque::new(),
        })))
    }

    /// Takes a permit that is free.
    fn try_take(&self, share: Share) -> Option<Place> {
        let mut queue = self.queue();
        if !queue.may_run(share.project) {
            return None;
        }
        queue.start(share.project);
        Some(self.place(share.project))
    }

    /// Waits for a permit. A future that is dropped leaves the queue.
    async fn take(&self, share: Share) -> Result<Place> {
        let (number, granted) = {
            let mut queue = self.queue();
            if queue.may_run(share.project) {
                queue.start(share.project);
                return Ok(self.place(share.project));
            }
            if !queue.make_room(share) {
                return Err(busy());
            }
            queue.wait(share, false)
        };
        let _leaves = Leaves { places: self, share, number };
        match timeout(WAIT_TIMEOUT, granted).await {
            Ok(Ok(place)) => Ok(place),
            // The sender leaves the queue when it has sent, or gives way to another.
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }

    /// Waits for a permit however long the queue is. Never returns `None`: the sender lives until
    /// it has sent.
    async fn take_always(&self, share: Share) -> Option<Place> {
        let (number, granted) = {
            let mut queue = self.queue();
            if queue.may_run(share.project) {
                queue.start(share.project);
                return Some(self.place(share.project));
            }
            queue.wait(share, true)
        };
        let _leaves = Leaves { places: self, share, number };
        granted.await.ok()
    }

    fn place(&self, project: Option<ProjectId>) -> Place {
        Place { places: self.clone(), project }
    }

    /// Hands free permits to the next waiters.
    fn serve(&self) {
        loop {
            let Some((project, waiter)) = self.queue().next_in_turn() else { return };
            // A waiter that has just left drops the permit, which serves the next.
            let _ = waiter.granted.send(self.place(project));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn may_run(&self, project: Option<ProjectId>) -> bool {
        self.free > 0 && self.running.get(&project).is_none_or(|running| *running < self.most)
    }

    fn start(&mut self, project: Option<ProjectId>) {
        self.free -= 1;
        *self.running.entry(project).or_default() += 1;
    }

    fn end(&mut self, project: Option<ProjectId>) {
        self.free += 1;
        if let Some(running) = self.running.get_mut(&project) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&project);
            }
        }
    }

    /// Makes room for one more. If there is none, the newest waiter of the project, then of the
    /// key, with the most waiters gives way, unless the newcomer's has as many.
    fn make_room(&mut self, share: Share) -> bool {
        let own = self.lanes.iter().position(|lane| lane.project == share.project);
        let own_waiting = own.map_or(0, |lane| self.lanes[lane].waiting());
        let is_full = own_waiting >= MAX_WAITING;
        if !is_full && self.waiting < MAX_WAITING_IN_ALL {
            return true;
        }
        let fullest = self.lanes.iter().enumerate().map(|(at, lane)| (lane.waiting(), at)).max();
        let gives_way = match fullest {
            Some((most, lane)) if !is_full && most > own_waiting + 1 => Some(lane),
            _ => own,
        };
        let Some(lane) = gives_way else { return false };
        let least = if own == Some(lane) { self.lanes[lane].waiting_of(share.key) + 2 } else { 1 };
        if !self.lanes[lane].give_way(least) {
            return false;
        }
        self.waiting -= 1;
        if self.lanes[lane].keys.is_empty() {
            self.lanes.remove(lane);
        }
        true
    }

    fn wait(&mut self, share: Share, is_owed: bool) -> (u64, oneshot::Receiver<Place>) {
        let lane = self.lanes.iter().position(|lane| lane.project == share.project);
        let lane = lane.unwrap_or_else(|| {
            self.lanes.push_back(Lane { project: share.project, keys: VecDeque::new() });
            self.lanes.len() - 1
        });
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter { number: self.next, is_owed, granted: sender };
        self.next += 1;
        self.waiting += 1;
        self.lanes[lane].add(share.key, waiter);
        (self.next - 1, receiver)
    }

    /// Takes a free permit for the next waiter; the caller notifies it.
    fn next_in_turn(&mut self) -> Option<(Option<ProjectId>, Waiter)> {
        let lane = self.lanes.iter().position(|lane| self.may_run(lane.project))?;
        let mut lane = self.lanes.remove(lane)?;
        let waiter = lane.next()?;
        let project = lane.project;
        if !lane.keys.is_empty() {
            self.lanes.push_back(lane);
        }
        self.waiting -= 1;
        self.start(project);
        Some((project, waiter))
    }

    /// Removes a waiter that no longer waits.
    fn leave(&mut self, share: Share, number: u64) {
        let Some(at) = self.lanes.iter().position(|lane| lane.project == share.project) else {
            return;
        };
        if self.lanes[at].remove(share.key, number) {
            self.waiting -= 1;
        }
        if self.lanes[at].keys.is_empty() {
            self.lanes.remove(at);
        }
    }
}

impl Lane {
    fn waiting(&self) -> usize {
        self.keys.iter().map(|(_, waiters)| waiters.len()).sum()
    }

    fn waiting_of(&self, key: Option<KeyId>) -> usize {
        self.keys.iter().find(|(known, _)| *known == key).map_or(0, |(_, waiters)| waiters.len())
    }

    /// Refuses the newest waiter of the key that has most, if it has as many as that. Work that is paid for
    /// stays.
    fn give_way(&mut self, least: usize) -> bool {
        let with_some = self.keys.iter().enumerate().filter_map(|(at, (_, waiters))| {
            let newest = waiters.iter().rposition(|waiter| !waiter.is_owed)?;
            (waiters.len() >= least).then_some((waiters.len(), at, newest))
        });
        let Some((_, at, newest)) = with_some.max() else { return false };
        let waiters = &mut self.keys[at].1;
        drop(waiters.remove(newest));
        if waiters.is_empty() {
            self.keys.remove(at);
        }
        true
    }

    fn add(&mut self, key: Option<KeyId>, waiter: Waiter) {
        match self.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.keys.push_back((key, VecDeque::from([waiter]))),
        }
    }

    fn next(&mut self) -> Option<Waiter> {
        let (key, mut waiters) = self.keys.pop_front()?;
        let waiter = waiters.pop_front();
        if !waiters.is_empty() {
            self.keys.push_back((key, waiters));
        }
        waiter
    }

    fn remove(&mut self, key: Option<KeyId>, number: u64) -> bool {
        let Some(at) = self.keys.iter().position(|(known, _)| *known == key) else { return false };
        let waiters = &mut self.keys[at].1;
        let before = waiters.len();
        waiters.retain(|waiter| waiter.number != number);
        let is_removed = waiters.len() < before;
        if waiters.is_empty() {
            self.keys.remove(at);
        }
        is_removed
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.queue().end(self.project);
        self.places.serve();
    }
}

/// Takes a waiter out of the queue, however its wait ends.
struct Leaves<'a> {
    places: &'a Places,
    share: Share,
    number: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.places.queue().leave(self.share, self.number);
    }
}

fn busy() -> Error {
    Error::Busy {
        why: "The gateway has more long texts to judge than it has time for",
        retry_after: 1,
    }
}

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
