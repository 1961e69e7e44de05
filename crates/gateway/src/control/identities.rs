//! The accounts of a user at issuers: listed, and linked once their owner has confirmed it.

use aws_lc_rs::digest;
use domain::project::Role;
use domain::secret::Secret;
use serde_json::{Map, Value};
use store::{Account, LinkedIdentity};

use crate::audit::Event;
use crate::control::held_account::hold_account;
use crate::control::last_ways_in::{check_way_left, last_way_in};
use crate::control::session_tokens::hex;
use crate::control::sign_on_cookies::{LinkCookie, open};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// A link that waits for the owner of the account.
#[derive(Clone, Debug)]
pub struct PendingLink {
    /// The name of the provider.
    pub provider: String,
    /// The address that the account and the user of the issuer share.
    pub email: String,
    /// The path to go to afterwards.
    pub next: String,
}

impl Gateway {
    /// The accounts of the member at issuers, the latest first.
    pub async fn own_identities(&self, member: &Member) -> Result<Vec<LinkedIdentity>> {
        Ok(self.store.identities(member.user).await?)
    }

    /// Removes an identity of the member's own account, and ends their other sessions. The last way in stays.
    pub async fn unlink_identity(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
        id: &str,
    ) -> Result<()> {
        self.confirm_password_owner(member, account, password).await?;
        let mut tx = self.store.begin().await?;
        tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        hold_account(&mut tx, member, account, None).await?;
        let identities = tx.identities(member.user).await?;
        let identity = identities.into_iter().find(|identity| identity_id(identity) == id);
        let identity = identity.ok_or(Error::NotFound)?;
        let known_as = (identity.issuer.as_str(), identity.subject.as_str());
        let is_bound = member.role != Role::Owner
            && tx.comes_by_provider(member.org, member.user).await?
            && tx.is_password_login_disabled(member.org).await?;
        if !tx.unlink_identity(member.user, known_as).await? {
            return Err(Error::NotFound);
        }
        if is_bound && tx.identities(member.user).await?.is_empty() {
            return Err(last_way_in());
        }
        check_way_left(&mut tx, member.org, member.user).await?;
        tx.end_sessions(member.user, member.session.as_ref()).await?;
        let metadata =
            Map::from_iter([("issuer".to_owned(), Value::from(identity.issuer.as_str()))]);
        let target = ("user", member.user.to_string());
        self.note_act(&mut tx, member, Event::IdentityUnlinked, target, metadata).await?;
        Ok(tx.commit().await?)
    }

    /// The link that a browser keeps, while it is good.
    pub fn pending_link(&self, cookie: &str) -> Option<PendingLink> {
        let link: LinkCookie = open(self.registry.pepper(), cookie, self.clock.now())?;
        Some(PendingLink { provider: link.provider_name, email: link.email, next: link.next })
    }

    /// Links the account to the user of an issuer who came in this browser. The owner confirms it with the
    /// password.
    pub async fn link_identity(
        &self,
        member: &Member,
        account: &Account,
        cookie: Option<&str>,
        password: Secret,
    ) -> Result<()> {
        let link = cookie.and_then(|cookie| {
            open::<LinkCookie>(self.registry.pepper(), cookie, self.clock.now())
        });
        let link = link.ok_or_else(|| {
            Error::invalid("No sign-on waits to be linked: sign in by your provider first")
        })?;
        if link.user != member.user || link.email != account.email {
            return Err(Error::invalid(format!(
                "The sign-on belongs to {}: sign in to that account first",
                link.email
            )));
        }
        self.confirm_password_owner(member, account, password).await?;
        let mut tx = self.store.begin().await?;
        tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        hold_account(&mut tx, member, account, None).await?;
        // It may have been removed while the link waited.
        let now = self.store.sign_on_provider_of_now(&mut tx, member.org, link.provider).await?;
        if !now.is_some_and(|now| now.is_client(&link.issuer, &link.client_id)) {
            return Err(Error::invalid(format!("{} is no provider any more", link.provider_name)));
        }
        let (known_as, now) = ((link.issuer.as_str(), link.subject.as_str()), self.clock.now());
        match tx.add_identity(member.user, known_as, &link.email, now).await {
            Err(store::Error::Taken) => return Err(Error::invalid("It is linked already")),
            added => added?,
        }
        let metadata = Map::from_iter([("issuer".to_owned(), Value::from(link.issuer.as_str()))]);
        let target = ("user", member.user.to_string());
        self.note_act(&mut tx, member, Event::IdentityLinked, target, metadata).await?;
        Ok(tx.commit().await?)
    }
}

/// The id of an identity, by which it is named: nobody reads the subject from it.
pub fn identity_id(identity: &LinkedIdentity) -> String {
    let known_as = format!("{}\0{}", identity.issuer, identity.subject);
    hex(&digest::digest(&digest::SHA256, known_as.as_bytes()).as_ref()[..8])
}
