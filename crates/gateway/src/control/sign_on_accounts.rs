//! The account of somebody whom an issuer knows: found, made, or still to be linked.

use domain::ids::{OrgId, ProjectId};
use domain::project::Role;
use domain::sign_on::assigned;
use providers::Identity;
use serde_json::{Map, Value, json};
use store::{Account, Actor, LinkPurpose, OneTimeLink, Organization, SignOnProvider, Tx};

use crate::audit::{Event, Noted};
use crate::control::members::clean_email;
use crate::control::people::{about, rank};
use crate::control::projects::clean_name;
use crate::control::session_tokens::hex;
use crate::control::sessions::{CameBy, SignIn, SignedIn, Standing};
use crate::control::sign_on::{Refused, SignedOn};
use crate::control::sign_on_cookies::{FlowCookie, LinkCookie, seal};
use crate::error::{Error, Result, SignOnRefusal};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::failure_rows::{FailureKind, RowPlace};

/// The longest name that is taken from an issuer, in characters.
const LONGEST_NAME: usize = 255;

/// The account of an identity, or the one that has its address.
enum Found {
    Account(Account),
    Link(LinkCookie),
}

type Outcome<T> = Result<std::result::Result<T, Refused>>;

impl Gateway {
    /// Signs in whoever the issuer says it is.
    pub(crate) async fn sign_in_as(
        &self,
        provider: &SignOnProvider,
        identity: &Identity,
        flow: &FlowCookie,
        origin: &Origin,
    ) -> Outcome<SignedOn> {
        let invited = match &flow.invitation {
            Some(hash) => self.store.link(hash, LinkPurpose::Invitation, self.clock.now()).await?,
            None => None,
        };
        let mut tx = self.store.begin().await?;
        // Every change of people holds their organization.
        let organization = tx.organization(provider.org).await?.ok_or(Error::NotFound)?;
        // It may have been removed or changed while its issuer was asked.
        let Some(provider) = &self.provider_of_now(&mut tx, provider).await? else {
            return Ok(Err(Refused::new(SignOnRefusal::Stale, "provider_changed")));
        };
        let found =
            self.find_account(&mut tx, provider, &organization, identity, invited, origin).await?;
        let account = match found {
            Ok(Found::Account(account)) => account,
            Ok(Found::Link(cookie)) => {
                let place = self.failure_rows.place(FailureKind::Offer, self.clock.now());
                if let Some(place) = place {
                    self.note_offered_link(&mut tx, provider, &cookie, &place, origin).await?;
                    tx.commit().await?;
                    place.written();
                }
                let cookie = LinkCookie { next: flow.next.clone(), ..cookie };
                return Ok(Ok(SignedOn::LinkFirst(seal(
                    self.registry.pepper(),
                    &cookie,
                    self.clock.now(),
                )?)));
            }
            Err(refused) => {
                // The sessions of who may no longer sign in have ended.
                tx.commit().await?;
                return Ok(Err(refused));
            }
        };
        let has_factor = provider.trusts_factor && identity.has_second_factor();
        let awaits_factor = account.mfa_enabled && !has_factor;
        let standing = if awaits_factor { Standing::AwaitsFactor } else { Standing::Full };
        let authenticated_at = identity.authenticated_at().unwrap_or_default();
        let came = CameBy {
            provider: Some(provider.id),
            has_factor,
            // The time that a session has for its second factor begins now.
            authenticated_at: (!awaits_factor).then_some(authenticated_at),
        };
        let token = self.begin_session_by(&mut tx, account.user, standing, came, origin).await?;
        let hint = self.sign_out_hint(account.user, identity)?;
        if awaits_factor {
            tx.commit().await?;
            return Ok(Ok(SignedOn::In { signed_in: SignIn::AwaitsFactor(token), hint }));
        }
        let metadata = Map::from_iter([
            ("email".to_owned(), Value::from(account.email.as_str())),
            ("provider".to_owned(), provider.slug.as_str().into()),
        ]);
        let noted = Noted {
            org: account.org,
            event: Event::LoginSuccess,
            actor: Some(Actor::User(account.user, &account.email)),
            target: None,
            metadata,
        };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        let signed_in = SignIn::Complete(Box::new(SignedIn { token, account }));
        Ok(Ok(SignedOn::In { signed_in, hint }))
    }

