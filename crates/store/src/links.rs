//! Links that are used once: invitations, new passwords, addresses to verify. Only the hash of a token is
//! stored.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, ProjectId, UserId};
use domain::project::Role;
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::people::role;
use crate::sessions::hashes_of;

/// The purpose of a link: it serves no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// Somebody is invited to an organization.
    Invitation,
    /// A user sets a new password.
    Password,
    /// A user verifies their address.
    Email,
}

impl LinkPurpose {
    /// The word that is stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invitation => "invitation",
            Self::Password => "password",
            Self::Email => "email",
        }
    }
}

/// A link that is about to be made, or that was used.
#[derive(Clone, Debug)]
pub struct OneTimeLink {
    /// The hash of its token.
    pub token_hash: [u8; 32],
    /// The organization.
    pub org: OrgId,
    /// The address that it is for.
    pub email: String,
    /// The user that it is for; `None` of an invitation.
    pub user: Option<UserId>,
    /// The role that an invitation gives.
    pub role: Option<Role>,
    /// The projects that an invitation makes its user a member of.
    pub projects: Vec<ProjectId>,
    /// The user who made it, if a signed-in one did.
    pub created_by: Option<UserId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The time from which on it is no longer good.
    pub expires_at: Timestamp,
}

from_row! {
    struct Row {
        token_hash: Vec<u8>,
        org_id: i64,
        email: String,
        user_id: Option<i64>,
        role: Option<String>,
        projects: Option<String>,
        created_by: Option<i64>,
        created_at: i64,
        expires_at: i64,
    }
}

impl Row {
    fn read(self) -> Result<OneTimeLink> {
        let corrupt =
            |what: &str| Error::Corrupt(format!("one-time link of {}: {what}", self.email));
        let role = self.role.as_deref().map(role);
        let projects = self.projects.as_deref().map(serde_json::from_str);
        Ok(OneTimeLink {
            token_hash: self.token_hash.try_into().map_err(|_| corrupt("token_hash"))?,
            org: OrgId(self.org_id),
            role: role.transpose()?,
            projects: projects.transpose().map_err(|_| corrupt("projects"))?.unwrap_or_default(),
            email: self.email,
            user: self.user_id.map(UserId),
            created_by: self.created_by.map(UserId),
            created_at: Timestamp(self.created_at),
            expires_at: Timestamp(self.expires_at),
        })
    }
}

impl Store {
    /// The latest `most` links of a purpose that are still good, newest first. `after` has the time and the hash of
    /// a link: those behind it are listed.
    #[boxed]
    pub async fn links(
        &self,
        org: OrgId,
        purpose: LinkPurpose,
        now: Timestamp,
        after: Option<(Timestamp, [u8; 32])>,
        most: i64,
    ) -> Result<Vec<OneTimeLink>> {
        const LIST: &str = "
            SELECT token_hash, org_id, email, user_id, role, projects, created_by, created_at, expires_at
            FROM one_time_links
            WHERE org_id = $1 AND purpose = $2 AND expires_at > $3
              AND (created_at < $4 OR (created_at = $4 AND token_hash > $5))
            ORDER BY created_at DESC, token_hash
            LIMIT $6";
        let (made, hash) = after.unwrap_or((Timestamp(i64::MAX), [0; 32]));
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(LIST)
                .bind(org.0)
                .bind(purpose.as_str())
                .bind(now.0)
                .bind(made.0)
                .bind(&hash[..])
                .bind(most)
                .fetch_all(db)
                .await?
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// A link that is still good, by the hash of its token: to be shown before it is used.
    #[boxed]
    pub async fn link(
        &self,
        token_hash: &[u8; 32],
        purpose: LinkPurpose,
        now: Timestamp,
    ) -> Result<Option<OneTimeLink>> {
        const FIND: &str = "
            SELECT token_hash, org_id, email, user_id, role, projects, created_by, created_at, expires_at
            FROM one_time_links
            WHERE token_hash = $1 AND purpose = $2 AND expires_at > $3";
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(FIND)
                .bind(&token_hash[..])
                .bind(purpose.as_str())
                .bind(now.0)
                .fetch_optional(db)
                .await?
        });
        row.map(Row::read).transpose()
    }

    /// Deletes links that are no longer good.
    #[boxed]
    pub async fn purge_links(&self, now: Timestamp) -> Result<()> {
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query("DELETE FROM one_time_links WHERE expires_at <= $1")
                .bind(now.0)
                .execute(&mut *db)
                .await?;
        });
        tx.commit().await
    }
}

