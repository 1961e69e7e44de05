//! Letters that wait to be sent. They leave beside the request that asks for them, so that nobody learns
//! from its time what the letter does, and are lost when the gateway ends: people ask again.

use std::time::Duration;

use domain::secret::Secret;
use mail::{Letter, Mailer};
use tokio::sync::mpsc;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Origin;

/// The most errands that wait.
const WAITING: usize = 256;
/// The waits before a letter that the server does not take now is tried again.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];

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

impl Outbox {
    /// Puts an errand into the queue.
    pub(crate) fn put(&self, errand: Errand) -> Result<()> {
        self.0.try_send(errand).map_err(|_| Error::OutboxFull)
    }
}

/// Starts the one task that sends letters. It ends when the gateway stops.
pub(crate) fn start(gateway: &Gateway, mailer: Mailer, mut waiting: mpsc::Receiver<Errand>) {
    let of_task = gateway.clone();
    gateway.tasks.spawn(async move {
        let stopping = of_task.stopping.clone();
        let work = async {
            while let Some(errand) = waiting.recv().await {
                run(&of_task, &mailer, errand).await;
            }
        };
        stopping.run_until_cancelled(work).await;
    });
}

async fn run(gateway: &Gateway, mailer: &Mailer, errand: Errand) {
    let letter = match errand {
        Errand::Letter(letter) => Ok(Some(letter)),
        Errand::NewPassword { email, origin } => gateway.new_password_letter(&email, &origin).await,
    };
    match letter {
        Ok(Some(letter)) => send(mailer, &letter).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "a letter could not be written"),
    }
}

/// Sends a letter, with a few tries.
async fn send(mailer: &Mailer, letter: &Letter) {
    let mut pauses = PAUSES.iter();
    loop {
        let Err(error) = mailer.send(letter).await else {
            tracing::info!(subject = letter.subject, "a letter was sent");
            count("sent");
            return;
        };
        let pause = pauses.next().filter(|_| error.is_transient());
        let Some(pause) = pause else {
            tracing::error!(%error, subject = letter.subject, "a letter was not sent");
            count("failed");
            return;
        };
        tracing::warn!(%error, subject = letter.subject, "a letter is tried again");
        tokio::time::sleep(*pause).await;
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("sluice_letters_total", "outcome" => outcome).increment(1);
}

/// A letter with one link in it. Names of people are no part of it: they could hold a text of a stranger's.
pub(crate) fn letter(to: &str, subject: &str, purpose: &str, link: &Secret, good: &str) -> Letter {
    let link = link.expose();
    let text = format!(
        "{purpose}\n\n{link}\n\nThe link is good once, for {good}. If you did not expect this letter, ignore it.\n"
    );
    Letter { to: to.to_owned(), subject: subject.to_owned(), text: Secret::new(text) }
}
