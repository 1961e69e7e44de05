//! Partitions of steps that are all due, on PostgreSQL: what goes with them, what is kept, and when they stay.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::ids::{ProjectId, StepId, UserId};
use domain::money::Usd;
use domain::review::{Judge, Review, Verdict};
use domain::step::{Security, Step};
use domain::time::{DAY, HOUR, Timestamp};
use domain::trace::Purged;
use store::{Claim, DuePartition, Maintenance, PartitionWatch, SealingKey, Store, StoredResource};

use crate::partition_changes::{DAY_IDS, PLACES, TODAY, keep, parts, postgres};
use crate::retention::{in_days, note, of_model, purge, rules};
use crate::support::{
    Database, Dice, NOW, databases, databases_with_dice, project, trace, trace_id,
};

/// An id of the day `day` days from now.
pub fn id(day: i64, number: i64) -> i64 {
    (TODAY + day) * DAY_IDS + number
}

/// Sums all that is over, which has to be before steps go.
pub async fn sum(store: &Store, project: ProjectId, now: Timestamp) {
    while store.group_next_hour(project, now).await.unwrap() {}
    while store.sum_next_quarter(project, now).await.unwrap() {}
}

/// A database with partitions, and a project whose models `short` and `long` are kept for 2 and 9 days.
pub async fn prepared(database: &Database) -> (Store, ProjectId, SealingKey) {
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, key) = project(&store).await;
    rules(&store, project, &[("short", 2), ("long", 9)]).await;
    for number in 1..=3 {
        store.writer().trace(trace(project, number)).await.unwrap();
    }
    keep(&store, NOW).await;
    (store, project, key)
}

pub async fn write(store: &Store, steps: impl IntoIterator<Item = Step>) {
    for step in steps {
        store.writer().step(step, None).await.unwrap();
    }
}

pub async fn purged(store: &Store, project: ProjectId, number: u128) -> Option<Purged> {
    store.trace(project, trace_id(number)).await.unwrap().unwrap().purged
}

/// The steps that are left of a trace.
pub async fn left(store: &Store, number: u128) -> Vec<i64> {
    let steps = store.steps(trace_id(number)).await.unwrap();
    let mut ids: Vec<i64> = steps.iter().map(|step| step.id.0).collect();
    ids.sort_unstable();
    ids
}

pub async fn has(database: &Database, day: i64) -> bool {
    parts(database).await.contains(&format!("d{}", TODAY + day))
}

pub async fn maintenance(store: &Store) -> Maintenance {
    store.maintain_partitions().await.unwrap().unwrap()
}

pub async fn due(store: &mut Maintenance, now: Timestamp) -> Option<DuePartition> {
    store.due_partition(now, &mut PartitionWatch::default()).await.unwrap()
}

/// Sums a project and detaches all partitions that are due. Returns the session that has done it.
pub async fn detached(store: &Store, project: ProjectId, now: Timestamp) -> Maintenance {
    sum(store, project, now).await;
    let mut keeper = maintenance(store).await;
    detach_all(&mut keeper, now).await;
    keeper
}

/// Detaches all partitions that are due.
pub async fn detach_all(keeper: &mut Maintenance, now: Timestamp) {
    keeper.make_ahead(now).await.unwrap();
    while let Some(found) = due(keeper, now).await {
        assert!(keeper.detach(&found).await.unwrap());
    }
}

/// A prepared database with a step with a content on each of two days, whose partitions are detached at the time that
/// is returned, and not gathered; with the costs of the two, of traces 1 and 2.
pub async fn two_detached(database: &Database) -> (Store, ProjectId, Timestamp, [Usd; 2]) {
    let (store, project, data) = prepared(database).await;
    let steps = [1, 2].map(|day| of_model(project, day as u128, id(day, 0), "short", day));
    let costs = steps.each_ref().map(Step::cost);
    for step in steps {
        store.writer().step(step, Some((b"{}", &data))).await.unwrap();
    }
    let now = in_days(6);
    detached(&store, project, now).await.end().await;
    (store, project, now, costs)
}

