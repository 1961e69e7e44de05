//! This version beside a newer schema, and an older one beside its own.

use std::time::{Duration, Instant};

use domain::secret::Secret;
use sqlx::{Connection, PgConnection};
use store::{Claim, Error, Location, Options, SchemaState, SealingKey, Store, inspect_schema};

use crate::recovery::start;
use crate::support::{Database, NOW, databases, project, run, trace, trace_id};

/// Changes of the schema that the next version may make.
const EXPAND: &str = include_str!("../future/expand.sql");
/// Changes of the version after that.
const CONTRACT: &str = include_str!("../future/contract.sql");
/// The schema before the last migration.
const BEFORE_LAST: &str = "
    DROP TABLE detached_partitions;
    ALTER TABLE traces DROP COLUMN total_after;
    DELETE FROM _sqlx_migrations WHERE version = 37";
/// A field that a newer node may add to the calls that it begins.
const UNKNOWN_FIELD: &str =
    "UPDATE open_calls SET call = '{\"of_a_newer_version\": [1], ' || substr(call, 2)";
/// The number of the lock that all gateways share.
const RUNS: i64 = 0x736c_7569_6366;
/// The number of the lock that whoever applies a contract holds meanwhile.
const CONTRACTS: i64 = 0x736c_7569_6368;

async fn state(database: &Database) -> SchemaState {
    inspect_schema(&database.location).await.unwrap()
}

#[tokio::test]
async fn this_version_works_with_the_schema_of_the_next() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        // The schema changes beneath a running gateway.
        database.execute(EXPAND).await;
        for number in 1..=2 {
            store.ping().await.unwrap();
            store.writer().trace(trace(project, number)).await.unwrap();
            let (ended, lost) = (store.step_id().await.unwrap(), store.step_id().await.unwrap());
            store.writer().start(start(project, ended)).await.unwrap();
            let step = run(project, trace_id(number), ended);
            store.writer().step(step.clone(), Some((b"{}", &key))).await.unwrap();
            store.writer().start(start(project, lost)).await.unwrap();
            let found = store.steps(trace_id(number)).await.unwrap();
            assert_eq!(found.len(), 1, "{}", database.kind);
            assert_eq!((found[0].id, found[0].cost()), (ended, step.cost()));
        }
        store.close().await;
        database.execute(UNKNOWN_FIELD).await;

        let state = state(&database).await;
        assert!(matches!(state, SchemaState::Ahead { found, known } if found == known + 1));
        for claim in [Claim::Look, Claim::Visit] {
            database.try_open([7; 32], claim).await.unwrap().close().await;
        }
        let store = database.open().await;
        let settled = store.settle_lost_calls(&database.clock).await.unwrap();
        assert_eq!(settled, 2, "{}: started by this version after the change", database.kind);
        store.close().await;
        let versions =
            "SELECT CAST(count(*) AS TEXT) FROM _sqlx_migrations WHERE description LIKE '%a test'";
        assert_eq!(database.texts(versions).await, ["1"], "what the next version did stays done");
    }
}

#[tokio::test]
async fn this_version_refuses_a_schema_that_has_left_it_behind() {
    for database in databases().await {
        let store = database.open().await;
        database.execute(EXPAND).await;
        store.ping().await.unwrap();
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        database.execute(CONTRACT).await;
        // Before and after its writes fail.
        for _ in 0..2 {
            let unready = store.ping().await.unwrap_err().to_string();
            assert!(unready.contains("upgrade this node"), "{}: {unready}", database.kind);
            let step = run(project, trace_id(1), store.step_id().await.unwrap());
            store.writer().step(step, None).await.unwrap_err();
        }
        store.close().await;
        for claim in [Claim::Serve, Claim::Visit, Claim::Look] {
            let refused = database.try_open([7; 32], claim).await;
            let Err(Error::Newer { found, known, oldest }) = refused else {
                unreachable!("{}, {claim:?}: {refused:?}", database.kind);
            };
            assert_eq!((found, oldest), (known + 2, known + 1));
        }
        let refused = inspect_schema(&database.location).await.unwrap_err().to_string();
        assert!(refused.contains("start a newer version"), "{refused}");
    }
}

/// A contract that is being applied by another process, and the process that looks on.
async fn contract(database: &Database) -> (PgConnection, PgConnection) {
    let Location::Postgres(url) = &database.location else { unreachable!("it is PostgreSQL") };
    let mut newer = PgConnection::connect(url.expose()).await.unwrap();
    let lock = sqlx::query("SELECT pg_advisory_lock($1)").bind(CONTRACTS);
    lock.execute(&mut newer).await.unwrap();
    (newer, PgConnection::connect(url.expose()).await.unwrap())
}

