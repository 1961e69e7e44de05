//! Letters are sent, one after the other.

use std::time::Duration;

use mail::{Letter, Mailer};
use tokio::sync::mpsc;

use crate::gateway::Gateway;
use crate::outbox::Errand;

/// The waits before a letter that the server does not take now is tried again.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];

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