#[tokio::test]
async fn a_partition_goes_when_all_its_steps_are_due_and_traces_keep_what_they_keep_of_steps() {
    for database in postgres().await {
        let (store, project, data) = prepared(&database).await;
        let step = |number, n, model| of_model(project, number, id(1, n), model, 1);
        let secret = Security { secret: true, ..Security::default() };
        let steps = [
            step(1, 0, "short"),
            Step { security: secret, ..step(1, 1, "short") },
            step(2, 2, "short"),
        ];
        let costs = steps.clone().map(|step| step.cost());
        write(&store, steps).await;
        // One of the first day, and one that is due later than a day that is over by then.
        write(
            &store,
            [of_model(project, 1, 7, "short", 0), of_model(project, 3, id(2, 0), "long", 2)],
        )
        .await;
        let stored = StoredResource {
            project,
            id: "resp".to_owned(),
            response: "resp".to_owned(),
            step: StepId(id(1, 0)),
            model: "short".to_owned(),
            account: 1,
            tokens: None,
            session: [3; 16],
            tools: Vec::new(),
        };
        store.writer().stored_resources(vec![stored]).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        assert!(tx.judge_step(project, StepId(id(1, 2))).await.unwrap().is_some());
        let review = Review {
            step: StepId(id(1, 2)),
            project,
            judge: Judge::User(UserId(1)),
            verdict: Verdict::Confirmed,
            note: Some("of a test".to_owned()),
            findings: Vec::new(),
            risk_score: 0.5,
            at: NOW,
        };
        tx.save_review(&review, &data).await.unwrap();
        tx.commit().await.unwrap();
        for hours in [24, 47, 60] {
            let now = in_days(1).minus_micros(-hours * HOUR);
            sum(&store, project, now).await;
            keep(&store, now).await;
            assert_eq!(has(&database, 1).await, hours < 48, "{hours} h");
        }
        assert_eq!(left(&store, 1).await, [0; 0]);
        assert_eq!(left(&store, 2).await, [0; 0]);
        assert_eq!(left(&store, 3).await, [id(2, 0)], "it is kept for longer");
        let first = of_model(project, 1, 7, "short", 0).cost();
        let kept = purged(&store, project, 1).await.unwrap();
        assert_eq!(kept.cost, costs[0] + costs[1] + first, "{}", database.kind);
        assert!(kept.pii && kept.secret && !kept.injection);
        assert_eq!(purged(&store, project, 2).await.unwrap().cost, costs[2]);
        assert_eq!(purged(&store, project, 3).await, None);
        let days = "SELECT CAST(purged_days AS TEXT) FROM traces ORDER BY id";
        assert_eq!(database.texts(days).await, ["2", "2", "0"], "{}", database.kind);
        assert!(store.stored_resources(project, &["resp"]).await.unwrap().is_empty());
        let reviews = store.reviews(project, &data, NOW, 10).await.unwrap();
        assert_eq!(reviews, [Review { note: None, ..review }], "{}", database.kind);
        let tables =
            "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relname ~ 'step.*_(before|d20776)'";
        assert_eq!(database.texts(tables).await, [""; 0], "nothing is left of them");
        // Steps of the long rule stay until it is over.
        sum(&store, project, in_days(12)).await;
        keep(&store, in_days(12)).await;
        assert!(!has(&database, 2).await);
        assert_eq!(purged(&store, project, 3).await.unwrap().cost, costs[0]);
        store.close().await;
    }
}

#[tokio::test]
async fn steps_that_are_in_no_sum_stay_and_those_of_deleted_projects_keep_nothing() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        keep(&store, in_days(20)).await;
        assert!(has(&database, 1).await, "its hour is not summed");
        database.execute("UPDATE projects SET deleted_at = 1").await;
        keep(&store, in_days(20)).await;
        assert!(!has(&database, 1).await);
        store.close().await;
    }
}

