//! The people of an organization: listed, changed, removed.

use std::collections::HashMap;

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, ProjectId, UserId};
use domain::project::Role;
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// A user in the list of their organization.
#[derive(Clone, Debug)]
pub struct Person {
    /// The user.
    pub user: UserId,
    /// Their address, in lower case.
    pub email: String,
    /// Their name.
    pub name: String,
    /// Their role.
    pub role: Role,
    /// Whether they have a second factor.
    pub mfa_enabled: bool,
    /// Whether they have a password.
    pub has_password: bool,
    /// How many passkeys they have.
    pub passkeys: i64,
    /// How many of their identities belong to an issuer that is a provider of the organization.
    pub identities: i64,
    /// When a link in a letter to their address was followed; `None` if never.
    pub email_verified_at: Option<Timestamp>,
    /// The last request of a session that has not ended, to the minute.
    pub last_seen_at: Option<Timestamp>,
    /// The projects they were made a member of, by number.
    pub projects: Vec<ProjectId>,
}

impl Person {
    /// How they sign in, as words: `password`, `passkey`, `sign_on`.
    pub fn ways_in(&self) -> Vec<&'static str> {
        let ways = [
            ("password", self.has_password),
            ("passkey", self.passkeys > 0),
            ("sign_on", self.identities > 0),
        ];
        ways.into_iter().filter(|(_, has)| *has).map(|(word, _)| word).collect()
    }
}

from_row! {
    struct Row {
        id: i64,
        email: String,
        name: String,
        role: String,
        mfa_enabled: bool,
        has_password: bool,
        passkeys: i64,
        identities: i64,
        email_verified_at: Option<i64>,
        last_seen_at: Option<i64>,
    }
}

impl Row {
    fn read(self, projects: Vec<ProjectId>) -> Result<Person> {
        Ok(Person {
            user: UserId(self.id),
            email: self.email,
            name: self.name,
            role: role(&self.role)?,
            mfa_enabled: self.mfa_enabled,
            has_password: self.has_password,
            passkeys: self.passkeys,
            identities: self.identities,
            email_verified_at: self.email_verified_at.map(Timestamp),
            last_seen_at: self.last_seen_at.map(Timestamp),
            projects,
        })
    }
}

pub(crate) fn role(word: &str) -> Result<Role> {
    Role::parse(word).ok_or_else(|| Error::Corrupt(format!("role {word}")))
}

impl Store {
    /// The first `most` people of an organization after one of them, oldest first.
    #[boxed]
    pub async fn people(
        &self,
        org: OrgId,
        after: Option<UserId>,
        most: i64,
    ) -> Result<Vec<Person>> {
        const LIST: &str = "
            SELECT u.id, u.email, u.name, m.role, u.mfa_enabled, u.email_verified_at,
                   u.password_hash <> '' AS has_password,
                   (SELECT count(*) FROM passkeys k WHERE k.user_id = u.id) AS passkeys,
                   (SELECT count(*) FROM identities i WHERE i.user_id = u.id AND EXISTS
                       (SELECT p.id FROM sign_on_providers p
                        WHERE p.issuer = i.issuer AND p.org_id = m.org_id)) AS identities,
                   (SELECT max(s.last_seen_at) FROM sessions s
                    WHERE s.user_id = u.id AND NOT s.awaits_factor) AS last_seen_at
            FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.org_id = $1 AND u.id > $2
            ORDER BY u.id
            LIMIT $3";
        const PROJECTS: &str = "
            SELECT p.user_id, p.project_id
            FROM memberships m JOIN project_members p ON p.user_id = m.user_id
            JOIN projects o ON o.id = p.project_id AND o.deleted_at IS NULL
            WHERE m.org_id = $1 AND m.user_id > $2 AND m.user_id <= $3
            ORDER BY p.project_id";
        let after = after.map_or(i64::MIN, |user| user.0);
        let (rows, members): (Vec<Row>, Vec<(i64, i64)>) = on!(&self.reader, db => {
            let rows: Vec<Row> =
                sqlx::query_as(LIST).bind(org.0).bind(after).bind(most).fetch_all(db).await?;
            let last = rows.last().map_or(after, |row| row.id);
            let query = sqlx::query_as(PROJECTS).bind(org.0).bind(after).bind(last);
            (rows, query.fetch_all(db).await?)
        });
        let mut projects: HashMap<i64, Vec<ProjectId>> = HashMap::new();
        for (user, project) in members {
            projects.entry(user).or_default().push(ProjectId(project));
        }
        let read = |row: Row| {
            let projects = projects.remove(&row.id).unwrap_or_default();
            row.read(projects)
        };
        rows.into_iter().map(read).collect()
    }
}

