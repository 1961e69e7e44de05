//! Addresses that are verified by a letter.

use std::time::Duration;

use serde_json::{Map, Value};
use store::{Actor, LinkPurpose, OneTimeLink};

use crate::audit::{Event, Noted};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::outbox::{Errand, letter};
use crate::state::caller::Origin;
use crate::state::member::Member;

/// The time for which a link to verify an address is good.
const GOOD_FOR: Duration = Duration::from_hours(1);

impl Gateway {
    /// Sends a letter to the member's own address, whose link verifies it.
    pub async fn send_verification(&self, member: &Member) -> Result<()> {
        let room = self.letter_room()?.ok_or_else(no_mail)?;
        self.login_throttle.book_own_letter(member.user, self.clock.now()).await?;
        let (purpose, user) = (LinkPurpose::Email, Some(member.user));
        let (link, row) = self.new_link(purpose, member.org, &member.email, GOOD_FOR)?;
        let row = OneTimeLink { user, created_by: user, ..row };
        let mut tx = self.store.begin().await?;
        tx.add_link(LinkPurpose::Email, &row).await?;
        tx.commit().await?;
        let purpose = "This link shows Sluice that the address is yours:";
        let subject = "Your address at Sluice";
        let letter = letter(&member.email, subject, purpose, &link.address, "an hour");
        room.send(Errand::Letter(letter));
        Ok(())
    }

    /// Verifies an address by the link of a letter to it.
    pub async fn verify_email(&self, token: &str, origin: &Origin) -> Result<()> {
        let found = self.find_link(LinkPurpose::Email, token, origin).await?;
        let mut tx = self.store.begin().await?;
        let (_, link) = self.take_link(&mut tx, LinkPurpose::Email, &found).await?;
        let user = link.user.ok_or(Error::LinkInvalid)?;
        if !tx.verify_email(user, &link.email, self.clock.now()).await? {
            return Err(Error::LinkInvalid);
        }
        let noted = Noted {
            org: link.org,
            event: Event::EmailVerified,
            actor: Some(Actor::User(user, &link.email)),
            target: Some(("user", user.to_string())),
            metadata: Map::from_iter([("email".to_owned(), Value::from(link.email.as_str()))]),
        };
        self.note(&mut tx, origin, noted).await?;
        Ok(tx.commit().await?)
    }

    /// Whether letters can be sent.
    pub fn has_mail(&self) -> bool {
        self.outbox.is_some()
    }
}

fn no_mail() -> Error {
    Error::invalid("No mail server is configured: smtp_url and mail_from name one")
}
