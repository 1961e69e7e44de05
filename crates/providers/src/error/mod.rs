//! Errors of calls.

pub(crate) mod codes;
pub(crate) mod retry;

use std::ops::Add;
use std::time::Duration;

use domain::model::Model;
use domain::usage::Usage;

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
    code: Option<codes::FaultCode>,
    retry_after: Option<Duration>,
    retryable: bool,
    broke_off: bool,
    wrong_key: bool,
    is_misconfigured: bool,
    /// Whether the request asks for what has no price.
    is_unpriced: bool,
    is_late: bool,
    /// Whether a part of the call was answered.
    is_of_rest: bool,
    /// Boxed: few errors have one, and every result reserves the space for it.
    usage: Option<Box<Usage>>,
}

/// The details of a provider's error, from its body.
#[derive(Debug, Default)]
pub(crate) struct ErrorDetails {
    pub(crate) message: Option<String>,
    /// The code by which programs identify the error.
    pub(crate) code: Option<codes::FaultCode>,
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
    /// Returns the HTTP status of the provider's answer, if it answered.
    pub fn provider_status(&self) -> Option<u16> {
        self.status
    }

    /// Returns the code by which the provider names the fault, if it is one of OpenAI's.
    pub fn provider_code(&self) -> Option<codes::FaultCode> {
        self.code
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
        Self::broke_off("The provider did not begin to answer in time").timed_out()
    }

    /// Returns the error as one of a time limit that was reached.
    pub(crate) fn timed_out(self) -> Self {
        Self { is_late: true, ..self }
    }

    /// Creates the error of a provider that failed, and for which a retry is no remedy.
    pub(crate) fn fault(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unreachable,
            at_message: None,
            message: message.into(),
            status: None,
            code: None,
            retry_after: None,
            retryable: false,
            broke_off: false,
            wrong_key: false,
            is_misconfigured: false,
            is_unpriced: false,
            is_late: false,
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

    /// Creates the error of an answer that is an error, whatever its status; `message` is its own.
    pub(crate) fn answered(message: Option<String>) -> Self {
        match message {
            Some(message) => Self::fault(format!("The provider answered with an error: {message}")),
            None => Self::fault("The provider answered with an error"),
        }
    }

    /// Creates the error of an answer without its end.
    pub(crate) fn cut_off() -> Self {
        Self::broke_off("The provider's answer was cut off")
    }

    /// Creates the error of an address that the egress rules forbid.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Forbidden, ..Self::fault(message) }
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

    /// Creates the error of a request for what costs more than the prices of a model.
    pub(crate) fn unpriced(what: impl Into<String>) -> Self {
        Self { is_unpriced: true, ..Self::unsupported(what) }
    }

    /// Creates the error of a message of the prompt that cannot be sent to this provider.
    pub(crate) fn in_message(index: usize, what: impl Into<String>) -> Self {
        Self { at_message: Some(index), ..Self::unsupported(what) }
    }

    /// Creates the error of a parameter that a model lacks, or not with this value.
    pub(crate) fn lacking(model: &Model, what: impl std::fmt::Display) -> Self {
        Self::unsupported(format!("{what} is not supported by model {}", model.identifier))
    }

    /// Changes every text of the error.
    pub(crate) fn map_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        self.message = change(&self.message);
        if let ErrorKind::Rejected { message, .. } | ErrorKind::Unsupported(message) =
            &mut self.kind
        {
            *message = change(message);
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
