//! Debts beside the other work that reads the ledger, or looks at them.

use counters::Counters;

use super::*;
use crate::jobs::gone_nodes::forget;

impl Counting {
    /// The counters of another node, which has reserved an amount.
    async fn reserved_by(&self, node: NodeId, amount: Usd) -> Counters {
        let there = self.redis.counters(node, &self.gateway().clock).await;
        let held = there.reserve(&self.fresh.caller.bounds(), amount).await.unwrap();
        assert!(matches!(held, Reserved::Granted(..)), "{held:?}");
        there
    }

    /// A call of a node that is gone which is to be sent to Redis.
    fn lost_call(&self, cost: Usd) -> Owed {
        Owed {
            bounds: self.fresh.caller.bounds(),
            holds: vec![self.fleet().counters.without_reservation()],
            cost,
            ended: self.gateway().clock.now(),
            since: Instant::now(),
            is_lost: true,
            unanswered: None,
        }
    }
}

#[tokio::test]
async fn a_call_that_is_owed_counts_once_where_the_ledger_is_read_first() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let trace = counting.fresh.trace().await;
    for reads_hours in [true, false] {
        let call = counting.fresh.in_flight(&trace).await;
        counting.pause().await;
        call.finish().await.unwrap();
        counting.resume().await;
        // The jobs run in any order.
        if reads_hours {
            counting.gateway().recount_hours().await.unwrap();
        } else {
            counting.gateway().recount_months().await.unwrap();
        }
        counting.is_settled().await;
        Debts.run(counting.gateway()).await.unwrap();
        counting.is_settled().await;
    }
}

#[tokio::test]
async fn what_is_owed_is_taken_from_no_ledger_and_nothing_is_given_back_meanwhile() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let gateway = counting.gateway();
    let trace = counting.fresh.trace().await;
    let call = counting.fresh.in_flight(&trace).await;
    let gone = counting.fresh.other_node().await;
    let there = counting.reserved_by(gone.node(), Usd(500)).await;
    gone.close().await;
    counting.pause().await;
    call.finish().await.unwrap();
    counting.resume().await;
    // Redis is reached, and counts no call before the counters are built.
    counting.flush().await;
    let as_reserved = [Usd::ZERO, Usd::ZERO, Usd(500)];
    until("what the other node had reserved is there", async || {
        there.beat().await;
        (counting.counted().await == as_reserved).then_some(())
    })
    .await;
    assert!(gateway.recount_hours().await.is_err());
    assert!(gateway.recount_months().await.is_err());
    assert_eq!(counting.counted().await, as_reserved);
    // The ledger may have calls of the node that Redis was not raised to.
    GoneNodes.run(gateway).await.unwrap();
    assert_eq!(counting.counted().await, as_reserved);
    counting.rebuild().await;
    GoneNodes.run(gateway).await.unwrap();
    counting.is_settled().await;
    gateway.recount_hours().await.unwrap();
    gateway.recount_months().await.unwrap();
    counting.is_settled().await;
}

#[tokio::test]
async fn nothing_is_given_back_while_somebody_has_taken_the_calls_of_the_node() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (fleet, project) = (counting.fleet(), counting.project());
    let gone = counting.fresh.other_node().await;
    counting.reserved_by(gone.node(), Usd(500)).await;
    let alone = fleet.paying.lock().await;
    let taken = counting.lost_call(Usd(400));
    let owes_it_again = async {
        fleet.owe([taken]);
        drop(alone);
    };
    let (given_back, ()) = tokio::join!(forget(fleet, project, gone.node()), owes_it_again);
    assert!(given_back.is_err(), "{given_back:?}");
    assert_eq!(counting.counted().await, [Usd::ZERO, Usd::ZERO, Usd(500)]);
    Debts.run(counting.gateway()).await.unwrap();
    assert_eq!(forget(fleet, project, gone.node()).await.unwrap(), 1);
    assert_eq!(counting.counted().await, [Usd(400), Usd(400), Usd::ZERO]);
    gone.close().await;
}

#[tokio::test]
async fn a_rebuild_takes_no_call_while_somebody_must_see_them_all() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (fleet, project) = (counting.fleet(), counting.project());
    counting.flush().await;
    let alone = fleet.paying.lock().await;
    fleet.owe([counting.lost_call(Usd(400))]);
    let looks = async {
        // As many questions as a rebuild has before it takes them, and more.
        for _ in 0..10 {
            counting.counted().await;
            counting.spent().await;
            assert!(fleet.owes_lost(project));
        }
        drop(alone);
    };
    let (projects, mut attempts) = ([project], Attempts::default());
    let rebuilding = counting.gateway().rebuild(fleet, &projects, &mut attempts);
    let (rebuilt, ()) = tokio::join!(rebuilding, looks);
    rebuilt.unwrap();
    assert!(!fleet.owes_lost(project), "the ledger has them");
}