    /// A provider as it is now; `None` if it is removed, or asks another issuer or as another client.
    async fn provider_of_now(
        &self,
        tx: &mut Tx,
        asked: &SignOnProvider,
    ) -> Result<Option<SignOnProvider>> {
        let now = self.store.sign_on_provider_of_now(tx, asked.org, asked.id).await?;
        Ok(now.filter(|now| now.is_client(&asked.issuer, &asked.client_id)))
    }

    /// Records that somebody with the address of an account has come, who is to be linked to it.
    async fn note_offered_link(
        &self,
        tx: &mut Tx,
        provider: &SignOnProvider,
        link: &LinkCookie,
        place: &RowPlace<'_>,
        origin: &Origin,
    ) -> Result<()> {
        let mut metadata = Map::from_iter([
            ("email".to_owned(), Value::from(link.email.as_str())),
            ("issuer".to_owned(), link.issuer.as_str().into()),
            ("provider".to_owned(), provider.slug.as_str().into()),
        ]);
        place.tell(&mut metadata);
        let (org, event) = (provider.org, Event::IdentityLinkOffered);
        let target = Some(("user", link.user.to_string()));
        self.note(tx, origin, Noted { org, event, actor: None, target, metadata }).await.map(drop)
    }

    /// The account of an identity. `invited` is the invitation whose link the browser came by.
    async fn find_account(
        &self,
        tx: &mut Tx,
        provider: &SignOnProvider,
        organization: &Organization,
        identity: &Identity,
        invited: Option<OneTimeLink>,
        origin: &Origin,
    ) -> Outcome<Found> {
        let (issuer, subject) = (&identity.issuer, &identity.subject);
        let known = tx.account_by_identity(provider.org, issuer, subject).await?;
        if let Some((account, made)) = known {
            // A factor may have been set up, or the password changed, since the account was read. Users come before
            // the head of the audit, as everywhere.
            if !tx.confirm_password(&account, None).await? {
                return Err(Error::Unauthorized);
            }
            if !made || account.role == Role::Owner {
                return Ok(Ok(Found::Account(account)));
            }
            let assigned = self.reassign(tx, provider, organization, account, identity, origin);
            return Ok(assigned.await?.map(Found::Account));
        }
        let refused = |refusal, reason| {
            let email = identity.email().map(|email| email.chars().take(254).collect());
            Ok(Err(Refused { email, ..Refused::new(refusal, reason) }))
        };
        let email = identity.email().and_then(|email| clean_email(email).ok());
        if tx.is_removed((issuer, subject), email.as_deref()).await? {
            return refused(SignOnRefusal::Removed, "removed");
        }
        let Some(email) = email else { return refused(SignOnRefusal::NoEmail, "no_email") };
        if let Some(user) = tx.user_by_email(&email).await? {
            if !identity.is_email_verified() {
                return refused(SignOnRefusal::EmailTaken, "email_not_verified");
            }
            return Ok(Ok(Found::Link(LinkCookie {
                provider: provider.id,
                client_id: provider.client_id.clone(),
                provider_name: provider.name.clone(),
                issuer: issuer.clone(),
                subject: subject.clone(),
                email,
                user,
                next: String::new(),
            })));
        }
        let groups = identity.values(&provider.groups_claim);
        let has_rule = assigned(&provider.rules, &groups, None).is_some();
        let accepted =
            self.accept_by_link(tx, organization.id, (identity, &email), invited, has_rule);
        let invitation = match accepted.await? {
            Ok(invitation) => invitation,
            Err((refusal, reason)) => return refused(refusal, reason),
        };
        let invited = invitation.as_ref().and_then(|link| Some((link.role?, &link.projects[..])));
        let default = organization.read_settings()?.security.default_role;
        let given = invited.or_else(|| assigned(&provider.rules, &groups, default));
        let Some((role, projects)) = given else {
            return refused(SignOnRefusal::NoRule, "no_rule");
        };
        let account = self.make_user(tx, organization, identity, &email, role).await?;
        let projects = own_projects(tx, organization, projects).await?;
        tx.set_projects(account.user, &projects).await?;
        let mut metadata = Map::from_iter([
            ("role".to_owned(), Value::from(role.as_str())),
            ("provider".to_owned(), provider.slug.as_str().into()),
        ]);
        if let Some(link) = &invitation {
            metadata.insert("invitation".to_owned(), hex(&link.token_hash[..8]).into());
        } else {
            tx.note_made_by_sign_on(account.user).await?;
        }
        let noted = Noted {
            org: provider.org,
            event: Event::MemberJoined,
            actor: Some(Actor::User(account.user, &account.email)),
            target: Some(("user", account.user.to_string())),
            metadata,
        };
        self.note(tx, origin, noted).await?;
        Ok(Ok(Found::Account(account)))
    }

