//! The claims to serve a database, and when they are seen.

use std::time::{Duration, Instant};

use domain::ids::KeyId;
use domain::time::DAY;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres};
use store::{Claim, ClaimId, Claimed, Error, Location};

use crate::recovery::start;
use crate::support::{Database, NOW, databases, project, trace, trace_id};

/// The number of the lock that a gateway holds on PostgreSQL: "sluice" in ASCII.
const SERVES: i64 = 0x736c_7569_6365;
/// The class of the lock that every node holds.
const LIVES: i32 = 0x736c_7569;
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(20);
/// The connections with advisory locks in this database, held or waited for.
const LOCKS: &str = "
    SELECT DISTINCT pid FROM pg_locks
    WHERE locktype = 'advisory' AND granted = $1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The database on PostgreSQL, if a server is available.
async fn postgres() -> Option<Database> {
    databases().await.into_iter().find(|database| database.kind == "postgres")
}

/// A connection beside the store's.
async fn beside(database: &Database) -> PgConnection {
    let Location::Postgres(url) = &database.location else { unreachable!("it is PostgreSQL") };
    PgConnection::connect(url.expose()).await.unwrap()
}

/// The connections that hold advisory locks, or wait for one.
async fn locks(beside: &mut PgConnection, granted: bool) -> Vec<i32> {
    sqlx::query_scalar(LOCKS).bind(granted).fetch_all(beside).await.unwrap()
}

/// Asks the server for locks again and again until they are as they should be.
async fn until(
    beside: &mut PgConnection,
    granted: bool,
    is_so: impl Fn(&[i32]) -> bool,
) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let found = locks(beside, granted).await;
        if is_so(&found) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "locks, granted {granted}: {found:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Ends the connections that hold advisory locks, as a restart of the server would.
async fn cut(beside: &mut PgConnection) -> Vec<i32> {
    let holders = locks(beside, true).await;
    for pid in &holders {
        let end = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
        end.execute(&mut *beside).await.unwrap();
    }
    holders
}

/// The statement that waits for the lock of a node.
fn node_lock(node: i32) -> Query<'static, Postgres, PgArguments> {
    sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(LIVES).bind(node)
}

/// Whether nobody has the lock of a node. The connection has it then.
async fn is_free(node: i32, beside: &mut PgConnection) -> bool {
    let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)").bind(LIVES).bind(node);
    lock.fetch_one(beside).await.unwrap()
}

/// Has another connection take a lock from the store that holds it, whose connection is cut.
async fn take(
    lock: Query<'static, Postgres, PgArguments>,
    other: &mut PgConnection,
    beside: &mut PgConnection,
) {
    let cut = async {
        until(beside, false, |waiting| waiting.len() == 1).await;
        cut(beside).await
    };
    let (got, _) = tokio::join!(lock.execute(other), cut);
    got.unwrap();
}

#[tokio::test]
async fn only_one_process_serves_and_others_may_visit() {
    for database in databases().await {
        let store = database.open().await;
        let second = database.try_open([7; 32], Claim::Serve).await;
        assert!(matches!(second, Err(Error::InUse(_))), "{}: {second:?}", database.kind);
        database.try_open([7; 32], Claim::Visit).await.unwrap().close().await;
        store.close().await;
        database.open().await.close().await;
    }
}

#[tokio::test]
async fn a_gateway_waits_for_a_command_that_sets_a_folder_up() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("sluice.db"));
    // As a gateway leaves it that was killed.
    std::fs::write(folder.path().join("sluice.lock"), "serve").unwrap();
    let command = Claimed::take(location.clone(), Claim::Visit).await.unwrap();
    let slow = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        command.release().await;
    };
    let (claimed, ()) = tokio::join!(Claimed::take(location.clone(), Claim::Serve), slow);
    let claimed = claimed.unwrap();
    let refused = Claimed::take(location, Claim::Serve).await.unwrap_err().to_string();
    assert!(refused.contains("another Sluice serves this data folder"), "{refused}");
    claimed.release().await;
}

#[tokio::test]
async fn whoever_needs_it_alone_meets_no_gateway_not_even_a_shared_one() {
    for database in databases().await {
        let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let alone = database.try_open([7; 32], Claim::Alone).await;
        assert!(matches!(alone, Err(Error::InUse(_))), "{}: {alone:?}", database.kind);
        store.close().await;
        let alone = database.try_open([7; 32], Claim::Alone).await.unwrap();
        let (serve, shared) = tokio::join!(
            database.try_open([7; 32], Claim::Serve),
            database.try_open([7; 32], Claim::ServeShared),
        );
        for gateway in [serve, shared] {
            assert!(matches!(gateway, Err(Error::InUse(_))), "{}: {gateway:?}", database.kind);
        }
        alone.close().await;
        database.open().await.close().await;
    }
}

