//! Findings that people look at, and their verdicts.

use serde::{Deserialize, Serialize};

use crate::ids::{ProjectId, ServiceTokenId, StepId, UserId};
use crate::safety::Category;
use crate::tier::words;
use crate::time::Timestamp;

/// The most characters of a note.
pub const LONGEST_NOTE: usize = 1_000;

words!(
    /// The verdict of a person on the findings of a step.
    Verdict {
        /// They are what they were taken for.
        Confirmed = "confirmed",
        /// They are not.
        FalsePositive = "false_positive",
    }
);

/// A finding as it was when it was judged: the strongest of its kind in the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedFinding {
    /// The kind of check that found it.
    pub category: Category,
    /// Its type: `EMAIL`, or the name of a rule.
    #[serde(rename = "type")]
    pub kind: String,
    /// Confidence and severity, 0 to 1.
    pub score: f64,
}

/// Somebody who has judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// A signed-in user.
    User(UserId),
    /// A program with a service token.
    ServiceToken(ServiceTokenId),
}

impl Judge {
    /// The user; `None` of a program.
    #[must_use]
    pub fn user(self) -> Option<UserId> {
        match self {
            Self::User(user) => Some(user),
            Self::ServiceToken(_) => None,
        }
    }

    /// The service token; `None` of a user.
    #[must_use]
    pub fn service_token(self) -> Option<ServiceTokenId> {
        match self {
            Self::User(_) => None,
            Self::ServiceToken(token) => Some(token),
        }
    }
}

/// A verdict as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// The step whose findings were judged. It may be gone.
    pub step: StepId,
    /// Its project.
    pub project: ProjectId,
    /// The judge.
    pub judge: Judge,
    /// The verdict.
    pub verdict: Verdict,
    /// A remark, at most [`LONGEST_NOTE`] characters.
    pub note: Option<String>,
    /// The findings as they were judged.
    pub findings: Vec<JudgedFinding>,
    /// The risk score of the step, 0 to 1.
    pub risk_score: f64,
    /// When it was judged, or judged again.
    pub at: Timestamp,
}
