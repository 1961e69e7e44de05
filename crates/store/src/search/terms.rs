//! Terms: what traces are found by.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use domain::attributes::{AttributeName, Attributes, Gathering, is_value};
use domain::ids::{ProjectId, TraceId};
use domain::step::{Step, StepKind, StepStatus};
use domain::trace::Trace;
use serde_json::Value;

use crate::error::Result;
use crate::writer::table::{Field, NewTrace, Row};

/// The members of a trace's metadata that it is found by.
const MOST_MEMBERS: usize = 64;
/// Stands between the name and the value of a member: neither has a control character.
const BETWEEN: char = '\u{1f}';

/// A property of a trace, or of one of its steps, as a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(String);

impl Term {
    /// A call of a model, shadow calls apart.
    pub fn model(identifier: &str) -> Self {
        Self(format!("model={identifier}"))
    }

    /// A value of an attribute.
    pub fn attribute(name: &AttributeName, value: &str) -> Self {
        // Names have no equals sign.
        Self(format!("{name}={value}"))
    }

    /// A member of the metadata that is a text, a number or a truth value; `None` if no trace is found by
    /// such a name or value.
    pub fn metadata(name: &str, value: &str) -> Option<Self> {
        let fits = is_value(name) && is_value(value);
        fits.then(|| Self(format!("metadata{BETWEEN}{name}{BETWEEN}{value}")))
    }

    /// Personal data.
    pub fn pii() -> Self {
        Self("finding=pii".to_owned())
    }

    /// An injection.
    pub fn injection() -> Self {
        Self("finding=injection".to_owned())
    }

    /// A credential.
    pub fn secret() -> Self {
        Self("finding=secret".to_owned())
    }

    /// A step that has failed.
    pub fn error() -> Self {
        Self("error".to_owned())
    }

    /// The text that stands for it in the database.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The terms of a step's own.
fn terms_of_step(step: &Step) -> Vec<Term> {
    let mut terms = Vec::new();
    let called = step.call.as_ref().filter(|_| step.kind == StepKind::Run && !step.is_shadow());
    terms.extend(called.map(|call| Term::model(&call.model)));
    for (found, term) in [
        (step.status == StepStatus::Failed && !step.is_shadow(), Term::error as fn() -> Term),
        (step.security.pii, Term::pii),
        (step.security.injection, Term::injection),
        (step.security.secret, Term::secret),
    ] {
        terms.extend(found.then(term));
    }
    terms.extend(step.attributes.iter().flat_map(|attributes| of_attributes(attributes)));
    terms
}

/// The terms of a trace's metadata.
fn terms_of_trace(trace: &Trace) -> Vec<Term> {
    let Some(Value::Object(metadata)) = &trace.metadata else { return Vec::new() };
    let mut gathering = Gathering::default();
    gathering.metadata(metadata);
    let (attributes, _) = gathering.finish();
    let mut terms = of_attributes(&attributes);
    let members = metadata.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Number(_) | Value::Bool(_) => Cow::Owned(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Term::metadata(name, &value)
    });
    terms.extend(members.take(MOST_MEMBERS));
    terms
}

fn of_attributes(attributes: &Attributes) -> Vec<Term> {
    let user = attributes.user.iter().map(|user| Term::attribute(&AttributeName::User, user));
    let session = attributes.session.iter();
    let session = session.map(|session| Term::attribute(&AttributeName::Session, session));
    let tags = attributes.tags.iter();
    let tags = tags.map(|(name, value)| Term::attribute(&AttributeName::Tag(name.clone()), value));
    user.chain(session).chain(tags).collect()
}

/// A trace and a term of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TermRow {
    project: ProjectId,
    term: Term,
    trace: TraceId,
}

impl Row for TermRow {
    const TABLE: &'static str = "trace_terms";
    const COLUMNS: &'static [&'static str] = &["project_id", "term", "trace_id"];
    const CONFLICT: &'static str = " ON CONFLICT (project_id, term, trace_id) DO NOTHING";

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let term = Cow::Borrowed(self.term.as_str());
        Ok(vec![self.project.0.into(), term.into(), self.trace.0.into()])
    }
}

/// The rows that were written lately: most steps of a trace have the terms of those before them, and
/// what is written is not written again.
#[derive(Default)]
pub(crate) struct WrittenTerms {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

/// The most rows that are known to be written.
const MOST_KNOWN: usize = 65_536;

impl WrittenTerms {
    /// The rows of a commit that are not known to be written. They are in order, so that two nodes that
    /// write the same ones never wait for each other.
    pub(crate) fn new_of(&self, traces: &[&NewTrace], steps: &[&Step]) -> Vec<TermRow> {
        let of_traces = traces.iter().flat_map(|NewTrace { trace, .. }| {
            let row = |term| TermRow { project: trace.project, term, trace: trace.id };
            terms_of_trace(trace).into_iter().map(row)
        });
        let of_steps = steps.iter().flat_map(|step| {
            let row = |term| TermRow { project: step.project, term, trace: step.trace };
            terms_of_step(step).into_iter().map(row)
        });
        let is_new = |row: &TermRow| !self.hashes.contains(&self.hasher.hash_one(row));
        let rows: BTreeSet<TermRow> = of_traces.chain(of_steps).filter(is_new).collect();
        rows.into_iter().collect()
    }

    /// Notes rows that have been written.
    pub(crate) fn note(&mut self, rows: &[TermRow]) {
        if self.hashes.len() + rows.len() > MOST_KNOWN {
            self.hashes.clear();
        }
        self.hashes.extend(rows.iter().map(|row| self.hasher.hash_one(row)));
    }
}