#[tokio::test]
async fn a_rule_that_becomes_longer_and_a_step_that_comes_late_keep_a_partition() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let mut model = store.models().await.unwrap().remove(0).1.unwrap();
        assert_eq!(model.identifier, "short");
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        let now = in_days(5);
        sum(&store, project, now).await;
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(now).await.unwrap();
        // The first day has no steps: it is the oldest that is due.
        let before = due(&mut keeper, now).await.unwrap();
        assert!(keeper.detach(&before).await.unwrap());
        let found = due(&mut keeper, now).await.unwrap();
        model.data_retention_days = 30;
        let mut tx = store.begin().await.unwrap();
        tx.save_model(&model, now).await.unwrap();
        // It is not changed yet: that is waited for, and then the partition stays.
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        tx.commit().await.unwrap();
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        assert!(
            due(&mut keeper, now)
                .await
                .is_none_or(|other| format!("{other:?}") != format!("{found:?}"))
        );
        assert_eq!(left(&store, 1).await, [id(1, 0)]);
        model.data_retention_days = 2;
        let mut tx = store.begin().await.unwrap();
        tx.save_model(&model, now).await.unwrap();
        tx.commit().await.unwrap();
        let found = due(&mut keeper, now).await.unwrap();
        write(&store, [of_model(project, 1, id(1, 1), "short", 5)]).await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        assert_eq!(left(&store, 1).await, [id(1, 0), id(1, 1)]);
        database.execute("DELETE FROM steps WHERE id = 20776000000001").await;
        let found = due(&mut keeper, now).await.unwrap();
        // It has ended before the last one of its project, and a longer rule keeps it.
        write(&store, [of_model(project, 1, id(1, 2), "long", 0)]).await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        assert_eq!(left(&store, 1).await, [id(1, 0), id(1, 2)]);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_step_with_an_id_of_a_day_that_is_gone_is_stored_and_deleted_alone() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let early = of_model(project, 1, id(1, 0), "short", 1);
        let late = of_model(project, 1, id(1, 1), "short", 5);
        write(&store, [early.clone()]).await;
        sum(&store, project, in_days(5)).await;
        keep(&store, in_days(5)).await;
        assert!(!has(&database, 1).await);
        write(&store, [late.clone()]).await;
        assert_eq!(database.texts(PLACES).await, ["steps_rest"]);
        assert_eq!(left(&store, 1).await, [id(1, 1)]);
        keep(&store, in_days(10)).await;
        assert_eq!(left(&store, 1).await, [id(1, 1)], "{}", database.kind);
        assert_eq!(purge(&store, in_days(10)).await, 1, "{}", database.kind);
        assert_eq!(purged(&store, project, 1).await.unwrap().cost, early.cost() + late.cost());
        store.close().await;
    }
}

/// Some thousands of steps of trace 1, without their models' prices.
const MANY: &str = "
    INSERT INTO steps (id, trace_id, project_id, kind, api_endpoint, status, started_at, finished_at, pii, injection,
                       secret, review, risk_score, model, cost)
    SELECT 20776000000000 + n, t.id, t.project_id, 'run', 'chat', 'completed', t.created_at, t.created_at + 86400000000,
           FALSE, n = 9000, FALSE, FALSE, 0, 'short', n
    FROM generate_series(1, 9000) n, (SELECT * FROM traces ORDER BY id LIMIT 1) t";

/// The partition that has been gathered in part.
const WITHIN: &str = "
    SELECT name FROM detached_partitions WHERE gathered BETWEEN 20776000000000 AND 20776000008999";

#[tokio::test]
async fn whoever_stops_in_between_loses_nothing_and_counts_nothing_twice() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        database.execute(MANY).await;
        let now = in_days(5);
        let keeper = detached(&store, project, now).await;
        // Another process goes on where the one before was stopped, at any moment.
        drop(keeper);
        assert_eq!(left(&store, 1).await, [0; 0]);
        let failed = store.fail_idle_traces(project, in_days(4), 10).await.unwrap();
        assert_eq!(failed, [], "{}: it does not know yet what it cost", database.kind);
        let (mut moments, mut stops) = (Dice(9), 0);
        for attempt in 1..=60 {
            // The server gives the right back once it has noticed that its owner is gone.
            let Some(mut keeper) = store.maintain_partitions().await.unwrap() else { continue };
            let moment = Duration::from_millis(4 * attempt + moments.next(20));
            let mut watch = PartitionWatch::default();
            let _ = tokio::time::timeout(moment, keeper.gather(now, &mut watch)).await;
            drop(keeper);
            stops += usize::from(database.texts(WITHIN).await.len() == 1);
            if stops == 3 {
                break;
            }
        }
        assert!(stops > 0, "{}: it was stopped between two batches", database.kind);
        let other = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        while !database.texts("SELECT name FROM detached_partitions").await.is_empty() {
            tokio::join!(keep(&store, now), keep(&other, now));
        }
        other.close().await;
        let kept = Purged { cost: Usd(9_000 * 9_001 / 2), injection: true, ..Purged::default() };
        assert_eq!(purged(&store, project, 1).await, Some(kept), "{}", database.kind);
        assert_eq!(store.fail_idle_traces(project, in_days(4), 10).await.unwrap().len(), 3);
        store.close().await;
    }
}

