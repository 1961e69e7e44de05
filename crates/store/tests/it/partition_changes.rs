//! Partitions of steps on PostgreSQL: how a database comes by them, and one for each day.

use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::StepId;
use domain::time::{DAY, Timestamp};
use store::{Claim, PartitionWatch, Store};

use crate::retention::in_days;
use crate::support::{Database, NOW, databases, project, run, trace, trace_id};

/// Today, in days since 1970.
pub const TODAY: i64 = NOW.0 / DAY;
/// The ids of a day.
pub const DAY_IDS: i64 = 1_000_000_000;

const PARTS: &str = "
    SELECT CAST(c.relname AS TEXT) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN (to_regclass('steps'), to_regclass('step_contents')) ORDER BY c.relname";
/// The partition of each step.
pub const PLACES: &str = "SELECT CAST(CAST(tableoid AS REGCLASS) AS TEXT) FROM steps ORDER BY id";

/// Databases that have partitions: those on PostgreSQL.
pub async fn postgres() -> Vec<Database> {
    databases().await.into_iter().filter(|database| database.kind != "sqlite").collect()
}

/// Makes and drops partitions as a gateway does in its first minutes, where all clocks are right.
pub async fn keep(store: &Store, now: Timestamp) {
    let Some(mut keeper) = store.maintain_partitions().await.unwrap() else { return };
    let mut watch = PartitionWatch::default();
    // No run drops more than two. Those that are left after so many are refused each time.
    for run in 1..=20 {
        keeper.run(now, true, &mut watch).await.unwrap();
        let is_left = keeper.due_partition(now, &mut watch).await.unwrap().is_some();
        if run >= 4 && !is_left {
            break;
        }
    }
    keeper.end().await;
}

/// The partitions that both tables have, each by the name after theirs.
pub async fn parts(database: &Database) -> Vec<String> {
    let all = database.texts(PARTS).await;
    let of = |table: &str| -> Vec<String> {
        all.iter().filter_map(|name| name.strip_prefix(table)).map(str::to_owned).collect()
    };
    let (steps, contents) = (of("steps_"), of("step_contents_"));
    assert_eq!(steps, contents, "{}", database.kind);
    steps
}

fn days(days: std::ops::RangeInclusive<i64>) -> Vec<String> {
    let days = days.map(|day| format!("d{day}"));
    [String::from("before")].into_iter().chain(days).chain([String::from("rest")]).collect()
}

#[tokio::test]
async fn a_database_gets_partitions_while_its_steps_are_written_and_read() {
    const INDICES: &str = "
        SELECT c.relname || ' ' || c.relfilenode FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid IN (to_regclass('steps_before'), to_regclass('step_contents_before')) ORDER BY 1";
    const PLAIN_INDICES: &str = "
        SELECT CASE WHEN t.relname = 'steps' THEN 'steps_before_' || substr(c.relname, 7)
                    ELSE 'step_contents_before_' || substr(c.relname, 15) END || ' ' || c.relfilenode
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
        WHERE i.indrelid IN (to_regclass('steps'), to_regclass('step_contents')) ORDER BY 1";
    // A statement that waits for longer fails.
    const LONGEST_WAIT: &str = "
        DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I SET lock_timeout = %L', current_database(), '3s');
        END $$";
    const RIGHT: &str = "SELECT CAST(has_table_privilege('public', 'steps', 'SELECT') AS TEXT)";
    for database in postgres().await {
        database.execute(LONGEST_WAIT).await;
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        database.execute("GRANT SELECT ON steps TO PUBLIC").await;
        let plain = database.texts(PLAIN_INDICES).await;
        assert_eq!(plain.len(), 7);
        let (is_converted, lot) = (AtomicBool::new(false), 200);
        let write = async || {
            let mut written = Vec::new();
            let mut after = 0;
            // Statements are prepared before the conversion, and used after it.
            while after < lot {
                after += usize::from(is_converted.load(Ordering::Relaxed));
                let id = store.step_id().await.unwrap();
                let step = run(project, trace_id(1), id);
                store.writer().step(step.clone(), Some((b"{}", &key))).await.unwrap();
                let found = store.steps_by_id(trace_id(1), &[id]).await.unwrap();
                let found: Vec<_> = found.iter().map(|step| (step.id, step.cost())).collect();
                assert_eq!(found, [(id, step.cost())], "{}", database.kind);
                assert_eq!(store.sealed_contents(&[id]).await.unwrap().len(), 1);
                written.push(id);
            }
            written
        };
        let convert = async {
            while store.steps(trace_id(1)).await.unwrap().len() < 50 {
                tokio::task::yield_now().await;
            }
            // Others have the tables all the time.
            while parts(&database).await.is_empty() {
                keep(&store, NOW).await;
            }
            is_converted.store(true, Ordering::Relaxed);
        };
        let (mut written, more, still_more, ()) = tokio::join!(write(), write(), write(), convert);
        written.extend(more.into_iter().chain(still_more));
        written.sort_unstable();
        let mut found: Vec<StepId> =
            store.steps(trace_id(1)).await.unwrap().iter().map(|step| step.id).collect();
        found.sort_unstable();
        assert_eq!(found, written, "{}", database.kind);
        keep(&store, NOW).await;
        assert_eq!(parts(&database).await, days(TODAY + 1..=TODAY + 7), "{}", database.kind);
        assert_eq!(database.texts(INDICES).await, plain, "no index is built anew");
        assert_eq!(database.texts(RIGHT).await, ["true"], "others may read it still");
        store.close().await;
    }
}

