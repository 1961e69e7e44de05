//! A trace as a list of many shows it.

use domain::grade::Grade;
use domain::ids::TraceId;
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{AgentWork, Trace, TraceStatus};

/// The most characters of metadata.
const LONGEST_PREVIEW: usize = 120;

/// A trace in a list. It is small, however large its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTrace {
    /// Its id.
    pub id: TraceId,
    /// The stage in its life.
    pub status: TraceStatus,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// Its overall grade, once completed.
    pub grade: Option<Grade>,
    /// Its cost, once completed.
    pub cost: Option<Usd>,
    /// How its agent worked, once completed.
    pub work: Option<AgentWork>,
    /// The beginning of its metadata as JSON.
    pub metadata: String,
}

impl From<&Trace> for ListedTrace {
    fn from(trace: &Trace) -> Self {
        let assessment = trace.assessment.as_ref();
        let metadata = trace.metadata.as_ref().map(ToString::to_string).unwrap_or_default();
        Self {
            id: trace.id,
            status: trace.status,
            created_at: trace.created_at,
            completed_at: trace.completed_at,
            grade: assessment.map(|assessment| assessment.grades.overall),
            cost: assessment.map(|assessment| assessment.total_cost),
            work: trace.work,
            metadata: shortened(metadata),
        }
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST_PREVIEW) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
