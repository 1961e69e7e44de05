//! Second factors: authenticators and recovery codes.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, UserId};
use domain::secret::Secret;
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::passkeys::{PasskeyRow, REMOVE_PASSKEYS, StoredPasskey};
use crate::seal::SealingKey;

/// The authenticator of a user, active or only offered.
#[derive(Clone, Debug)]
pub struct Authenticator {
    /// The secret that it shares with the gateway, in base32.
    pub secret: Secret,
    /// The step of the last code that was accepted; 0 until the first one activates it.
    pub last_step: i64,
    /// The secret as it is stored. A change names it, and fails if it was replaced meanwhile.
    sealed: Vec<u8>,
}

/// The factors of an account, and whether its address is verified.
#[derive(Clone, Debug)]
pub struct AccountState {
    /// When the address was verified; `None` if never.
    pub email_verified_at: Option<Timestamp>,
    /// Whether the account has a second factor.
    pub mfa_enabled: bool,
    /// Whether an authenticator is active.
    pub has_authenticator: bool,
    /// The recovery codes that are left.
    pub recovery_codes_left: i64,
}

/// The second factors that a user had.
#[derive(Clone, Debug)]
pub struct RemovedFactors {
    /// Whether there was any.
    pub had_any: bool,
    /// The passkeys, oldest first.
    pub passkeys: Vec<StoredPasskey>,
}

impl Store {
    /// The state of an account.
    #[boxed]
    pub async fn account_state(&self, user: UserId) -> Result<Option<AccountState>> {
        const FIND: &str = "
            SELECT u.email_verified_at, u.mfa_enabled, u.totp_step > 0,
                   (SELECT count(*) FROM recovery_codes r WHERE r.user_id = u.id)
            FROM users u
            WHERE u.id = $1";
        let found: Option<(Option<i64>, bool, bool, i64)> = on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(user.0).fetch_optional(db).await?
        });
        let state =
            |(verified_at, mfa_enabled, has_authenticator, recovery_codes_left)| AccountState {
                email_verified_at: Option::map(verified_at, Timestamp),
                mfa_enabled,
                has_authenticator,
                recovery_codes_left,
            };
        Ok(found.map(state))
    }

    /// The authenticator of a user.
    #[boxed]
    pub async fn authenticator(&self, user: UserId) -> Result<Option<Authenticator>> {
        const FIND: &str = "
            SELECT totp_secret, totp_step FROM users WHERE id = $1 AND totp_secret IS NOT NULL";
        let found: Option<(Vec<u8>, i64)> = on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(user.0).fetch_optional(db).await?
        });
        let Some((sealed, last_step)) = found else { return Ok(None) };
        let secret = String::from_utf8(self.master.open(&place(user.0), &sealed)?);
        let secret = Secret::new(secret.map_err(|_| Error::Seal)?);
        Ok(Some(Authenticator { secret, last_step, sealed }))
    }

    /// Stores the secret of an authenticator that its first code will activate, in place of another one
    /// that was offered. `false` if the user has an active one.
    #[boxed]
    pub async fn offer_authenticator(
        &self,
        tx: &mut Tx,
        user: UserId,
        secret: &Secret,
    ) -> Result<bool> {
        const OFFER: &str = "UPDATE users SET totp_secret = $2 WHERE id = $1 AND totp_step = 0";
        let sealed = self.master.seal(&place(user.0), secret.expose().as_bytes())?;
        let stored = within!(tx, db => {
            sqlx::query(OFFER).bind(user.0).bind(sealed).execute(&mut *db).await?.rows_affected()
        });
        Ok(stored > 0)
    }
}

impl Tx {
    /// Activates an authenticator that was offered, by the step of its first code. `false` if it was
    /// replaced or activated meanwhile.
    #[boxed]
    pub async fn activate_authenticator(
        &mut self,
        user: UserId,
        offered: &Authenticator,
        step: i64,
    ) -> Result<bool> {
        const ACTIVATE: &str = "
            UPDATE users SET totp_step = $3, mfa_enabled = TRUE
            WHERE id = $1 AND totp_secret = $2 AND totp_step = 0";
        let sealed = &offered.sealed;
        let changed = within!(self, db => {
            sqlx::query(ACTIVATE).bind(user.0).bind(sealed).bind(step).execute(&mut *db).await?.rows_affected()
        });
        Ok(changed > 0)
    }

    /// Uses up the code of a step, and of all steps before it. `false` if that was done already, or the
    /// authenticator was replaced or removed.
    #[boxed]
    pub async fn use_step(
        &mut self,
        user: UserId,
        active: &Authenticator,
        step: i64,
    ) -> Result<bool> {
        const USE: &str = "
            UPDATE users SET totp_step = $3
            WHERE id = $1 AND totp_secret = $2 AND mfa_enabled AND totp_step > 0 AND totp_step < $3";
        let sealed = &active.sealed;
        let changed = within!(self, db => {
            sqlx::query(USE).bind(user.0).bind(sealed).bind(step).execute(&mut *db).await?.rows_affected()
        });
        Ok(changed > 0)
    }

