//! The owner of an account, once more: before a session may change how the account signs in.

use domain::secret::Secret;
use store::Account;

use crate::capacity::hashing::HashedFor;
use crate::control::sessions::{FRESH, HASHING, compare};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::login_throttle::Booked;
use crate::state::member::Member;

impl Gateway {
    /// Whether it is the owner of the account who acts: by its password or, without one, because the session
    /// has begun a moment ago. The attempt is booked, and stays so if it is somebody else.
    pub(crate) async fn confirm_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<(Booked<'_>, bool)> {
        let has_password = !account.password_hash.is_empty();
        if !has_password && self.clock.now().since(member.signed_in_at) >= FRESH {
            return Err(Error::invalid(
                "Your account has no password: sign in again, and do this within 10 minutes",
            ));
        }
        let mut booked = self.book_factor(member).await?;
        if !has_password {
            return Ok((booked, true));
        }
        let hash = account.password_hash.clone();
        let turn = HASHING.turn(HashedFor::Known).await?;
        let (fits, _) = booked.during(compare(turn, password, Some(hash))).await?;
        if !fits {
            booked.stays();
        }
        Ok((booked, fits))
    }

    /// Refuses everybody but the owner of the account, with a row in the audit: before its password is replaced
    /// or it is linked.
    pub(crate) async fn confirm_password_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<()> {
        let (_, is_owner) = self.confirm_owner(member, account, password).await?;
        if is_owner { Ok(()) } else { self.refuse_password(member).await }
    }

    /// Refuses everybody but the owner of the account, with a row in the audit: before a factor is set up or a
    /// passkey is added or removed.
    pub(crate) async fn confirm_factor_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<()> {
        let (mut booked, is_owner) = self.confirm_owner(member, account, password).await?;
        if is_owner {
            return Ok(());
        }
        self.refuse_factor(&mut booked, member, Error::invalid("The password is wrong")).await
    }
}