#[tokio::test]
async fn a_call_whose_key_was_revoked_during_a_loss_is_settled_all_the_same() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, fleet) = (counting.gateway(), counting.fleet());
    let trace = counting.fresh.trace().await;
    let call = counting.fresh.in_flight(&trace).await;
    counting.flush().await;
    let mut tx = gateway.store.begin().await.unwrap();
    let key = counting.fresh.caller.key.key.id;
    assert!(tx.revoke_key(key, gateway.clock.now()).await.unwrap());
    gateway.publish(tx).await.unwrap();
    call.finish().await.unwrap();
    assert_eq!(fleet.owing(), BTreeSet::from([counting.project()]));
    let [.., reserved] = counting.counted().await;
    assert!(reserved > Usd::ZERO);
    // The spend of the key is not known there from here on.
    counting.rebuild().await;
    Debts.run(gateway).await.unwrap();
    let [.., reserved] = counting.counted().await;
    assert_eq!((reserved, fleet.counters.held()), (Usd::ZERO, 0));
    assert!(fleet.owing().is_empty(), "what the project has spent could not be raised any more");
    gateway.recount_hours().await.unwrap();
    gateway.recount_months().await.unwrap();
}

#[tokio::test]
async fn a_call_of_a_project_that_was_deleted_during_a_loss_is_owed_no_more() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, fleet, project) = (counting.gateway(), counting.fleet(), counting.project());
    let trace = counting.fresh.trace().await;
    let call = counting.fresh.in_flight(&trace).await;
    counting.flush().await;
    call.finish().await.unwrap();
    Debts.run(gateway).await.unwrap();
    assert_eq!(fleet.owing(), BTreeSet::from([project]));
    assert_eq!(fleet.lost(), [project]);
    let mut tx = gateway.store.begin().await.unwrap();
    assert!(tx.delete_project(project, gateway.clock.now()).await.unwrap());
    gateway.publish(tx).await.unwrap();
    // It need not be built for that, which may wait for another node.
    Debts.run(gateway).await.unwrap();
    assert!(fleet.owing().is_empty());
    assert_eq!(counting.counted().await, [Usd::ZERO; 3]);
    assert_eq!(fleet.counters.held(), 0);
}

#[tokio::test]
async fn a_lost_call_that_may_count_is_not_sent_again_and_counts_from_the_ledger() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, fleet) = (counting.gateway(), counting.fleet());
    let trace = counting.fresh.trace().await;
    counting.fresh.in_flight(&trace).await.finish().await.unwrap();
    let mut lost = counting.fresh.steps(&trace).await.remove(0);
    let cost = lost.cost();
    lost.id = gateway.store.step_id().await.unwrap();
    gateway.store.writer().step(lost, None).await.unwrap();
    fleet.owe([counting.lost_call(cost)]);
    // No key may be touched: for this node that is an answer like none.
    counting.redis.ask("ACL SETUSER default resetkeys");
    Debts.run(gateway).await.unwrap();
    counting.redis.ask("ACL SETUSER default resetkeys ~*");
    assert!(fleet.owes_lost(counting.project()), "what was sent may still have its effect");
    until("it is left to the ledger", async || {
        Debts.run(gateway).await.unwrap();
        assert_eq!(counting.counted().await, [cost, cost, Usd::ZERO], "it was sent again");
        fleet.owing().is_empty().then_some(())
    })
    .await;
    for _ in 0..2 {
        gateway.recount_hours().await.unwrap();
        gateway.recount_months().await.unwrap();
        counting.is_settled().await;
    }
}

#[tokio::test]
async fn a_project_that_is_lost_is_asked_once_however_many_of_its_calls_are_owed() {
    let Some(counting) = Counting::bounded(OnCounterLoss::Refuse).await else { return };
    let (gateway, fleet, project) = (counting.gateway(), counting.fleet(), counting.project());
    counting.flush().await;
    fleet.owe((0..5).map(|_| counting.lost_call(Usd(400))));
    let before = counting.redis.functions_run();
    for runs in 1..3 {
        Debts.run(gateway).await.unwrap();
        assert_eq!(counting.redis.functions_run() - before, runs, "all get the same answer");
    }
    assert_eq!(fleet.lost(), [project]);
    let owed = fleet.take_owed();
    assert_eq!(owed.len(), 5);
    fleet.owe(owed);
    counting.rebuild().await;
    assert!(fleet.owing().is_empty(), "the ledger has them");
}
