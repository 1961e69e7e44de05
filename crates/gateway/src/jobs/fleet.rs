//! The work at the counters that all gateways share: what is lost is rebuilt from the ledger, and calls that
//! could not be sent to Redis are sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use counters::{Bounds, DECISION_TIMEOUT, Failure, Generation};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::{HOUR, MINUTE, Timestamp};
use store::{LostCall, SpentSecond};

use crate::config::OnCounterLoss;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::jobs::job::Job;
use crate::state::missing_nodes::MissingNodes;
use crate::state::shared_counters::{Fleet, Owed};

/// A call that the ledger had so long ago is settled in Redis, or will not be any more: a settlement leaves before its
/// call is stored, and has no effect after this, by whatever clock.
pub(super) const SETTLING: Duration = DECISION_TIMEOUT.saturating_mul(5);
/// The most by which the clocks of a node and of Redis may differ.
const SKEW: i64 = 5 * MINUTE;

/// The projects that Redis was not raised for to what the ledger has, each with the reason.
pub(super) type Unraised = BTreeMap<ProjectId, Error>;

/// The spend of keys by second, as the ledger has it.
pub(super) struct Hours(BTreeMap<(ProjectId, KeyId), OfKey>);

struct OfKey {
    /// The reset that was known before the ledger was read.
    reset_at: Option<Timestamp>,
    seconds: Vec<(i64, Usd)>,
}

impl Hours {
    /// Sorts by keys what was read while no key could be reset.
    pub(super) fn of(gateway: &Gateway, spent: Vec<SpentSecond>) -> Self {
        let mut hours = BTreeMap::new();
        for SpentSecond { key, second, cost } in spent {
            let Some(state) = gateway.registry.key(key) else { continue };
            let of_key = hours
                .entry((state.key.project, key))
                .or_insert_with(|| OfKey { reset_at: state.key.reset_at, seconds: Vec::new() });
            of_key.seconds.push((second, cost));
        }
        Self(hours)
    }

    /// Raises what Redis has of the projects for which `meant` gives something: the generation that must not have
    /// changed, if there is one. A server that is away keeps no other from its work.
    pub(super) async fn raise<'a>(
        &self,
        fleet: &Fleet,
        meant: impl Fn(ProjectId) -> Option<Option<&'a Generation>>,
    ) -> Unraised {
        let mut unraised = Unraised::new();
        for ((project, key), of_key) in &self.0 {
            let Some(generation) = meant(*project) else { continue };
            let (reset_at, seconds) = (of_key.reset_at, &of_key.seconds);
            let raised =
                fleet.counters.raise_hour(*project, generation, *key, reset_at, seconds).await;
            if let Err(failure) = raised {
                unraised.insert(*project, unreached(failure));
            }
        }
        unraised
    }
}

/// Fails if there is a project that Redis was not raised for.
pub(super) fn all_raised(unraised: Unraised) -> Result<()> {
    unraised.into_values().next().map_or(Ok(()), Err)
}

/// The failure of background work at Redis.
pub(super) fn unreached(failure: Failure) -> Error {
    Error::Unavailable(failure.to_string())
}

/// Starts the task that rebuilds lost counters.
pub(super) fn start(gateway: &Gateway) {
    spawn(gateway, rebuild(gateway.clone()));
}

/// Starts a task that ends when the gateway stops.
pub(super) fn spawn(gateway: &Gateway, work: impl Future<Output = ()> + Send + 'static) {
    let stopping = gateway.stopping.clone();
    gateway.tasks.spawn(async move { stopping.run_until_cancelled(work).await });
}

/// The state that attempts to rebuild counters leave to the next one.
#[derive(Default)]
struct Attempts {
    missing: MissingNodes,
    /// The builds that wait for other nodes: this one has added its reservations.
    joined: BTreeMap<ProjectId, Generation>,
}

async fn rebuild(gateway: Gateway) {
    let Some(fleet) = &gateway.fleet else { return };
    let mut attempts = Attempts::default();
    loop {
        let found = fleet.found_lost.notified();
        let lost = fleet.lost();
        if lost.is_empty() {
            found.await;
            continue;
        }
        match gateway.rebuild(fleet, &lost, &mut attempts).await {
            Ok(()) => {
                tracing::info!(projects = lost.len(), "counters were rebuilt from the ledger");
            }
            Err(error) => {
                tracing::debug!(error = error.cause(), "counters cannot be rebuilt yet");
                let pause = fleet.note_failed(&lost);
                // A project that is lost meanwhile does not wait for it.
                let _ = tokio::time::timeout(pause, found).await;
            }
        }
    }
}

impl Gateway {
    pub(super) fn budget_of(&self, project: ProjectId) -> Option<Usd> {
        let state = self.registry.project(project).ok().flatten();
        state.and_then(|state| state.settings.monthly_budget)
    }

