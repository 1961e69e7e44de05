//! What a list of traces is filtered by, as a caller asks for it.

use domain::attributes::AttributeName;
use domain::grade::Grade;
use domain::ids::{KeyId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::TraceStatus;
use store::{Order, Page, Term, TraceFilter};

use crate::state::registry::ProjectState;

/// A page of traces that a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct TraceQuery {
    /// Only traces of this status.
    pub status: Option<TraceStatus>,
    /// Only traces that were opened at this time or later.
    pub from: Option<Timestamp>,
    /// Only traces that were opened before this time.
    pub to: Option<Timestamp>,
    /// Only traces of this overall grade.
    pub grade: Option<Grade>,
    /// Only traces in which this model was called.
    pub model: Option<String>,
    /// Only traces that this key has opened.
    pub key: Option<KeyId>,
    /// Only traces that have these attributes, or whose steps have them.
    pub attributes: Vec<(AttributeName, String)>,
    /// Only traces with these members of their metadata.
    pub metadata: Vec<Term>,
    /// Only traces that cost this much.
    pub min_cost: Option<Usd>,
    /// Only traces that took this long, in microseconds.
    pub min_latency: Option<i64>,
    /// Only traces with these findings.
    pub findings: Vec<Term>,
    /// Only traces with a step that failed, or without one.
    pub has_error: Option<bool>,
    /// Their order.
    pub order: Order,
    /// Only traces beyond this one.
    pub beyond: Option<TraceId>,
    /// The number of traces to skip.
    pub offset: i64,
    /// The number of traces to return.
    pub limit: i64,
}

impl TraceQuery {
    /// The filter of a project's traces. Attributes that are stored as hashes are sought by them.
    pub(super) fn filter(&self, project: &ProjectState) -> TraceFilter {
        let attribute = |(name, value): &(AttributeName, String)| {
            Term::attribute(name, &project.stored_value(name, value))
        };
        let model = self.model.as_deref().map(Term::model);
        let error = |wanted| self.has_error.filter(|has| *has == wanted).map(|_| Term::error());
        let mut terms: Vec<Term> = self.attributes.iter().map(attribute).chain(model).collect();
        terms.extend(self.metadata.iter().chain(&self.findings).cloned().chain(error(true)));
        TraceFilter {
            status: self.status,
            from: self.from,
            to: self.to,
            grade: self.grade,
            key: self.key,
            min_cost: self.min_cost,
            min_latency: self.min_latency,
            terms,
            without: error(false).into_iter().collect(),
        }
    }

    /// The page of the traces that fit.
    pub(super) fn page(&self) -> Page {
        let Self { order, beyond, offset, limit, .. } = *self;
        Page { order, beyond, offset, limit }
    }
}
