//! Sums of the ledger, compared with a plain sum over all steps.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::{ProjectId, StepId};
use domain::sketch::Sketch;
use domain::step::{Step, StepKind, StepStatus};
use domain::time::{MINUTE, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use sqlx::{Connection as _, Executor as _, PgConnection};
use store::{Store, UsageBucket};

use crate::support::{NOW, databases, databases_with_dice, project, run, trace, trace_id};

/// The minutes of a day.
const DAY: i64 = 1_440;

/// Requests, blocked, failures, tokens of the prompt, of the completion, cost, and the sum of latencies.
type Sums = [i64; 7];

fn read(bucket: &UsageBucket) -> Sums {
    [
        bucket.requests,
        bucket.blocked,
        bucket.failures,
        bucket.prompt_tokens,
        bucket.completion_tokens,
        bucket.cost().0,
        bucket.latency_sum,
    ]
}

fn of_step(step: &Step) -> Sums {
    let call = step.call.as_ref().unwrap();
    [
        1,
        i64::from(step.kind == StepKind::Blocked),
        i64::from(step.status == StepStatus::Failed),
        call.usage.prompt as i64,
        call.usage.completion as i64,
        call.cost.0,
        step.finished_at.since(step.started_at),
    ]
}

/// Fails unless the figures of a period are those of the steps written in its minutes, in buckets of a width.
async fn assert_equal(
    store: &Store,
    project: ProjectId,
    steps: &[(i64, Step)],
    (from, to): (i64, i64),
    width: i64,
) {
    let mut expected: BTreeMap<i64, Sums> = BTreeMap::new();
    let (mut total, mut latencies) = ([0; 7], Sketch::new());
    for (minute, step) in steps.iter().filter(|(minute, _)| (from..to).contains(minute)) {
        let bucket = expected.entry(minute / width).or_default();
        for (at, more) in of_step(step).into_iter().enumerate() {
            bucket[at] += more;
            total[at] += more;
        }
        latencies.record(step.finished_at.since(step.started_at));
    }
    let case = format!("minutes {from} to {to} by {width}");
    let found = store.usage_series(project, from, to, width).await.unwrap();
    let found: BTreeMap<i64, Sums> =
        found.iter().map(|bucket| (bucket.index, read(bucket))).collect();
    assert_eq!(found, expected, "{case}");
    assert_eq!(read(&store.usage_total(project, from, to).await.unwrap()), total, "{case}");
    assert_eq!(store.latencies(project, from, to).await.unwrap(), latencies, "{case}");
}

#[tokio::test]
async fn figures_are_the_same_before_and_after_quarters_and_days_are_summed() {
    for (database, mut dice) in databases_with_dice().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let first = NOW.minute() - NOW.minute() % DAY + DAY + 100;
        let mut steps = Vec::new();
        let mut minute = first;
        for id in 0..150 {
            // Hours and a whole day without usage are among them.
            minute += [0, 0, 1, 7, 40, 130][dice.next(6) as usize];
            if id == 75 {
                minute += DAY + 500;
            }
            let now = Timestamp(minute * MINUTE + dice.next(60) as i64 * 1_000_000);
            database.clock.set(now);
            let mut step = run(project, trace_id(1), StepId(id));
            step.finished_at = now;
            step.started_at = now.minus_micros(dice.next(5_000_000) as i64);
            step.kind = [StepKind::Run, StepKind::Run, StepKind::Blocked][dice.next(3) as usize];
            step.status =
                [StepStatus::Completed, StepStatus::Failed][usize::from(dice.next(3) == 0)];
            let call = step.call.as_mut().unwrap();
            call.model = format!("m-{}", dice.next(3));
            call.cost.0 = dice.next(3_000_000_000) as i64;
            step.source = None;
            store.writer().step(step.clone(), None).await.unwrap();
            steps.push((minute, step));
        }
        let last = minute;
        let all = async || {
            let periods = [
                (first, last + 1),
                (first - 3, last + 100),
                (first + 7, first + 11),
                (first + 13, first + 200),
                (first - first % DAY, first - first % DAY + DAY),
                (last - 2 * DAY, last),
                (last + 1, last + 2),
            ];
            for period in periods {
                for width in [1, 15, 30, 240, DAY, 4 * DAY] {
                    assert_equal(&store, project, &steps, period, width).await;
                }
            }
        };
        all().await;
        let now = Timestamp((last + 1) * MINUTE);
        for _ in 0..20 {
            assert!(store.sum_next_quarter(project, now).await.unwrap(), "{}", database.kind);
        }
        all().await;
        while store.sum_next_quarter(project, now).await.unwrap() {}
        all().await;
        // Days later everything is over.
        let late = Timestamp((last + 9 * DAY) * MINUTE);
        while store.sum_next_quarter(project, late).await.unwrap() {}
        all().await;
        let days = database
            .texts("SELECT CAST(count(*) AS TEXT) FROM usage_spans WHERE span = 1440")
            .await;
        let mut used: BTreeSet<i64> = steps.iter().map(|(minute, _)| minute / DAY).collect();
        // The trace was opened, and has revenue, before its first step.
        used.insert(NOW.minute() / DAY);
        assert_eq!(days, [used.len().to_string()], "{}: days are summed", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn quarters_are_summed_when_all_their_usage_is_surely_there() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let quarter = NOW.minute() - NOW.minute() % 15;
        let at = |minutes: i64| Timestamp((quarter + minutes) * MINUTE);
        let mut id = 0;
        let mut record = async |minutes: i64| {
            id += 1;
            database.clock.set(at(minutes));
            store.writer().step(run(project, trace_id(1), StepId(id)), None).await.unwrap();
        };
        let requests =
            async || store.usage_total(project, quarter, quarter + 60).await.unwrap().requests;
        record(3).await;
        assert!(!store.sum_next_quarter(project, at(19)).await.unwrap(), "{}", database.kind);
        assert!(store.sum_next_quarter(project, at(20)).await.unwrap(), "{}", database.kind);
        assert!(!store.sum_next_quarter(project, at(20)).await.unwrap(), "{}", database.kind);
        assert_eq!(requests().await, 1, "{}", database.kind);
        // A clock that was ahead sums a quarter in which there is more to come.
        record(31).await;
        while store.sum_next_quarter(project, at(55)).await.unwrap() {}
        record(38).await;
        assert_eq!(requests().await, 2, "{}: its sum is read", database.kind);
        while store.sum_next_quarter(project, at(39)).await.unwrap() {}
        assert_eq!(requests().await, 3, "{}", database.kind);
        while store.sum_next_quarter(project, at(60)).await.unwrap() {}
        assert_eq!(requests().await, 3, "{}", database.kind);
        // Three days ahead, until a restart: no usage of the time in between is passed over.
        let ahead = 3 * DAY;
        record(ahead + 1).await;
        while store.sum_next_quarter(project, at(ahead + 40)).await.unwrap() {}
        store.close().await;
        database.clock.set(at(62));
        let store = database.open().await;
        let record = async |id: i64, minutes: i64| {
            database.clock.set(at(minutes));
            store.writer().step(run(project, trace_id(1), StepId(id)), None).await.unwrap();
        };
        record(101, 62).await;
        while store.sum_next_quarter(project, at(76)).await.unwrap() {}
        record(102, 77).await;
        let all =
            async || store.usage_total(project, quarter, quarter + 120).await.unwrap().requests;
        assert_eq!(all().await, 5, "{}", database.kind);
        while store.sum_next_quarter(project, at(120)).await.unwrap() {}
        assert_eq!(all().await, 5, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn statistics_that_wait_for_postgresql_leave_connections_to_calls() {
    for database in databases().await {
        let store::Location::Postgres(url) = &database.location else { continue };
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut other = PgConnection::connect(url.expose()).await.unwrap();
        let lock = "BEGIN; LOCK TABLE usage_ledger, steps, traces IN ACCESS EXCLUSIVE MODE";
        other.execute(sqlx::raw_sql(lock)).await.unwrap();
        let (from, to) = (Timestamp(0), NOW);
        let mut waiting: FuturesUnordered<BoxFuture<'_, Result<(), store::Error>>> =
            FuturesUnordered::new();
        for _ in 0..4 {
            waiting.push(store.usage(project, 0, 1).map_ok(drop).boxed());
            waiting.push(store.agent_counts(project, from, to, 1).map_ok(drop).boxed());
            waiting.push(store.tool_times(project, from, to).map_ok(drop).boxed());
            waiting.push(store.answers(project, from, to, 1).map_ok(drop).boxed());
        }
        let calls = async {
            store.registry_version().await.unwrap();
            store.begin().await.unwrap().commit().await.unwrap();
        };
        // All have asked for a connection before the calls do.
        tokio::select! {
            biased;
            ended = waiting.next() => panic!("the calls have waited for statistics: {ended:?}"),
            () = calls => {}
        }
        drop(waiting);
        other.execute(sqlx::raw_sql("ROLLBACK")).await.unwrap();
        assert!(store.usage(project, 0, 1).await.unwrap().is_empty());
        store.close().await;
    }
}
