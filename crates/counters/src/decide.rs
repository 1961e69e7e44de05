//! The decisions: each is one round trip.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::time::{SECOND, Timestamp};
use redis::{Cmd, Value};
use tokio::sync::RwLockReadGuard;
use tokio::time::{Instant as Deadline, timeout_at};

use crate::counters::Counters;
use crate::held::Settlement;
use crate::link::{Link, Live, call};
use crate::reply::{at, list, money, number, text};
use crate::{DECISION_TIMEOUT, Failure};

/// The most reservations that one command gives back.
const RELEASED_AT_ONCE: usize = 500;

/// A reservation of this node: the number of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HoldId {
    pub(crate) number: u64,
    /// Whether nothing is reserved under it.
    is_empty: bool,
}

/// A key, and what bounds its calls.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The project.
    pub project: ProjectId,
    /// The key.
    pub key: KeyId,
    /// The time of the key's last reset.
    pub reset_at: Option<Timestamp>,
    /// The most that the key may spend in a rolling hour.
    pub cap: Option<Usd>,
    /// The most that the project may spend in a calendar month, UTC.
    pub budget: Option<Usd>,
}

impl Bounds {
    /// Whether anything bounds what is spent.
    pub fn is_bounded(&self) -> bool {
        self.cap.is_some() || self.budget.is_some()
    }
}

/// Whether a request may go on to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// It may cost money: what is spent is held against cap and budget.
    Checked,
    /// It costs nothing.
    None,
}

/// The windows that a request counts in.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The most requests within a window of so many microseconds before they are a loop; `None` if it does not
    /// count.
    pub loops: Option<(u64, i64)>,
    /// The most requests in a rolling hour; `None` if nothing is asked about it.
    pub per_hour: Option<u64>,
    /// Whether it counts in that hour if it is admitted; else the figures alone are asked for.
    pub is_counted: bool,
    /// Whether it may cost money.
    pub spend: Spend,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may go on.
    Admitted,
    /// The requests of the key are a loop.
    Loop,
    /// The key has made too many requests in the hour: there is room in so many seconds, at least 1.
    RateExceeded {
        /// Seconds until there is room.
        retry_after: u64,
    },
    /// The month's budget is spent.
    BudgetSpent,
    /// The hour's cap is spent.
    CapSpent,
}

/// A decision, and the requests of the hour that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The decision.
    pub admission: Admission,
    /// The requests in the rolling hour, this one included if it was admitted and counts.
    pub requests: u64,
    /// Whole seconds until there may be one more than now. 0 if the hour's requests were not asked about.
    pub reset: u64,
}

/// Spend and reservations. Figures that nothing bounds are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Spent by the project in this month.
    pub month_spent: Usd,
    /// Reserved for calls of the project.
    pub month_reserved: Usd,
    /// Spent by the key in this hour.
    pub hour_spent: Usd,
    /// Reserved for calls with the key.
    pub hour_reserved: Usd,
}

/// Whether an amount was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It was; the figures have it.
    Granted(HoldId, Figures),
    /// It does not fit beside these.
    Full(Figures),
}

/// The spend that counts once a call is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Spent by the project in this month.
    pub month_spent: Usd,
    /// Spent by the key in this hour.
    pub hour_spent: Usd,
}

const RATE: i64 = 2;
pub(crate) const LATE: i64 = 8;
const LOST: i64 = 9;

impl Counters {
    /// The gate: the request is counted, and held against the limits in their order: loop, rate, budget, cap.
    pub async fn gate(&self, bounds: &Bounds, request: Request) -> Result<Gate, Failure> {
        let parts = self
            .decide("gate", bounds, Deadline::now() + self.0.patience(), |command, _| {
                let (limit, window) = request.loops.unzip();
                command
                    .arg(optional(limit))
                    .arg(window.unwrap_or(0))
                    .arg(optional(request.per_hour));
                money_arg(command, bounds.cap);
                money_arg(command, bounds.budget);
                command.arg(u8::from(request.spend == Spend::Checked));
                command.arg(u8::from(request.is_counted));
            })
            .await?;
        let requests = number(at(&parts, 1)?)?.unsigned_abs();
        let reset = ((number(at(&parts, 2)?)? + SECOND - 1) / SECOND).max(0).unsigned_abs();
        let admission = match number(at(&parts, 0)?)? {
            0 => Admission::Admitted,
            1 => Admission::Loop,
            RATE => Admission::RateExceeded { retry_after: reset.max(1) },
            3 => Admission::BudgetSpent,
            4 => Admission::CapSpent,
            other => return Err(unknown(other)),
        };
        Ok(Gate { admission, requests, reset })
    }

