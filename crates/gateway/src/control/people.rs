//! The people of an organization: their roles, their projects, and the way out.

use domain::ids::{OrgId, ProjectId, UserId};
use domain::project::Role;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};
use store::{LinkPurpose, Person, Tx};

use crate::audit::Event;
use crate::bounded_read::bounded;
use crate::control::held_account::check_session;
use crate::control::last_ways_in::{check_owners_get_in, has_way_left};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most people that are listed.
const LISTED: i64 = 1_000;

/// The fields of a user that a request changes; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct PersonChange {
    /// Another role.
    pub role: Option<String>,
    /// All projects that they are a member of.
    pub projects: Option<Vec<ProjectId>>,
}

impl Gateway {
    /// The people of the organization, oldest first; at most 1,000.
    pub async fn list_people(&self, member: &Member) -> Result<Vec<Person>> {
        self.people_after(member, None, LISTED).await
    }

    /// The first `most` people of the organization after one of them, oldest first.
    pub async fn people_after(
        &self,
        member: &Member,
        after: Option<UserId>,
        most: i64,
    ) -> Result<Vec<Person>> {
        member.check_admin()?;
        bounded(self.store.people(member.org, after, most)).await
    }

    /// Changes the role or the projects of a user. It counts from the next request of their sessions on.
    pub async fn change_person(
        &self,
        member: &Member,
        user: UserId,
        change: PersonChange,
    ) -> Result<Person> {
        member.check_person()?;
        member.check_admin()?;
        let role = change.role.as_deref().map(read_role).transpose()?;
        if let Some(projects) = &change.projects {
            self.check_projects(member, projects)?;
        }
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        let person = tx.person(member.org, user).await?.ok_or(Error::NotFound)?;
        check_may_change(member, person.role)?;
        let mut noted = Vec::new();
        if let Some(role) = role.filter(|role| *role != person.role) {
            check_may_grant(member, role)?;
            if person.role == Role::Owner {
                check_not_last(&mut tx, member.org, "demoted").await?;
            }
            tx.set_role(member.org, user, role).await?;
            if person.role == Role::Owner {
                check_owners_get_in(&mut tx, member.org, None).await?;
                if !has_way_left(&mut tx, member.org, user).await? {
                    return Err(Error::invalid(
                        "Only owners sign in by a passkey alone while passwords are disabled: this one has to be \
                         linked to a provider first",
                    ));
                }
            }
            let change = json!({"old": person.role.as_str(), "new": role.as_str()});
            let mut metadata = about(&person, "role", change);
            if rank(role) < rank(person.role) {
                self.end_grants(&mut tx, user, Some(role), &mut metadata).await?;
            }
            noted.push((Event::MemberRoleChanged, metadata));
        }
        if let Some(mut projects) = change.projects {
            projects.sort_unstable();
            projects.dedup();
            if projects != person.projects {
                tx.set_projects(user, &projects).await?;
                let change = json!({"old": person.projects, "new": projects});
                noted.push((Event::MemberProjectsChanged, about(&person, "projects", change)));
            }
        }
        let person = tx.person(member.org, user).await?.ok_or(Error::NotFound)?;
        for (event, metadata) in noted {
            let target = ("user", user.to_string());
            self.note_act(&mut tx, member, event, target, metadata).await?;
        }
        tx.commit().await?;
        Ok(person)
    }

    /// Removes a user from the organization: their sessions end, and their address is free again. The keys
    /// that they made go on until they are revoked; their service tokens end.
    pub async fn remove_person(&self, member: &Member, user: UserId) -> Result<()> {
        member.check_admin()?;
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        let person = tx.person(member.org, user).await?.ok_or(Error::NotFound)?;
        check_may_change(member, person.role)?;
        if person.role == Role::Owner {
            check_not_last(&mut tx, member.org, "removed").await?;
        }
        let mut metadata = about(&person, "role", person.role.as_str().into());
        self.end_grants(&mut tx, user, None, &mut metadata).await?;
        // They may have come without an invitation that was sent to them.
        tx.drop_links_to(member.org, LinkPurpose::Invitation, &person.email).await?;
        tx.remove_person(member.org, user).await?;
        if person.role == Role::Owner {
            check_owners_get_in(&mut tx, member.org, None).await?;
        }
        let target = ("user", user.to_string());
        self.note_act(&mut tx, member, Event::MemberRemoved, target, metadata).await?;
        Ok(tx.commit().await?)
    }