#[tokio::test]
async fn a_gateway_that_starts_while_a_contract_is_applied_is_refused() {
    for database in databases().await {
        if database.kind != "postgres" {
            continue;
        }
        database.open().await.close().await;
        let (newer, mut beside) = contract(&database).await;
        let apply = async {
            // It has shown its version, and found a schema that supports it.
            until(&mut beside, "advisory", true).await;
            database.execute(EXPAND).await;
            database.execute(CONTRACT).await;
            newer.close().await.unwrap();
        };
        let (refused, ()) = tokio::join!(database.try_open([7; 32], Claim::ServeShared), apply);
        assert!(matches!(refused, Err(Error::Newer { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_node_that_comes_back_to_a_schema_that_has_left_it_behind_records_nothing() {
    const CUT: &str = "
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'sluice lock %' AND datname = current_database()";
    for database in databases().await {
        if database.kind != "postgres" {
            continue;
        }
        let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let (project, _) = project(&store).await;
        let (newer, mut beside) = contract(&database).await;
        sqlx::query(CUT).execute(&mut beside).await.unwrap();
        until(&mut beside, "advisory", true).await;
        database.execute(EXPAND).await;
        database.execute(CONTRACT).await;
        newer.close().await.unwrap();
        store.writer().trace(trace(project, 1)).await.unwrap_err();
        store.ping().await.unwrap_err();
        assert!(store.trace(project, trace_id(1)).await.unwrap().is_none());
        store.close().await;
    }
}

#[tokio::test]
async fn locks_in_one_database_and_data_in_another_are_refused() {
    let (one, two) = (databases().await, databases().await);
    for (one, two) in one.into_iter().zip(two) {
        let (Location::Postgres(pooler), Location::Postgres(direct)) =
            (&one.location, &two.location)
        else {
            continue;
        };
        // Both are set up.
        for database in [&one, &two] {
            database.open().await.close().await;
        }
        let open = async |pooler: &Secret, direct: &Secret| {
            let location = Location::Pooled { pooler: pooler.clone(), direct: direct.clone() };
            let master = SealingKey::master(&[7; 32]).unwrap();
            let (claim, clock) = (Claim::Serve, one.clock.clone());
            Store::open(Options { location, master, claim, clock }).await
        };
        let refused = open(pooler, direct).await.unwrap_err().to_string();
        assert!(refused.contains("lead to different databases"), "{refused}");
        open(pooler, pooler).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_look_at_the_schema_tells_what_a_start_would_do_and_does_nothing() {
    for database in databases().await {
        let SchemaState::Behind { found: 0, known, pending, .. } = state(&database).await else {
            unreachable!("{}: it is empty", database.kind);
        };
        assert!(pending >= 33);
        assert!(database.try_open([7; 32], Claim::Look).await.is_err(), "it stays empty");
        database.open().await.close().await;
        assert_eq!(state(&database).await, SchemaState::UpToDate { version: known });
        database.execute(BEFORE_LAST).await;
        for _ in 0..2 {
            let state = state(&database).await;
            let is_behind = matches!(
                state,
                SchemaState::Behind { found, pending: 1, oldest: 0, running: None, .. } if found < known
            );
            assert!(is_behind, "{}: {state:?}", database.kind);
        }
    }
}

#[tokio::test]
async fn the_schema_is_brought_up_to_date_beside_gateways_that_run() {
    for database in databases().await {
        let Location::Postgres(url) = &database.location else { continue };
        let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let (project, _) = project(&store).await;
        database.execute(BEFORE_LAST).await;
        let running = async || match state(&database).await {
            SchemaState::Behind { running, .. } => running,
            state => unreachable!("{state:?}"),
        };
        assert_eq!(running().await, Some(37), "it shows what it knows");
        // A gateway from before there was a lock for that.
        let mut old = PgConnection::connect(url.expose()).await.unwrap();
        sqlx::query("SELECT pg_advisory_lock_shared($1)")
            .bind(RUNS)
            .execute(&mut old)
            .await
            .unwrap();
        assert_eq!(running().await, Some(33));
        // One of many at once does the work, and a table in use is waited for.
        let mut reader = PgConnection::connect(url.expose()).await.unwrap();
        let mut reading = reader.begin().await.unwrap();
        sqlx::query("LOCK TABLE _sqlx_migrations IN SHARE MODE")
            .execute(&mut *reading)
            .await
            .unwrap();
        let apply = async || store::apply_migrations(&database.location).await.unwrap();
        let free = async {
            // One waits for the table, and gives up for a moment: meanwhile others get it.
            for waits in [true, false] {
                until(&mut old, "relation", waits).await;
            }
            reading.rollback().await.unwrap();
        };
        tokio::join!(apply(), apply(), free);
        assert!(matches!(state(&database).await, SchemaState::UpToDate { .. }));
        assert_eq!(apply().await, 0);
        store.writer().trace(trace(project, 1)).await.unwrap();
        assert_eq!(store.trace(project, trace_id(1)).await.unwrap().unwrap().created_at, NOW);
        store.close().await;
    }
}

/// Asks until somebody waits for a kind of lock, or nobody does.
async fn until(beside: &mut PgConnection, kind: &str, waits: bool) {
    const WAITING: &str = "
        SELECT count(*) > 0 FROM pg_locks
        WHERE locktype = $1 AND NOT granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let began = Instant::now();
    while sqlx::query_scalar::<_, bool>(WAITING).bind(kind).fetch_one(&mut *beside).await.unwrap()
        != waits
    {
        assert!(began.elapsed() < Duration::from_mins(1), "waits: {waits}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