    /// Sets an amount aside, if it fits beside what is spent and reserved.
    pub async fn reserve(&self, bounds: &Bounds, amount: Usd) -> Result<Reserved, Failure> {
        let shared = &self.0;
        let number_of = shared.number();
        let deadline = Deadline::now() + self.0.patience();
        let link = shared.link(bounds.project)?;
        let _changing = changing(&link, deadline).await?;
        // A command that cannot be sent leaves no doubt.
        link.ready()?;
        // Before it leaves: a loss meanwhile must not forget it.
        shared.held.add(bounds.project, number_of, bounds.key, amount);
        let held =
            Doubted { counters: self, link: &link, project: bounds.project, number: number_of };
        let decided = self
            .decide("reserve", bounds, deadline, |command, not_after| {
                command.arg(shared.id(number_of)).arg(amount.0.max(0));
                money_arg(command, bounds.cap);
                money_arg(command, bounds.budget);
                command.arg(not_after);
            })
            .await;
        let parts = match decided {
            Err(Failure::Lost) => {
                held.refuse();
                return Err(Failure::Lost);
            }
            other => other?,
        };
        let figures = Figures {
            month_spent: money(&parts, 1)?,
            month_reserved: money(&parts, 2)?,
            hour_spent: money(&parts, 3)?,
            hour_reserved: money(&parts, 4)?,
        };
        match number(at(&parts, 0)?)? {
            0 => {
                held.grant();
                let hold = HoldId { number: number_of, is_empty: false };
                Ok(Reserved::Granted(hold, figures))
            }
            _ => {
                held.refuse();
                Ok(Reserved::Full(figures))
            }
        }
    }

    /// A stand-in for the reservation of a call that has none, in [`Counters::settle`].
    pub fn without_reservation(&self) -> HoldId {
        HoldId { number: self.0.number(), is_empty: true }
    }

    /// Counts the cost of a call in the place of its reservations. `ended` is when it ended by the ledger, `since`
    /// how long ago that is. A call with reservations counts once, however often it is settled: by the first command
    /// that leaves, even if others have given them back ([`Counters::forget`]), or by the first that finds them. They
    /// stay this node's until one of these succeeds. From then on the first of them stands for its cost, which is
    /// added again after a loss until [`Counters::stored`].
    pub async fn settle(
        &self,
        bounds: &Bounds,
        holds: &[HoldId],
        cost: Usd,
        ended: Timestamp,
        since: Duration,
    ) -> Result<Settled, Failure> {
        let ids: Vec<u64> =
            holds.iter().filter(|hold| !hold.is_empty).map(|hold| hold.number).collect();
        let numbers: Vec<u64> = holds.iter().map(|hold| hold.number).collect();
        self.settle_numbers(bounds, &numbers, &ids, cost, ended, since).await
    }

    pub(crate) async fn settle_numbers(
        &self,
        bounds: &Bounds,
        numbers: &[u64],
        ids: &[u64],
        cost: Usd,
        ended: Timestamp,
        since: Duration,
    ) -> Result<Settled, Failure> {
        let shared = &self.0;
        let deadline = Deadline::now() + self.0.patience();
        let link = shared.link(bounds.project)?;
        let _changing = changing(&link, deadline).await?;
        let is_new = ids.is_empty();
        let parts = self
            .decide("settle", bounds, deadline, |command, not_after| {
                // An attempt that cannot be sent does not come here, and is none.
                let is_first = is_new || shared.held.leaves(bounds.project, ids);
                command.arg(cost.0.max(0)).arg(ended.unix_seconds());
                command.arg(domain::time::micros(since));
                money_arg(command, bounds.cap);
                money_arg(command, bounds.budget);
                command.arg(not_after).arg(u8::from(is_first));
                for number in ids {
                    command.arg(shared.id(*number));
                }
            })
            .await?;
        let generation = Some(text(at(&parts, 3)?)?.to_owned());
        let now = Instant::now();
        let at = now.checked_sub(since).unwrap_or(now);
        let bounded = if bounds.is_bounded() { cost } else { Usd::ZERO };
        let settlement = Settlement { bounds: *bounds, ended, at, generation };
        shared.held.settle(numbers, is_new, bounded, settlement);
        Ok(Settled { month_spent: money(&parts, 1)?, hour_spent: money(&parts, 2)? })
    }

    /// Says that the ledger has a call, whether or not it was settled by now.
    pub fn stored(&self, project: ProjectId, holds: &[HoldId]) {
        let numbers: Vec<u64> = holds.iter().map(|hold| hold.number).collect();
        self.0.held.stored(project, &numbers);
    }

    /// Gives reservations back, now or as soon as Redis can be reached.
    pub async fn release(&self, project: ProjectId, holds: &[HoldId]) -> Result<(), Failure> {
        let numbers: Vec<u64> = holds.iter().map(|hold| hold.number).collect();
        // Whatever becomes of this attempt, nobody holds them any more.
        self.0.held.doubt(project, &numbers);
        self.give_back(project, &numbers, self.0.patience()).await
    }

