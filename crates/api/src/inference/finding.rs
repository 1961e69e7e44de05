//! Safety findings, as callers see them.

use domain::safety::Category;
use gateway::Located;
use serde::Serialize;
use utoipa::ToSchema;

/// A finding, and its location.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FindingBody {
    /// `pii`, `injection`, `secret` or `policy`.
    #[schema(value_type = String)]
    category: Category,
    /// The type, such as `EMAIL`; the name of a recognizer or a rule of the project's own.
    r#type: String,
    /// First character of it in its string, counted in Unicode scalar values.
    start: usize,
    /// One after the last.
    end: usize,
    /// How sure and how grave, 0 to 1.
    score: f64,
    /// The index of the string among all that are judged.
    part: usize,
    /// The index of its message in the conversation, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    message: Option<usize>,
    /// The role of that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    role: Option<&'static str>,
    /// The field of the message, such as `content`, or of the request, such as `tools`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    field: Option<String>,
}

impl From<Located> for FindingBody {
    fn from(found: Located) -> Self {
        Self {
            category: found.category,
            r#type: found.kind,
            start: found.start,
            end: found.end,
            score: found.score,
            part: found.part,
            message: found.message,
            role: found.role,
            field: found.field,
        }
    }
}

impl FindingBody {
    /// The cause of a refusal.
    pub fn of(cause: Option<Box<Located>>) -> Option<Self> {
        cause.map(|cause| (*cause).into())
    }
}
