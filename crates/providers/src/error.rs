//! Why a call failed, and what may be done about it.

use std::error::Error as StdError;
use std::io;
use std::ops::Add;
use std::time::Duration;

use domain::model::Model;
use domain::secret::Secret;
use domain::usage::Usage;

use crate::connect::TooSlow;
use crate::egress::{Refusal, Unresolved};
use crate::pool::Failure;
use crate::scrub::scrub;

/// What kind of failure it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider could not be reached, took too long, answered 5xx, or answered nonsense.
    Unreachable,
    /// The provider answered as it should; what the model has made is no answer.
    Unusable,
    /// The provider wants fewer requests (429).
    RateLimited,
    /// The provider would not serve this request (any other 4xx).
    Rejected {
        /// The provider's status.
        status: u16,
        /// The provider's own words, without credentials.
        message: String,
    },
    /// The egress rules do not let us call there.
    Forbidden,
    /// This kind of call cannot be made with this provider.
    Unsupported(String),
}

/// A failed call. Its text is for people: it holds no credential, and at most 500 characters of
/// anybody else's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{message}", place(*.at_message))]
pub struct Error {
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// Which message of the prompt cannot be sent.
    at_message: Option<usize>,
    message: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
    retryable: bool,
    broke_off: bool,
    wrong_key: bool,
    is_misconfigured: bool,
    /// Whether a part of the call was answered.
    is_of_rest: bool,
    /// Boxed: few errors have one, and every result carries the room for it.
    usage: Option<Box<Usage>>,
}

/// What a provider says in the body of an error.
#[derive(Debug, Default)]
pub(crate) struct ErrorDetails {
    pub(crate) message: Option<String>,
    /// The account is out of credit: waiting does not help.
    pub(crate) spent: bool,
    /// The key is wrong, whatever the status says.
    pub(crate) wrong_key: bool,
    /// It tells that the model took too long or failed, as Bedrock does with 408 and 424.
    pub(crate) of_model: bool,
    /// How long it wants to be left alone, where that is not in a header.
    pub(crate) retry_after: Option<Duration>,
}

impl Error {
    /// Whether the same model may be tried again: the provider cannot have charged, or says so.
    pub fn retryable_here(&self) -> bool {
        self.retryable
    }

    /// Whether the provider may have charged without having said what: it got the request, and its
    /// answer did not come in time, broke off or cannot be used. One that answered with an error has
    /// not charged.
    pub fn may_be_charged(&self) -> bool {
        self.broke_off
    }