    /// The invitation that a sign-on uses up: the one whose link the browser came by, if no rule gives a role. A rule
    /// goes before it, since it would decide at the next sign-on in any case. Nobody else may end an open invitation
    /// of an address: the refusal of whoever would.
    async fn accept_by_link(
        &self,
        tx: &mut Tx,
        org: OrgId,
        (identity, email): (&Identity, &str),
        link: Option<OneTimeLink>,
        has_rule: bool,
    ) -> Result<std::result::Result<Option<OneTimeLink>, (SignOnRefusal, &'static str)>> {
        let now = self.clock.now();
        // Anybody could claim an address that is not verified. Whoever comes by the link has the letter.
        let is_proven = identity.is_email_verified()
            || has_rule && link.as_ref().is_some_and(|link| link.org == org && link.email == email);
        let invited = tx.invited_role(org, email, now).await?;
        if invited.is_some() && !is_proven {
            return Ok(Err((SignOnRefusal::EmailTaken, "email_not_verified")));
        }
        match link.filter(|link| is_for(link, org, identity)) {
            _ if has_rule => Ok(Ok(None)),
            // A provider that names an address must not make an owner.
            Some(link) if link.role == Some(Role::Owner) => {
                Ok(Err((SignOnRefusal::OwnerInvited, "owner_invited")))
            }
            Some(link) => {
                Ok(Ok(tx.use_link(&link.token_hash, LinkPurpose::Invitation, now).await?))
            }
            // A default role would use it up.
            None if invited.is_some() => Ok(Err((SignOnRefusal::Invited, "invited"))),
            None => Ok(Ok(None)),
        }
    }

    /// Makes a user without a password.
    async fn make_user(
        &self,
        tx: &mut Tx,
        organization: &Organization,
        identity: &Identity,
        email: &str,
        role: Role,
    ) -> Result<Account> {
        let now = self.clock.now();
        let user = tx.add_user(organization.id, email, "", role, now).await?;
        // They have come without it.
        tx.drop_links_to(organization.id, LinkPurpose::Invitation, email).await?;
        let given = identity.name().unwrap_or_default().chars().take(LONGEST_NAME);
        let given = clean_name(&given.filter(|c| !c.is_control()).collect::<String>()).ok();
        if let Some(name) = &given {
            tx.set_name(user, name).await?;
        }
        if identity.is_email_verified() {
            tx.verify_email(user, email, now).await?;
        }
        let known_as = (identity.issuer.as_str(), identity.subject.as_str());
        tx.add_identity(user, known_as, email, now).await?;
        let name = given.unwrap_or_else(|| email.split('@').next().unwrap_or(email).to_owned());
        Ok(Account {
            user,
            email: email.to_owned(),
            name,
            password_hash: String::new(),
            mfa_enabled: false,
            org: organization.id,
            org_name: organization.name.clone(),
            role,
        })
    }