impl Tx {
    /// A user of an organization. Whoever changes people holds the lock of the organization's row, by
    /// [`Tx::organization`].
    #[boxed]
    pub async fn person(&mut self, org: OrgId, user: UserId) -> Result<Option<Person>> {
        const FIND: &str = "
            SELECT u.id, u.email, u.name, m.role, u.mfa_enabled, u.email_verified_at,
                   u.password_hash <> '' AS has_password,
                   (SELECT count(*) FROM passkeys k WHERE k.user_id = u.id) AS passkeys,
                   (SELECT count(*) FROM identities i WHERE i.user_id = u.id AND EXISTS
                       (SELECT p.id FROM sign_on_providers p
                        WHERE p.issuer = i.issuer AND p.org_id = m.org_id)) AS identities,
                   (SELECT max(s.last_seen_at) FROM sessions s
                    WHERE s.user_id = u.id AND NOT s.awaits_factor) AS last_seen_at
            FROM memberships m JOIN users u ON u.id = m.user_id
            WHERE m.org_id = $1 AND u.id = $2";
        const PROJECTS: &str = "
            SELECT p.project_id FROM project_members p
            JOIN projects o ON o.id = p.project_id AND o.deleted_at IS NULL
            WHERE p.user_id = $1 ORDER BY p.project_id";
        let (row, projects): (Option<Row>, Vec<i64>) = within!(self, db => {
            let row =
                sqlx::query_as(FIND).bind(org.0).bind(user.0).fetch_optional(&mut *db).await?;
            (row, sqlx::query_scalar(PROJECTS).bind(user.0).fetch_all(&mut *db).await?)
        });
        let projects = projects.into_iter().map(ProjectId).collect();
        row.map(|row| row.read(projects)).transpose()
    }

    /// The owners of an organization.
    #[boxed]
    pub async fn count_owners(&mut self, org: OrgId) -> Result<i64> {
        const COUNT: &str = "SELECT count(*) FROM memberships WHERE org_id = $1 AND role = 'owner'";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).fetch_one(&mut *db).await?
        }))
    }

    /// Gives a user another role.
    #[boxed]
    pub async fn set_role(&mut self, org: OrgId, user: UserId, role: Role) -> Result<()> {
        const SET: &str = "UPDATE memberships SET role = $3 WHERE org_id = $1 AND user_id = $2";
        within!(self, db => {
            sqlx::query(SET)
                .bind(org.0)
                .bind(user.0)
                .bind(role.as_str())
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Makes a user a member of these projects and of no others.
    #[boxed]
    pub async fn set_projects(&mut self, user: UserId, projects: &[ProjectId]) -> Result<()> {
        within!(self, db => {
            sqlx::query("DELETE FROM project_members WHERE user_id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
        });
        for project in projects {
            self.add_project_member(*project, user).await?;
        }
        Ok(())
    }

    /// Sets the name of a user.
    #[boxed]
    pub async fn set_name(&mut self, user: UserId, name: &str) -> Result<()> {
        within!(self, db => {
            sqlx::query("UPDATE users SET name = $2 WHERE id = $1")
                .bind(user.0)
                .bind(name)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Records that the address of a user is theirs, if it still is the one that a link was sent to.
    /// `false` if it is not.
    #[boxed]
    pub async fn verify_email(
        &mut self,
        user: UserId,
        email: &str,
        now: Timestamp,
    ) -> Result<bool> {
        const VERIFY: &str = "UPDATE users SET email_verified_at = $3 WHERE id = $1 AND email = $2";
        let verified = within!(self, db => {
            sqlx::query(VERIFY)
                .bind(user.0)
                .bind(email)
                .bind(now.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(verified > 0)
    }

    /// Removes a user from an organization: their sessions, factors, links and name go, and the address is
    /// free again. The number stays, so that nobody who comes later is taken for them, and so do their
    /// identities, so that no sign-on makes them anew ([`Tx::forget_removed`]).
    #[boxed]
    pub async fn remove_person(&mut self, org: OrgId, user: UserId) -> Result<()> {
        // No address is like this one, so nobody signs in by it.
        const FORGET: &str = "
            UPDATE users SET email = 'removed ' || id, name = '', password_hash = '',
                             email_verified_at = NULL
            WHERE id = $1";
        within!(self, db => {
            sqlx::query("DELETE FROM one_time_links WHERE user_id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
        });
        self.remove_second_factors(user).await?;
        self.end_sessions(user, None).await?;
        within!(self, db => {
            for table in [
                "DELETE FROM project_members WHERE user_id = $1",
                "DELETE FROM known_networks WHERE user_id = $1",
            ] {
                sqlx::query(table).bind(user.0).execute(&mut *db).await?;
            }
            sqlx::query("DELETE FROM memberships WHERE org_id = $1 AND user_id = $2")
                .bind(org.0)
                .bind(user.0)
                .execute(&mut *db)
                .await?;
            sqlx::query(FORGET).bind(user.0).execute(&mut *db).await?;
        });
        Ok(())
    }
}
