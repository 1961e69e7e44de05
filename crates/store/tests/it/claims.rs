//! Who may serve a database, and when it is known.

use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use store::{Claim, Error, Location};

use crate::support::{Database, databases};

/// The number of the lock that a gateway holds on PostgreSQL: "sluice" in ASCII.
const SERVES: i64 = 0x736c_7569_6365;
const LOCKS: &str = "
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND granted = $1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The database on PostgreSQL with a connection beside the store's, where a server is at hand.
async fn postgres() -> Option<(Database, PgConnection)> {
    for database in databases().await {
        if let Location::Postgres(url) = &database.location {
            let beside = PgConnection::connect(url.expose()).await.unwrap();
            return Some((database, beside));
        }
    }
    None
}

/// How many advisory locks are held, or waited for.
async fn locks(beside: &mut PgConnection, granted: bool) -> i64 {
    sqlx::query_scalar(LOCKS).bind(granted).fetch_one(beside).await.unwrap()
}

/// Asks the server again and again until so many locks are held, or waited for.
async fn until_locks(beside: &mut PgConnection, granted: bool, count: i64) {
    let began = Instant::now();
    while locks(beside, granted).await != count {
        assert!(began.elapsed() < Duration::from_mins(1), "{count} locks, granted: {granted}");
    }
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
async fn a_closed_store_holds_no_lock() {
    let Some((database, mut beside)) = postgres().await else { return };
    for claim in [Claim::Serve, Claim::ServeShared] {
        for _ in 0..5 {
            let store = database.try_open([7; 32], claim).await.unwrap();
            assert!(locks(&mut beside, true).await > 0, "{claim:?}");
            store.close().await;
            assert_eq!(locks(&mut beside, true).await, 0, "{claim:?}");
            let refused = database.try_open([8; 32], claim).await;
            assert!(matches!(refused, Err(Error::WrongMasterKey)), "{refused:?}");
            assert_eq!(locks(&mut beside, true).await, 0, "{claim:?}, after an open that failed");
        }
    }
}

#[tokio::test]
async fn a_process_that_is_about_to_end_is_waited_for() {
    let Some((database, mut beside)) = postgres().await else { return };
    let Location::Postgres(url) = &database.location else { unreachable!("it is PostgreSQL") };
    let mut dying = PgConnection::connect(url.expose()).await.unwrap();
    sqlx::query("SELECT pg_advisory_lock($1)").bind(SERVES).execute(&mut dying).await.unwrap();
    let end = async {
        until_locks(&mut beside, false, 1).await;
        dying.close().await.unwrap();
    };
    let (opened, ()) = tokio::join!(database.try_open([7; 32], Claim::Serve), end);
    opened.unwrap().close().await;
}
