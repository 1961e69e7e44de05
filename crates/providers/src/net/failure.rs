//! Failures of connections, and the errors of calls that they become.

use std::error::Error as StdError;
use std::io;

use crate::error::Error;
use crate::net::connect::TooSlow;
use crate::net::egress::{Refusal, Unresolved};

/// A failure between a request and the head of its answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection could be made; nothing was sent.
    #[error("no connection could be made")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the bytes that came over it are no HTTP.
    #[error("the connection failed")]
    Http(#[from] hyper::Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        if let Some(refusal) = causes(&failure).find_map(|cause| cause.downcast_ref::<Refusal>()) {
            return (*refusal).into();
        }
        let error = match failure {
            Failure::Http(error) => return error.into(),
            Failure::Connect(error) => error,
        };
        let (error, cause) = (&*error, root_cause(&*error));
        if causes(error).any(<dyn StdError>::is::<Unresolved>) {
            Self::unsent(format!("The provider's host name could not be resolved: {cause}"))
        } else if causes(error).any(is_late) {
            Self::unsent("The connection to the provider timed out").timed_out()
        } else {
            Self::unsent(format!("The provider could not be reached: {cause}"))
        }
    }
}

/// The connection ended before the answer did.
impl From<hyper::Error> for Error {
    fn from(error: hyper::Error) -> Self {
        Self::broke_off(format!("The connection to the provider broke: {}", root_cause(&error)))
    }
}

/// Returns an error and its causes. None of them names an address.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn root_cause(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn is_late(cause: &(dyn StdError + 'static)) -> bool {
    let io = cause.downcast_ref::<io::Error>();
    cause.is::<TooSlow>()
        || cause.is::<tokio::time::error::Elapsed>()
        || io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut)
}
