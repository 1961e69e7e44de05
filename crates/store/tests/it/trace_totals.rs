//! Totals of traces that end while their steps are being deleted, on PostgreSQL.

use std::pin::pin;

use domain::grade::Grade;
use sqlx::Connection as _;
use store::AgentFigures;

use crate::partition_changes::postgres;
use crate::partition_guards::connect;
use crate::retention::{assessment, in_days, of_model};
use crate::support::{Database, NOW, project, trace, trace_id};

/// Ends a trace while a purge that has deleted a step of it is not committed.
async fn beside_a_purge(database: &Database, step: i64, end: impl Future<Output = ()>) {
    const PURGE: &str = "
        WITH gone AS (DELETE FROM steps WHERE id = $1 RETURNING trace_id, cost)
        UPDATE traces SET purged_cost = gone.cost, purged_days = 2
        FROM gone WHERE traces.id = gone.trace_id";
    const WAITING: &str = "
        SELECT CAST(pid AS TEXT) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut other = connect(database).await;
    let mut purging = other.begin().await.unwrap();
    sqlx::query(PURGE).bind(step).execute(&mut *purging).await.unwrap();
    let is_waiting = async { while database.texts(WAITING).await.is_empty() {} };
    let mut end = pin!(end);
    tokio::select! {
        () = &mut end => unreachable!("it has not waited"),
        () = is_waiting => {}
    }
    purging.commit().await.unwrap();
    end.await;
}

#[tokio::test]
async fn a_trace_that_ends_while_its_steps_are_deleted_counts_each_of_them_once() {
    const TOTALS: &str = "SELECT CAST(total_cost AS TEXT) FROM traces ORDER BY id";
    let agent =
        AgentFigures { chain_depth: 1, stall_probability: 0.0, tool_fidelity: 1.0, latency: 0 };
    for database in postgres().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        let steps = [(1, 1), (1, 2), (2, 3), (2, 4)];
        let steps = steps.map(|(trace, id)| of_model(project, trace, id, "short", 0));
        let total = steps[0].cost() + steps[1].cost();
        for step in steps {
            store.writer().step(step, None).await.unwrap();
        }
        beside_a_purge(&database, 1, async {
            let mut tx = store.begin().await.unwrap();
            let done = assessment(Grade::A, total);
            tx.complete_trace(trace_id(1), NOW, &done, agent).await.unwrap();
            tx.commit().await.unwrap();
        })
        .await;
        beside_a_purge(&database, 3, async {
            let failed = store.fail_idle_traces(project, in_days(1), 10).await.unwrap();
            assert_eq!(failed, [trace_id(2)], "{}", database.kind);
        })
        .await;
        let totals = vec![total.0.to_string(); 2];
        assert_eq!(database.texts(TOTALS).await, totals, "{}", database.kind);
        store.close().await;
    }
}
