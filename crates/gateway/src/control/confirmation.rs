//! The owner of an account, once more: before a session may change how the account signs in.

use domain::secret::Secret;
use store::Account;

use crate::capacity::hashing::HashedFor;
use crate::control::second_factor::Booked;
use crate::control::sessions::{FRESH, compare};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

impl Gateway {
    /// Whether it is the owner of the account who acts: by its password or, without one, because the session
    /// has begun a moment ago. The attempt is booked as a failure, to be taken back.
    pub(crate) async fn confirm_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<(Booked, bool)> {
        let has_password = !account.password_hash.is_empty();
        if !has_password && self.clock.now().since(member.signed_in_at) >= FRESH {
            return Err(Error::invalid(
                "Your account has no password: sign in again, and do this within 10 minutes",
            ));
        }
        let booked = self.book_factor(member).await?;
        let hash = account.password_hash.clone();
        if !has_password {
            return Ok((booked, true));
        }
        match compare(password, Some(hash), HashedFor::Known).await {
            Ok((fits, _)) => Ok((booked, fits)),
            Err(error) => {
                // The password was not looked at.
                self.login_throttle.take_back(&booked.trying, booked.at);
                Err(error)
            }
        }
    }

    /// Refuses everybody but the owner of the account, with a row in the audit: before its password is replaced
    /// or it is linked.
    pub(crate) async fn confirm_password_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<()> {
        let (booked, is_owner) = self.confirm_owner(member, account, password).await?;
        if !is_owner {
            return self.refuse_password(member).await;
        }
        self.login_throttle.take_back(&booked.trying, booked.at);
        Ok(())
    }

    /// Refuses everybody but the owner of the account, with a row in the audit: before a factor is set up or a
    /// passkey is added or removed. The attempt stays booked, to be taken back.
    pub(crate) async fn confirm_factor_owner(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<Booked> {
        let (booked, is_owner) = self.confirm_owner(member, account, password).await?;
        if !is_owner {
            return self.refuse_factor(member, Error::invalid("The password is wrong")).await;
        }
        Ok(booked)
    }
}
