//! Partitions of steps that are not dropped although they are due, on PostgreSQL, or not made; and totals of traces
//! that are completed around a drop.

use std::time::Duration;

use domain::grade::Grade;
use domain::time::{HOUR, Timestamp};
use sqlx::{Connection as _, PgConnection};
use store::{AgentFigures, Location, PartitionWatch};

use crate::partition_changes::{keep, parts, postgres};
use crate::partition_drops::{
    detach_all, due, has, id, maintenance, prepared, purged, sum, two_detached, write,
};
use crate::retention::{assessment, in_days, of_model, purge};
use crate::support::{Database, NOW, project, trace, trace_id};

const DETACHED: &str = "SELECT name FROM detached_partitions ORDER BY name";
/// The number of the lock that all gateways share.
const RUNS: i64 = 0x736c_7569_6366;
/// The class of the lock that all gateways of one schema share.
const KNOWS: i32 = 0x736c_756b;

/// A connection to the server of a database.
pub async fn connect(database: &Database) -> PgConnection {
    let (Location::Postgres(url) | Location::Pooled { direct: url, .. }) = &database.location
    else {
        unreachable!("it is PostgreSQL")
    };
    PgConnection::connect(url.expose()).await.unwrap()
}

/// A gateway of a schema, or of one from before there was a lock for that.
async fn gateway(database: &Database, schema: Option<i32>) -> PgConnection {
    let mut gateway = connect(database).await;
    let lock = sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(RUNS);
    lock.execute(&mut gateway).await.unwrap();
    if let Some(schema) = schema {
        let lock = sqlx::query("SELECT pg_advisory_lock_shared($1, $2)").bind(KNOWS).bind(schema);
        lock.execute(&mut gateway).await.unwrap();
    }
    gateway
}