    pub(crate) async fn give_back(
        &self,
        project: ProjectId,
        numbers: &[u64],
        within: Duration,
    ) -> Result<(), Failure> {
        for some in numbers.chunks(RELEASED_AT_ONCE) {
            self.give_some_back(project, some, within).await?;
        }
        Ok(())
    }

    async fn give_some_back(
        &self,
        project: ProjectId,
        numbers: &[u64],
        within: Duration,
    ) -> Result<(), Failure> {
        let shared = &self.0;
        let deadline = Deadline::now() + within;
        let link = shared.link(project)?;
        let _changing = changing(&link, deadline).await?;
        let live = link.live().ok_or_else(|| Failure::Away(format!("{} is away", link.name())))?;
        let mut command = call("release", &shared.base(project));
        command.arg(shared.now());
        for number in numbers {
            command.arg(shared.id(*number));
        }
        let began = Instant::now();
        let answer = shared.send(&link, &live, &command, left(deadline)).await;
        told("release", began, answer.as_ref().err());
        answer?;
        shared.held.remove(project, numbers);
        Ok(())
    }

    /// Asks for a decision.
    async fn decide(
        &self,
        function: &'static str,
        bounds: &Bounds,
        deadline: Deadline,
        with: impl FnOnce(&mut Cmd, &str),
    ) -> Result<Vec<Value>, Failure> {
        let began = Instant::now();
        let decided = self.ask(function, bounds, deadline, with).await;
        told(function, began, decided.as_ref().err());
        decided
    }

    async fn ask(
        &self,
        function: &'static str,
        bounds: &Bounds,
        deadline: Deadline,
        with: impl FnOnce(&mut Cmd, &str),
    ) -> Result<Vec<Value>, Failure> {
        let shared = &self.0;
        let link: Arc<Link> = shared.link(bounds.project)?;
        let live: Arc<Live> = link.ready()?;
        let mut command = call(function, &shared.base(bounds.project));
        command.arg(shared.now()).arg(live.epoch.load().as_str()).arg(bounds.key.to_string());
        command.arg(bounds.reset_at.map(|at| at.0.to_string()).unwrap_or_default());
        with(&mut command, &shared.not_after(&link, DECISION_TIMEOUT));
        let parts = list(shared.send(&link, &live, &command, left(deadline)).await?)?;
        match number(at(&parts, 0)?)? {
            LOST => Err(Failure::Lost),
            LATE => Err(Failure::Away(format!("{} was asked too late", link.name()))),
            _ => Ok(parts),
        }
    }
}

/// Waits while reservations are added again at a server.
async fn changing(link: &Link, deadline: Deadline) -> Result<RwLockReadGuard<'_, ()>, Failure> {
    let waiting = timeout_at(deadline, link.joining.read()).await;
    waiting.map_err(|_| Failure::Away("reservations are being added again".to_owned()))
}

fn left(deadline: Deadline) -> Duration {
    deadline.saturating_duration_since(Deadline::now())
}

/// A reservation that is in doubt until it is known whether it was made, also when its caller gives up.
struct Doubted<'a> {
    counters: &'a Counters,
    link: &'a Arc<Link>,
    project: ProjectId,
    number: u64,
}

impl Doubted<'_> {
    fn grant(self) {
        std::mem::forget(self);
    }

    fn refuse(self) {
        // Another server may have got the project meanwhile, and this with it.
        if self.counters.0.link(self.project).is_ok_and(|link| !Arc::ptr_eq(&link, self.link)) {
            return;
        }
        self.counters.0.held.remove(self.project, &[self.number]);
        std::mem::forget(self);
    }
}

impl Drop for Doubted<'_> {
    fn drop(&mut self) {
        self.counters.0.held.doubt(self.project, &[self.number]);
    }
}

pub(crate) fn unknown(code: i64) -> Failure {
    Failure::Away(format!("it answers {code}, which means nothing"))
}

fn optional(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

fn money_arg(command: &mut Cmd, amount: Option<Usd>) {
    match amount {
        Some(amount) => command.arg(amount.0.max(0)),
        None => command.arg(""),
    };
}

/// Counts a decision, how long it took, and what kept it from being made.
pub(crate) fn told(function: &'static str, began: Instant, failure: Option<&Failure>) {
    let outcome = match failure {
        None => "made",
        Some(Failure::Lost) => "lost",
        Some(Failure::Away(_)) => "away",
    };
    metrics::counter!("sluice_counter_decisions_total", "function" => function, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("sluice_counter_seconds", "function" => function)
        .record(began.elapsed().as_secs_f64());
}