impl Tx {
    /// Adds a link. One that a user makes takes the place of earlier ones of the purpose for the same
    /// address; one that a stranger asks for does not, or anybody could end the link of somebody else.
    #[boxed]
    pub async fn add_link(&mut self, purpose: LinkPurpose, link: &OneTimeLink) -> Result<()> {
        const ADD: &str = "
            INSERT INTO one_time_links
                (token_hash, org_id, purpose, email, user_id, role, projects, created_by, created_at,
                 expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let numbers: Vec<i64> = link.projects.iter().map(|project| project.0).collect();
        let projects = serde_json::Value::from(numbers).to_string();
        if link.created_by.is_some() {
            self.drop_links_to(link.org, purpose, &link.email).await?;
        }
        within!(self, db => {
            sqlx::query(ADD)
                .bind(&link.token_hash[..])
                .bind(link.org.0)
                .bind(purpose.as_str())
                .bind(&link.email)
                .bind(link.user.map(|user| user.0))
                .bind(link.role.map(Role::as_str))
                .bind(projects)
                .bind(link.created_by.map(|user| user.0))
                .bind(link.created_at.0)
                .bind(link.expires_at.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Deletes the links of a purpose for an address.
    #[boxed]
    pub async fn drop_links_to(
        &mut self,
        org: OrgId,
        purpose: LinkPurpose,
        email: &str,
    ) -> Result<()> {
        const DROP: &str =
            "DELETE FROM one_time_links WHERE org_id = $1 AND purpose = $2 AND email = $3";
        within!(self, db => {
            sqlx::query(DROP)
                .bind(org.0)
                .bind(purpose.as_str())
                .bind(email)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Uses up a link that is still good. `None` if there is none of the purpose, or not any more.
    #[boxed]
    pub async fn use_link(
        &mut self,
        token_hash: &[u8; 32],
        purpose: LinkPurpose,
        now: Timestamp,
    ) -> Result<Option<OneTimeLink>> {
        const USE: &str = "
            DELETE FROM one_time_links
            WHERE token_hash = $1 AND purpose = $2 AND expires_at > $3
            RETURNING token_hash, org_id, email, user_id, role, projects, created_by, created_at,
                      expires_at";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(USE)
                .bind(&token_hash[..])
                .bind(purpose.as_str())
                .bind(now.0)
                .fetch_optional(&mut *db)
                .await?
        });
        row.map(Row::read).transpose()
    }

    /// Ends the links that a user has made for others. Returns how many there were.
    #[boxed]
    pub async fn drop_links_made_by(&mut self, user: UserId) -> Result<u64> {
        const DROP: &str =
            "DELETE FROM one_time_links WHERE created_by = $1 AND purpose <> 'email'";
        Ok(within!(self, db => {
            sqlx::query(DROP).bind(user.0).execute(&mut *db).await?.rows_affected()
        }))
    }

    /// The role that an invitation of an address gives, if there is one that is still good.
    #[boxed]
    pub async fn invited_role(
        &mut self,
        org: OrgId,
        email: &str,
        now: Timestamp,
    ) -> Result<Option<Role>> {
        const FIND: &str = "
            SELECT role FROM one_time_links
            WHERE org_id = $1 AND purpose = 'invitation' AND email = $2 AND expires_at > $3
              AND role IS NOT NULL";
        let word: Option<String> = within!(self, db => {
            sqlx::query_scalar(FIND)
                .bind(org.0)
                .bind(email)
                .bind(now.0)
                .fetch_optional(&mut *db)
                .await?
        });
        word.as_deref().map(role).transpose()
    }

    /// Ends the links by which a user would set a new password.
    #[boxed]
    pub async fn drop_password_links(&mut self, user: UserId) -> Result<()> {
        const DROP: &str = "DELETE FROM one_time_links WHERE user_id = $1 AND purpose = 'password'";
        within!(self, db => {
            sqlx::query(DROP).bind(user.0).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Withdraws the link of a purpose whose hash begins with these bytes. Returns the address that it
    /// was for and the role that it would give; `None` if there is no such link.
    #[boxed]
    pub async fn withdraw_link(
        &mut self,
        org: OrgId,
        purpose: LinkPurpose,
        prefix: [u8; 8],
    ) -> Result<Option<(String, Option<Role>)>> {
        const WITHDRAW: &str = "
            DELETE FROM one_time_links
            WHERE org_id = $1 AND purpose = $2 AND token_hash >= $3 AND token_hash <= $4
            RETURNING email, role";
        let (least, most) = hashes_of(prefix);
        let row: Option<(String, Option<String>)> = within!(self, db => {
            sqlx::query_as(WITHDRAW)
                .bind(org.0)
                .bind(purpose.as_str())
                .bind(least)
                .bind(most)
                .fetch_optional(&mut *db)
                .await?
        });
        row.map(|(email, word)| Ok((email, word.as_deref().map(role).transpose()?))).transpose()
    }
}
