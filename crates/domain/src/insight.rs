//! Insights: what the records of a project suggest to its people.

use serde_json::{Map, Value};

use crate::ids::{InsightId, ProjectId};
use crate::money::Usd;
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// The kind of an insight.
    InsightKind {
        /// Calls of one intent would cost a fraction on another registered model.
        MigrationAlert = "migration_alert",
        /// A model answers much more slowly than it did.
        LatencyAlert = "latency_alert",
        /// Many requests have the same intent.
        IntentPattern = "intent_pattern",
    }
);

words!(
    /// The state of an insight.
    InsightStatus {
        /// It is listed.
        Active = "active",
        /// A person has put it aside. It stays so until the facts change, or the rule clearly holds no more.
        Dismissed = "dismissed",
        /// Its rule does not hold any more.
        Resolved = "resolved",
    }
);

/// The result of a rule that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct InsightFacts {
    /// The rule.
    pub kind: InsightKind,
    /// What it is about: a project has one insight of a kind for each subject.
    pub subject: String,
    /// Every figure that it was computed from, as callers see it.
    pub data: Map<String, Value>,
    /// What following it would save in 30 days; zero if that is unknown.
    pub estimated_savings: Usd,
}

/// An insight as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Insight {
    /// Its number.
    pub id: InsightId,
    /// The project that it is about.
    pub project: ProjectId,
    /// Its facts. Those of a dismissed one are as they were when it was dismissed, or when its calls became a
    /// sample since then, or ceased to be one: later ones are compared with them.
    pub facts: InsightFacts,
    /// Its state.
    pub status: InsightStatus,
    /// When it became active the last time.
    pub created_at: Timestamp,
}
