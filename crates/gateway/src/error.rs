//! The outcomes of a request, by meaning. `api` turns each into a response, in one place.

use domain::money::Usd;
use domain::stored_responses::StoredKind;
use domain::time::{SECOND, Timestamp};
use providers::FaultCode;

/// Why a sign-on was refused, as its user reads it. Nothing that an issuer has sent is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignOnRefusal {
    /// It was begun too long ago, in another browser, or not at all.
    Stale,
    /// The user, or the issuer, has declined.
    Cancelled,
    /// The issuer does not answer, or its answer cannot be trusted.
    Issuer,
    /// No rule gives the user a role.
    NoRule,
    /// The account of the user was removed.
    Removed,
    /// The issuer gives no address.
    NoEmail,
    /// An account or an open invitation has the address, and the issuer has not verified that it is the user's.
    EmailTaken,
    /// The user is invited as an owner, whom no provider makes.
    OwnerInvited,
    /// The user is invited, and has not come by the link of the invitation.
    Invited,
}

impl SignOnRefusal {
    const ALL: [Self; 9] = [
        Self::Stale,
        Self::Cancelled,
        Self::Issuer,
        Self::NoRule,
        Self::Removed,
        Self::NoEmail,
        Self::EmailTaken,
        Self::OwnerInvited,
        Self::Invited,
    ];

    /// Its word, for addresses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Cancelled => "cancelled",
            Self::Issuer => "issuer",
            Self::NoRule => "no_rule",
            Self::Removed => "removed",
            Self::NoEmail => "no_email",
            Self::EmailTaken => "email_taken",
            Self::OwnerInvited => "owner_invited",
            Self::Invited => "invited",
        }
    }

    /// The refusal of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.word() == word)
    }

    /// A sentence for the user.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Stale => {
                "The sign-on took too long, or was begun in another browser or tab: try again"
            }
            Self::Cancelled => "The sign-on was cancelled, or your provider declined it",
            Self::Issuer => {
                "Your provider could not be reached, or its answer was not accepted: try again, and ask an owner if it stays so"
            }
            Self::NoRule => {
                "Your account at the provider gives you no role here: ask an admin for access"
            }
            Self::Removed => "Your account here was removed: ask an admin to invite you again",
            Self::NoEmail => "Your provider did not give an e-mail address",
            Self::EmailTaken => {
                "An account with your e-mail address, or an invitation of it, exists, and your provider has not verified that the address is yours"
            }
            Self::OwnerInvited => {
                "An owner's invitation is accepted with a password, not by a provider: set one on its page or, if there are no passwords here, ask an owner to withdraw it and to invite you as an admin"
            }
            Self::Invited => {
                "You are invited: sign in from the page of your invitation, to which its link leads, or ask for a new one"
            }
        }
    }
}

/// Why a request with an `Idempotency-Key` was neither carried out nor answered as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotencyFault {
    /// The first one with it is still carried out.
    Running,
    /// The first one with it was another request.
    OtherRequest,
    /// The gateway stopped while the first one was carried out: a model may have been called.
    Unknown,
    /// The answer to the first one is not kept: it was too large, its project keeps as many answers as it may, or
    /// stores no contents.
    Unkept,
}

