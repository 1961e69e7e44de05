//! One-time links: made, found, refused.

use domain::secret::Secret;
use serde_json::{Map, Value};
use store::{LinkPurpose, OneTimeLink};

use crate::audit::{Event, Noted};
use crate::control::link_token;
use crate::control::sessions::hash_token;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::outbox::{Errand, letter};
use crate::state::caller::Origin;
use crate::state::perimeter_counts::network;

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

impl Gateway {
    /// Sends a link by letter, or returns it where there is no mail server.
    pub(crate) fn deliver(
        &self,
        to: &str,
        subject: &str,
        purpose: &str,
        link: Link,
        good_for: &str,
    ) -> Result<Handover> {
        let Some(outbox) = &self.outbox else { return Ok(Handover::Shown(link)) };
        outbox.put(Errand::Letter(letter(to, subject, purpose, &link.address, good_for)))?;
        Ok(Handover::Sent)
    }

    /// A new link and the hash of its token.
    pub(crate) fn new_link(&self, purpose: LinkPurpose) -> Result<(Link, [u8; 32])> {
        let token = link_token::new(self.registry.pepper(), purpose)?;
        let path = match purpose {
            LinkPurpose::Invitation => "/invitation",
            LinkPurpose::Password => "/new-password",
            LinkPurpose::Email => "/verification",
        };
        let public = self.config.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
        let address = Secret::new(format!("{public}{path}?token={}", token.expose()));
        let hash = hash_token(token.expose());
        Ok((Link { token, address }, hash))
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
        self.login_throttle.book_link(network, now)?;
        let is_ours = link_token::is_ours(self.registry.pepper(), purpose, token);
        let link =
            if is_ours { self.store.link(&hash_token(token), purpose, now).await? } else { None };
        let Some(link) = link else {
            self.note_refused_link(purpose, origin).await?;
            return Err(invalid_link());
        };
        self.login_throttle.take_back_link(network, now);
        Ok(link)
    }

    async fn note_refused_link(&self, purpose: LinkPurpose, origin: &Origin) -> Result<()> {
        let Some(org) = self.store.first_org().await? else { return Ok(()) };
        let link = Value::from(purpose.as_str());
        let metadata = Map::from_iter([("link".to_owned(), link)]);
        let mut tx = self.store.begin().await?;
        let noted = Noted { org, event: Event::LoginFailed, actor: None, target: None, metadata };
        self.note(&mut tx, origin, noted).await?;
        Ok(tx.commit().await?)
    }
}

pub(crate) fn invalid_link() -> Error {
    Error::invalid("The link is invalid, has expired or was used already: ask for a new one")
}

/// The first bytes of a hash, by the hex digits that stand for it.
pub(crate) fn prefix_of(id: &str) -> Option<[u8; 8]> {
    let is_id = id.len() == 16 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let prefix = u64::from_str_radix(id, 16).ok().filter(|_| is_id)?;
    Some(prefix.to_be_bytes())
}
