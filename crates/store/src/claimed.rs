//! A database that this process has claimed and not opened yet. The claim comes before everything
//! else, so that no two processes set the same database up.

use async_recursion::async_recursion as boxed;
use domain::time::Clock;

use crate::db::{self, Location};
use crate::error::Result;
use crate::lock::{Claim, Lock};
use crate::seal::SealingKey;
use crate::{Store, vault};

/// A claimed database.
#[derive(Debug)]
pub struct Claimed {
    pub(crate) location: Location,
    pub(crate) claim: Claim,
    pub(crate) lock: Lock,
}

impl Claimed {
    /// Claims a database. [`Error::InUse`](crate::Error::InUse) when another process has it.
    #[boxed]
    pub async fn take(location: Location, claim: Claim) -> Result<Self> {
        let lock = Lock::take(&location, claim).await?;
        Ok(Self { location, claim, lock })
    }

    /// Whether missing parts may be made: no other process makes them at the same time.
    pub fn may_set_up(&self) -> bool {
        self.lock.may_set_up(&self.location, self.claim)
    }

    /// Whether the database was sealed under a master key; `None` when nothing is sealed yet.
    /// Changes nothing.
    #[boxed]
    pub async fn fits(&self, master: &SealingKey) -> Result<Option<bool>> {
        if matches!(&self.location, Location::Sqlite(path) if !db::has_content(path)) {
            return Ok(None);
        }
        let pool = db::connect_read_only(&self.location).await?;
        let sealed = vault::sealed_pepper(&pool).await;
        pool.close().await;
        Ok(sealed?.map(|sealed| vault::opens(master, &sealed)))
    }

    /// Opens the database, brings its schema up to date, and starts the writer.
    #[boxed]
    pub async fn open(self, master: SealingKey, clock: Clock) -> Result<Store> {
        match Store::open_claimed(&self, master, clock).await {
            Ok(store) => Ok(Store { lock: self.lock, ..store }),
            Err(error) => {
                // A process that gets the reason tries again, and must not meet a lock of this
                // attempt.
                self.release().await;
                Err(error)
            }
        }
    }

    /// Gives the claim up.
    #[boxed]
    pub async fn release(self) {
        self.lock.release().await;
    }
}
