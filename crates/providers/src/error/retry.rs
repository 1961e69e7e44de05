//! The classes of failures: the remedies that may help, and the wait before the same model is tried
//! again.

use std::time::Duration;

use crate::error::{Error, ErrorDetails, ErrorKind};

/// Longest wait. If a provider asks for more, another model is the better choice.
pub const MAX_BACK_OFF: Duration = Duration::from_secs(5);

const FIRST_BACK_OFF: Duration = Duration::from_millis(200);

impl Error {
    /// Whether the request asks for what costs more than the prices of the model.
    pub fn is_unpriced(&self) -> bool {
        self.is_unpriced
    }

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

    /// Returns a word for the class of the failure, out of a closed list: a label of metrics.
    pub fn class(&self) -> &'static str {
        match self.kind {
            ErrorKind::RateLimited => "rate_limited",
            ErrorKind::Rejected { status, .. } if self.wrong_key || matches!(status, 401 | 403) => {
                "wrong_key"
            }
            ErrorKind::Rejected { .. } => "rejected",
            ErrorKind::Unusable => "unusable",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::Unsupported(_) if self.is_misconfigured => "misconfigured",
            ErrorKind::Unsupported(_) => "unsupported",
            ErrorKind::Unreachable if self.is_late => "timeout",
            ErrorKind::Unreachable if self.status.is_some() => "provider_error",
            ErrorKind::Unreachable if self.broke_off => "broken_off",
            ErrorKind::Unreachable if self.retryable => "unreachable",
            ErrorKind::Unreachable => "provider_error",
        }
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

    /// Creates the error of an answer whose status is no success.
    pub(crate) fn status(
        status: u16,
        details: ErrorDetails,
        retry_after: Option<Duration>,
    ) -> Self {
        let wrong_key = details.wrong_key;
        let retry_after = retry_after.or(details.retry_after);
        let message = match &details.message {
            Some(message) => format!("The provider answered {status}: {message}"),
            None => format!("The provider answered {status}"),
        };
        let code = details.code;
        let error =
            Self { status: Some(status), code, retry_after, wrong_key, ..Self::fault(message) };
        match status {
            300..400 => Self {
                message: format!("The provider answered {status}: redirects are not followed"),
                ..error
            },
            429 => Self { kind: ErrorKind::RateLimited, retryable: !details.spent, ..error },
            408 | 424 if details.of_model => error,
            400..500 => {
                let message =
                    details.message.unwrap_or_else(|| format!("The provider answered {status}"));
                Self { kind: ErrorKind::Rejected { status, message }, ..error }
            }
            _ => Self { retryable: !matches!(status, 501 | 505), ..error },
        }
    }
}

/// Returns the wait before attempt `attempt + 1`, when `attempt` (from 1) has just failed: doubling
/// from 200 ms, half of it left to chance, at least what the provider asked for, at most
/// [`MAX_BACK_OFF`]. `jitter` lies between 0 and 1.
pub fn back_off(attempt: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    let doublings = attempt.saturating_sub(1).min(10);
    let whole = FIRST_BACK_OFF.saturating_mul(1 << doublings).min(MAX_BACK_OFF);
    let wait = whole.mul_f64(0.5 + jitter / 2.0);
    // Callers that were given the same wait must not all come back in the same moment.
    let asked = retry_after
        .map_or(Duration::ZERO, |asked| asked.min(MAX_BACK_OFF).mul_f64(1.0 + jitter / 10.0));
    wait.max(asked).min(MAX_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_a_class() {
        let status = |status| Error::status(status, ErrorDetails::default(), None).class();
        let wrong_key = ErrorDetails { wrong_key: true, ..ErrorDetails::default() };
        for (class, expected) in [
            (Error::unsent("no route").class(), "unreachable"),
            (Error::unsent("no route").timed_out().class(), "timeout"),
            (Error::late().class(), "timeout"),
            (Error::cut_off().class(), "broken_off"),
            (Error::unusable("nothing").class(), "unusable"),
            (Error::forbidden("the address").class(), "forbidden"),
            (Error::unsupported("audio").class(), "unsupported"),
            (Error::misconfigured("no address").class(), "misconfigured"),
            (Error::answered(None).class(), "provider_error"),
            (Error::status(400, wrong_key, None).class(), "wrong_key"),
            (status(401), "wrong_key"),
            (status(404), "rejected"),
            (status(429), "rate_limited"),
            (status(503), "provider_error"),
        ] {
            assert_eq!(class, expected);
        }
    }

    #[test]
    fn waits_double_and_end() {
        assert_eq!(back_off(1, None, 1.0), Duration::from_millis(200));
        assert_eq!(back_off(1, None, 0.0), Duration::from_millis(100));
        assert_eq!(back_off(3, None, 1.0), Duration::from_millis(800));
        assert_eq!(back_off(40, None, 1.0), MAX_BACK_OFF);
        assert_eq!(back_off(0, None, f64::NAN), Duration::from_millis(150));
    }

    #[test]
    fn what_the_provider_asks_for_is_kept() {
        assert_eq!(back_off(1, Some(Duration::from_secs(2)), 0.0), Duration::from_secs(2));
        assert_eq!(back_off(1, Some(Duration::from_secs(2)), 1.0), Duration::from_millis(2200));
        assert_eq!(back_off(1, Some(Duration::from_mins(10)), 1.0), MAX_BACK_OFF);
        assert_eq!(back_off(1, Some(Duration::MAX), 1.0), MAX_BACK_OFF);
    }
}
