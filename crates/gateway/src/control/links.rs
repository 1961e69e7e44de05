//! One-time links: made, found, refused.

use std::time::Duration;

use domain::ids::OrgId;
use domain::secret::Secret;
use serde_json::{Map, Value};
use store::{LinkPurpose, OneTimeLink, Organization, Tx};

use crate::audit::{Event, Noted};
use crate::control::link_token;
use crate::control::session_tokens::hash_token;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::outbox::{Errand, Outbox, Room, letter};
use crate::state::caller::Origin;
use crate::state::failure_rows::{FailureKind, RowPlace};
use crate::state::perimeter_counts::{PerimeterReason, network};

/// A link for one person. It is good once.
#[derive(Clone, Debug)]
pub struct Link {
    /// The token in it.
    pub token: Secret,
    /// The whole address; without a public address of the gateway, from its path on.
    pub address: Secret,
}

/// The way of a link to its person.
#[derive(Clone, Debug)]
pub enum Handover {
    /// It is sent by letter.
    Sent,
    /// There is no mail server: whoever made the link hands it over.
    Shown(Link),
}

/// Sends a link by letter, or returns it where there is no mail server.
pub(crate) fn deliver(
    room: Option<Room<'_>>,
    to: &str,
    subject: &str,
    purpose: &str,
    link: Link,
    good_for: &str,
) -> Handover {
    let Some(room) = room else { return Handover::Shown(link) };
    room.send(Errand::Letter(letter(to, subject, purpose, &link.address, good_for)));
    Handover::Sent
}

impl Gateway {
    /// Room for a letter, taken before anything is changed; `None` without a mail server.
    pub(crate) fn letter_room(&self) -> Result<Option<Room<'_>>> {
        self.outbox.as_ref().map(Outbox::room).transpose()
    }

    /// A new link for an address, with its row.
    pub(crate) fn new_link(
        &self,
        purpose: LinkPurpose,
        org: OrgId,
        email: &str,
        good_for: Duration,
    ) -> Result<(Link, OneTimeLink)> {
        let token = link_token::new(self.registry.pepper(), purpose)?;
        let path = match purpose {
            LinkPurpose::Invitation => "/invitation",
            LinkPurpose::Password => "/new-password",
            LinkPurpose::Email => "/verification",
        };
        let public = self.config.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let address = Secret::new(format!("{public}{path}?token={}", token.expose()));
        let now = self.clock.now();
        let row = OneTimeLink {
            token_hash: hash_token(token.expose()),
            org,
            email: email.to_owned(),
            user: None,
            role: None,
            projects: Vec::new(),
            created_by: None,
            created_at: now,
            expires_at: now.plus(good_for),
        };
        Ok((Link { token, address }, row))
    }

    /// The address that a link is for, to be shown before it is used. That changes nothing, whatever the link
    /// is: the page of somebody else may have the browser look at it, and so do scanners of letters. A look at a
    /// link that is spent is noted, and counts against nobody.
    pub async fn link_address(
        &self,
        purpose: LinkPurpose,
        token: &str,
        origin: &Origin,
    ) -> Result<String> {
        self.check_address(origin).await?;
        if let Some(link) = self.stored_link(purpose, token).await? {
            return Ok(link.email);
        }
        if link_token::is_ours(self.registry.pepper(), purpose, token) {
            Box::pin(self.note_perimeter_block(origin, PerimeterReason::SpentLink)).await;
        }
        Err(Error::LinkInvalid)
    }

    /// The link of a token that is still good. One that is not counts against the network that it comes
    /// from, and is recorded.
    pub(crate) async fn find_link(
        &self,
        purpose: LinkPurpose,
        token: &str,
        origin: &Origin,
    ) -> Result<OneTimeLink> {
        self.check_address(origin).await?;
        let (now, network) = (self.clock.now(), network(origin.address));
        let mut booked = self.login_throttle.book_link(network, now).await?;
        let Some(link) = self.stored_link(purpose, token).await? else {
            booked.stays();
            if let Some(place) = self.failure_rows.place(FailureKind::Link, now) {
                self.note_refused_link(purpose, place, origin).await?;
            }
            return Err(Error::LinkInvalid);
        };
        Ok(link)
    }

    /// Uses up a link that was found, unless somebody else has. Its organization is held until the transaction
    /// ends.
    pub(crate) async fn take_link(
        &self,
        tx: &mut Tx,
        purpose: LinkPurpose,
        found: &OneTimeLink,
    ) -> Result<(Organization, OneTimeLink)> {
        let organization = tx.organization(found.org).await?.ok_or(Error::NotFound)?;
        let used = tx.use_link(&found.token_hash, purpose, self.clock.now()).await?;
        Ok((organization, used.ok_or(Error::LinkInvalid)?))
    }

    async fn stored_link(&self, purpose: LinkPurpose, token: &str) -> Result<Option<OneTimeLink>> {
        if !link_token::is_ours(self.registry.pepper(), purpose, token) {
            return Ok(None);
        }
        Ok(self.store.link(&hash_token(token), purpose, self.clock.now()).await?)
    }

    async fn note_refused_link(
        &self,
        purpose: LinkPurpose,
        place: RowPlace<'_>,
        origin: &Origin,
    ) -> Result<()> {
        let Some(org) = self.store.first_org().await? else { return Ok(()) };
        let link = Value::from(purpose.as_str());
        let mut metadata = Map::from_iter([("link".to_owned(), link)]);
        place.tell(&mut metadata);
        let mut tx = self.store.begin().await?;
        let noted = Noted { org, event: Event::LoginFailed, actor: None, target: None, metadata };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        place.written();
        Ok(())
    }
}

/// The first bytes of a hash, by the hex digits that stand for it.
pub(crate) fn prefix_of(id: &str) -> Option<[u8; 8]> {
    let is_id = id.len() == 16 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let prefix = u64::from_str_radix(id, 16).ok().filter(|_| is_id)?;
    Some(prefix.to_be_bytes())
}
