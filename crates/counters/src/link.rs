//! The connections to one server, which are made anew when they are lost.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use domain::ids::ProjectId;
use domain::time::micros;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value, cmd};
use tokio::sync::{Notify, RwLock};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::near::{Near, One};
use crate::target::{Address, shown};
use crate::{DECISION_TIMEOUT, Failure, library};

/// An answer within this shows the time at the server, in microseconds.
const QUICK_ANSWER: i64 = 10_000;
/// A time that was found so long ago is replaced by that of a slow answer, in microseconds.
const OLD_TIME: i64 = 2_000_000;

/// A server that has kept so many decisions in a row waiting for too long is not well, even if it answers beats.
const MOST_SLOW: u32 = 5;

/// The slots of a server, each with its last.
pub(crate) type Ranges = Vec<(u16, u16)>;

/// A server, and the connection to it while there is one.
#[derive(Debug)]
pub(crate) struct Link {
    /// `None` if Sentinels know it.
    pub(crate) address: Option<Address>,
    live: ArcSwapOption<Live>,
    /// Whether it has answered the last beat.
    is_well: AtomicBool,
    /// Since when it has not been well.
    down_since: Mutex<Option<Instant>>,
    /// The decisions in a row that it has kept waiting for too long.
    slow: AtomicU32,
    /// Held shared while reservations change, and alone while those of a project are added again.
    pub(crate) joining: RwLock<()>,
    /// The number of [`Passed`] that a project was built under by a node that knows better.
    pub(crate) least: AtomicI64,
    /// Its time less ours, in microseconds.
    pub(crate) offset: AtomicI64,
    /// The time at which that was found, by our clock.
    timed: AtomicI64,
    /// Notified when the connection has to be made anew.
    pub(crate) lost: Notify,
    /// Its slots; all of them if it is alone.
    pub(crate) ranges: ArcSwap<Ranges>,
    /// Its fault, as it was logged last.
    pub(crate) told: Mutex<Option<String>>,
    /// Ends its keeper.
    pub(crate) gone: CancellationToken,
}

/// A connection, with what holds for as long as it does.
#[derive(Debug)]
pub(crate) struct Live {
    /// The keeper's.
    pub(crate) connection: MultiplexedConnection,
    /// Those of event loops.
    pub(crate) near: Near,
    /// The run id of the server.
    pub(crate) run: String,
    /// The run id and the number of the last loss: what counters are built under.
    pub(crate) epoch: ArcSwap<String>,
    /// The state under which this node has added its reservations, if it has.
    passed: Mutex<Option<Passed>>,
    /// The state under which it has added those of some projects, and these: others are to be tried again.
    partly: Mutex<Option<(Passed, BTreeSet<ProjectId>)>>,
}

/// The state under which a node adds its reservations: they are added again whenever it is another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The key that the nodes of the server share.
    pub(crate) marker: String,
    /// The number that it has, which is new after each loss.
    pub(crate) number: String,
    /// How often the node may have been taken for gone.
    pub(crate) absences: u64,
}

impl Live {
    /// To be called on the runtime of the keeper.
    pub(crate) fn new(connection: MultiplexedConnection, run: String) -> Self {
        let epoch = ArcSwap::from_pointee(run.clone());
        Self {
            connection,
            near: Near::new(),
            run,
            epoch,
            passed: Mutex::default(),
            partly: Mutex::default(),
        }
    }

    /// Whether this node has added its reservations under this.
    pub(crate) fn has_passed(&self, under: &Passed) -> bool {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(under)
    }

    /// Whether it has since the last loss, however often it may have been taken for gone.
    pub(crate) fn has_passed_loss(&self, under: &Passed) -> bool {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed
            .as_ref()
            .is_some_and(|passed| passed.marker == under.marker && passed.number == under.number)
    }

    /// Notes that it has.
    pub(crate) fn note_passed(&self, under: Passed) {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = Some(under);
        *self.partly.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The projects whose reservations it has added under this.
    pub(crate) fn added(&self, under: &Passed) -> BTreeSet<ProjectId> {
        let partly = self.partly.lock().unwrap_or_else(PoisonError::into_inner);
        partly
            .as_ref()
            .filter(|(state, _)| state == under)
            .map_or_else(BTreeSet::new, |(_, added)| added.clone())
    }

    /// Notes that it has added these, whether or not all others could be added.
    pub(crate) fn note_added(&self, under: &Passed, added: BTreeSet<ProjectId>) {
        *self.partly.lock().unwrap_or_else(PoisonError::into_inner) = Some((under.clone(), added));
    }
}

impl Link {
    pub(crate) fn new(address: Option<Address>, ranges: Ranges) -> Self {
        Self {
            address,
            live: ArcSwapOption::empty(),
            is_well: AtomicBool::new(false),
            down_since: Mutex::new(Some(Instant::now())),
            slow: AtomicU32::new(0),
            joining: RwLock::new(()),
            least: AtomicI64::new(0),
            offset: AtomicI64::new(0),
            timed: AtomicI64::new(i64::MIN / 2),
            lost: Notify::new(),
            ranges: ArcSwap::from_pointee(ranges),
            told: Mutex::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Notes its time, asked for and told at these times of ours, all in microseconds. A command must not expire
    /// later by it than it should; a slow answer says little, and counts only when there was no other for a while.
    pub(crate) fn note_time(&self, asked: i64, theirs: i64, told: i64) {
        let is_old = told - self.timed.load(Ordering::Relaxed) > OLD_TIME;
        if told - asked < QUICK_ANSWER || is_old {
            self.offset.store(theirs - told, Ordering::Relaxed);
            self.timed.store(told, Ordering::Relaxed);
        }
    }

    /// Its name for people.
    pub(crate) fn name(&self) -> String {
        self.address.as_ref().map_or_else(|| "the master".to_owned(), shown)
    }

    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.live.load_full()
    }

    pub(crate) fn set_live(&self, live: Live) {
        // Another server has another time.
        self.timed.store(i64::MIN / 2, Ordering::Relaxed);
        self.live.store(Some(Arc::new(live)));
    }

    pub(crate) fn is_well(&self) -> bool {
        self.is_well.load(Ordering::Relaxed)
    }

    pub(crate) fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Relaxed);
        let mut since = self.down_since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = if is_well { None } else { since.or_else(|| Some(Instant::now())) };
    }