#[tokio::test]
async fn a_shared_gateway_serves_beside_one_that_serves_alone() {
    let Some(database) = postgres().await else { return };
    let alone = database.open().await;
    database.try_open([7; 32], Claim::ServeShared).await.unwrap().close().await;
    alone.close().await;
}

#[tokio::test]
async fn a_closed_store_holds_no_lock() {
    let Some(database) = postgres().await else { return };
    let mut beside = beside(&database).await;
    for claim in [Claim::Serve, Claim::ServeShared] {
        for _ in 0..5 {
            let store = database.try_open([7; 32], claim).await.unwrap();
            assert!(!locks(&mut beside, true).await.is_empty(), "{claim:?}");
            store.close().await;
            assert_eq!(locks(&mut beside, true).await, [0; 0], "{claim:?}");
            let refused = database.try_open([8; 32], claim).await;
            assert!(matches!(refused, Err(Error::WrongMasterKey)), "{refused:?}");
            assert_eq!(locks(&mut beside, true).await, [0; 0], "{claim:?}, after a failed open");
        }
    }
}

#[tokio::test]
async fn a_process_that_is_about_to_end_is_waited_for() {
    let Some(database) = postgres().await else { return };
    let (mut dying, mut beside) = (beside(&database).await, beside(&database).await);
    sqlx::query("SELECT pg_advisory_lock($1)").bind(SERVES).execute(&mut dying).await.unwrap();
    let end = async {
        until(&mut beside, false, |waiting| waiting.len() == 1).await;
        dying.close().await.unwrap();
    };
    let (opened, ()) = tokio::join!(database.try_open([7; 32], Claim::Serve), end);
    opened.unwrap().close().await;
}

#[tokio::test]
async fn a_lock_whose_connection_is_cut_is_taken_again() {
    let Some(database) = postgres().await else { return };
    let mut beside = beside(&database).await;
    let store = database.open().await;
    let before = cut(&mut beside).await;
    let again = |held: &[i32]| held.len() == before.len() && !held.contains(&before[0]);
    until(&mut beside, true, again).await;
    let second = database.try_open([7; 32], Claim::Serve).await;
    assert!(matches!(second, Err(Error::InUse(_))), "{second:?}");
    let displaced = tokio::time::timeout(Duration::ZERO, store.displaced()).await;
    assert!(displaced.is_err());
    store.close().await;
    assert_eq!(locks(&mut beside, true).await, [0; 0]);
}

#[tokio::test]
async fn whoever_lost_its_lock_to_another_is_told() {
    let Some(database) = postgres().await else { return };
    for claim in [Claim::Serve, Claim::ServeShared] {
        let (mut other, mut beside) = (beside(&database).await, beside(&database).await);
        let store = database.try_open([7; 32], claim).await.unwrap();
        let node = store.node().0 as i32;
        let lock = match claim {
            Claim::Serve => sqlx::query("SELECT pg_advisory_lock($1)").bind(SERVES),
            _ => node_lock(node),
        };
        take(lock, &mut other, &mut beside).await;
        let told = tokio::time::timeout(Duration::from_mins(1), store.displaced()).await;
        assert!(told.is_ok(), "{claim:?}");
        store.close().await;
    }
}

#[tokio::test]
async fn whoever_lacks_its_lock_is_not_ready_and_records_nothing() {
    let Some(database) = postgres().await else { return };
    let (mut other, mut beside) = (beside(&database).await, beside(&database).await);
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&store).await;
    let node = store.node().0 as i32;
    take(node_lock(node), &mut other, &mut beside).await;
    // It waits for the lock, and so does what it would record.
    until(&mut beside, false, |waiting| waiting.len() == 1).await;
    let unready = store.ping().await.unwrap_err().to_string();
    assert!(unready.contains("lock is lost"), "{unready}");
    let recorded = async || store.trace(project, trace_id(1)).await.unwrap().is_some();
    let free = async {
        for _ in 0..5 {
            assert!(!recorded().await);
            tokio::time::sleep(PAUSE).await;
        }
        other.close().await.unwrap();
    };
    let (written, ()) = tokio::join!(store.writer().trace(trace(project, 1)), free);
    written.unwrap();
    assert!(recorded().await);
    store.ping().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_node_whose_lock_is_lent_for_long_lives() {
    let Some(database) = postgres().await else { return };
    let (mut other, mut beside) = (beside(&database).await, beside(&database).await);
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&store).await;
    let node = store.node().0 as i32;
    take(node_lock(node), &mut other, &mut beside).await;
    // It waits, gives up, and tries again.
    for waits in [1, 0, 1] {
        until(&mut beside, false, |waiting| waiting.len() == waits).await;
    }
    other.close().await.unwrap();
    store.writer().trace(trace(project, 1)).await.unwrap();
    store.ping().await.unwrap();
    assert!(tokio::time::timeout(Duration::ZERO, store.displaced()).await.is_err());
    store.close().await;
}