impl IdempotencyFault {
    /// Its word in the metrics.
    pub(crate) fn outcome(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::OtherRequest => "other_request",
            Self::Unknown => "unknown",
            Self::Unkept => "not_kept",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Running => {
                "A request with this Idempotency-Key is still running: send it again later for its answer"
            }
            Self::OtherRequest => {
                "This Idempotency-Key was used for a request with another body or query: use another key for another \
                 request"
            }
            Self::Unknown => {
                "The gateway stopped during the request with this Idempotency-Key, and a model may have been called: \
                 its answer is not known. The trace shows what was recorded; use another key to call again"
            }
            Self::Unkept => {
                "The answer to the request with this Idempotency-Key was not kept, because it was too large, the project \
                 keeps as many answers as it may, or stores no contents: use another key to call again"
            }
        }
    }
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No credential, or one that is unknown, wrong, expired or revoked.
    #[error("Unauthorized")]
    Unauthorized,
    /// The session is stale.
    #[error("Token expired")]
    TokenExpired,
    /// The session was not made here.
    #[error("Invalid token")]
    InvalidToken,
    /// Signed in, but not allowed to.
    #[error("Forbidden")]
    Forbidden,
    /// Signed in without a second factor, which the organization requires.
    #[error(
        "Your organization requires a second factor: set one up with POST /api/v1/session/mfa/totp, then go on"
    )]
    MfaRequired,
    /// A one-time link that is made up, too old, used or withdrawn.
    #[error("The link is invalid, has expired or was used already: ask for a new one")]
    LinkInvalid,
    /// A sign-on that was refused.
    #[error("{}", .0.sentence())]
    SignOn(SignOnRefusal),
    /// Too many letters wait to be sent.
    #[error("Too many letters wait to be sent: try again in a minute")]
    OutboxFull,
    /// The address may not call.
    #[error("Forbidden")]
    PerimeterBlock,
    /// Not found, or owned by another organization or project: the two look alike.
    #[error("Not found")]
    NotFound,
    /// A request continues something that no provider stores for the project, as far as is known.
    #[error("{} with id '{}' not found: {NOT_STORED}", stored_word(*.0), .1)]
    NotStored(StoredKind, String),
    /// The settings, or the thing that has them, are not those any more that a change was shown with.
    #[error("The settings have changed since the change was shown: look at it again")]
    SettingsChanged,
    /// Malformed: the request makes no sense as it stands.
    #[error("{0}")]
    Malformed(String),
    /// Well-formed but invalid; each sentence names one fault.
    #[error("{}", .0.first().map_or("Invalid", String::as_str))]
    Invalid(Vec<String>),
    /// A provider would reach an address or a tool for the caller that the project does not allow, or
    /// do what has no price; each sentence names one.
    #[error("{}", .0.first().map_or("Invalid", String::as_str))]
    ExternalAccess(Vec<String>),
    /// A tool of a vendor's has no bound on its cost, under a cap or a budget.
    #[error("{0}")]
    Unbounded(String),
    /// Well-formed but invalid, by one message of the conversation.
    #[error("messages[{index}]: {fault}")]
    InvalidMessage {
        /// Its index among all messages.
        index: usize,
        /// The fault in it.
        fault: String,
    },
    /// The model is not in the project's registry.
    #[error("Model not authorized or found: {0}")]
    ModelNotFound(String),
    /// The project's monthly budget is used up, or what is left of it is too little for the call.
    #[error("Monthly budget exceeded.")]
    BudgetExceeded {
        /// Seconds until the next month begins.
        retry_after: u64,
    },
    /// The most that the call can cost does not fit into the monthly budget beside the reservations
    /// of other calls.
    #[error("Monthly budget exceeded.")]
    BudgetReserved,
    /// Spend cannot be known now, and something bounds it.
    #[error("Limits cannot be checked right now: try again in a moment")]
    LimitsUnavailable,
    /// The key has made too many requests in the rolling hour.
    #[error("Rate limit exceeded")]
    RateLimited {
        /// Seconds until there is room again.
        retry_after: u64,
    },
    /// The key's hourly spend cap is reached; it is paused until an admin resets it.
    #[error("Kill switch engaged: hourly limit{} exceeded.", of(*.limit))]
    SpendCapped {
        /// The cap; `None` if it was lifted since.
        limit: Option<Usd>,
    },
    /// The most that the call can cost does not fit into the key's hourly cap beside settled spend
    /// and the reservations of other calls. The key is not paused.
    #[error("Kill switch engaged: hourly limit{} exceeded.", of(Some(*.limit)))]
    SpendReserved {
        /// The cap.
        limit: Usd,
    },
    /// The key's list of models does not have it.
    #[error("Model not allowed for this key")]
    ModelNotAllowed,
    /// The key's list of endpoints does not have it.
    #[error("Endpoint not allowed for this key")]
    EndpointNotAllowed,
    /// The key repeats itself; it is paused until an admin resets it.
    #[error("Recursive loop detected. Account throttled.")]
    LoopDetected,
    /// Too many failed attempts to sign in.
    #[error("Too many failed attempts to sign in; try again later")]
    LoginThrottled {
        /// Seconds until the next attempt is allowed.
        retry_after: u64,
    },
    /// After retries and fallbacks, no endpoint answered.
    #[error("Provider request failed")]
    ProviderUnreachable,
    /// After retries and fallbacks, no endpoint answered: the last one had too many requests.
    #[error("Provider request failed")]
    ProviderBusy(Congestion),
    /// A provider refused the gateway's account: its key, its rights or the model it calls.
    #[error("{message}")]
    ProviderRefusedAccount {
        /// The provider's status.
        status: u16,
        /// The provider's own message, without secrets.
        message: String,
    },
    /// A provider refused the request itself.
    #[error("{message}")]
    ProviderRejected {
        /// The provider's status.
        status: u16,
        /// The provider's own message, without secrets.
        message: String,
        /// The provider's own code, if it is one of OpenAI's.
        code: Option<FaultCode>,
    },
    /// The `Idempotency-Key` of the request is taken.
    #[error("{}", .0.sentence())]
    Idempotency(IdempotencyFault),
    /// An MCP server that the request names could not be used; the sentence names it.
    #[error("{0}")]
    McpServer(String),
    /// The database cannot be read or written right now. After a time-out or a lost connection it
    /// is unknown whether the write was stored.
    #[error(
        "The gateway cannot read or store this right now ({0}). It may or may not have been recorded; try again later."
    )]
    Unavailable(String),
    /// Too many concurrent requests for the available memory or time.
    #[error("{why}; try again in {retry_after} s")]
    Busy {
        /// The resource that is short.
        why: &'static str,
        /// Seconds until the next attempt is worth it.
        retry_after: u64,
    },
    /// No further page can be live: the user has many open, or the node has.
    #[error("Too many pages are kept up to date: close one, or reload this one to see what is new")]
    TooManyLiveViews,
    /// The stored rows of the project cannot be read by this version.
    #[error(
        "This version of the gateway cannot read the project, and serves the others; its log says why"
    )]
    ProjectUnreadable,
    /// A defect of ours. The text is for the log only.
    #[error("Internal error")]
    Internal(String),
}

