//! Calls that did not reach Redis, counters that it has lost, and reservations of nodes that are gone. The counters do
//! nothing of their own and the clock stands still, so each step is the test's, and none is late: figures are exact.

#[path = "fleet_debts_tests.rs"]
mod debts;

use std::sync::Arc;

use counters::{Admission, Request, Reserved, Spend};
use domain::model::Provider;
use domain::step::ApiEndpoint;
use serde_json::{Value, json};
use store::Start;

use super::*;
use crate::config::OnCounterLoss;
use crate::jobs::gone_nodes::GoneNodes;
use crate::jobs::registry_refresh::RegistryRefresh;
use crate::state::caller::Caller;
use crate::testing::{Fresh, Redis, until};

/// A gateway that counts in a Redis.
struct Counting {
    redis: Redis,
    fresh: Fresh,
}

impl Counting {
    /// One with these settings of its project, where Redis is installed.
    async fn with(on_loss: OnCounterLoss, settings: Value) -> Option<Self> {
        let redis = Redis::start().await?;
        let fresh = Fresh::counting(&redis, on_loss, settings).await;
        Some(Self { redis, fresh })
    }

    /// One whose key has a cap and whose project has a budget, which no call here reaches.
    async fn bounded(on_loss: OnCounterLoss) -> Option<Self> {
        let mut counting = Self::with(on_loss, json!({})).await?;
        let (gateway, id) = (counting.fresh.gateway.clone(), counting.fresh.caller.key.key.id);
        let mut tx = gateway.store.begin().await.unwrap();
        let mut key = tx.key(id).await.unwrap().unwrap();
        key.hourly_limit = Usd::from_dollars(10.0);
        tx.save_key(&key).await.unwrap();
        let mut project = tx.project(key.project).await.unwrap().unwrap();
        project.settings.insert("monthly_budget".to_owned(), json!(100.0));
        tx.save_project(&project).await.unwrap();
        gateway.publish(tx).await.unwrap();
        let project = gateway.registry.project(project.id).unwrap().unwrap();
        counting.fresh.caller = Caller::new(gateway.registry.key(id).unwrap(), project);
        counting.rebuild().await;
        Some(counting)
    }

    fn gateway(&self) -> &Gateway {
        &self.fresh.gateway
    }

    fn fleet(&self) -> &Arc<Fleet> {
        self.gateway().fleet.as_ref().unwrap()
    }

    fn project(&self) -> ProjectId {
        self.fresh.caller.project.id()
    }

    /// Asks Redis until it is known that it answers, or that it does not.
    async fn reached(&self, is_so: bool) {
        let counters = &self.fleet().counters;
        until("it is known whether Redis answers", async || {
            counters.beat().await;
            (counters.is_reached(self.project()) == is_so).then_some(())
        })
        .await;
    }

    async fn pause(&self) {
        self.redis.pause();
        self.reached(false).await;
    }

    async fn resume(&self) {
        self.redis.resume();
        self.reached(true).await;
    }

    /// Has Redis lose all, and the node notice it.
    async fn flush(&self) {
        self.redis.ask("FLUSHALL");
        self.reached(true).await;
    }

    async fn rebuild(&self) {
        let projects = [self.project()];
        let mut attempts = Attempts::default();
        until("the counters are built", async || {
            self.gateway().rebuild(self.fleet(), &projects, &mut attempts).await.ok()
        })
        .await;
    }

    /// Spent in the month and in the hour, and reserved, as Redis has it.
    async fn counted(&self) -> [Usd; 3] {
        let key = self.fresh.caller.key.key.id;
        let figures = self.fleet().counters.look(self.project(), &[key]).await.unwrap();
        assert_eq!(figures.reserved, figures.keys[0].reserved);
        [figures.spent, figures.keys[0].spent, figures.reserved]
    }

    /// Spent by the database.
    async fn spent(&self) -> Usd {
        let (store, now) = (&self.gateway().store, self.gateway().clock.now());
        let of_hour = store.spent_seconds(now.minus_micros(HOUR)).await.unwrap();
        let of_month = store.spend_by_project(now).await.unwrap();
        let hour: Usd = of_hour.iter().map(|spent| spent.cost).sum();
        let month: Usd = of_month.iter().map(|(_, spent)| *spent).sum();
        assert_eq!(hour, month);
        hour
    }

    /// Nothing is held or reserved, and Redis has as spent what the database has.
    async fn is_settled(&self) {
        let spent = self.spent().await;
        assert!(spent > Usd::ZERO, "nothing was spent");
        assert_eq!(self.counted().await, [spent, spent, Usd::ZERO]);
        assert_eq!(self.fleet().counters.held(), 0);
    }
}

