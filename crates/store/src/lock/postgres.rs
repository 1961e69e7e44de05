//! Advisory locks on PostgreSQL, held by a connection that does nothing else.
//!
//! They are gone when the connection is: the server ends both a moment after their process has
//! died. So whoever finds a lock taken waits for a while before believing it.

use std::time::Duration;

use domain::ids::NodeId;
use domain::secret::Secret;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use super::Claim;
use crate::db;
use crate::error::{Error, Result};

/// The number of the lock that a gateway holds which serves alone: "sluice" in ASCII.
const SERVES: i64 = 0x736c_7569_6365;
/// The class of the lock that every node holds while it lives; the other number is the node's.
const LIVES: i32 = 0x736c_7569;

/// What the server is told of the connection. It waits so long for a lock, and notices within half
/// a minute that the machine at the other end is gone.
const OPTIONS: [(&str, &str); 5] = [
    ("lock_timeout", "5s"),
    ("statement_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];
/// How long a node that seems to live may take to show that it does not. Below the server's
/// `deadlock_timeout`: two nodes may ask for each other's lock.
const DOUBT: &str = "500ms";
/// How long a release may take; without an answer the end of the connection has to do.
const FAREWELL: Duration = Duration::from_secs(5);

/// The connection, and with it the locks.
#[derive(Debug)]
pub(crate) struct Session(Mutex<PgConnection>);

impl Session {
    /// Connects, and takes what the claim asks for.
    pub(super) async fn open(url: &Secret, claim: Claim) -> Result<Self> {
        let options: PgConnectOptions = db::postgres_options(url)?.options(OPTIONS);
        let mut connection = PgConnection::connect_with(&options)
            .await
            .map_err(|error| Error::Unavailable(format!("it cannot be reached: {error}")))?;
        if claim == Claim::Serve {
            let serves = sqlx::query("SELECT pg_advisory_lock($1)").bind(SERVES);
            if !is_granted(serves.execute(&mut connection).await)? {
                return Err(Error::InUse(
                    "another Sluice serves this PostgreSQL database, and without Redis the two would make \
                     spend caps inexact: stop the other one, or set SLUICE_ALLOW_INEXACT_LIMITS=true"
                        .to_owned(),
                ));
            }
        }
        // What waits from here on waits for nodes that most likely live.
        sqlx::query("SELECT set_config('lock_timeout', $1, FALSE)")
            .bind(DOUBT)
            .execute(&mut connection)
            .await?;
        Ok(Self(Mutex::new(connection)))
    }

    /// Takes the lock of a node that has just got its number.
    pub(super) async fn show(&self, node: NodeId) -> Result<()> {
        if self.succeeds(node).await? {
            return Ok(());
        }
        Err(Error::InUse(format!("another Sluice goes by this one's number, {}", node.0)))
    }

    /// Takes the lock of a node. False while another connection has it.
    pub(super) async fn succeeds(&self, node: NodeId) -> Result<bool> {
        let lives = sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(LIVES).bind(number(node));
        is_granted(lives.execute(&mut *self.0.lock().await).await)
    }

    /// Gives all locks back, and closes the connection. A connection that is merely dropped has
    /// its locks until the server notices.
    pub(super) async fn release(self) {
        let mut connection = self.0.into_inner();
        let farewell = async {
            sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut connection).await?;
            connection.close().await
        };
        match tokio::time::timeout(FAREWELL, farewell).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the database lock was not given back"),
            Err(_) => tracing::warn!("the database lock was not given back in time"),
        }
    }
}

/// A node's number as an advisory lock takes it.
fn number(node: NodeId) -> i32 {
    (node.0 & 0x7fff_ffff) as i32
}

/// Whether a lock was granted. Not when the wait for it timed out, or would have gone in a circle.
fn is_granted<T>(asked: sqlx::Result<T>) -> Result<bool> {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    const DEADLOCK_DETECTED: &str = "40P01";
    match asked {
        Ok(_) => Ok(true),
        Err(sqlx::Error::Database(refusal))
            if matches!(
                refusal.code().as_deref(),
                Some(LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED)
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
