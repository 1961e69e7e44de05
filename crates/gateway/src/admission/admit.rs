//! Admission: the one place that decides whether a key may call, and the order of the checks.
//!
//! The interface description gives both 401, and 429 with a code, for a paused key. The gateway
//! answers 429, because it carries more information.

use std::net::IpAddr;
use std::sync::Arc;

use aws_lc_rs::hmac;
use domain::ids::KeyId;
use domain::key::{Key, KeyStatus};
use domain::money::Usd;
use domain::net::Cidr;
use domain::settings::Perimeter;
use domain::time::Timestamp;
use limits::{RateExceeded, RequestQuota};
use subtle::ConstantTimeEq;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::state::caller::{Caller, Origin};
use crate::state::perimeter_counts::PerimeterReason;
use crate::state::registry::KeyState;

/// Whether an endpoint may cost money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spends {
    /// It calls models.
    Yes,
    /// It does not.
    No,
    /// It does not, and asks about models alone, as a vendor's client does below its root any number of
    /// times for one call of a model: it is no sign of a loop.
    NoAndAsks,
}

/// A refusal of the gate.
#[derive(Debug)]
pub struct GateRefusal {
    /// The reason.
    pub error: Error,
    /// The requests that the key has left; `None` without a limit, and if the key is not known or
    /// not for the address of the caller.
    pub quota: Option<RequestQuota>,
}

impl From<Error> for GateRefusal {
    fn from(error: Error) -> Self {
        Self { error, quota: None }
    }
}

impl Gateway {
    /// The gate: every decision that is made before the body is read. The order is the order of the
    /// code, and is decided nowhere else.
    pub async fn gate(
        &self,
        bearer: Option<&str>,
        origin: &Origin,
        spends: Spends,
    ) -> std::result::Result<Caller, GateRefusal> {
        let now = self.clock.now();
        self.check_address(origin).await?;
        let Some(mut caller) = self.authenticate(bearer, now)? else {
            Box::pin(self.note_perimeter_block(origin, PerimeterReason::InvalidKey)).await;
            return Err(Error::Unauthorized.into());
        };
        if let Err(error) = self.check_caller(&mut caller, origin, spends, now).await {
            let quota = match error {
                // An address that may not use the key learns nothing of its traffic.
                Error::PerimeterBlock => None,
                // Without an answer of the shared counters, what this gateway has counted.
                _ => caller.quota.or_else(|| lock(&caller.key.windows).quota(now)),
            };
            return Err(GateRefusal { error, quota });
        }
        Ok(caller)
    }

    /// The requests that are left to a key whose request is for no endpoint: that request is a use of the key, and
    /// counts nowhere. `None` without a limit, and if the key is not known or not for the address of its caller.
    pub async fn quota_left(&self, bearer: &str, origin: &Origin) -> Option<RequestQuota> {
        let now = self.clock.now();
        self.check_address(origin).await.ok()?;
        let Some(caller) = self.authenticate(Some(bearer), now).ok()? else {
            // Nobody tries keys here unseen.
            Box::pin(self.note_perimeter_block(origin, PerimeterReason::InvalidKey)).await;
            return None;
        };
        self.check_address_by(&caller.project.settings.perimeter, origin).await.ok()?;
        lock(&caller.key.windows).note_use(now);
        let shared = match &self.fleet {
            Some(fleet) => Box::pin(fleet.quota(&caller)).await,
            None => None,
        };
        shared.or_else(|| lock(&caller.key.windows).quota(now))
    }

    /// The decisions about a known key, in their order. Notes what is left of its requests.
    pub(crate) async fn check_caller(
        &self,
        caller: &mut Caller,
        origin: &Origin,
        spends: Spends,
        now: Timestamp,
    ) -> Result<()> {
        self.check_address_by(&caller.project.settings.perimeter, origin).await?;
        match &self.fleet {
            // Boxed: a gateway that counts for itself would carry it.
            Some(fleet) => Box::pin(self.check_shared(fleet, caller, spends, now)).await,
            None => self.check_here(caller, spends, now).await,
        }
    }

    /// The decisions about the windows and the spend of a key by what this gateway has counted.
    pub(super) async fn check_here(
        &self,
        caller: &mut Caller,
        spends: Spends,
        now: Timestamp,
    ) -> Result<()> {
        let key = &caller.key.key;
        let is_loop = spends != Spends::NoAndAsks && lock(&caller.key.windows).record_attempt(now);
        caller.key.check_active()?;
        if is_loop {
            Box::pin(self.pause(key, KeyStatus::LoopDetected)).await?;
            return Err(Error::LoopDetected);
        }
        let quota = lock(&caller.key.windows)
            .admit(now)
            .map_err(|RateExceeded { retry_after }| Error::RateLimited { retry_after })?;
        if spends == Spends::Yes {
            self.check_settled_here(caller, now).await?;
        }
        caller.quota = quota;
        Ok(())
    }

    /// Refuses addresses that may not call at all, by key or by session.
    pub async fn check_address(&self, origin: &Origin) -> Result<()> {
        self.check_address_by(&self.config.perimeter, origin).await
    }