#[tokio::test]
async fn a_node_that_is_away_for_a_moment_loses_no_call() {
    let Some(database) = postgres().await else { return };
    let (mut other, mut beside) = (beside(&database).await, beside(&database).await);
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&store).await;
    store.writer().trace(trace(project, 1)).await.unwrap();
    let gone = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    gone.writer().start(start(project, gone.step_id().await.unwrap())).await.unwrap();
    let node = gone.node().0 as i32;
    drop(gone);
    until(&mut beside, true, |held| held.len() == 1).await;
    let lock = || node_lock(node);
    // While it lives, nobody stands in the queue for its lock.
    lock().execute(&mut other).await.unwrap();
    let mut waiting = 0;
    let look = async {
        for _ in 0..10 {
            waiting += locks(&mut beside, false).await.len();
            tokio::time::sleep(PAUSE).await;
        }
    };
    let (settled, ()) = tokio::join!(store.settle_lost_calls(&database.clock), look);
    assert_eq!((settled.unwrap(), waiting), (0, 0));
    let unlock = sqlx::query("SELECT pg_advisory_unlock($1, $2)").bind(LIVES).bind(node);
    unlock.execute(&mut other).await.unwrap();
    let comes_back = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        lock().execute(&mut other).await.unwrap();
    };
    let (settled, ()) = tokio::join!(store.settle_lost_calls(&database.clock), comes_back);
    assert_eq!(settled.unwrap(), 0);
    // Until it is gone for good.
    other.close().await.unwrap();
    until(&mut beside, true, |held| held.len() == 1).await;
    assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 1);
    store.close().await;
}

#[tokio::test]
async fn a_node_that_was_taken_for_gone_gets_its_lock_back() {
    let Some(database) = postgres().await else { return };
    let mut beside = beside(&database).await;
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&store).await;
    store.writer().trace(trace(project, 1)).await.unwrap();
    let gone = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    gone.writer().start(start(project, gone.step_id().await.unwrap())).await.unwrap();
    let node = gone.node().0 as i32;
    drop(gone);
    until(&mut beside, true, |held| held.len() == 1).await;
    assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 1);
    // As it would when it is there again.
    assert!(is_free(node, &mut beside).await);
    store.close().await;
}

#[tokio::test]
async fn a_node_whose_requests_were_settled_gets_its_lock_back() {
    let Some(database) = postgres().await else { return };
    let mut beside = beside(&database).await;
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&store).await;
    let gone = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let claim = ClaimId { project, key: KeyId(7), name: [1; 32] };
    let long_ago = NOW.minus_micros(DAY);
    assert!(gone.claim_request(claim, [2; 32], NOW, long_ago).await.unwrap());
    let node = gone.node().0 as i32;
    drop(gone);
    until(&mut beside, true, |held| held.len() == 1).await;
    assert_eq!(store.settle_lost_claims().await.unwrap(), 1);
    assert!(is_free(node, &mut beside).await);
    store.close().await;
}

#[tokio::test]
async fn a_cut_connection_makes_no_living_node_look_lost() {
    let Some(database) = postgres().await else { return };
    let mut beside = beside(&database).await;
    let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let other = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
    let (project, _) = project(&other).await;
    other.writer().trace(trace(project, 1)).await.unwrap();
    other.writer().start(start(project, other.step_id().await.unwrap())).await.unwrap();
    // After a restart of the server one node has its lock again before the other does.
    drop(other);
    until(&mut beside, true, |held| held.len() == 1).await;
    cut(&mut beside).await;
    let settled = until_answered(|| store.settle_lost_calls(&database.clock)).await;
    assert_eq!(settled, 0);
    store.close().await;
}

/// Asks until the connection is there again.
async fn until_answered<T>(mut ask: impl AsyncFnMut() -> store::Result<T>) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(began.elapsed() < Duration::from_mins(1), "{error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
