//! Errors of calls, and the possible remedies.

pub(crate) mod retry;

use std::error::Error as StdError;
use std::io;
use std::ops::Add;
use std::time::Duration;

use domain::model::Model;
use domain::secret::Secret;
use domain::usage::Usage;

use crate::credentials::scrub::scrub;
use crate::net::connect::TooSlow;
use crate::net::egress::{Refusal, Unresolved};
use crate::net::pool::Failure;

/// The kind of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The provider could not be reached, took too long, answered 5xx, or answered nonsense.
    Unreachable,
    /// The provider answered as it should, but the model's output is no answer.
    Unusable,
    /// The provider asks for fewer requests (429).
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
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The index of the message of the prompt that cannot be sent.
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
    /// Boxed: few errors have one, and every result reserves the space for it.
    usage: Option<Box<Usage>>,
}

/// The details of a provider's error, from its body.
#[derive(Debug, Default)]
pub(crate) struct ErrorDetails {
    pub(crate) message: Option<String>,
    /// The account is out of credit: waiting does not help.
    pub(crate) spent: bool,
    /// The key is wrong, whatever the status.
    pub(crate) wrong_key: bool,
    /// The model took too long or failed, as Bedrock reports with 408 and 424.
    pub(crate) of_model: bool,
    /// The wait that the provider asks for, if that is not in a header.
    pub(crate) retry_after: Option<Duration>,
}

impl Error {
    /// Whether the same model may be tried again: the provider cannot have charged, or reports that it
    /// has not.
    pub fn retryable_here(&self) -> bool {
        self.retryable
    }

    /// Whether the provider may have charged without reporting how much: it got the request, and its
    /// answer did not come in time, broke off or cannot be used. A provider that answered with an error
    /// has not charged.
    pub fn may_be_charged(&self) -> bool {
        self.broke_off
    }

    /// Returns the wait that the provider asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether it is the fault of the endpoint (a circuit breaker counts it), not of the request or our
    /// own configuration.
    pub fn is_endpoint_fault(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::RateLimited)
    }

    /// Whether the call was refused here: nothing was sent.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, ErrorKind::Unsupported(_) | ErrorKind::Forbidden)
    }

    /// Whether the request was refused here, for its content: no other request need fail.
    pub fn refuses_request(&self) -> bool {
        matches!(self.kind, ErrorKind::Unsupported(_)) && !self.is_misconfigured
    }

    /// Whether another endpoint of the same model may succeed, without paying twice for a part of the
    /// call.
    pub fn endpoint_helps(&self) -> bool {
        let asks_too_much = matches!(self.kind, ErrorKind::Unsupported(_));
        self.fallback_helps() && !asks_too_much && !self.is_of_rest
    }

    /// Whether another model may succeed: always, unless the provider rejects the request itself.
    pub fn fallback_helps(&self) -> bool {
        match self.kind {
            // Google answers 400 to a wrong key, which is no fault of the request.
            ErrorKind::Rejected { status, .. } => {
                self.wrong_key || !matches!(status, 400 | 413 | 415 | 422)
            }
            _ => true,
        }
    }

    /// Returns the HTTP status of the provider's answer, if it answered.
    pub fn provider_status(&self) -> Option<u16> {
        self.status
    }

    /// Returns the index of the message of the prompt that cannot be sent to this provider, if that is
    /// the cause.
    pub fn at_message(&self) -> Option<usize> {
        self.at_message
    }

    /// Returns the usage that the provider reported all the same: for an answer that is of no use, or
    /// before it failed.
    pub fn usage(&self) -> Option<Usage> {
        self.usage.as_deref().copied()
    }

    /// Returns the error for a call of which a part was answered: that part is not to be paid for a
    /// second time. The usage of the rest is unknown.
    pub(crate) fn after(self, usage: Option<Usage>) -> Self {
        let usage = sum(usage, self.usage()).map(Box::new);
        Self { retryable: false, is_of_rest: true, usage, ..self }
    }

    /// Returns the error for an answer with a usage report. Some servers report nothing, and write it
    /// as 0.
    pub(crate) fn having_used(self, usage: Option<Usage>) -> Self {
        let Some(told) = usage.filter(|usage| usage.prompt > 0 || usage.completion > 0) else {
            return self;
        };
        let broke_off = self.broke_off && (told.open.prompt || told.open.completion);
        Self { broke_off, ..self.after(usage) }
    }

    /// Creates the error of a provider that could not be reached; nothing of the request was sent.
    pub(crate) fn unsent(message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::fault(message) }
    }

    /// Creates the error of an answer that did not come, was cut off, or is of no use, after the
    /// request was sent.
    pub(crate) fn broke_off(message: impl Into<String>) -> Self {
        Self { broke_off: true, ..Self::fault(message) }
    }

    /// Creates the error of an answer that did not begin in time.
    pub(crate) fn late() -> Self {
        Self::broke_off("The provider did not begin to answer in time")
    }

    /// Creates the error of a provider that failed, and for which a retry is no remedy.
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

    /// Creates the error of a model that reports that it made no answer of the requested kind.
    pub(crate) fn unusable(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unusable, ..Self::broke_off(message) }
    }

    /// Creates the error of a malformed answer; it may be charged all the same.
    pub(crate) fn malformed(what: impl std::fmt::Display) -> Self {
        Self { broke_off: true, ..Self::foreign(what) }
    }

    /// Creates the error of an answer that does not come from a model: a page, or something in front of
    /// the provider.
    pub(crate) fn foreign(what: impl std::fmt::Display) -> Self {
        Self::fault(format!("The provider sent a malformed answer: {what}"))
    }

    /// Creates the error of an answer that is an error, whatever its status; `said` is its message.
    pub(crate) fn answered(said: Option<String>) -> Self {
        match said {
            Some(said) => Self::fault(format!("The provider answered with an error: {said}")),
            None => Self::fault("The provider answered with an error"),
        }
    }

    /// Creates the error of an answer without its end.
    pub(crate) fn cut_off() -> Self {
        Self::broke_off("The provider's answer was cut off")
    }

    /// Creates the error of an address that the egress rules forbid.
    pub(crate) fn forbidden(refusal: Refusal) -> Self {
        Self { kind: ErrorKind::Forbidden, ..Self::fault(refusal.to_string()) }
    }

    /// Creates the error of a model definition or gateway configuration that allows no call.
    pub(crate) fn misconfigured(what: impl Into<String>) -> Self {
        Self { is_misconfigured: true, ..Self::unsupported(what) }
    }

    /// Creates the error of a request that this provider does not support.
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { kind: ErrorKind::Unsupported(what.clone()), ..Self::fault(what) }
    }

    /// Creates the error of a message of the prompt that cannot be sent to this provider.
    pub(crate) fn in_message(index: usize, what: impl Into<String>) -> Self {
        Self { at_message: Some(index), ..Self::unsupported(what) }
    }

    /// Creates the error of a parameter that a model lacks, or not with this value.
    pub(crate) fn lacking(model: &Model, what: impl std::fmt::Display) -> Self {
        Self::unsupported(format!("{what} is not supported by model {}", model.identifier))
    }

    /// Creates the error of an answer whose status is no success.
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

    /// Creates the error of a request that was not sent or not answered.
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

    /// Creates the error of an answer that was not read to its end.
    pub(crate) fn reading(error: &hyper::Error) -> Self {
        Self::broke_off(format!("The connection to the provider broke: {}", root_cause(error)))
    }

    /// Removes every credential from the error; the last step before it leaves this crate.
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

/// Adds the reports on two parts of a call.
pub(crate) fn sum<T: Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
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