    /// Gives a user that a sign-on has made the role and the projects of today's groups. Without any, their
    /// sessions end, and what they have given to others.
    async fn reassign(
        &self,
        tx: &mut Tx,
        provider: &SignOnProvider,
        organization: &Organization,
        mut account: Account,
        identity: &Identity,
        origin: &Origin,
    ) -> Outcome<Account> {
        let groups = identity.values(&provider.groups_claim);
        let default = organization.read_settings()?.security.default_role;
        let Some((role, projects)) = assigned(&provider.rules, &groups, default) else {
            let mut metadata = Map::new();
            self.end_grants(tx, account.user, None, &mut metadata).await?;
            let ended = tx.end_sessions(account.user, None).await?;
            if ended > 0 || !metadata.is_empty() {
                metadata.extend([
                    ("email".to_owned(), Value::from(account.email.as_str())),
                    ("provider".to_owned(), provider.slug.as_str().into()),
                    ("reason".to_owned(), "no_rule".into()),
                    ("sessions".to_owned(), ended.into()),
                ]);
                let target = Some(("user", account.user.to_string()));
                let (org, event) = (provider.org, Event::SessionRevoked);
                let noted = Noted { org, event, actor: None, target, metadata };
                self.note(tx, origin, noted).await?;
            }
            let refused = Refused::new(SignOnRefusal::NoRule, "no_rule");
            return Ok(Err(Refused { email: Some(account.email), ..refused }));
        };
        let projects = own_projects(tx, organization, projects).await?;
        let person = tx.person(provider.org, account.user).await?.ok_or(Error::NotFound)?;
        let mut noted = Vec::new();
        if role != person.role {
            tx.set_role(provider.org, account.user, role).await?;
            let change = json!({"old": person.role.as_str(), "new": role.as_str()});
            let mut metadata = about(&person, "role", change);
            if rank(role) < rank(person.role) {
                self.end_grants(tx, account.user, Some(role), &mut metadata).await?;
            }
            noted.push((Event::MemberRoleChanged, metadata));
            account.role = role;
        }
        if projects != person.projects {
            tx.set_projects(account.user, &projects).await?;
            let change = json!({"old": person.projects, "new": projects});
            noted.push((Event::MemberProjectsChanged, about(&person, "projects", change)));
        }
        for (event, mut metadata) in noted {
            metadata.insert("provider".to_owned(), provider.slug.as_str().into());
            let target = Some(("user", account.user.to_string()));
            let noted = Noted { org: provider.org, event, actor: None, target, metadata };
            self.note(tx, origin, noted).await?;
        }
        Ok(Ok(account))
    }
}

/// Whether an invitation is for the address that an issuer has verified of somebody. A letter beyond ASCII whose lower
/// case is in ASCII, as that of the sign of Kelvin, is not the letter of the invitation.
fn is_for(link: &OneTimeLink, org: OrgId, identity: &Identity) -> bool {
    let is_same = |given: &str| {
        let given = given.trim();
        let mut pairs = given.chars().zip(link.email.chars());
        given.to_lowercase() == link.email && pairs.all(|(a, b)| a.is_ascii() == b.is_ascii())
    };
    identity.is_email_verified() && link.org == org && identity.email().is_some_and(is_same)
}

/// Those of these projects that the organization still has, by number.
async fn own_projects(
    tx: &mut Tx,
    organization: &Organization,
    projects: &[ProjectId],
) -> Result<Vec<ProjectId>> {
    let mut own = Vec::with_capacity(projects.len());
    for project in projects {
        if tx.has_project(organization.id, *project).await? {
            own.push(*project);
        }
    }
    own.sort_unstable();
    own.dedup();
    Ok(own)
}
