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

    /// A call of a node that is gone which Redis is to be told of.
    fn lost_call(&self, cost: Usd) -> Owed {
        Owed {
            bounds: self.fresh.caller.bounds(),
            holds: vec![self.fleet().counters.without_reservation()],
            cost,
            ended: self.gateway().clock.now(),
            since: Instant::now(),
            is_lost: true,
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
    // Redis is reached, and cannot be told before the counters are built.
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
