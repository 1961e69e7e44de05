//! Invitations: people who do not have an account yet, the role and the projects that wait for them.

use std::time::Duration;

use domain::ids::ProjectId;
use domain::project::Role;
use domain::secret::Secret;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};
use store::{Account, Actor, LinkPurpose, OneTimeLink};

use crate::audit::{Event, Noted};
use crate::bounded_read::bounded;
use crate::capacity::hashing::HashedFor;
use crate::control::links::{Handover, deliver, prefix_of};
use crate::control::members::clean_email;
use crate::control::people::{check_may_grant, hold_people, read_role};
use crate::control::projects::clean_name;
use crate::control::session_tokens::hex;
use crate::control::sessions::{SignedIn, Standing, hash_password_aside};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::member::Member;

/// The time for which an invitation is good.
const GOOD_FOR: Duration = Duration::from_hours(72);
/// The most invitations that are listed.
const LISTED: i64 = 1_000;

/// An invitation that is about to be made.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// The address of the person.
    pub email: String,
    /// Their role.
    pub role: String,
    /// The projects that they will be a member of.
    pub projects: Vec<ProjectId>,
}

/// An invitation as admins see it.
#[derive(Clone, Debug)]
pub struct InvitationView {
    /// The first 16 hex digits of the hash of its token.
    pub id: String,
    /// The address of the person.
    pub email: String,
    /// Their role.
    pub role: Role,
    /// The projects that they will be a member of.
    pub projects: Vec<ProjectId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The time from which on it is no longer good.
    pub expires_at: Timestamp,
}

impl Gateway {
    /// Invites a person; an earlier invitation of the address ends. The link goes to them by letter, or is in
    /// the answer and nowhere else.
    pub async fn invite(
        &self,
        member: &Member,
        new: NewInvitation,
    ) -> Result<(InvitationView, Handover)> {
        member.check_person()?;
        member.check_admin()?;
        let email = clean_email(&new.email)?;
        let role = read_role(&new.role)?;
        check_may_grant(member, role)?;
        let mut projects = new.projects;
        projects.sort_unstable();
        projects.dedup();
        self.check_projects(member, &projects)?;
        if self.has_mail() && !mail::is_address(&email) {
            return Err(Error::invalid("Email is not an address that letters can be sent to"));
        }
        if self.store.account(&email).await?.is_some() {
            return Err(taken(&email));
        }
        // Only a password makes an owner, so a provider's word for an address does not.
        let purpose = match self.ways_to_sign_in_of(member.org).await? {
            (_, true) => "You are invited to Sluice. This link makes your account:",
            (_, false) if role == Role::Owner => {
                return Err(Error::invalid(
                    "An owner's invitation is accepted with a password, and passwords are disabled: invite an admin, \
                     and make them an owner afterwards",
                ));
            }
            (providers, false) if !providers.is_empty() && self.public_url().is_some() => {
                "You are invited to Sluice. This link leads to the sign-in by your organization's provider, which \
                 has to know you by this address:"
            }
            _ => {
                return Err(Error::invalid(
                    "Nobody could accept it: passwords are disabled, and no provider of single sign-on works \
                     without public_url",
                ));
            }
        };
        let room = self.letter_room()?;
        let (link, row) = self.new_link(LinkPurpose::Invitation, member.org, &email, GOOD_FOR)?;
        let (role_given, created_by) = (Some(role), Some(member.user));
        let row = OneTimeLink { role: role_given, projects, created_by, ..row };
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        check_may_grant(member, role)?;
        if let Some(role) = tx.invited_role(member.org, &row.email, row.created_at).await? {
            check_may_grant(member, role)?;
        }
        tx.add_link(LinkPurpose::Invitation, &row).await?;
        // Whoever was removed is let in again.
        tx.forget_removed(&row.email).await?;
        let metadata = json!({"email": row.email, "role": role.as_str(), "projects": row.projects});
        let view = view(row)?;
        let target = ("invitation", view.id.clone());
        let metadata = metadata.as_object().cloned().unwrap_or_default();
        self.note_act(&mut tx, member, Event::MemberInvited, target, metadata).await?;
        tx.commit().await?;
        let subject = "An invitation to Sluice";
        let handover = deliver(room, &view.email, subject, purpose, link, "72 hours");
        Ok((view, handover))
    }

