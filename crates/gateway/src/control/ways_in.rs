//! The ways in of an account, all of which an owner ends at once for somebody else.

use domain::ids::UserId;
use serde_json::{Map, Value};

use crate::audit::Event;
use crate::control::links::{Handover, deliver};
use crate::control::passkey_names::removed_passkey;
use crate::control::passwords::{PURPOSE, SUBJECT};
use crate::control::people::hold_people;
use crate::control::service_tokens;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

impl Gateway {
    /// Ends every way in of another user (owner): sessions, password, second factors, passkeys, identities at
    /// issuers, and the service tokens and links that they have made. Makes the link by which they set a new
    /// password, and which is their one way in from then on.
    pub async fn reset_ways_in(&self, member: &Member, user: UserId) -> Result<Handover> {
        member.check_person()?;
        member.check_owner()?;
        if user == member.user {
            // A stolen session must not get rid of what it would need a password for.
            return Err(Error::invalid("Your own ways in are changed below /api/v1/session"));
        }
        let room = self.letter_room()?;
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        member.check_owner()?;
        if tx.is_password_login_disabled(member.org).await? {
            return Err(Error::invalid(
                "Passwords are disabled, so the link would be no way in: remove the user, who then comes anew by \
                 an invitation and their provider",
            ));
        }
        let person = tx.person(member.org, user).await?.ok_or(Error::NotFound)?;
        let about = || Map::from_iter([("email".to_owned(), Value::from(person.email.as_str()))]);
        let target = || ("user", user.to_string());
        let links = tx.drop_links_made_by(user).await?;
        // No password has this hash.
        tx.set_password(user, "").await?;
        let mut noted = Vec::new();
        let removed = tx.remove_second_factors(user).await?;
        for passkey in &removed.passkeys {
            noted.push(removed_passkey(passkey, &person.email));
        }
        if removed.had_any {
            noted.push((Event::MfaDisabled, target(), about()));
        }
        for identity in tx.unlink_identities(user).await? {
            let mut metadata = about();
            metadata.insert("issuer".to_owned(), identity.issuer.into());
            noted.push((Event::IdentityUnlinked, target(), metadata));
        }
        for token in tx.revoke_service_tokens_of(user, self.clock.now()).await? {
            noted.push((Event::ServiceTokenRevoked, service_tokens::target(token), about()));
        }
        let maker = Some(member.user);
        let link = self.add_password_link(&mut tx, member.org, user, &person.email, maker).await?;
        let mut metadata = about();
        metadata.insert("ways_in_ended".to_owned(), true.into());
        if links > 0 {
            metadata.insert("links_ended".to_owned(), links.into());
        }
        noted.push((Event::PasswordLinkMade, target(), metadata));
        for (event, target, metadata) in noted {
            self.note_act(&mut tx, member, event, target, metadata).await?;
        }
        tx.commit().await?;
        Ok(deliver(room, &person.email, SUBJECT, PURPOSE, link, "an hour"))
    }
}