#[tokio::test]
async fn nothing_is_detached_beside_a_version_that_does_not_know_it() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        sum(&store, project, in_days(5)).await;
        for schema in [None, Some(36)] {
            let mut old = gateway(&database, schema).await;
            keep(&store, in_days(5)).await;
            assert!(has(&database, 1).await, "{} {schema:?}", database.kind);
            assert!(has(&database, 12).await, "{}: days are made all the same", database.kind);
            sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut old).await.unwrap();
        }
        let mut same = gateway(&database, Some(37)).await;
        // One that starts when a partition has been found is asked for as well.
        let mut keeper = maintenance(&store).await;
        let found = due(&mut keeper, in_days(5)).await.unwrap();
        let mut old = gateway(&database, Some(36)).await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut old).await.unwrap();
        assert!(keeper.detach(&found).await.unwrap(), "{}", database.kind);
        keeper.end().await;
        keep(&store, in_days(5)).await;
        assert!(!has(&database, 1).await, "{}", database.kind);
        sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut same).await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn nothing_is_detached_while_no_gateway_shows_itself() {
    for database in postgres().await {
        let (mut store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        sum(&store, project, in_days(5)).await;
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(in_days(5)).await.unwrap();
        let found = due(&mut keeper, in_days(5)).await.unwrap();
        // As right after a restart of the server, when none has its locks again.
        store.release_claim().await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_gateway_shows_itself_to_a_role_that_may_not_see_since_when_it_is_connected() {
    const ROLE: &str = "
        DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I SET role = %L', current_database(), 'pg_signal_backend');
        END $$";
    const NO_ROLE: &str = "
        DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I RESET role', current_database());
        END $$";
    const HIDDEN: &str = "
        SELECT DISTINCT CAST(backend_start IS NULL AS TEXT) FROM pg_stat_activity
        WHERE datname = current_database()";
    let century = Duration::from_hours(24 * 36_525);
    for database in postgres().await {
        let (mut store, _, _) = prepared(&database).await;
        let mut keeper = maintenance(&store).await;
        assert!(keeper.has_one_run_for(Duration::ZERO).await.unwrap(), "{}", database.kind);
        assert!(!keeper.has_one_run_for(Duration::from_hours(1)).await.unwrap());
        keeper.end().await;
        // Sessions that are there keep the role that they have.
        let mut beside = connect(&database).await;
        sqlx::raw_sql(ROLE).execute(&mut beside).await.unwrap();
        assert_eq!(database.texts(HIDDEN).await, ["true"], "{}", database.kind);
        let mut keeper = maintenance(&store).await;
        sqlx::raw_sql(NO_ROLE).execute(&mut beside).await.unwrap();
        assert!(keeper.has_one_run_for(Duration::ZERO).await.unwrap(), "{}", database.kind);
        assert!(!keeper.has_one_run_for(century).await.unwrap(), "the server is younger");
        store.release_claim().await;
        assert!(!keeper.has_one_run_for(Duration::ZERO).await.unwrap(), "{}", database.kind);
        keeper.end().await;
        store.close().await;
    }
}

/// So many days and hours later.
fn day_and(day: i64, hours: i64) -> Timestamp {
    in_days(day).minus_micros(-hours * HOUR)
}

#[tokio::test]
async fn a_clock_that_is_days_ahead_of_the_last_ids_drops_nothing_for_a_day() {
    for database in postgres().await {
        let (store, _, _) = prepared(&database).await;
        let mut keeper = maintenance(&store).await;
        assert!(keeper.may_detach(NOW).await.unwrap(), "{}", database.kind);
        assert!(keeper.may_detach(in_days(2)).await.unwrap(), "a weekend is no reason");
        // Whether nobody was there for a week or the clock is ahead, it goes on a day later.
        assert!(!keeper.may_detach(in_days(9)).await.unwrap(), "{}", database.kind);
        keeper.make_ahead(in_days(9)).await.unwrap();
        assert!(!keeper.may_detach(day_and(9, 23)).await.unwrap(), "{}", database.kind);
        assert!(keeper.may_detach(day_and(9, 25)).await.unwrap(), "{}", database.kind);
        // The clock is set back: it is waited for a day, not for the day that it was.
        assert!(!keeper.may_detach(in_days(30)).await.unwrap(), "{}", database.kind);
        keeper.make_ahead(in_days(30)).await.unwrap();
        assert!(!keeper.may_detach(in_days(10)).await.unwrap(), "{}", database.kind);
        assert!(keeper.may_detach(day_and(11, 1)).await.unwrap(), "{}", database.kind);
        // A counter that cannot be moved holds nothing for ever.
        assert!(!keeper.may_detach(in_days(60)).await.unwrap(), "{}", database.kind);
        assert!(keeper.may_detach(day_and(61, 1)).await.unwrap(), "{}", database.kind);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn no_step_is_deleted_alone_while_the_clock_is_in_doubt() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        let mut keeper = maintenance(&store).await;
        // It is weeks ahead: before anybody has noted that, and after it.
        assert_eq!(purge(&store, in_days(40)).await, 0, "{}", database.kind);
        assert!(!keeper.may_detach(in_days(40)).await.unwrap(), "{}", database.kind);
        keeper.make_ahead(in_days(40)).await.unwrap();
        assert_eq!(purge(&store, day_and(40, 23)).await, 0, "{}", database.kind);
        // It is set back, and that is noted as well.
        assert_eq!(purge(&store, in_days(10)).await, 0, "{}", database.kind);
        assert!(!keeper.may_detach(in_days(10)).await.unwrap(), "{}", database.kind);
        assert_eq!(purge(&store, day_and(10, 23)).await, 0, "{}", database.kind);
        assert_eq!(purge(&store, day_and(11, 2)).await, 1, "{}", database.kind);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn partitions_that_became_due_while_nobody_was_there_go_as_a_whole() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let step = of_model(project, 1, id(1, 0), "short", 1);
        write(&store, [step.clone()]).await;
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(in_days(2)).await.unwrap();
        let mut watch = PartitionWatch::default();
        for (hours, is_over) in [(0, false), (12, false), (23, false), (24, true)] {
            let now = day_and(7, hours);
            assert_eq!(purge(&store, now).await, 0, "{} {hours} h", database.kind);
            let may_detach = keeper.may_detach(now).await.unwrap();
            assert_eq!(may_detach, is_over, "{} {hours} h", database.kind);
            keeper.run(now, may_detach, &mut watch).await.unwrap();
            assert_eq!(purge(&store, now).await, 0, "{} {hours} h", database.kind);
            assert_eq!(has(&database, 1).await, !is_over, "{} {hours} h", database.kind);
        }
        assert_eq!(purged(&store, project, 1).await.unwrap().cost, step.cost());
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_leaves_no_partition_alone_when_it_is_set_back() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        let mut keeper = maintenance(&store).await;
        let mut watch = PartitionWatch::default();
        // Its hour is not summed: it is to be looked at again a minute later.
        keeper.run(in_days(10), true, &mut watch).await.unwrap();
        assert!(has(&database, 1).await, "{}", database.kind);
        sum(&store, project, in_days(5)).await;
        keeper.run(in_days(5), true, &mut watch).await.unwrap();
        assert!(!has(&database, 1).await, "{}", database.kind);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_run_drops_two_partitions_and_none_while_that_is_held() {
    for database in postgres().await {
        let (store, _, _) = prepared(&database).await;
        let now = in_days(9);
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(now).await.unwrap();
        let all = parts(&database).await.len();
        let mut watch = PartitionWatch::default();
        for (may_detach, gone) in [(false, 0), (true, 2), (false, 2), (true, 4)] {
            keeper.run(now, may_detach, &mut watch).await.unwrap();
            assert_eq!(parts(&database).await.len(), all - gone, "{}", database.kind);
        }
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn no_partition_is_dropped_while_three_are_not_gathered() {
    const REFUSE: &str = "
        CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'it is refused';
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON traces FOR EACH ROW EXECUTE FUNCTION refuse()";
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        for day in 1..=5 {
            write(&store, [of_model(project, 1, id(day, 0), "short", day)]).await;
        }
        let now = in_days(9);
        sum(&store, project, now).await;
        database.execute(REFUSE).await;
        keep(&store, now).await;
        let three = ["steps_d20776", "steps_d20777", "steps_d20778"];
        assert_eq!(database.texts(DETACHED).await, three, "{}", database.kind);
        assert!(has(&database, 4).await && has(&database, 5).await, "{}", database.kind);
        database.execute("DROP TRIGGER refuse ON traces").await;
        keep(&store, now).await;
        assert!(!has(&database, 4).await && !has(&database, 5).await, "{}", database.kind);
        assert_eq!(database.texts(DETACHED).await, [""; 0], "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_detached_table_that_somebody_has_dropped_keeps_no_other() {
    const LEFT: &str =
        "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relname ~ 'step.*_(d20776|d20777)$'";
    for database in postgres().await {
        let (store, project, now, [_, second]) = two_detached(&database).await;
        database.execute("DROP TABLE steps_d20776").await;
        keep(&store, now).await;
        assert_eq!(database.texts(DETACHED).await, [""; 0], "{}", database.kind);
        assert_eq!(database.texts(LEFT).await, [""; 0], "{}: contents go too", database.kind);
        assert_eq!(purged(&store, project, 1).await, None);
        assert_eq!(purged(&store, project, 2).await.unwrap().cost, second);
        store.close().await;
    }
}

#[tokio::test]
async fn tables_with_what_would_be_lost_get_no_partitions() {
    const OWN: [(&str, &str); 6] = [
        (
            "ALTER TABLE step_contents ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE step_contents DISABLE ROW LEVEL SECURITY",
        ),
        (
            "ALTER TABLE steps ADD CONSTRAINT mine CHECK (risk_score >= 0)",
            "ALTER TABLE steps DROP CONSTRAINT mine",
        ),
        ("CREATE VIEW mine AS SELECT id FROM steps", "DROP VIEW mine"),
        ("CREATE TABLE mine (id BIGINT REFERENCES steps)", "DROP TABLE mine"),
        ("CREATE PUBLICATION mine FOR TABLE step_contents", "DROP PUBLICATION mine"),
        (
            "CREATE FUNCTION mine() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
            CREATE TRIGGER mine BEFORE INSERT ON steps FOR EACH ROW EXECUTE FUNCTION mine()",
            "DROP TRIGGER mine ON steps",
        ),
    ];
    for database in postgres().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        for (make, drop) in OWN {
            database.execute(make).await;
            keep(&store, NOW).await;
            assert_eq!(parts(&database).await, [""; 0], "{} {make}", database.kind);
            database.execute(drop).await;
        }
        keep(&store, NOW).await;
        assert_eq!(parts(&database).await.len(), 9, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_that_is_completed_around_a_drop_has_the_cost_of_all_its_steps() {
    const TOTALS: &str = "
        SELECT CAST(total_cost AS TEXT) FROM traces WHERE total_cost IS NOT NULL ORDER BY id";
    let agent =
        AgentFigures { chain_depth: 1, stall_probability: 0.0, tool_fidelity: 1.0, latency: 0 };
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let of = |trace: i64| {
            let gone = of_model(project, trace as u128, id(1, trace), "short", 1);
            let left = of_model(project, trace as u128, id(5, trace), "long", 5);
            [gone, left]
        };
        let [gone, left] = of(1).map(|step| step.cost());
        write(&store, (1..=3).flat_map(of)).await;
        let now = in_days(5);
        sum(&store, project, now).await;
        let complete = async |trace, cost| {
            let mut tx = store.begin().await.unwrap();
            let done = assessment(Grade::A, cost);
            tx.complete_trace(trace_id(trace), NOW, &done, agent).await.unwrap();
            tx.commit().await.unwrap();
        };
        let mut keeper = maintenance(&store).await;
        complete(1, gone + left).await;
        detach_all(&mut keeper, now).await;
        assert!(!has(&database, 1).await, "{}", database.kind);
        // The steps of one were read before they went, those of the other after it.
        complete(2, gone + left).await;
        complete(3, left).await;
        assert!(keeper.gather(now, &mut PartitionWatch::default()).await.unwrap());
        keeper.end().await;
        let totals = vec![(gone + left).0.to_string(); 3];
        for trace in 1..=3 {
            let found = store.trace(project, trace_id(trace)).await.unwrap().unwrap();
            assert_eq!(found.assessment.unwrap().total_cost, gone + left, "trace {trace}");
            assert_eq!(found.purged.unwrap().cost, gone, "trace {trace}");
        }
        assert_eq!(database.texts(TOTALS).await, totals, "{}", database.kind);
        // Steps that go later were counted already.
        sum(&store, project, in_days(16)).await;
        keep(&store, in_days(16)).await;
        assert_eq!(purged(&store, project, 1).await.unwrap().cost, gone + left);
        assert_eq!(database.texts(TOTALS).await, totals, "{}", database.kind);
        store.close().await;
    }
}