/// A provider's answer that it has too many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// The provider's status: 429, or 529 if all of its callers are meant.
    pub status: u16,
    /// Seconds until the next attempt, if the provider names a time.
    pub retry_after: Option<u32>,
    /// Whether waiting helps. It does not if the account is out of credit.
    pub passes: bool,
}

/// Why something is not found that a request continues, and the remedy.
pub const NOT_STORED: &str = "it is no answer of this project's, or its content is not stored. Send the \
    conversation itself in input";

/// The words for a kind of stored thing, at the beginning of a sentence.
fn stored_word(kind: StoredKind) -> &'static str {
    match kind {
        StoredKind::Response => "Previous response",
        StoredKind::Item | StoredKind::OptionalItem => "Item",
        StoredKind::Container => "Container",
    }
}

/// The result of every use case.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The monthly budget is used up at `now`.
    pub(crate) fn budget_exceeded(now: Timestamp) -> Self {
        let left = u64::try_from(now.next_month_start().since(now)).unwrap_or(0);
        Self::BudgetExceeded { retry_after: left.div_ceil(SECOND.unsigned_abs()).max(1) }
    }

    /// The full cause, for logs only.
    pub(crate) fn cause(self) -> String {
        match self {
            Self::Internal(cause) => cause,
            other => other.to_string(),
        }
    }

    /// One fault.
    pub fn invalid(fault: impl Into<String>) -> Self {
        Self::Invalid(vec![fault.into()])
    }

    /// The trace of a body is unknown, or another project's.
    pub fn trace_not_found() -> Self {
        Self::invalid("Trace not found or not owned by this customer")
    }

    /// The model is not in the project's registry.
    pub fn model_not_found(identifier: &str) -> Self {
        Self::ModelNotFound(identifier.to_owned())
    }
}

impl From<IdempotencyFault> for Error {
    fn from(fault: IdempotencyFault) -> Self {
        Self::Idempotency(fault)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unavailable(why) => {
                tracing::error!(%why, "the database is unavailable");
                // The driver's message may name files and hosts: it is for the log.
                Self::Unavailable("the database is unavailable".to_owned())
            }
            other => Self::Internal(other.to_string()),
        }
    }
}

fn of(limit: Option<Usd>) -> String {
    limit.map(|limit| format!(" of {limit}")).unwrap_or_default()
}

/// The faults of a request, reported all at once.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    sentences: Vec<String>,
    other: Option<Error>,
}

impl Faults {
    pub(crate) fn add(&mut self, sentence: String) {
        self.sentences.push(sentence);
    }

    /// For checks that collect sentences of their own.
    pub(crate) fn sentences(&mut self) -> &mut Vec<String> {
        &mut self.sentences
    }

    /// Notes the faults of an attempt; returns its value otherwise.
    pub(crate) fn note<T>(&mut self, attempt: Result<T>) -> Option<T> {
        match attempt {
            Ok(value) => return Some(value),
            Err(Error::Invalid(more)) => self.sentences.extend(more),
            Err(other) => self.other = Some(other),
        }
        None
    }

    /// Refuses a request in which there are any.
    pub(crate) fn none(self) -> Result<()> {
        match self.other {
            Some(other) => Err(other),
            None if self.sentences.is_empty() => Ok(()),
            None => Err(Error::Invalid(self.sentences)),
        }
    }
}