    /// How long it has not been well.
    pub(crate) fn down(&self) -> Duration {
        let since = self.down_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Notes an answer after so long: one that takes longer than a decision may is no sign of a server that is well.
    /// Once too many decisions have waited in vain, a beat that is answered as quickly lets them go on.
    fn note_answer(&self, took: Duration) {
        if took < DECISION_TIMEOUT {
            self.slow.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it answers in time for decisions. Not if it has kept too many waiting for too long since it last did.
    pub(crate) fn is_quick(&self) -> bool {
        self.slow.load(Ordering::Relaxed) < MOST_SLOW
    }

    /// Whether a connection was not given up.
    pub(crate) fn has(&self, live: &Arc<Live>) -> bool {
        self.live.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, live))
    }

    /// Gives a connection up. A connection that was made since stays.
    pub(crate) fn give_up(&self, live: &Arc<Live>) {
        if self.has(live) {
            self.live.store(None);
            self.set_well(false);
            self.lost.notify_one();
        }
    }

    /// The connection for a decision: none while the last beat was not answered.
    pub(crate) fn ready(&self) -> Result<Arc<Live>, Failure> {
        let live = self.live().filter(|_| self.is_well());
        live.ok_or_else(|| Failure::Away(format!("{} is not reached", self.name())))
    }

    /// Sends a command over the keeper's connection or that of an event loop: `asked` is the time then, in
    /// microseconds. Says that slots have moved by `moved`.
    pub(crate) async fn send(
        &self,
        live: &Arc<Live>,
        (mut connection, own): (MultiplexedConnection, Option<Arc<One>>),
        command: &Cmd,
        (asked, within): (i64, Duration),
        moved: &Notify,
    ) -> Result<Value, Failure> {
        let began = Instant::now();
        let away = |why: String| Failure::Away(format!("{} {why}", self.name()));
        let mut query = pin!(command.query_async::<Value>(&mut connection));
        let mut answered = timeout(within, &mut query).await;
        if answered.is_err() {
            // This thread may have been busy until now, and the task that reads answers waits as well.
            yield_now().await;
            if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(query.as_mut().poll(cx))).await {
                answered = Ok(answer);
            }
        }
        let took = began.elapsed();
        let now = asked + micros(took);
        match answered {
            Ok(Ok(value)) => {
                self.note_answer(took);
                if let Some(one) = own {
                    one.note_answer();
                }
                Ok(value)
            }
            Ok(Err(error)) => {
                if let Some(one) = own.as_ref().filter(|_| is_of_server(&error)) {
                    one.note_answer();
                }
                match (verdict(&error), own) {
                    (Verdict::Moved, _) => moved.notify_one(),
                    // The keeper's shows whether the server is still there.
                    (Verdict::Useless, Some(one)) if !is_of_server(&error) => {
                        live.near.forget(&one, now);
                        self.lost.notify_one();
                    }
                    (Verdict::Useless, _) => {
                        self.give_up(live);
                        // Another server may have its place.
                        moved.notify_one();
                    }
                    (Verdict::Refusal, _) => {}
                }
                Err(away(format!("answers: {error}")))
            }
            Err(_) => {
                if let Some(one) = own
                    && one.note_silence(asked, now)
                {
                    live.near.forget(&one, now);
                }
                if self.slow.fetch_add(1, Ordering::Relaxed) >= MOST_SLOW {
                    self.set_well(false);
                }
                Err(away("is too slow".to_owned()))
            }
        }
    }
}

/// A call of a function of the library on a key.
pub(crate) fn call(function: &str, key: &str) -> Cmd {
    let mut command = cmd("FCALL");
    command.arg(format!("{}_{function}", library::name())).arg(1).arg(key);
    command
}

/// The meaning of an error for the connection.
enum Verdict {
    /// The server is another's, or has lost its functions: it is found, checked and set up anew.
    Useless,
    /// The slot is another server's.
    Moved,
    /// The command is not carried out.
    Refusal,
}

/// Whether a server has sent an error, and so is there.
fn is_of_server(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_))
}

fn verdict(error: &RedisError) -> Verdict {
    use ServerErrorKind::{Ask, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    match error.kind() {
        ErrorKind::Server(Moved | Ask | ClusterDown | TryAgain) => Verdict::Moved,
        ErrorKind::Server(ReadOnly | MasterDown) => Verdict::Useless,
        // The library is lost with a restart, but so is the connection; or by FUNCTION FLUSH.
        ErrorKind::Server(_)
            if error.detail().is_some_and(|text| text.contains("Function not found")) =>
        {
            Verdict::Useless
        }
        ErrorKind::Server(_) | ErrorKind::Extension => Verdict::Refusal,
        _ => Verdict::Useless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_too_slow_is_quick_again_once_an_answer_comes_in_time_for_decisions() {
        let link = Link::new(None, Ranges::new());
        link.slow.store(MOST_SLOW, Ordering::Relaxed);
        link.note_answer(DECISION_TIMEOUT);
        assert!(!link.is_quick());
        link.note_answer(DECISION_TIMEOUT / 2);
        assert!(link.is_quick());
    }
}
