//! The identities of users at their issuers.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, SignOnProviderId, UserId};
use domain::time::Timestamp;
use sqlx::FromRow as _;

use crate::Store;
use crate::accounts::{Account, AccountRow};
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;

/// The account of a user at an issuer.
#[derive(Clone, Debug)]
pub struct LinkedIdentity {
    /// The issuer.
    pub issuer: String,
    /// The user's name there. For nobody to read.
    pub subject: String,
    /// The address that the issuer gave when it was linked.
    pub email: String,
    /// When it was linked.
    pub created_at: Timestamp,
}

const LIST: &str = "
    SELECT issuer, subject, email, created_at FROM identities
    WHERE user_id = $1 ORDER BY created_at DESC, issuer, subject";

from_row! {
    struct Made {
        made_by_sign_on: bool,
    }
}

impl Store {
    /// The identities of a user, the latest first.
    #[boxed]
    pub async fn identities(&self, user: UserId) -> Result<Vec<LinkedIdentity>> {
        let rows: Vec<(String, String, String, i64)> = on!(&self.reader, db => {
            sqlx::query_as(LIST).bind(user.0).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(linked).collect())
    }
}

fn linked(row: (String, String, String, i64)) -> LinkedIdentity {
    let (issuer, subject, email, at) = row;
    LinkedIdentity { issuer, subject, email, created_at: Timestamp(at) }
}

impl Tx {
    /// The identities of a user, the latest first.
    #[boxed]
    pub async fn identities(&mut self, user: UserId) -> Result<Vec<LinkedIdentity>> {
        let rows: Vec<(String, String, String, i64)> = within!(self, db => {
            sqlx::query_as(LIST).bind(user.0).fetch_all(&mut *db).await?
        });
        Ok(rows.into_iter().map(linked).collect())
    }