#[tokio::test]
async fn a_conversion_that_was_stopped_refuses_no_step_and_is_gone_on_with() {
    const STEPS: &str =
        "ALTER TABLE steps ADD CONSTRAINT below_partitions CHECK (id < 20776000000000) NOT VALID";
    const CONTENTS: &str = "ALTER TABLE step_contents ADD CONSTRAINT below_partitions
        CHECK (step_id < 20776000000000) NOT VALID";
    const OTHER: &str = "ALTER TABLE step_contents ADD CONSTRAINT below_partitions
        CHECK (step_id < 20775000000000) NOT VALID";
    const VALID: &str = "ALTER TABLE steps VALIDATE CONSTRAINT below_partitions";
    const BOTH_VALID: &str = "ALTER TABLE step_contents VALIDATE CONSTRAINT below_partitions";
    // Ids that are taken already: the tables have been partitioned before.
    const TAKEN: &str = "UPDATE counters SET value = 20775999990000 WHERE name = 'step'";
    const CHECKS: &str = "
        SELECT CAST(conrelid AS TEXT) FROM pg_constraint WHERE conname = 'below_partitions'";
    assert_eq!(TODAY, 20_775);
    for (left, later, first) in [
        (vec![STEPS], 0, TODAY + 1),
        (vec![STEPS, CONTENTS], 0, TODAY + 1),
        (vec![STEPS, CONTENTS, VALID], 3, TODAY + 3),
        (vec![STEPS, CONTENTS, VALID, BOTH_VALID], 1, TODAY + 1),
        (vec![STEPS, OTHER], 1, TODAY + 2),
        (vec![STEPS, TAKEN], 0, TODAY + 2),
    ] {
        for database in postgres().await {
            let store = database.open().await;
            let (project, key) = project(&store).await;
            store.writer().trace(trace(project, 1)).await.unwrap();
            for statement in left.iter().copied() {
                database.execute(statement).await;
            }
            let write = async || {
                let step = run(project, trace_id(1), store.step_id().await.unwrap());
                store.writer().step(step, Some((b"{}", &key))).await.unwrap();
            };
            write().await;
            keep(&store, in_days(later)).await;
            let today = TODAY + later;
            assert_eq!(parts(&database).await, days(first..=today + 7), "{left:?}");
            assert_eq!(database.texts(CHECKS).await, [""; 0], "{left:?}");
            write().await;
            store.close().await;
            // A process that starts now takes its ids from today's.
            let store = database.open().await;
            let id = store.step_id().await.unwrap();
            assert!(id.0 >= today * DAY_IDS, "{left:?}");
            store.writer().step(run(project, trace_id(1), id), None).await.unwrap();
            assert_eq!(store.steps(trace_id(1)).await.unwrap().len(), 3, "{left:?}");
            store.close().await;
        }
    }
}