    /// Ends what a user has made that would give what the user may not give any more: links, and of somebody
    /// who is no admin any more service tokens. `role` is the one that they have from now on.
    pub(crate) async fn end_grants(
        &self,
        tx: &mut Tx,
        user: UserId,
        role: Option<Role>,
        metadata: &mut Map<String, Value>,
    ) -> Result<()> {
        let ended = tx.drop_links_made_by(user).await?;
        if ended > 0 {
            metadata.insert("links_ended".to_owned(), ended.into());
        }
        if role.is_some_and(Role::is_admin) {
            return Ok(());
        }
        let revoked = tx.revoke_service_tokens_of(user, self.clock.now()).await?;
        if !revoked.is_empty() {
            metadata.insert("service_tokens_revoked".to_owned(), json!(revoked));
        }
        Ok(())
    }

    /// Refuses projects that the member does not see.
    pub(crate) fn check_projects(&self, member: &Member, projects: &[ProjectId]) -> Result<()> {
        for project in projects {
            self.visible_project(member, *project).map_err(|error| match error {
                Error::NotFound => Error::invalid(format!("There is no project {project}")),
                other => other,
            })?;
        }
        Ok(())
    }
}

/// Holds the people of an organization until the transaction ends. Returns the member with the role of now:
/// the request may have begun a while ago. Refuses who is no admin any more.
///
/// Transactions take their locks in one order, or two of them could wait for each other: the row of the
/// organization, one-time links, users, sessions, projects, keys, and what [`Tx::audit`] names.
pub(crate) async fn hold_people(tx: &mut Tx, member: &Member, now: Timestamp) -> Result<Member> {
    tx.organization(member.org).await?.ok_or(Error::NotFound)?;
    let member = member_of_now(tx, member, now).await?;
    member.check_admin()?;
    Ok(member)
}

/// The member with the role and the projects that they have within the transaction. Refuses who is no member any
/// more, or whose session or service token has ended since the request was let in.
pub(crate) async fn member_of_now(tx: &mut Tx, member: &Member, now: Timestamp) -> Result<Member> {
    let (role, projects) = match member.token {
        Some(token) => {
            let token = tx.service_token(token).await?.ok_or(Error::InvalidToken)?;
            if token.expires_at.is_some_and(|at| at <= now) {
                return Err(Error::TokenExpired);
            }
            (token.role, token.projects)
        }
        None => {
            check_session(tx, member).await?;
            let person = tx.person(member.org, member.user).await?.ok_or(Error::Forbidden)?;
            (person.role, person.projects)
        }
    };
    let projects = if role.is_admin() { Vec::new() } else { projects };
    Ok(Member { role, projects, ..member.clone() })
}

/// The same for admins and owners alone.
pub(crate) async fn admin_of_now(tx: &mut Tx, member: &Member, now: Timestamp) -> Result<Member> {
    let member = member_of_now(tx, member, now).await?;
    member.check_admin()?;
    Ok(member)
}

/// The power of a role, among the others.
pub(crate) fn rank(role: Role) -> u8 {
    match role {
        Role::Viewer => 0,
        Role::Member => 1,
        Role::Admin => 2,
        Role::Owner => 3,
    }
}

/// A role by its word.
pub(crate) fn read_role(word: &str) -> Result<Role> {
    let none = || Error::invalid("role must be one of owner, admin, member, viewer");
    Role::parse(word).ok_or_else(none)
}

/// Refuses admins the role that stands above them.
pub(crate) fn check_may_grant(member: &Member, role: Role) -> Result<()> {
    if role == Role::Owner { member.check_owner() } else { Ok(()) }
}

/// Refuses admins the people who stand above them.
fn check_may_change(member: &Member, role: Role) -> Result<()> {
    check_may_grant(member, role)
}

async fn check_not_last(tx: &mut Tx, org: OrgId, what: &str) -> Result<()> {
    if tx.count_owners(org).await? > 1 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "The last owner cannot be {what}: make somebody else an owner first"
    )))
}

/// Audit metadata about a user: their address, and what was changed.
pub(crate) fn about(person: &Person, name: &str, value: Value) -> Map<String, Value> {
    let email = Value::String(person.email.clone());
    Map::from_iter([("email".to_owned(), email), (name.to_owned(), value)])
}