    /// The invitations that are still good, newest first; at most 1,000.
    pub async fn list_invitations(&self, member: &Member) -> Result<Vec<InvitationView>> {
        self.invitations_after(member, None, LISTED).await
    }

    /// The first `most` invitations that are still good, newest first, behind the one that was made at a time and has
    /// an id; it may be gone.
    pub async fn invitations_after(
        &self,
        member: &Member,
        after: Option<(Timestamp, &str)>,
        most: i64,
    ) -> Result<Vec<InvitationView>> {
        member.check_admin()?;
        let hash = |id: &str| {
            // The last of the hashes that begin like this.
            let mut hash = [0xff; 32];
            hash[..8].copy_from_slice(&prefix_of(id).ok_or(Error::NotFound)?);
            Ok::<_, Error>(hash)
        };
        let after = after.map(|(made, id)| Ok::<_, Error>((made, hash(id)?))).transpose()?;
        let (org, now) = (member.org, self.clock.now());
        let links = self.store.links(org, LinkPurpose::Invitation, now, after, most);
        let links = bounded(links).await?;
        links.into_iter().map(view).collect()
    }

    /// Withdraws an invitation.
    pub async fn withdraw_invitation(&self, member: &Member, id: &str) -> Result<()> {
        member.check_admin()?;
        let prefix = prefix_of(id).ok_or(Error::NotFound)?;
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        let withdrawn = tx.withdraw_link(member.org, LinkPurpose::Invitation, prefix).await?;
        let (email, role) = withdrawn.ok_or(Error::NotFound)?;
        check_may_grant(member, role.unwrap_or(Role::Viewer))?;
        let target = ("invitation", id.to_owned());
        let metadata = Map::from_iter([("email".to_owned(), Value::String(email))]);
        self.note_act(&mut tx, member, Event::InvitationWithdrawn, target, metadata).await?;
        Ok(tx.commit().await?)
    }

    /// Accepts an invitation: the account is made, and signed in.
    pub async fn accept_invitation(
        &self,
        token: &str,
        name: &str,
        password: Secret,
        origin: &Origin,
    ) -> Result<SignedIn> {
        let found = self.find_link(LinkPurpose::Invitation, token, origin).await?;
        let name = clean_name(name)?;
        if self.is_password_login_disabled_in(found.org).await? {
            return Err(Error::invalid(
                "Your organization has disabled passwords: sign in by its provider instead",
            ));
        }
        let hash = hash_password_aside(password, HashedFor::Stranger).await?;
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let purpose = LinkPurpose::Invitation;
        let (organization, link) = self.take_link(&mut tx, purpose, &found).await?;
        let role = link.role.ok_or(Error::LinkInvalid)?;
        let user = match tx.add_user(link.org, &link.email, &hash, role, now).await {
            Err(store::Error::Taken) => return Err(taken(&link.email)),
            user => user?,
        };
        tx.set_name(user, &name).await?;
        for project in &link.projects {
            // It may have been deleted since.
            if tx.has_project(link.org, *project).await? {
                tx.add_project_member(*project, user).await?;
            }
        }
        let token = self.begin_session(&mut tx, user, Standing::Full, origin).await?;
        let account = Account {
            user,
            email: link.email,
            name,
            password_hash: hash,
            mfa_enabled: false,
            org: link.org,
            org_name: organization.name,
            role,
        };
        let metadata = Map::from_iter([("role".to_owned(), Value::from(role.as_str()))]);
        let noted = Noted {
            org: link.org,
            event: Event::MemberJoined,
            actor: Some(Actor::User(user, &account.email)),
            target: Some(("user", user.to_string())),
            metadata,
        };
        self.note(&mut tx, origin, noted).await?;
        let noted = Noted {
            org: link.org,
            event: Event::LoginSuccess,
            actor: Some(Actor::User(user, &account.email)),
            target: None,
            metadata: Map::from_iter([("email".to_owned(), account.email.as_str().into())]),
        };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        Ok(SignedIn { token, account })
    }
}

fn taken(email: &str) -> Error {
    Error::invalid(format!("{email} has an account already"))
}

fn view(link: OneTimeLink) -> Result<InvitationView> {
    let role =
        link.role.ok_or_else(|| Error::Internal("an invitation without a role".to_owned()))?;
    Ok(InvitationView {
        id: hex(&link.token_hash[..8]),
        email: link.email,
        role,
        projects: link.projects,
        created_at: link.created_at,
        expires_at: link.expires_at,
    })
}
