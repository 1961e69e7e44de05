//! Letters over SMTP, by lettre. What they say is up to the caller.

use std::time::Duration;

use domain::secret::Secret;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::{AsyncTransport as _, Message, Tokio1Executor};

/// The bound of each of a letter's commands to the server.
const COMMAND: Duration = Duration::from_secs(10);
/// The bound of a whole letter.
const LETTER: Duration = Duration::from_secs(30);

/// A plain letter.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The address of the reader.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The text. It may hold a link, so it is nothing to print.
    pub text: Secret,
}

/// A letter that cannot be sent, or settings that no letter can be sent with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL of the server.
    #[error(
        "smtp_url cannot be read ({0}): it must be such as smtps://user:password@mail.example.com:465, or \
         smtp://mail.example.com:587?tls=required"
    )]
    Url(String),
    /// The sender.
    #[error("mail_from is '{0}': it must be an address, such as Sluice <sluice@example.com>")]
    Sender(String),
    /// A part of a letter.
    #[error("the letter cannot be written: {0}")]
    Letter(String),
    /// The server refused the letter for good.
    #[error("the mail server refuses the letter: {0}")]
    Refused(String),
    /// The server was not reached, or asks to come back later.
    #[error("the mail server does not take the letter now: {0}")]
    NotNow(String),
}

impl Error {
    /// Whether the same letter may be taken later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::NotNow(_))
    }
}

/// A server and the sender of all letters.
#[derive(Clone)]
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl std::fmt::Debug for Mailer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The transport holds the password of the server.
        f.debug_struct("Mailer").field("from", &self.from).finish_non_exhaustive()
    }
}

impl Mailer {
    /// Reads the URL of a server, `smtp://` or `smtps://`, and the sender. Nothing is connected.
    ///
    /// # Errors
    /// [`Error::Url`] and [`Error::Sender`], with examples. The URL is not shown: it holds a password.
    pub fn new(url: &Secret, from: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.expose().split_once("://").unwrap_or_default();
        let query = rest.split_once('?').map(|(_, query)| query);
        let is_safe = scheme.eq_ignore_ascii_case("smtps") || query == Some("tls=required");
        if rest.contains('@') && !is_safe {
            return Err(Error::Url("a password goes over TLS alone: add ?tls=required".to_owned()));
        }
        let unreadable = |fault: lettre::transport::smtp::Error| Error::Url(fault.to_string());
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.expose());
        let transport = builder.map_err(unreadable)?.timeout(Some(COMMAND)).build();
        let from = from.parse().map_err(|_| Error::Sender(from.to_owned()))?;
        Ok(Self { transport, from })
    }

    /// The sender of all letters.
    #[must_use]
    pub fn sender(&self) -> String {
        self.from.to_string()
    }

    /// Sends a letter.
    ///
    /// # Errors
    /// [`Error::Letter`] for an address or a subject that no letter may have; what the server says otherwise.
    pub async fn send(&self, letter: &Letter) -> Result<(), Error> {
        let to = letter.to.parse().map_err(|_| Error::Letter("the address".to_owned()))?;
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(&letter.subject)
            .header(ContentType::TEXT_PLAIN)
            .body(letter.text.expose().to_owned())
            .map_err(|fault| Error::Letter(fault.to_string()))?;
        let sent = tokio::time::timeout(LETTER, self.transport.send(message)).await;
        let sent = sent.map_err(|_| Error::NotNow("it took too long".to_owned()))?;
        let refused = |fault: lettre::transport::smtp::Error| {
            let is_final = fault.is_permanent();
            let fault = fault.to_string();
            if is_final { Error::Refused(fault) } else { Error::NotNow(fault) }
        };
        sent.map(drop).map_err(refused)
    }
}

/// Whether letters can be sent to an address.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.parse::<lettre::Address>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailer(url: &str, from: &str) -> Result<Mailer, Error> {
        Mailer::new(&Secret::new(url.to_owned()), from)
    }

    #[test]
    fn settings_are_read_and_never_printed() {
        let from = "Sluice <sluice@example.com>";
        for url in [
            "smtps://user:secret-word@mail.example.com:465",
            "smtp://mail.example.com:587?tls=required",
            "smtp://127.0.0.1:2525",
        ] {
            let printed = format!("{:?}", mailer(url, from).unwrap());
            assert!(printed.contains("sluice@example.com") && !printed.contains("secret-word"));
        }
        for url in [
            "",
            "mail.example.com",
            "http://mail.example.com",
            "smtp://x:secret-word@",
            "smtp://x:secret-word@mail.example.com:25",
            "SMTP://x:secret-word@mail.example.com:25",
            "smtp://x:secret-word@mail.example.com?x=tls=required",
            "smtp://x:secret-word@mail.example.com?tls=opportunistic&tls=required",
            "smtp://x:secret-word@mail.example.com:587?tls=opportunistic",
        ] {
            let fault = mailer(url, from).unwrap_err().to_string();
            assert!(fault.starts_with("smtp_url cannot be read") && !fault.contains("secret-word"));
        }
        for from in ["", "Sluice", "a@b\r\nBcc: c@d"] {
            let fault = mailer("smtp://127.0.0.1:2525", from).unwrap_err().to_string();
            assert!(fault.starts_with("mail_from is"), "{fault}");
        }
    }
}
