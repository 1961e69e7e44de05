//! Organizations, users, memberships, sessions.

use async_recursion::async_recursion as boxed;
use std::net::IpAddr;

use domain::ids::{OrgId, ProjectId, UserId};
use domain::project::Role;
use domain::time::Timestamp;
use sqlx::FromRow as _;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;
use crate::organizations::requires_factor;
use crate::people::role;

/// A user as member of an organization.
#[derive(Clone, Debug)]
pub struct Account {
    /// The user.
    pub user: UserId,
    /// Their address, in lower case.
    pub email: String,
    /// Their name.
    pub name: String,
    /// The Argon2id hash of their password, in PHC form.
    pub password_hash: String,
    /// Whether they have a second factor, which is then asked for at sign-in.
    pub mfa_enabled: bool,
    /// The organization.
    pub org: OrgId,
    /// The organization's name.
    pub org_name: String,
    /// Their role in it.
    pub role: Role,
}

/// A signed-in session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The account that signed in.
    pub account: Account,
    /// When they signed in.
    pub created_at: Timestamp,
    /// Their last request, to the minute.
    pub last_seen_at: Timestamp,
    /// Whether the second factor is still to come.
    pub awaits_factor: bool,
    /// Whether the organization requires a second factor.
    pub requires_factor: bool,
    /// Whether a trusted issuer has seen a second factor.
    pub has_factor: bool,
}

from_row! {
    pub(crate) struct AccountRow {
        user_id: i64,
        email: String,
        name: String,
        password_hash: String,
        mfa_enabled: bool,
        org_id: i64,
        org_name: String,
        role: String,
    }
}

from_row! {
    struct SessionState {
        created_at: i64,
        last_seen_at: i64,
        awaits_factor: bool,
        has_factor: bool,
        settings: String,
    }
}

impl AccountRow {
    pub(crate) fn read(self) -> Result<Account> {
        Ok(Account {
            user: UserId(self.user_id),
            email: self.email,
            name: self.name,
            password_hash: self.password_hash,
            mfa_enabled: self.mfa_enabled,
            org: OrgId(self.org_id),
            org_name: self.org_name,
            role: role(&self.role)?,
        })
    }
}

/// The account of an address.
const FIND_ACCOUNT: &str = "
    SELECT u.id AS user_id, u.email, u.name, u.password_hash, u.mfa_enabled,
           o.id AS org_id, o.name AS org_name, m.role
    FROM users u
    JOIN memberships m ON m.user_id = u.id
    JOIN organizations o ON o.id = m.org_id
    WHERE u.email = $1
    ORDER BY o.id
    LIMIT 1";