    /// Uses up a recovery code, by its hash. `false` if there is no such code, or not any more.
    #[boxed]
    pub async fn use_recovery_code(&mut self, user: UserId, hash: &[u8; 32]) -> Result<bool> {
        const USE: &str = "DELETE FROM recovery_codes WHERE user_id = $1 AND code_hash = $2";
        let gone = within!(self, db => {
            sqlx::query(USE).bind(user.0).bind(&hash[..]).execute(&mut *db).await?.rows_affected()
        });
        Ok(gone > 0)
    }

    /// How many recovery codes a user has left.
    #[boxed]
    pub async fn recovery_codes_left(&mut self, user: UserId) -> Result<i64> {
        const COUNT: &str = "SELECT count(*) FROM recovery_codes WHERE user_id = $1";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(user.0).fetch_one(&mut *db).await?
        }))
    }

    /// Replaces the recovery codes of a user, by their hashes.
    #[boxed]
    pub async fn set_recovery_codes(&mut self, user: UserId, hashes: &[[u8; 32]]) -> Result<()> {
        const ADD: &str = "INSERT INTO recovery_codes (user_id, code_hash) VALUES ($1, $2)";
        within!(self, db => {
            sqlx::query("DELETE FROM recovery_codes WHERE user_id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
            for hash in hashes {
                sqlx::query(ADD).bind(user.0).bind(&hash[..]).execute(&mut *db).await?;
            }
        });
        Ok(())
    }

    /// Removes every second factor of a user. Returns those that were there.
    #[boxed]
    pub async fn remove_second_factors(&mut self, user: UserId) -> Result<RemovedFactors> {
        // Also an authenticator that was offered only, which is no factor yet. It takes the lock of the user:
        // a passkey that is being added meanwhile is there before the next statement, or comes to nothing.
        const LOCK: &str = "
            UPDATE users SET totp_secret = NULL, totp_step = 0 WHERE id = $1 RETURNING mfa_enabled";
        const DISABLE: &str = "UPDATE users SET mfa_enabled = FALSE WHERE id = $1";
        let (had, passkeys) = within!(self, db => {
            let had: Option<bool> =
                sqlx::query_scalar(LOCK).bind(user.0).fetch_optional(&mut *db).await?;
            sqlx::query(DISABLE).bind(user.0).execute(&mut *db).await?;
            sqlx::query("DELETE FROM recovery_codes WHERE user_id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
            let passkeys: Vec<PasskeyRow> =
                sqlx::query_as(REMOVE_PASSKEYS).bind(user.0).fetch_all(&mut *db).await?;
            (had, passkeys)
        });
        let mut passkeys: Vec<StoredPasskey> = passkeys.into_iter().map(Into::into).collect();
        passkeys.sort_by(|a, b| {
            (a.created_at, &a.credential_id).cmp(&(b.created_at, &b.credential_id))
        });
        Ok(RemovedFactors { had_any: had == Some(true), passkeys })
    }

    /// The address of a member of an organization.
    #[boxed]
    pub async fn member_email(&mut self, org: OrgId, user: UserId) -> Result<Option<String>> {
        const FIND: &str = "
            SELECT u.email FROM users u
            JOIN memberships m ON m.user_id = u.id
            WHERE u.id = $1 AND m.org_id = $2";
        Ok(within!(self, db => {
            sqlx::query_scalar(FIND).bind(user.0).bind(org.0).fetch_optional(&mut *db).await?
        }))
    }

    /// Seals the secrets of all authenticators under another master key. Returns how many there are.
    #[boxed]
    pub(crate) async fn reseal_authenticators(
        &mut self,
        old: &SealingKey,
        new: &SealingKey,
    ) -> Result<usize> {
        const ALL: &str = "SELECT id, totp_secret FROM users WHERE totp_secret IS NOT NULL";
        const RESEAL: &str = "UPDATE users SET totp_secret = $2 WHERE id = $1";
        let rows: Vec<(i64, Vec<u8>)> =
            within!(self, db => sqlx::query_as(ALL).fetch_all(&mut *db).await?);
        for (user, sealed) in &rows {
            let again = new.seal(&place(*user), &old.open(&place(*user), sealed)?)?;
            within!(self, db => {
                sqlx::query(RESEAL).bind(user).bind(again).execute(&mut *db).await?;
            });
        }
        Ok(rows.len())
    }
}

fn place(user: i64) -> String {
    format!("user:{user}:totp")
}