#[tokio::test]
async fn a_call_that_did_not_reach_redis_counts_once_when_it_is_back() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let trace = counting.fresh.trace().await;
    let one = counting.fresh.in_flight(&trace).await;
    let other = counting.fresh.in_flight(&trace).await;
    let [.., reserved] = counting.counted().await;
    assert!(reserved > Usd::ZERO);
    counting.pause().await;
    one.finish().await.unwrap();
    other.finish().await.unwrap();
    // It stays owed.
    Debts.run(counting.gateway()).await.unwrap();
    counting.resume().await;
    assert_eq!(counting.counted().await, [Usd::ZERO, Usd::ZERO, reserved]);
    for _ in 0..2 {
        Debts.run(counting.gateway()).await.unwrap();
        counting.is_settled().await;
    }
}

#[tokio::test]
async fn a_call_that_is_owed_counts_once_after_a_loss() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let trace = counting.fresh.trace().await;
    let call = counting.fresh.in_flight(&trace).await;
    counting.pause().await;
    call.finish().await.unwrap();
    counting.resume().await;
    counting.flush().await;
    // Nothing counts before the counters are built, and they are built from the call.
    Debts.run(counting.gateway()).await.unwrap();
    assert_eq!(counting.counted().await, [Usd::ZERO; 3]);
    assert_eq!(counting.fleet().lost(), [counting.project()]);
    counting.rebuild().await;
    counting.is_settled().await;
    Debts.run(counting.gateway()).await.unwrap();
    counting.is_settled().await;
}

#[tokio::test]
async fn a_loss_is_over_when_every_node_that_lives_has_added_what_it_holds() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (fleet, project) = (counting.fleet(), counting.project());
    let live = [counting.gateway().store.node(), NodeId(1_000)];
    let other = counting.redis.counters(live[1], &counting.gateway().clock).await;
    let held = other.reserve(&counting.fresh.caller.bounds(), Usd(500)).await.unwrap();
    assert!(matches!(held, Reserved::Granted(..)), "{held:?}");
    counting.flush().await;
    let mut known = None;
    for _ in 0..2 {
        let (generation, missed) = join(fleet, project, &live, known).await.unwrap();
        assert_eq!(missed, live[1..], "one node is missing");
        assert_eq!(fleet.counters.rejoined(project).await.unwrap(), live[..1]);
        known = Some(generation);
    }
    until("the other has come", async || {
        other.beat().await;
        let (_, missed) = join(fleet, project, &live, known.clone()).await.ok()?;
        missed.is_empty().then_some(())
    })
    .await;
    counting.rebuild().await;
    assert_eq!(counting.counted().await, [Usd::ZERO, Usd::ZERO, Usd(500)]);
}

#[tokio::test]
async fn a_node_adds_what_it_has_reserved_once_a_loss() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (fleet, project) = (counting.fleet(), counting.project());
    let live = [counting.gateway().store.node(), NodeId(1_000)];
    let trace = counting.fresh.trace().await;
    let call = counting.fresh.in_flight(&trace).await;
    let [.., reserved] = counting.counted().await;
    assert!(reserved > Usd::ZERO);
    counting.flush().await;
    let (first, missed) = join(fleet, project, &live, None).await.unwrap();
    assert_eq!(missed, live[1..]);
    assert_eq!(counting.counted().await, [Usd::ZERO, Usd::ZERO, reserved]);
    // If it were added again while the other node is missing, it would be there again.
    assert_eq!(fleet.counters.forget(project, live[0]).await.unwrap(), 1);
    let (second, missed) = join(fleet, project, &live, Some(first.clone())).await.unwrap();
    assert_eq!((&second, &missed[..]), (&first, &live[1..]));
    assert_eq!(counting.counted().await, [Usd::ZERO; 3]);
    // After another loss what is known of the first one is worth nothing.
    counting.flush().await;
    let (third, missed) = join(fleet, project, &live, Some(second)).await.unwrap();
    assert_eq!(missed, live[1..]);
    assert_ne!(third, first);
    assert_eq!(counting.counted().await, [Usd::ZERO, Usd::ZERO, reserved]);
    counting.rebuild().await;
    call.finish().await.unwrap();
    counting.is_settled().await;
}

