//! Passwords that are replaced: by their owner, or by a link.

use std::time::Duration;

use domain::ids::{OrgId, UserId};
use domain::project::Role;
use domain::secret::Secret;
use mail::Letter;
use serde_json::{Map, Value};
use store::{Account, LinkPurpose, OneTimeLink, Tx};

use crate::audit::{Event, Noted};
use crate::capacity::hashing::HashedFor;
use crate::control::held_account::hold_account;
use crate::control::links::{Handover, Link, deliver};
use crate::control::members::{check_password, clean_email};
use crate::control::people::hold_people;
use crate::control::sessions::hash_password_aside;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::outbox::{Errand, letter};
use crate::state::caller::Origin;
use crate::state::member::Member;
use crate::state::perimeter_counts::network;

/// The time for which a link to a new password is good.
const GOOD_FOR: Duration = Duration::from_hours(1);
pub(crate) const SUBJECT: &str = "A new password at Sluice";
pub(crate) const PURPOSE: &str =
    "This link sets a new password for your account, and ends its sessions:";

impl Gateway {
    /// Replaces the password of the member's own account, or sets a first one, and ends their other sessions.
    pub async fn change_own_password(
        &self,
        member: &Member,
        account: &Account,
        old: Secret,
        new: Secret,
    ) -> Result<()> {
        check_password(&new)?;
        self.confirm_password_owner(member, account, old).await?;
        let hash = hash_password_aside(new, HashedFor::Known).await?;
        let mut tx = self.store.begin().await?;
        tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        // It would be no way in, and would have a passkey sign in alone that must not.
        if account.password_hash.is_empty()
            && member.role != Role::Owner
            && tx.is_password_login_disabled(member.org).await?
        {
            return Err(Error::invalid("Passwords are disabled: you sign in by your provider"));
        }
        tx.drop_password_links(member.user).await?;
        hold_account(&mut tx, member, account, Some(&hash)).await?;
        tx.end_sessions(member.user, member.session.as_ref()).await?;
        let target = ("user", member.user.to_string());
        self.note_act(&mut tx, member, Event::PasswordChanged, target, Map::new()).await?;
        Ok(tx.commit().await?)
    }

    /// Makes a link by which a user sets a new password. It goes to them by letter, or is in the answer and
    /// nowhere else.
    pub async fn offer_password_link(&self, member: &Member, user: UserId) -> Result<Handover> {
        member.check_person()?;
        member.check_owner()?;
        if user == member.user {
            // A stolen session must not set a password without the old one.
            return Err(Error::invalid(
                "Your own password is changed with POST /api/v1/session/password",
            ));
        }
        let room = self.letter_room()?;
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        member.check_owner()?;
        if tx.is_password_login_disabled(member.org).await? {
            return Err(Error::invalid(
                "Passwords are disabled, so the link would be no way in: the user comes by their provider",
            ));
        }
        let email = tx.member_email(member.org, user).await?.ok_or(Error::NotFound)?;
        let maker = Some(member.user);
        let link = self.add_password_link(&mut tx, member.org, user, &email, maker).await?;
        let metadata = Map::from_iter([("email".to_owned(), Value::from(email.as_str()))]);
        let target = ("user", user.to_string());
        self.note_act(&mut tx, member, Event::PasswordLinkMade, target, metadata).await?;
        tx.commit().await?;
        Ok(deliver(room, &email, SUBJECT, PURPOSE, link, "an hour"))
    }

    /// Has a link to a new password sent to an address, if that has an account. The answer is the same, and
    /// takes as long, if it has none.
    pub async fn ask_new_password(&self, email: &str, origin: &Origin) -> Result<()> {
        self.check_address(origin).await?;
        let room = self.letter_room()?.ok_or_else(|| {
            Error::invalid(
                "No mail server is configured: ask an owner of your organization for a link",
            )
        })?;
        let email = clean_email(email)?;
        let now = self.clock.now();
        self.login_throttle.book_letter(network(origin.address), &email, now).await?;
        room.send(Errand::NewPassword { email, origin: origin.clone() });
        Ok(())
    }

    /// The letter to an address that has asked for a new password; `None` if it has no account.
    pub(crate) async fn new_password_letter(
        &self,
        email: &str,
        origin: &Origin,
    ) -> Result<Option<Letter>> {
        let Some(account) = self.store.account(email).await? else { return Ok(None) };
        let mut tx = self.store.begin().await?;
        let organization = tx.organization(account.org).await?.ok_or(Error::NotFound)?;
        // An owner may have ended every way in, or removed the user, since it was read.
        let Some(account) = tx.account(email).await? else { return Ok(None) };
        // No letter gives a first password to somebody who signs in by an issuer: it would bypass the issuer's
        // own factors.
        let is_disabled = organization.read_settings()?.security.disable_password_login;
        if account.password_hash.is_empty() || is_disabled {
            return Ok(None);
        }
        let link = self.add_password_link(&mut tx, account.org, account.user, email, None).await?;
        let noted = Noted {
            org: account.org,
            event: Event::PasswordLinkMade,
            actor: None,
            target: Some(("user", account.user.to_string())),
            metadata: Map::from_iter([("email".to_owned(), Value::from(email))]),
        };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        Ok(Some(letter(email, SUBJECT, PURPOSE, &link.address, "an hour")))
    }

    pub(crate) async fn add_password_link(
        &self,
        tx: &mut Tx,
        org: OrgId,
        user: UserId,
        email: &str,
        maker: Option<UserId>,
    ) -> Result<Link> {
        let (link, row) = self.new_link(LinkPurpose::Password, org, email, GOOD_FOR)?;
        let row = OneTimeLink { user: Some(user), created_by: maker, ..row };
        tx.add_link(LinkPurpose::Password, &row).await?;
        Ok(link)
    }

    /// Sets a new password by a link, and ends all sessions of the user. Their second factor stays.
    pub async fn reset_password_by_link(
        &self,
        token: &str,
        password: Secret,
        origin: &Origin,
    ) -> Result<()> {
        let found = self.find_link(LinkPurpose::Password, token, origin).await?;
        let hash = hash_password_aside(password, HashedFor::Stranger).await?;
        let mut tx = self.store.begin().await?;
        let (_, link) = self.take_link(&mut tx, LinkPurpose::Password, &found).await?;
        let user = link.user.ok_or(Error::LinkInvalid)?;
        tx.set_password(user, &hash).await?;
        let noted = Noted {
            org: link.org,
            event: Event::PasswordReset,
            actor: None,
            target: Some(("user", user.to_string())),
            metadata: Map::from_iter([("email".to_owned(), Value::String(link.email))]),
        };
        self.note(&mut tx, origin, noted).await?;
        Ok(tx.commit().await?)
    }

    /// Records a wrong password, which stays booked.
    pub(crate) async fn refuse_password(&self, member: &Member) -> Result<()> {
        let mut tx = self.store.begin().await?;
        let target = ("user", member.user.to_string());
        self.note_act(&mut tx, member, Event::LoginFailed, target, Map::new()).await?;
        tx.commit().await?;
        Err(Error::invalid("The password is wrong"))
    }
}