    /// How long the provider asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether it speaks against the endpoint (a circuit breaker counts it), not against the
    /// request or our own configuration.
    pub fn is_endpoint_fault(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::RateLimited)
    }

    /// Whether it was refused here: nothing was sent.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, ErrorKind::Unsupported(_) | ErrorKind::Forbidden)
    }

    /// Whether the request was refused here, for what it asks: no other request need fail.
    pub fn refuses_request(&self) -> bool {
        matches!(self.kind, ErrorKind::Unsupported(_)) && !self.is_misconfigured
    }

    /// Whether another endpoint of the same model may succeed, and has nothing to pay for again.
    pub fn endpoint_helps(&self) -> bool {
        let asks_too_much = matches!(self.kind, ErrorKind::Unsupported(_));
        self.fallback_helps() && !asks_too_much && !self.is_of_rest
    }

    /// Whether another model may succeed: always, but where the provider finds fault with the
    /// request itself.
    pub fn fallback_helps(&self) -> bool {
        match self.kind {
            // Google answers 400 to a wrong key, which is no fault of the request.
            ErrorKind::Rejected { status, .. } => {
                self.wrong_key || !matches!(status, 400 | 413 | 415 | 422)
            }
            _ => true,
        }
    }

    /// The HTTP status that the provider answered with, where it answered.
    pub fn provider_status(&self) -> Option<u16> {
        self.status
    }

    /// Which message of the prompt cannot be sent to this provider, if it is one.
    pub fn at_message(&self) -> Option<usize> {
        self.at_message
    }

    /// What the provider has told of the tokens that were used all the same: for an answer that is
    /// of no use, or before it failed.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.as_deref().copied()
    }

    /// The same error where a part of the call was answered: that is not to be paid for a second
    /// time. What the rest has used, nobody has told.
    pub(crate) fn after(self, usage: Option<Usage>) -> Self {
        let usage = sum(usage, self.usage()).map(Box::new);
        Self { retryable: false, is_of_rest: true, usage, ..self }
    }

    /// The same error of an answer that tells all that it has used. Some servers tell nothing, and
    /// write it as 0.
    pub(crate) fn having_used(self, usage: Option<Usage>) -> Self {
        let Some(told) = usage.filter(|usage| usage.prompt > 0 || usage.completion > 0) else {
            return self;
        };
        let broke_off = self.broke_off && (told.open.prompt || told.open.completion);
        Self { broke_off, ..self.after(usage) }
    }

    /// The provider could not be reached; nothing of the request was sent.
    pub(crate) fn unsent(message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::fault(message) }
    }

    /// The provider's answer did not come, or not to its end, or is of no use, after the request was
    /// sent.
    pub(crate) fn broke_off(message: impl Into<String>) -> Self {
        Self { broke_off: true, ..Self::fault(message) }
    }

    /// Not a word of the provider's answer came in time.
    pub(crate) fn late() -> Self {
        Self::broke_off("The provider did not begin to answer in time")
    }

    /// The provider failed, and asking again is no remedy.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unreachable,
            at_message: None,
            message: message.into(),
            status: None,
            retry_after: None,
            retryable: false,
            broke_off: false,
            wrong_key: false,
            is_misconfigured: false,
            is_of_rest: false,
            usage: None,
        }
    }

    /// The model has made no answer of what it was asked for, and says so.
    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unusable, ..Self::broke_off(message) }
    }

    /// The provider's answer makes no sense; it was made all the same.
    pub(crate) fn malformed(what: impl std::fmt::Display) -> Self {
        Self { broke_off: true, ..Self::foreign(what) }
    }

    /// What answered is no model: a page, or something that stands before the provider.
    pub(crate) fn foreign(what: impl std::fmt::Display) -> Self {
        Self::fault(format!("The provider sent a malformed answer: {what}"))
    }

    /// The provider's answer is an error, whatever its status; `said` is its message.
    pub(crate) fn answered(said: Option<String>) -> Self {
        match said {
            Some(said) => Self::fault(format!("The provider answered with an error: {said}")),
            None => Self::fault("The provider answered with an error"),
        }
    }

    /// The answer ended before its end was told.
    pub(crate) fn cut_off() -> Self {
        Self::broke_off("The provider's answer was cut off")
    }

    /// The egress rules forbid it.
    pub(crate) fn forbidden(refusal: Refusal) -> Self {
        Self { kind: ErrorKind::Forbidden, ..Self::fault(refusal.to_string()) }
    }

    /// The model's definition, or the gateway's configuration, lets no call be made.
    pub(crate) fn misconfigured(what: impl Into<String>) -> Self {
        Self { is_misconfigured: true, ..Self::unsupported(what) }
    }

    /// It cannot be done with this provider.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { kind: ErrorKind::Unsupported(what.clone()), ..Self::fault(what) }
    }

    /// A message of the prompt cannot be sent to this provider.
    pub(crate) fn in_message(index: usize, what: impl Into<String>) -> Self {
        Self { at_message: Some(index), ..Self::unsupported(what) }
    }

    /// A model has no such parameter, or not with this value.
    pub(crate) fn lacking(model: &Model, what: impl std::fmt::Display) -> Self {
        Self::unsupported(format!("{what} is not supported by model {}", model.identifier))
    }

    /// The provider answered with a status that is no success.
    pub(crate) fn status(status: u16, said: ErrorDetails, retry_after: Option<Duration>) -> Self {
        let wrong_key = said.wrong_key;
        let retry_after = retry_after.or(said.retry_after);
        let message = match &said.message {
            Some(said) => format!("The provider answered {status}: {said}"),
            None => format!("The provider answered {status}"),
        };
        let error = Self { status: Some(status), retry_after, wrong_key, ..Self::fault(message) };
        match status {
            300..400 => Self {
                message: format!("The provider answered {status}: redirects are not followed"),
                ..error
            },
            429 => Self { kind: ErrorKind::RateLimited, retryable: !said.spent, ..error },
            408 | 424 if said.of_model => error,
            400..500 => {
                let message =
                    said.message.unwrap_or_else(|| format!("The provider answered {status}"));
                Self { kind: ErrorKind::Rejected { status, message }, ..error }
            }
            _ => Self { retryable: !matches!(status, 501 | 505), ..error },
        }
    }

    /// What kept the request from being sent or answered.
    pub(crate) fn sending(failure: &Failure) -> Self {
        if let Some(refusal) = causes(failure).find_map(|cause| cause.downcast_ref::<Refusal>()) {
            return Self::forbidden(*refusal);
        }
        let cause = root_cause(failure);
        if !matches!(failure, Failure::Connect(_)) {
            return Self::broke_off(format!("The connection to the provider broke: {cause}"));
        }
        if causes(failure).any(<dyn StdError>::is::<Unresolved>) {
            Self::unsent(format!("The provider's host name could not be resolved: {cause}"))
        } else if causes(failure).any(is_late) {
            Self::unsent("The connection to the provider timed out")
        } else {
            Self::unsent(format!("The provider could not be reached: {cause}"))
        }
    }

    /// What kept the answer from coming to its end.
    pub(crate) fn reading(error: &hyper::Error) -> Self {
        Self::broke_off(format!("The connection to the provider broke: {}", root_cause(error)))
    }

    /// The same error with every credential taken out; the last thing that happens to one before
    /// it leaves this crate.
    pub(crate) fn sealed(mut self, key: Option<&Secret>) -> Self {
        self.message = scrub(&self.message, key);
        if let ErrorKind::Rejected { message, .. } | ErrorKind::Unsupported(message) =
            &mut self.kind
        {
            *message = scrub(message, key);
        }
        self
    }
}

fn place(at_message: Option<usize>) -> String {
    at_message.map(|index| format!("messages[{index}]: ")).unwrap_or_default()
}

/// What was told of two parts of a call together.
pub(crate) fn sum<T: Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// An error and what lies below it. None of them names an address.
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
