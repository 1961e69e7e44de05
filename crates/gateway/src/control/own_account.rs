//! The member's own account, as its page shows it.

use domain::time::Timestamp;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The state of an account that only its owner sees.
#[derive(Clone, Debug)]
pub struct OwnAccount {
    /// When the address was verified; `None` if never.
    pub email_verified_at: Option<Timestamp>,
    /// Whether the account has a second factor.
    pub mfa_enabled: bool,
    /// Whether an authenticator is set up.
    pub has_authenticator: bool,
    /// The recovery codes that are left.
    pub recovery_codes_left: i64,
    /// Whether the organization requires a second factor.
    pub requires_factor: bool,
}

impl Gateway {
    /// The member's own account.
    pub async fn own_account(&self, member: &Member) -> Result<OwnAccount> {
        let organization = self.store.organization(member.org).await?.ok_or(Error::NotFound)?;
        let state = self.store.account_state(member.user).await?.ok_or(Error::NotFound)?;
        Ok(OwnAccount {
            email_verified_at: state.email_verified_at,
            mfa_enabled: state.mfa_enabled,
            has_authenticator: state.has_authenticator,
            recovery_codes_left: state.recovery_codes_left,
            requires_factor: organization.read_settings()?.security.require_mfa,
        })
    }
}