/// The data that all traces keep in the end.
const KEPT: &str = "
    SELECT COALESCE(CAST(purged_cost AS TEXT), '-') || ' '
        || CASE WHEN purged_pii THEN 'p' ELSE '' END || CASE WHEN purged_injection THEN 'i' ELSE '' END
        || CASE WHEN purged_secret THEN 's' ELSE '' END
    FROM traces ORDER BY id";

/// Drops what is due, and deletes steps before anything is gathered of it.
async fn detach_and_purge(store: &Store, now: Timestamp) {
    let Some(mut keeper) = store.maintain_partitions().await.unwrap() else { return };
    keeper.make_ahead(now).await.unwrap();
    while let Some(found) = due(&mut keeper, now).await {
        assert!(keeper.detach(&found).await.unwrap());
        purge(store, now).await;
    }
    keeper.end().await;
}

#[tokio::test]
async fn traces_keep_the_same_of_steps_whether_they_go_alone_or_with_their_partition() {
    let mut known: Vec<(u64, Vec<String>)> = Vec::new();
    // The steps that are left each time where none has a partition.
    let mut alone: BTreeMap<(u64, i64), Vec<String>> = BTreeMap::new();
    for (database, mut dice) in databases_with_dice().await {
        let seed = dice.0;
        let store = database.open().await;
        let (project, _) = project(&store).await;
        rules(&store, project, &[("short", 2), ("long", 9)]).await;
        for number in 1..=12 {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        keep(&store, NOW).await;
        for number in 0..80 {
            let (trace, day) = (1 + u128::from(dice.next(12)), 1 + dice.next(4) as i64);
            let parent = (number > 0).then(|| 1 + dice.next(number) as i64);
            let parent = parent.map(|number| id(1 + number % 4, number));
            let own = id(1 + (number as i64 + 1) % 4, number as i64 + 1);
            let step = match dice.next(4) {
                0 => note(project, trace, own, parent.filter(|_| number % 3 > 0), day),
                1 => of_model(project, trace, own, "long", day),
                2 => of_model(project, trace, own, "none", day),
                _ => of_model(project, trace, own, "short", day),
            };
            let (pii, injection, secret) =
                (dice.next(9) == 0, dice.next(9) == 0, dice.next(9) == 0);
            let security = Security { pii, injection, secret, ..Security::default() };
            store.writer().step(Step { security, ..step }, None).await.unwrap();
        }
        for day in (3..=45).step_by(3) {
            sum(&store, project, in_days(day)).await;
            detach_and_purge(&store, in_days(day)).await;
            keep(&store, in_days(day)).await;
            purge(&store, in_days(day)).await;
            let left = database.texts("SELECT CAST(id AS TEXT) FROM steps ORDER BY id").await;
            let alone = alone.entry((seed, day)).or_insert_with(|| left.clone());
            let early: Vec<_> = alone.iter().filter(|id| !left.contains(id)).collect();
            assert!(early.is_empty(), "{}, seed {seed}, day {day}: {early:?}", database.kind);
        }
        assert_eq!(database.texts("SELECT kind FROM steps").await, [""; 0], "{}", database.kind);
        if database.kind != "sqlite" {
            assert!(!has(&database, 1).await && !has(&database, 4).await);
        }
        let kept = database.texts(KEPT).await;
        match known.iter().find(|(other, _)| *other == seed) {
            Some((_, other)) => assert_eq!(&kept, other, "{}, seed {seed}", database.kind),
            None => known.push((seed, kept)),
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_database_without_partitions_stays_as_it_is() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        if database.kind == "sqlite" {
            keep(&store, NOW).await;
            assert!(store.maintain_partitions().await.unwrap().is_none());
        }
        // No day is added to the retention.
        store.writer().step(of_model(project, 1, 1, "m", 0), None).await.unwrap();
        let due = Timestamp(NOW.0 + 30 * DAY + 2 * HOUR);
        sum(&store, project, due).await;
        assert_eq!(purge(&store, due).await, 1, "{}", database.kind);
        store.close().await;
    }
}