    /// Rebuilds the counters of some projects: the reservations of all nodes that live, then what the ledger has.
    async fn rebuild(
        &self,
        fleet: &Fleet,
        projects: &[ProjectId],
        attempts: &mut Attempts,
    ) -> Result<()> {
        // First of all: what is reserved from here on is added by those who reserve it.
        let live = self.store.live_nodes().await;
        // An attempt that does not know the nodes misses none.
        let live =
            live.inspect_err(|_| drop(attempts.missing.note(Instant::now(), BTreeMap::new())))?;
        let (mut meant, mut failed) = (BTreeMap::new(), None);
        let mut missed: BTreeMap<NodeId, usize> = BTreeMap::new();
        for project in projects {
            match join(fleet, *project, &live, attempts.joined.remove(project)).await {
                Ok((generation, nodes)) if nodes.is_empty() => {
                    meant.insert(*project, generation);
                }
                Ok((generation, nodes)) => {
                    attempts.joined.insert(*project, generation);
                    failed = Some(Error::Unavailable(format!(
                        "these nodes have not added their reservations again: {nodes:?}"
                    )));
                    for node in nodes {
                        *missed.entry(node).or_default() += 1;
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        for (node, projects) in attempts.missing.note(Instant::now(), missed) {
            warn_of(node, projects, fleet.on_loss);
        }
        if meant.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        self.store.settle_lost_calls(&self.clock).await?;
        self.store.lost_calls_are_listed().await;
        // Those that are taken here must not be missed by whoever gives back what their node has reserved.
        let _alone = fleet.paying.lock().await;
        self.owe_lost_calls(fleet);
        // The ledger has these from here on.
        let mut lost = fleet.take_lost(|project| meant.contains_key(&project));
        let projects: Vec<ProjectId> = meant.keys().copied().collect();
        let ledger = match self.read_ledger(&projects).await {
            Ok(ledger) => ledger,
            Err(error) => {
                fleet.owe(lost);
                return Err(error);
            }
        };
        tokio::time::sleep(SETTLING).await;
        for (project, generation) in &meant {
            let built = self.build(fleet, *project, generation, &ledger).await;
            let is_its = |owed: &mut Owed| owed.bounds.project == *project;
            let its: Vec<Owed> = lost.extract_if(.., is_its).collect();
            match built {
                Ok(was_closed) => {
                    fleet.note_rebuilt(*project);
                    // Calls that were settled meanwhile may hide these: the larger is not the sum.
                    if !was_closed {
                        fleet.owe(its);
                    }
                }
                Err(error) => {
                    fleet.owe(its);
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Reads what the keys and the budgets of some projects have spent, which are in order.
    async fn read_ledger(&self, projects: &[ProjectId]) -> Result<Ledger> {
        let _steady = self.registry.steady().await;
        let now = self.clock.now();
        // Before the ledger is read, which has the hours of these.
        let keys = self.registry.keys();
        let capped = keys.iter().filter(|state| state.key.hourly_limit.is_some());
        let capped = capped.map(|state| (state.key.project, state.key.id));
        let capped = capped.filter(|(of, _)| projects.binary_search(of).is_ok()).collect();
        // Redis may be in another second, and in another month, than this node.
        let since = now.minus_micros(HOUR + SKEW);
        let spent = self.store.spent_seconds_of(projects, since).await?;
        let (early, late) = (now.minus_micros(SKEW), now.minus_micros(-SKEW));
        // Also of a project without a budget: it may have one by the time that this is put into Redis.
        let spent_early = self.store.spend_of_projects(projects, early).await?;
        let mut months = vec![(early, BTreeMap::from_iter(spent_early))];
        if early.month_start() != late.month_start() {
            let spent_late = self.store.spend_of_projects(projects, late).await?;
            months.push((late, BTreeMap::from_iter(spent_late)));
        }
        Ok(Ledger { hours: Hours::of(self, spent), capped, months })
    }

    /// Builds the counters of a project, and lets its calls spend. Returns whether none could before.
    async fn build(
        &self,
        fleet: &Fleet,
        project: ProjectId,
        generation: &Generation,
        ledger: &Ledger,
    ) -> Result<bool> {
        let its = |of: ProjectId| (of == project).then_some(Some(generation));
        all_raised(ledger.hours.raise(fleet, its).await)?;
        let has_budget = self.budget_of(project).is_some();
        for (month, spent) in ledger.months.iter().filter(|_| has_budget) {
            if let Some(spent) = spent.get(&project) {
                let raised =
                    fleet.counters.raise_month(project, Some(generation), *month, *spent).await;
                raised.map_err(unreached)?;
            }
        }
        let keys = ledger.capped.iter().filter(|(of, _)| *of == project);
        let keys: Vec<KeyId> = keys.map(|(_, key)| *key).collect();
        let opened = fleet.counters.open_project(project, generation, has_budget, &keys).await;
        opened.map_err(unreached)
    }

    /// Owes Redis the calls of nodes that are gone which this node has recorded. To be called by whoever holds
    /// [`Fleet::paying`].
    fn owe_lost_calls(&self, fleet: &Fleet) {
        let lost = self.store.take_lost_calls();
        let owed = |LostCall { project, key, cost, ended }| Owed {
            bounds: Bounds { project, key, reset_at: None, cap: None, budget: None },
            holds: vec![fleet.counters.without_reservation()],
            cost,
            ended,
            since: Instant::now(),
            is_lost: true,
            unanswered: None,
        };
        fleet.owe(lost.into_iter().map(owed));
    }
}

/// The part of the ledger that counters are built from.
struct Ledger {
    hours: Hours,
    /// The keys with a cap.
    capped: Vec<(ProjectId, KeyId)>,
    /// The spend of projects in the months that it may be, the earlier first.
    months: Vec<(Timestamp, BTreeMap<ProjectId, Usd>)>,
}

/// Adds the reservations of this node in a project, once a loss: `known` is the build for which it has. Returns the
/// nodes that live and have not added theirs: without them nobody knows what their calls may still cost.
async fn join(
    fleet: &Fleet,
    project: ProjectId,
    live: &[NodeId],
    known: Option<Generation>,
) -> Result<(Generation, Vec<NodeId>)> {
    let generation = match known {
        // Nothing is reserved there until somebody opens it, and each call adds its own from then on.
        Some(known) if fleet.counters.is_current(project, &known) => known,
        _ => fleet.counters.join(project).await.map_err(unreached)?,
    };
    let joined = fleet.counters.rejoined(project).await.map_err(unreached)?;
    let missed = live.iter().copied().filter(|node| !joined.contains(node)).collect();
    Ok((generation, missed))
}

/// Logs that counters wait for a node, and the remedy.
fn warn_of(node: NodeId, projects: usize, on_loss: OnCounterLoss) {
    let until_then = match on_loss {
        OnCounterLoss::Refuse => "are refused until then",
        OnCounterLoss::Local => "are counted by each gateway alone until then",
    };
    tracing::warn!(
        %node, projects,
        "the counters of projects wait for a node: it lives in PostgreSQL and has not reached this Redis: check its \
         redis_url and its network, or stop it; keys under a cap and projects under a budget {until_then}"
    );
}

/// Settles calls that have ended while Redis could not be reached.
pub(super) struct Debts;

impl Job for Debts {
    const NAME: &'static str = "calls that are not counted in Redis";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let Some(fleet) = &gateway.fleet else { return Ok(()) };
        gateway.pay_all(fleet).await;
        Ok(())
    }
}

impl Gateway {
    /// Settles what is owed, as far as Redis can be reached. Returns the projects that calls are still owed of. Not to
    /// be called by a request, which may be dropped with what is taken here.
    pub(super) async fn pay_all(&self, fleet: &Fleet) -> BTreeSet<ProjectId> {
        // A look at the debts sees all of them then.
        let _alone = fleet.paying.lock().await;
        self.owe_lost_calls(fleet);
        let mut refused = BTreeSet::new();
        for mut owed in fleet.take_owed() {
            if !self.pay(fleet, &mut owed, &mut refused).await {
                fleet.owe([owed]);
            }
        }
        fleet.owing()
    }

    /// Settles a call. Returns whether it is owed no more. `refused` has the projects that were found lost in this run:
    /// all their calls get the same answer, and a rebuild waits for the end of it.
    async fn pay(&self, fleet: &Fleet, owed: &mut Owed, refused: &mut BTreeSet<ProjectId>) -> bool {
        if let Some(sent) = owed.unanswered {
            // It may count, and the ledger has it. Once what was sent can have no effect any more, a raise counts it
            // once; until then it keeps its project from being raised.
            return sent.elapsed() >= SETTLING;
        }
        let (project, bounds) = (owed.bounds.project, self.payable(owed.bounds));
        let is_refused = bounds.is_bounded() && refused.contains(&project);
        if is_refused || !fleet.counters.is_reached(project) {
            return false;
        }
        let Owed { holds, cost, ended, since, .. } = &*owed;
        let settled = fleet.counters.settle(&bounds, holds, *cost, *ended, since.elapsed()).await;
        match settled {
            Ok(_) => {
                if owed.is_lost {
                    fleet.counters.stored(project, &owed.holds);
                }
                true
            }
            Err(Failure::Lost) => {
                refused.insert(project);
                fleet.note_lost(project);
                false
            }
            Err(Failure::Away(_)) => {
                // Nothing in Redis would show that it counts already, as the reservation of an own call does.
                owed.unanswered = owed.is_lost.then(Instant::now);
                false
            }
        }
    }

    /// The bounds of a call that is owed, as far as a rebuild makes them known: nothing bounds a key that is revoked,
    /// and no budget a project that is deleted or cannot be read. A settlement that named more would be refused for
    /// ever.
    fn payable(&self, known: Bounds) -> Bounds {
        let key = self.registry.key(known.key);
        Bounds {
            cap: key.and_then(|state| state.key.hourly_limit),
            budget: self.budget_of(known.project),
            ..self.bounds_now(known)
        }
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