    async fn check_address_by(&self, perimeter: &Perimeter, origin: &Origin) -> Result<()> {
        let checked = check_perimeter(perimeter, origin.address);
        if checked.is_err() {
            Box::pin(self.note_perimeter_block(origin, PerimeterReason::BlockedAddress)).await;
        }
        checked
    }

    /// Refuses a call if the monthly budget or the hourly cap is already spent.
    pub(crate) async fn check_settled(&self, caller: &Caller, now: Timestamp) -> Result<()> {
        match &self.fleet {
            Some(fleet) => Box::pin(self.check_settled_shared(fleet, caller, now)).await,
            None => self.check_settled_here(caller, now).await,
        }
    }

    /// Refuses a call if this gateway has counted that budget or cap is spent.
    pub(super) async fn check_settled_here(&self, caller: &Caller, now: Timestamp) -> Result<()> {
        if let Some(budget) = caller.project.settings.monthly_budget
            && caller.project.month_spend(now) >= budget
        {
            return Err(Error::budget_exceeded(now));
        }
        if let Some(limit) = caller.key.key.hourly_limit
            && lock(&caller.key.windows).spent(now) >= limit
        {
            Box::pin(self.pause(&caller.key.key, KeyStatus::Tripped)).await?;
            return Err(Error::SpendCapped { limit: Some(limit) });
        }
        Ok(())
    }

    /// Counts the cost of a call against its key's hour and its project's month. In the hour it
    /// counts at the time at which the call ended according to the database:
    /// [`Gateway::recount_hours`]. Where all gateways count as one this is what is left without Redis.
    pub(crate) fn count(&self, caller: &Caller, ended: Timestamp, cost: Usd) {
        lock(&caller.project.month).add(self.clock.now(), cost);
        lock(&caller.key.windows).settle(ended, cost);
    }

    /// Trips the key when its spend, as this gateway has counted it, has reached its cap.
    pub(crate) async fn trip_if_spent(&self, caller: &Caller) {
        self.trip_at(caller, |state| lock(&state.windows).spent(self.clock.now())).await;
    }

    /// Trips the key when what it has spent has reached its cap.
    pub(super) async fn trip_at(&self, caller: &Caller, spent: impl FnOnce(&KeyState) -> Usd) {
        // The cap may have been changed while the call ran.
        let Some(state) = self.registry.key(caller.key.key.id) else { return };
        let Some(limit) = state.key.hourly_limit else { return };
        if spent(&state) < limit || state.key.status != KeyStatus::Active {
            return;
        }
        // The call is paid for and recorded: its answer does not depend on this. If this fails, the
        // gate still refuses the next one.
        if let Err(error) = Box::pin(self.pause(&state.key, KeyStatus::Tripped)).await {
            tracing::error!(error = error.cause(), key = %state.key.id, "a key was not paused");
        }
    }

    fn authenticate(&self, bearer: Option<&str>, now: Timestamp) -> Result<Option<Caller>> {
        let Some(key) = self.known_key(bearer, now) else { return Ok(None) };
        let project = self.registry.project(key.key.project)?;
        Ok(project.map(|project| Caller::new(key, project)))
    }

    fn known_key(&self, bearer: Option<&str>, now: Timestamp) -> Option<Arc<KeyState>> {
        let (id, secret) = bearer?.split_once('.')?;
        let known = id.parse::<KeyId>().ok().and_then(|id| self.registry.key(id));
        // An unknown id takes as long as a wrong secret.
        let hash = hash_secret(self.registry.pepper(), secret);
        let expected = known.as_ref().map_or([0; 32], |known| known.key.secret_hash);
        // The secret before a rotation works until the overlap ends.
        let earlier = known.as_ref().and_then(|known| known.key.earlier);
        let earlier = earlier.filter(|earlier| earlier.until > now);
        let other = earlier.map_or(expected, |earlier| earlier.hash);
        let right: bool = (hash.ct_eq(&expected) | hash.ct_eq(&other)).into();
        let key = known.filter(|_| right)?;
        key.key.is_valid(now).then_some(key)
    }

    /// Pauses an active key for good; the change is on disk before it is reported. Rare and large:
    /// callers box it, so that the future of every other request stays small.
    pub(super) async fn pause(&self, key: &Key, status: KeyStatus) -> Result<()> {
        let mut tx = self.store.begin().await?;
        let paused = tx.pause_key(key, status).await?;
        if paused {
            tx.bump_registry().await?;
        }
        tx.commit().await?;
        if paused {
            tracing::warn!(key = %key.id, status = status.as_str(), "a key was paused");
            self.reload().await?;
        } else {
            // It is not as it is known here.
            self.refresh().await?;
        }
        Ok(())
    }
}

/// The hash under which a key's secret is stored.
pub(crate) fn hash_secret(pepper: &[u8; 32], secret: &str) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, pepper);
    let tag = hmac::sign(&key, secret.as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(tag.as_ref());
    hash
}

fn check_perimeter(perimeter: &Perimeter, address: IpAddr) -> Result<()> {
    let listed = |list: &[Cidr]| list.iter().any(|range| range.contains(address));
    if listed(&perimeter.block) || (!perimeter.allow.is_empty() && !listed(&perimeter.allow)) {
        return Err(Error::PerimeterBlock);
    }
    Ok(())
}
