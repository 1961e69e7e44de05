//! API keys.

use crate::ids::{KeyId, ProjectId, UserId};
use crate::money::Usd;
use crate::step::ApiEndpoint;
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// Whether a key may be used.
    KeyStatus {
        /// Requests are accepted.
        Active = "active",
        /// Its hourly cap was crossed; an admin resets it.
        Tripped = "tripped",
        /// A loop was seen; an admin resets it.
        LoopDetected = "loop_detected",
    }
);

/// A key as it is stored. Its secret is kept only as a keyed hash.
#[derive(Clone, Debug)]
pub struct Key {
    /// The public part.
    pub id: KeyId,
    /// The only project it is good for.
    pub project: ProjectId,
    /// For people.
    pub name: String,
    /// HMAC-SHA-256 of the secret under the installation's pepper.
    pub secret_hash: [u8; 32],
    /// First six and last four characters.
    pub masked: String,
    /// Whether it may be used.
    pub status: KeyStatus,
    /// The most it may spend in a rolling hour.
    pub hourly_limit: Option<Usd>,
    /// When it stops being valid.
    pub expires_at: Option<Timestamp>,
    /// How often a loop was halted on it.
    pub loop_interventions: i64,
    /// Its last authenticated request.
    pub last_used: Option<Timestamp>,
    /// Windows count from here on; set when an admin resets it.
    pub reset_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The models that it may call, by identifier; `None` allows all, an empty list none.
    pub allowed_models: Option<Vec<String>>,
    /// The endpoints that it may use; `None` allows all, an empty list none.
    pub allowed_endpoints: Option<Vec<ApiEndpoint>>,
    /// The user who made it; `None` of keys that the machine made, or an earlier version.
    pub owner: Option<UserId>,
    /// The secret before a rotation, while that works too.
    pub earlier: Option<EarlierSecret>,
}

/// A secret that has been replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierSecret {
    /// Its keyed hash.
    pub hash: [u8; 32],
    /// When it stops working.
    pub until: Timestamp,
}

impl Key {
    /// Whether it has not expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    /// Whether it may call a model.
    pub fn may_call(&self, identifier: &str) -> bool {
        let all = self.allowed_models.as_ref();
        all.is_none_or(|allowed| allowed.iter().any(|name| name == identifier))
    }

    /// Whether it may use an endpoint.
    pub fn may_use(&self, endpoint: ApiEndpoint) -> bool {
        self.allowed_endpoints.as_ref().is_none_or(|allowed| allowed.contains(&endpoint))
    }
}
