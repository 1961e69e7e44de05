//! Letters that wait to be sent. They leave beside the request that asks for them, so that nobody learns
//! from its time what the letter does, and are lost when the gateway ends: people ask again.

use domain::secret::Secret;
use mail::Letter;
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::state::caller::Origin;

/// The most errands that wait.
const WAITING: usize = 256;

/// A letter to send, or one to find out about.
#[derive(Debug)]
pub(crate) enum Errand {
    /// This letter.
    Letter(Letter),
    /// A link to a new password, if the address has an account.
    NewPassword {
        /// The address as it was given.
        email: String,
        /// The origin of the request.
        origin: Origin,
    },
}

/// The way into the queue.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::Sender<Errand>);

/// A queue that nobody works on yet.
pub(crate) fn queue() -> (Outbox, mpsc::Receiver<Errand>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Outbox(sender), receiver)
}

/// Room for one errand.
pub(crate) type Room<'a> = mpsc::Permit<'a, Errand>;

impl Outbox {
    /// Takes room for an errand, before its link is made.
    pub(crate) fn room(&self) -> Result<Room<'_>> {
        self.0.try_reserve().map_err(|_| Error::OutboxFull)
    }
}

/// A letter with one link in it. Names of people are no part of it: they could hold a text of a stranger's.
pub(crate) fn letter(to: &str, subject: &str, purpose: &str, link: &Secret, good: &str) -> Letter {
    let link = link.expose();
    let text = format!(
        "{purpose}\n\n{link}\n\nThe link is good once, for {good}. If you did not expect this letter, ignore it.\n"
    );
    Letter { to: to.to_owned(), subject: subject.to_owned(), text: Secret::new(text) }
}