#[tokio::test]
async fn each_day_has_its_ids_and_its_partition_whoever_makes_it() {
    for database in postgres().await {
        let open = async || database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let (store, other) = (open().await, open().await);
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let write = async |store: &Store| {
            let id = store.step_id().await.unwrap();
            store.writer().step(run(project, trace_id(1), id), None).await.unwrap();
            id.0
        };
        assert!(write(&store).await < 2_000);
        for at in [NOW, NOW, in_days(1)] {
            tokio::join!(keep(&store, at), keep(&other, at));
            assert!(write(&store).await < 2_000, "it has ids of the first day");
        }
        // Those of a process that starts are of today.
        other.close().await;
        let other = open().await;
        let first = write(&other).await;
        assert_eq!(first, (TODAY + 1) * DAY_IDS);
        assert_eq!(parts(&database).await, days(TODAY + 1..=TODAY + 8));
        let places = database.texts(PLACES).await;
        assert_eq!(places.last().unwrap(), &format!("steps_d{}", TODAY + 1));
        assert_eq!(places.iter().filter(|place| *place == "steps_before").count(), 4);
        // Nobody was there for weeks, and the clock is set back then.
        keep(&store, in_days(30)).await;
        keep(&store, in_days(29)).await;
        other.close().await;
        let other = open().await;
        assert_eq!(write(&other).await, (TODAY + 30) * DAY_IDS);
        other.close().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_day_gets_the_steps_that_came_before_its_partition() {
    for database in postgres().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        keep(&store, NOW).await;
        let day = TODAY + 20;
        let mut ids: Vec<i64> = (0..40).map(|number| day * DAY_IDS + number).collect();
        ids.push((day + 9) * DAY_IDS);
        for id in &ids {
            let step = run(project, trace_id(1), StepId(*id));
            store.writer().step(step, Some((b"{}", &key))).await.unwrap();
        }
        assert_eq!(database.texts(PLACES).await, ["steps_rest"; 41]);
        keep(&store, in_days(15)).await;
        let places = database.texts(PLACES).await;
        let own = format!("steps_d{day}");
        assert!(places[..40].iter().all(|place| *place == own), "{}: {places:?}", database.kind);
        assert_eq!(places[40], "steps_rest");
        let found = store.steps(trace_id(1)).await.unwrap();
        let found: Vec<i64> = found.iter().map(|step| step.id.0).collect();
        assert_eq!(found, ids);
        let contents = store.sealed_contents(&[StepId(ids[0]), StepId(ids[40])]).await.unwrap();
        assert_eq!(contents.len(), 2, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn tables_with_partitions_take_the_changes_of_later_versions() {
    const EXPAND: &str = include_str!("../future/expand.sql");
    const CONTRACT: &str = include_str!("../future/contract.sql");
    const COLUMNS: &str = "
        SELECT DISTINCT string_agg(CAST(attname AS TEXT), ' ' ORDER BY attname) FROM pg_attribute
        WHERE attnum > 0 AND NOT attisdropped AND attrelid IN (
            SELECT oid FROM pg_class WHERE relname LIKE 'steps%' AND relkind IN ('r', 'p'))
        GROUP BY attrelid";
    for database in postgres().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        keep(&store, NOW).await;
        database.execute(EXPAND).await;
        keep(&store, in_days(1)).await;
        for id in [5, (TODAY + 8) * DAY_IDS] {
            store.writer().step(run(project, trace_id(1), StepId(id)), None).await.unwrap();
        }
        assert_eq!(store.steps(trace_id(1)).await.unwrap().len(), 2, "{}", database.kind);
        database.execute(CONTRACT).await;
        assert_eq!(database.texts(COLUMNS).await.len(), 1, "all have the same ones");
        store.close().await;
    }
}
