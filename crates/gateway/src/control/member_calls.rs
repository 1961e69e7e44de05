//! Calls that signed-in members make from the console, with keys of theirs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::KeyId;
use domain::key::{Key, KeyStatus};

use crate::admission::admit::Spends;
use crate::control::self_service::is_own;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::{Caller, HeaderAttributes};
use crate::state::member::Member;

impl Gateway {
    /// Whether a member may call models with a key from the console: one of their own that works, or any as
    /// an admin.
    pub fn may_call_with(&self, member: &Member, key: &Key) -> bool {
        let works = key.is_valid(self.clock.now()) && key.status == KeyStatus::Active;
        works && is_own(member, key)
    }

    /// A new one-time value for a form that calls a model: by it a form that is sent again is known.
    pub fn one_time_value() -> Result<String> {
        Ok(URL_SAFE_NO_PAD.encode(store::random::<16>()?))
    }

    /// The gate for a member who calls with a key from the console. All that holds for a request with its
    /// secret holds for them. The call is recorded as one of theirs.
    pub async fn gate_member(&self, member: &Member, key: KeyId, spends: Spends) -> Result<Caller> {
        let now = self.clock.now();
        let key = self.registry.key(key).ok_or(Error::NotFound)?;
        let project = self.visible_project(member, key.key.project)?;
        if !is_own(member, &key.key) {
            return Err(Error::Forbidden);
        }
        if !key.key.is_valid(now) {
            return Err(Error::invalid("The key has expired: choose another one"));
        }
        let mut caller = Caller::new(key, project);
        self.check_caller(&mut caller, &member.origin, spends, now).await?;
        Ok(caller
            .with_attributes(HeaderAttributes { user: Some(member.email.clone()), tags: None }))
    }
}