impl Store {
    /// Whether this database has never been set up.
    #[boxed]
    pub async fn is_empty(&self) -> Result<bool> {
        let any: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT id FROM organizations LIMIT 1").fetch_optional(db).await?
        });
        Ok(any.is_none())
    }

    /// The oldest organization: the one that the command line works on.
    #[boxed]
    pub async fn first_org(&self) -> Result<Option<OrgId>> {
        let id: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT min(id) FROM organizations").fetch_one(db).await?
        });
        Ok(id.map(OrgId))
    }

    /// A user by address.
    #[boxed]
    pub async fn account(&self, email: &str) -> Result<Option<Account>> {
        let row: Option<AccountRow> = on!(&self.reader, db => {
            sqlx::query_as(FIND_ACCOUNT).bind(email).fetch_optional(db).await?
        });
        row.map(AccountRow::read).transpose()
    }

    /// A session by the hash of its token.
    #[boxed]
    pub async fn session(&self, token_hash: &[u8; 32]) -> Result<Option<Session>> {
        const FIND: &str = "
            SELECT u.id AS user_id, u.email, u.name, u.password_hash, u.mfa_enabled,
                   o.id AS org_id, o.name AS org_name, m.role, s.created_at, s.last_seen_at,
                   s.awaits_factor, s.has_factor, o.settings
            FROM sessions s
            JOIN users u ON u.id = s.user_id
            JOIN memberships m ON m.user_id = u.id
            JOIN organizations o ON o.id = m.org_id
            WHERE s.token_hash = $1
            ORDER BY o.id
            LIMIT 1";
        let found = on!(&self.reader, db => {
            let row = sqlx::query(FIND).bind(&token_hash[..]).fetch_optional(db).await?;
            let read =
                |row| Ok::<_, sqlx::Error>((AccountRow::from_row(&row)?, SessionState::from_row(&row)?));
            row.map(read).transpose()?
        });
        let session = |(account, state): (AccountRow, SessionState)| {
            Ok(Session {
                account: account.read()?,
                created_at: Timestamp(state.created_at),
                last_seen_at: Timestamp(state.last_seen_at),
                awaits_factor: state.awaits_factor,
                requires_factor: requires_factor(&state.settings)?,
                has_factor: state.has_factor,
            })
        };
        found.map(session).transpose()
    }

    /// The projects that a user was made a member of.
    #[boxed]
    pub async fn member_projects(&self, user: UserId) -> Result<Vec<ProjectId>> {
        const OF: &str = "SELECT project_id FROM project_members WHERE user_id = $1";
        let ids: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(OF).bind(user.0).fetch_all(db).await?
        });
        Ok(ids.into_iter().map(ProjectId).collect())
    }

    /// Whether an account was signed in to from a network since a time.
    #[boxed]
    pub async fn knows_network(
        &self,
        user: UserId,
        network: IpAddr,
        since: Timestamp,
    ) -> Result<bool> {
        const FIND: &str = "
            SELECT last_at FROM known_networks WHERE user_id = $1 AND network = $2 AND last_at >= $3";
        let found: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(FIND)
                .bind(user.0)
                .bind(network.to_string())
                .bind(since.0)
                .fetch_optional(db)
                .await?
        });
        Ok(found.is_some())
    }

    /// Records that a session was used.
    #[boxed]
    pub async fn touch_session(&self, token_hash: &[u8; 32], now: Timestamp) -> Result<()> {
        const TOUCH: &str = "UPDATE sessions SET last_seen_at = $2 WHERE token_hash = $1";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(TOUCH).bind(&token_hash[..]).bind(now.0).execute(&mut *db).await?;
        });
        tx.commit().await
    }

    /// Deletes sessions that began before `created`, were last used before `seen`, or have awaited a second
    /// factor since before `awaited`.
    #[boxed]
    pub async fn purge_sessions(
        &self,
        created: Timestamp,
        seen: Timestamp,
        awaited: Timestamp,
    ) -> Result<()> {
        const PURGE: &str = "
            DELETE FROM sessions
            WHERE created_at < $1 OR last_seen_at < $2 OR (awaits_factor AND created_at < $3)";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(PURGE)
                .bind(created.0)
                .bind(seen.0)
                .bind(awaited.0)
                .execute(&mut *db)
                .await?;
        });
        tx.commit().await
    }

    /// Deletes the networks from which no sign-in to an account has come since a time.
    #[boxed]
    pub async fn purge_networks(&self, since: Timestamp) -> Result<()> {
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query("DELETE FROM known_networks WHERE last_at < $1")
                .bind(since.0)
                .execute(&mut *db)
                .await?;
        });
        tx.commit().await
    }
}

impl Tx {
    /// The account of an address.
    #[boxed]
    pub async fn account(&mut self, email: &str) -> Result<Option<Account>> {
        let row: Option<AccountRow> = within!(self, db => {
            sqlx::query_as(FIND_ACCOUNT).bind(email).fetch_optional(&mut *db).await?
        });
        row.map(AccountRow::read).transpose()
    }

    /// Adds an organization.
    #[boxed]
    pub async fn add_org(&mut self, name: &str, now: Timestamp) -> Result<OrgId> {
        const ADD: &str =
            "INSERT INTO organizations (name, created_at) VALUES ($1, $2) RETURNING id";
        let id: i64 = within!(self, db => {
            sqlx::query_scalar(ADD).bind(name).bind(now.0).fetch_one(&mut *db).await?
        });
        Ok(OrgId(id))
    }