#[tokio::test]
async fn a_call_of_a_node_that_is_gone_counts_once_and_its_reservation_is_given_back() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, caller) = (counting.gateway(), &counting.fresh.caller);
    let trace = counting.fresh.trace().await;
    let own = counting.fresh.in_flight(&trace).await;
    let [.., reserved] = counting.counted().await;
    assert!(reserved > Usd::ZERO);
    for are_recorded in [true, false] {
        let gone = counting.fresh.other_node().await;
        let there = counting.redis.counters(gone.node(), &gateway.clock).await;
        let held = there.reserve(&caller.bounds(), Usd(500)).await.unwrap();
        assert!(matches!(held, Reserved::Granted(..)), "{held:?}");
        let start = Start {
            step: gone.step_id().await.unwrap(),
            trace: trace.parse().unwrap(),
            project: caller.project.id(),
            key: Some(caller.key.key.id.to_i64()),
            api_endpoint: ApiEndpoint::Executions,
            parent: None,
            source: None,
            traceparent: None,
            attributes: None,
            model: "sandbox".to_owned(),
            provider: Provider::Openai,
            infrastructure: "private".to_owned(),
            is_public: false,
            tier: None,
            prompt_tokens: 500,
            prices: Some((1_000_000, 2_000_000)),
            flat_cost: None,
            shadow: false,
            started_at: gateway.clock.now().0,
        };
        gone.writer().start(start).await.unwrap();
        gone.close().await;
        let before = counting.spent().await;
        if are_recorded {
            // The job for lost calls was faster. The money is held until the cost counts.
            assert_eq!(gateway.store.settle_lost_calls(&gateway.clock).await.unwrap(), 1);
            let all = reserved + Usd(500);
            assert_eq!(counting.counted().await, [before, before, all]);
            Debts.run(gateway).await.unwrap();
            let spent = counting.spent().await;
            assert_eq!(counting.counted().await, [spent, spent, all]);
        }
        GoneNodes.run(gateway).await.unwrap();
        let spent = counting.spent().await;
        assert_eq!(spent, before + Usd(500_000), "its prompt");
        assert_eq!(counting.counted().await, [spent, spent, reserved], "the own call runs");
    }
    own.finish().await.unwrap();
    counting.is_settled().await;
}

#[tokio::test]
async fn what_is_spent_by_the_own_count_while_redis_is_away_counts_there_after_it() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Local).await else { return };
    let trace = counting.fresh.trace().await;
    counting.fresh.in_flight(&trace).await.finish().await.unwrap();
    counting.is_settled().await;
    let before = counting.spent().await;
    counting.pause().await;
    for _ in 0..2 {
        counting.fresh.in_flight(&trace).await.finish().await.unwrap();
    }
    counting.resume().await;
    Debts.run(counting.gateway()).await.unwrap();
    assert_eq!(counting.counted().await, [before, before, Usd::ZERO], "nothing was reserved");
    let spent = counting.spent().await;
    assert!(spent > before);
    counting.gateway().recount_hours().await.unwrap();
    counting.gateway().recount_months().await.unwrap();
    counting.is_settled().await;
    // Redis decides by it from here on.
    let (spend, is_counted) = (Spend::Checked, false);
    let request = Request { loops: None, per_hour: None, is_counted, spend };
    let bounds = counting.fresh.caller.bounds();
    for (cap, budget, decision) in [
        (spent, spent + Usd(1), Admission::CapSpent),
        (spent + Usd(1), spent, Admission::BudgetSpent),
        (spent + Usd(1), spent + Usd(1), Admission::Admitted),
    ] {
        let bounds = Bounds { cap: Some(cap), budget: Some(budget), ..bounds };
        let gate = counting.fleet().gate(&bounds, request).await.unwrap();
        assert_eq!(gate.admission, decision);
    }
}

#[tokio::test]
async fn requests_are_counted_by_the_gateway_itself_while_redis_is_away() {
    let limits = json!({"limits": {"requests_per_hour": 3, "loop_requests": 5}});
    let Some(counting) = Counting::with(OnCounterLoss::Refuse, limits).await else { return };
    counting.pause().await;
    for request in 1..=5 {
        let gated = counting.fresh.gate().await.map_err(|refusal| refusal.error);
        let is_right = match &gated {
            Ok(_) => request <= 3,
            Err(Error::RateLimited { .. }) => request > 3,
            Err(_) => false,
        };
        assert!(is_right, "request {request}: {gated:?}");
    }
    for _ in 0..2 {
        let refused = counting.fresh.gate().await.unwrap_err().error;
        assert!(matches!(refused, Error::LoopDetected), "{refused:?}");
    }
    // The key is paused, whoever counts.
    counting.resume().await;
    let refused = counting.fresh.gate().await.unwrap_err().error;
    assert!(matches!(refused, Error::LoopDetected), "{refused:?}");
}

#[tokio::test]
async fn what_another_node_has_changed_is_known_while_redis_is_away() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, id) = (counting.gateway(), counting.fresh.caller.key.key.id);
    let trace = counting.fresh.trace().await;
    counting.fresh.in_flight(&trace).await.finish().await.unwrap();
    let other = counting.fresh.other_node().await;
    let mut tx = other.begin().await.unwrap();
    let mut key = tx.key(id).await.unwrap().unwrap();
    key.hourly_limit = Some(Usd(7));
    tx.save_key(&key).await.unwrap();
    tx.bump_registry().await.unwrap();
    tx.commit().await.unwrap();
    other.close().await;
    counting.pause().await;
    // It fails if it waits for the spend to count there.
    RegistryRefresh.run(gateway).await.unwrap();
    assert_eq!(gateway.registry.key(id).unwrap().key.hourly_limit, Some(Usd(7)));
}
