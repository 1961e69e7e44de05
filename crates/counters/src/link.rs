//! The connection to one server, which is made anew when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value, cmd};
use tokio::sync::{Notify, RwLock};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

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
    pub(crate) connection: MultiplexedConnection,
    /// The run id of the server.
    pub(crate) run: String,
    /// The run id and the number of the last loss: what counters are built under.
    pub(crate) epoch: ArcSwap<String>,
    /// The state under which this node has added its reservations, if it has.
    passed: Mutex<Option<Passed>>,
}

/// The state under which a node adds its reservations: they are added again whenever it is another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The key that the nodes of the server share.
    pub(crate) marker: String,
    /// The number that it has, which is new after each loss.
    pub(crate) number: String,
    /// How often the node may have been taken for gone.
    pub(crate) absences: u64,
}

impl Live {
    pub(crate) fn new(connection: MultiplexedConnection, run: String) -> Self {
        let epoch = ArcSwap::from_pointee(run.clone());
        Self { connection, run, epoch, passed: Mutex::default() }
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

    /// Takes an answer to a beat after so long. False if that is too long for one that keeps decisions waiting.
    pub(crate) fn is_quick(&self, took: Duration) -> bool {
        if took < DECISION_TIMEOUT {
            self.slow.store(0, Ordering::Relaxed);
        }
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

    /// Sends a command. Says that slots have moved by `moved`.
    pub(crate) async fn send(
        &self,
        live: &Arc<Live>,
        command: &Cmd,
        within: Duration,
        moved: &Notify,
    ) -> Result<Value, Failure> {
        let mut connection = live.connection.clone();
        let away = |why: String| Failure::Away(format!("{} {why}", self.name()));
        match timeout(within, command.query_async::<Value>(&mut connection)).await {
            Ok(Ok(value)) => {
                self.slow.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Ok(Err(error)) => {
                match verdict(&error) {
                    Verdict::Moved => moved.notify_one(),
                    Verdict::Useless => {
                        self.give_up(live);
                        // Another server may have its place.
                        moved.notify_one();
                    }
                    Verdict::Refusal => {}
                }
                Err(away(format!("answers: {error}")))
            }
            Err(_) => {
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