    /// Adds a user to an organization. [`Error::Taken`] when the address is in use.
    #[boxed]
    pub async fn add_user(
        &mut self,
        org: OrgId,
        email: &str,
        password_hash: &str,
        role: Role,
        now: Timestamp,
    ) -> Result<UserId> {
        const ADD: &str = "
            INSERT INTO users (email, name, password_hash, created_at)
            VALUES ($1, $2, $3, $4) RETURNING id";
        const JOIN: &str = "INSERT INTO memberships (org_id, user_id, role) VALUES ($1, $2, $3)";
        let name = email.split('@').next().unwrap_or(email);
        let id: i64 = within!(self, db => {
            let id = sqlx::query_scalar(ADD)
                .bind(email)
                .bind(name)
                .bind(password_hash)
                .bind(now.0)
                .fetch_one(&mut *db)
                .await?;
            sqlx::query(JOIN).bind(org.0).bind(id).bind(role.as_str()).execute(&mut *db).await?;
            id
        });
        Ok(UserId(id))
    }

    /// Makes a user a member of a project.
    #[boxed]
    pub async fn add_project_member(&mut self, project: ProjectId, user: UserId) -> Result<()> {
        const ADD: &str = "
            INSERT INTO project_members (project_id, user_id) VALUES ($1, $2)
            ON CONFLICT (project_id, user_id) DO NOTHING";
        within!(self, db => {
            sqlx::query(ADD).bind(project.0).bind(user.0).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Sets a new password and signs the user out everywhere. Links to another one end. Known networks stay:
    /// otherwise a stranger who guesses meanwhile would lock the owner out.
    #[boxed]
    pub async fn set_password(&mut self, user: UserId, password_hash: &str) -> Result<()> {
        const SET: &str = "UPDATE users SET password_hash = $2 WHERE id = $1";
        const OUT: &str = "DELETE FROM sessions WHERE user_id = $1";
        self.drop_password_links(user).await?;
        within!(self, db => {
            sqlx::query(SET).bind(user.0).bind(password_hash).execute(&mut *db).await?;
            sqlx::query(OUT).bind(user.0).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Whether a password still has the hash that it was compared with, and the account a second factor or
    /// none as when it was read. No other transaction changes that before this one ends. `new` is another
    /// hash of the same password, which replaces the old one.
    #[boxed]
    pub async fn confirm_password(&mut self, account: &Account, new: Option<&str>) -> Result<bool> {
        const CONFIRM: &str = "
            UPDATE users SET password_hash = $3
            WHERE id = $1 AND password_hash = $2 AND mfa_enabled = $4";
        let hash = &account.password_hash;
        let confirmed = within!(self, db => {
            sqlx::query(CONFIRM)
                .bind(account.user.0)
                .bind(hash)
                .bind(new.unwrap_or(hash))
                .bind(account.mfa_enabled)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(confirmed > 0)
    }

    /// Records a network from which an account was signed in to. Only the latest `most` networks of each
    /// account are kept.
    #[boxed]
    pub async fn remember_network(
        &mut self,
        user: UserId,
        network: IpAddr,
        now: Timestamp,
        most: i64,
    ) -> Result<()> {
        const KEEP: &str = "
            INSERT INTO known_networks (user_id, network, last_at) VALUES ($1, $2, $3)
            ON CONFLICT (user_id, network) DO UPDATE SET last_at = excluded.last_at";
        const FORGET: &str = "
            DELETE FROM known_networks WHERE user_id = $1 AND network <> $2 AND network NOT IN (
                SELECT network FROM known_networks WHERE user_id = $1 AND network <> $2
                ORDER BY last_at DESC, network LIMIT $3)";
        let network = network.to_string();
        within!(self, db => {
            sqlx::query(KEEP).bind(user.0).bind(&network).bind(now.0).execute(&mut *db).await?;
            sqlx::query(FORGET).bind(user.0).bind(&network).bind(most - 1).execute(&mut *db).await?;
        });
        Ok(())
    }
}
