//! Usage by groups, as statistics answer it.

use gateway::{Dimension, Error, GroupRow, Usage, UsageGroup};
use serde::Serialize;
use utoipa::ToSchema;

use crate::evidence::period::PeriodBody;

/// The most characters of a name that a fault shows.
const LONGEST_SHOWN: usize = 40;

/// The usage of a project by one dimension.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageBody {
    period: PeriodBody,
    group_by: String,
    /// The 1,000 dearest, dearest first; beside them the calls without a value, whose `value` is null.
    groups: Vec<GroupBody>,
    /// All other groups as one; null if there are none.
    rest: Option<Figures>,
    /// All usage.
    total: Figures,
}

/// A group.
#[derive(Debug, Serialize, ToSchema)]
pub struct GroupBody {
    /// The user, session, tag, model, key, tier or endpoint; null for calls without one.
    value: Option<String>,
    /// The name of a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(flatten)]
    figures: Figures,
}

/// The usage of a group.
#[derive(Debug, Serialize, ToSchema)]
pub struct Figures {
    /// Requests, blocked ones included.
    requests: i64,
    blocked: i64,
    /// Requests that failed.
    errors: i64,
    /// USD.
    cost: f64,
    prompt_tokens: i64,
    /// Prompt tokens that were read from a cache.
    cached_tokens: i64,
    completion_tokens: i64,
}

impl UsageBody {
    /// The answer to a question for a dimension.
    pub fn of(group_by: &str, usage: Usage) -> Self {
        Self {
            period: usage.period.into(),
            group_by: group_by.to_owned(),
            groups: usage.groups.into_iter().map(GroupBody::from).collect(),
            rest: usage.rest.as_ref().map(Figures::from),
            total: (&usage.total).into(),
        }
    }
}

impl From<UsageGroup> for GroupBody {
    fn from(group: UsageGroup) -> Self {
        Self { value: group.value, name: group.name, figures: (&group.usage).into() }
    }
}

impl From<&GroupRow> for Figures {
    fn from(row: &GroupRow) -> Self {
        Self {
            requests: row.requests,
            blocked: row.blocked,
            errors: row.failures,
            cost: row.cost().dollars(),
            prompt_tokens: row.prompt_tokens,
            cached_tokens: row.cached_tokens,
            completion_tokens: row.completion_tokens,
        }
    }
}

/// Reads the name of a dimension.
pub fn dimension(name: &str) -> Result<Dimension, Error> {
    Dimension::parse(name).ok_or_else(|| {
        let shown: String = name.chars().take(LONGEST_SHOWN).collect();
        Error::invalid(format!(
            "group_by must be user, session, tag:NAME, model, key, tier or endpoint, not '{shown}'"
        ))
    })
}