    /// The account of a user at an issuer, and whether a sign-on has made it. Other organizations' do not count.
    #[boxed]
    pub async fn account_by_identity(
        &mut self,
        org: OrgId,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<(Account, bool)>> {
        const FIND: &str = "
            SELECT u.id AS user_id, u.email, u.name, u.password_hash, u.mfa_enabled,
                   o.id AS org_id, o.name AS org_name, m.role, u.made_by_sign_on
            FROM identities i
            JOIN users u ON u.id = i.user_id
            JOIN memberships m ON m.user_id = u.id
            JOIN organizations o ON o.id = m.org_id
            WHERE i.issuer = $1 AND i.subject = $2 AND o.id = $3";
        let found = within!(self, db => {
            let row = sqlx::query(FIND)
                .bind(issuer)
                .bind(subject)
                .bind(org.0)
                .fetch_optional(&mut *db)
                .await?;
            let read =
                |row| Ok::<_, sqlx::Error>((AccountRow::from_row(&row)?, Made::from_row(&row)?));
            row.map(read).transpose()?
        });
        found.map(|(account, made)| Ok((account.read()?, made.made_by_sign_on))).transpose()
    }

    /// The user of an address, in whatever organization.
    #[boxed]
    pub async fn user_by_email(&mut self, email: &str) -> Result<Option<UserId>> {
        let id: Option<i64> = within!(self, db => {
            sqlx::query_scalar("SELECT id FROM users WHERE email = $1")
                .bind(email)
                .fetch_optional(&mut *db)
                .await?
        });
        Ok(id.map(UserId))
    }

    /// Links a user to their account at an issuer. [`crate::Error::Taken`] when somebody is linked to it.
    #[boxed]
    pub async fn add_identity(
        &mut self,
        user: UserId,
        (issuer, subject): (&str, &str),
        email: &str,
        now: Timestamp,
    ) -> Result<()> {
        const ADD: &str = "
            INSERT INTO identities (issuer, subject, user_id, email, created_at)
            VALUES ($1, $2, $3, $4, $5)";
        within!(self, db => {
            sqlx::query(ADD)
                .bind(issuer)
                .bind(subject)
                .bind(user.0)
                .bind(email)
                .bind(now.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Notes that a sign-on has made a user, which stays true whatever becomes of their identities.
    #[boxed]
    pub async fn note_made_by_sign_on(&mut self, user: UserId) -> Result<()> {
        within!(self, db => {
            sqlx::query("UPDATE users SET made_by_sign_on = TRUE WHERE id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Unlinks an identity of a user, which is remembered as theirs ([`Tx::is_removed`]). `false` if they do not
    /// have it, or not any more.
    #[boxed]
    pub async fn unlink_identity(
        &mut self,
        user: UserId,
        (issuer, subject): (&str, &str),
    ) -> Result<bool> {
        const UNLINK: &str = "
            DELETE FROM identities WHERE user_id = $1 AND issuer = $2 AND subject = $3
            RETURNING issuer, subject, email, created_at";
        let row: Option<(String, String, String, i64)> = within!(self, db => {
            sqlx::query_as(UNLINK)
                .bind(user.0)
                .bind(issuer)
                .bind(subject)
                .fetch_optional(&mut *db)
                .await?
        });
        let Some(row) = row else { return Ok(false) };
        self.remember_unlinked(user, &linked(row)).await?;
        Ok(true)
    }

    /// Unlinks all identities of a user, which are remembered as theirs. Returns them.
    #[boxed]
    pub async fn unlink_identities(&mut self, user: UserId) -> Result<Vec<LinkedIdentity>> {
        const UNLINK: &str = "
            DELETE FROM identities WHERE user_id = $1
            RETURNING issuer, subject, email, created_at";
        let rows: Vec<(String, String, String, i64)> = within!(self, db => {
            sqlx::query_as(UNLINK).bind(user.0).fetch_all(&mut *db).await?
        });
        let unlinked: Vec<_> = rows.into_iter().map(linked).collect();
        for identity in &unlinked {
            self.remember_unlinked(user, identity).await?;
        }
        Ok(unlinked)
    }

    async fn remember_unlinked(&mut self, user: UserId, identity: &LinkedIdentity) -> Result<()> {
        const REMEMBER: &str = "
            INSERT INTO unlinked_identities (issuer, subject, user_id, email) VALUES ($1, $2, $3, $4)
            ON CONFLICT (issuer, subject)
            DO UPDATE SET user_id = excluded.user_id, email = excluded.email";
        within!(self, db => {
            sqlx::query(REMEMBER)
                .bind(&identity.issuer)
                .bind(&identity.subject)
                .bind(user.0)
                .bind(&identity.email)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Whether a user comes by a provider and by nothing else of their own: a sign-on has made them, or they have no
    /// password and an identity at a provider of the organization.
    #[boxed]
    pub async fn comes_by_provider(&mut self, org: OrgId, user: UserId) -> Result<bool> {
        const FIND: &str = "
            SELECT u.id FROM users u
            WHERE u.id = $1 AND (u.made_by_sign_on OR (u.password_hash = '' AND EXISTS (
                SELECT i.user_id
                FROM identities i
                JOIN sign_on_providers p ON p.issuer = i.issuer AND p.org_id = $2
                WHERE i.user_id = u.id)))";
        let found: Option<i64> = within!(self, db => {
            sqlx::query_scalar(FIND).bind(user.0).bind(org.0).fetch_optional(&mut *db).await?
        });
        Ok(found.is_some())
    }

    /// Whether somebody who signs on had an account that was removed: as this user of the issuer, linked to it or
    /// unlinked before, or by this address at whatever issuer.
    #[boxed]
    pub async fn is_removed(
        &mut self,
        (issuer, subject): (&str, &str),
        email: Option<&str>,
    ) -> Result<bool> {
        const FIND: &str = "
            SELECT i.user_id
            FROM (
                SELECT issuer, subject, user_id, email FROM identities
                UNION ALL SELECT issuer, subject, user_id, email FROM unlinked_identities) AS i
            WHERE ((i.issuer = $1 AND i.subject = $2) OR i.email = $3)
            AND NOT EXISTS (SELECT m.user_id FROM memberships m WHERE m.user_id = i.user_id)
            LIMIT 1";
        let found: Option<i64> = within!(self, db => {
            sqlx::query_scalar(FIND)
                .bind(issuer)
                .bind(subject)
                .bind(email)
                .fetch_optional(&mut *db)
                .await?
        });
        Ok(found.is_some())
    }

    /// Forgets the identities of removed users that came with an address: they may come anew.
    #[boxed]
    pub async fn forget_removed(&mut self, email: &str) -> Result<()> {
        const FORGET: [&str; 2] = [
            "DELETE FROM identities WHERE email = $1
             AND NOT EXISTS (SELECT m.user_id FROM memberships m WHERE m.user_id = identities.user_id)",
            "DELETE FROM unlinked_identities WHERE email = $1
             AND NOT EXISTS
                 (SELECT m.user_id FROM memberships m WHERE m.user_id = unlinked_identities.user_id)",
        ];
        within!(self, db => {
            for forget in FORGET {
                sqlx::query(forget).bind(email).execute(&mut *db).await?;
            }
        });
        Ok(())
    }

    /// How many owners of an organization get in without a password: by a passkey, or by a provider other than
    /// `but`.
    #[boxed]
    pub async fn count_owners_without_password(
        &mut self,
        org: OrgId,
        but: Option<SignOnProviderId>,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM memberships m
            WHERE m.org_id = $1 AND m.role = 'owner' AND (
                EXISTS (SELECT k.user_id FROM passkeys k WHERE k.user_id = m.user_id)
                OR EXISTS (
                    SELECT i.user_id FROM identities i
                    JOIN sign_on_providers p ON p.issuer = i.issuer AND p.org_id = m.org_id
                    WHERE i.user_id = m.user_id AND p.id <> $2))";
        // No provider has the number 0.
        let but = but.map_or(0, |provider| provider.0);
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).bind(but).fetch_one(&mut *db).await?
        }))
    }

    /// How many users of an organization whom a sign-on has made, or who have no password, owners apart, have an
    /// identity at this issuer and at no other provider of the organization.
    #[boxed]
    pub async fn count_made_at_alone(&mut self, org: OrgId, issuer: &str) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM memberships m
            JOIN users u ON u.id = m.user_id
            WHERE m.org_id = $1 AND m.role <> 'owner'
                AND (u.made_by_sign_on OR u.password_hash = '')
                AND EXISTS (
                    SELECT i.user_id FROM identities i WHERE i.user_id = m.user_id AND i.issuer = $2)
                AND NOT EXISTS (
                    SELECT i.user_id FROM identities i
                    JOIN sign_on_providers p ON p.issuer = i.issuer AND p.org_id = m.org_id
                    WHERE i.user_id = m.user_id)";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).bind(issuer).fetch_one(&mut *db).await?
        }))
    }

    /// How many owners of an organization can sign in by one of its providers.
    #[boxed]
    pub async fn count_linked_owners(&mut self, org: OrgId) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(DISTINCT m.user_id) FROM memberships m
            JOIN identities i ON i.user_id = m.user_id
            JOIN sign_on_providers p ON p.issuer = i.issuer AND p.org_id = m.org_id
            WHERE m.org_id = $1 AND m.role = 'owner'";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).fetch_one(&mut *db).await?
        }))
    }
}
