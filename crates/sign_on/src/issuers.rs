//! The issuers that were discovered, remembered for an hour.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as PlainMutex, PoisonError};

use domain::time::{HOUR, SECOND, Timestamp};
use futures_util::lock::Mutex;

use crate::client::{Begun, Client, Flow};
use crate::error::SignOnError;
use crate::http::{Http, LibraryHttp};
use crate::identity::Identity;
use crate::issuer::Issuer;

/// An issuer is discovered anew after this time, in microseconds.
const REMEMBERED: i64 = HOUR;
/// An issuer that could not be discovered is left alone for this time, in microseconds: whoever is not
/// signed in can ask for it.
const LEFT_ALONE: i64 = 10 * SECOND;
/// The most issuers that are remembered.
const MOST_ISSUERS: usize = 64;

/// The outcome of the last discovery of an issuer, and its time.
type Known = Option<(Timestamp, Result<Arc<Issuer>, SignOnError>)>;

/// The issuers that were discovered. Cheap to clone.
#[derive(Clone)]
pub struct Issuers {
    http: LibraryHttp,
    known: Arc<PlainMutex<HashMap<String, Arc<Mutex<Known>>>>>,
}

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuers").finish_non_exhaustive()
    }
}

impl Issuers {
    /// Issuers over this HTTP.
    pub fn new(http: Arc<dyn Http>) -> Self {
        Self { http: LibraryHttp(http), known: Arc::default() }
    }

    /// Checks that an issuer can be used, whatever is remembered of it.
    pub async fn check(&self, issuer: &str, now: Timestamp) -> Result<(), SignOnError> {
        let place = self.place(issuer);
        let mut known = place.lock().await;
        let found = self.discover(issuer).await;
        let checked = found.as_ref().map(drop).map_err(|fault| *fault);
        *known = Some((now, found));
        checked
    }

    /// Begins a sign-on.
    pub async fn begin(&self, client: &Client, now: Timestamp) -> Result<Begun, SignOnError> {
        self.find(&client.issuer, now).await?.begin(client)
    }

    /// Whether the issuer names itself beside every code (RFC 9207), so that one that comes without is
    /// another's.
    pub async fn names_itself(&self, issuer: &str, now: Timestamp) -> Result<bool, SignOnError> {
        Ok(self.find(issuer, now).await?.names_itself())
    }

    /// Exchanges a code for a token, and verifies it. `groups` is the claim with the groups of the user, if
    /// those matter.
    pub async fn finish(
        &self,
        client: &Client,
        flow: &Flow,
        code: &str,
        groups: Option<&str>,
        now: Timestamp,
    ) -> Result<Identity, SignOnError> {
        let issuer = self.find(&client.issuer, now).await?;
        issuer.finish(&self.http, client, flow, code, groups, now).await
    }

    /// The address at which a user signs out of the issuer too, if it has one, and leads back to an address of
    /// ours. Nothing is asked of the issuer if it is known.
    pub async fn end_session(
        &self,
        client: &Client,
        back: &str,
        now: Timestamp,
    ) -> Result<Option<String>, SignOnError> {
        Ok(self.find(&client.issuer, now).await?.end_session(&client.id, back))
    }

    /// An issuer that is remembered, or is discovered now, by one request at a time.
    async fn find(&self, issuer: &str, now: Timestamp) -> Result<Arc<Issuer>, SignOnError> {
        let place = self.place(issuer);
        let mut known = place.lock().await;
        if let Some((at, found)) = &*known {
            let lasts = if found.is_ok() { REMEMBERED } else { LEFT_ALONE };
            // A clock that went back must not make it last longer.
            if (0..lasts).contains(&now.since(*at)) {
                return found.clone();
            }
        }
        let found = self.discover(issuer).await;
        *known = Some((now, found.clone()));
        found
    }

    async fn discover(&self, issuer: &str) -> Result<Arc<Issuer>, SignOnError> {
        Issuer::discover(&self.http, issuer).await.map(Arc::new)
    }

    fn place(&self, issuer: &str) -> Arc<Mutex<Known>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(issuer) && known.len() >= MOST_ISSUERS {
            known.clear();
        }
        Arc::clone(known.entry(issuer.to_owned()).or_default())
    }
}
