//! The list of traces.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Count, Duration, Money};
use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::Choice;

/// The filters of the list, as they were given.
#[derive(Clone, Debug, Default)]
pub struct TraceFilters(pub Vec<(String, String)>);

impl TraceFilters {
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == value
    }

    /// Those that the form has no field for.
    fn others(&self) -> impl Iterator<Item = &(String, String)> {
        self.0.iter().filter(|(name, _)| !FIELDS.contains(&&**name))
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|(name, _)| name == "order")
    }
}

/// The fields of the form.
const FIELDS: [&str; 15] = [
    "status",
    "grade",
    "model",
    "user",
    "session",
    "from",
    "to",
    "min_cost",
    "min_latency_ms",
    "finding",
    "has_error",
    "order",
    "key",
    "tag",
    "metadata",
];

/// A trace of the list.
#[derive(Clone, Debug)]
pub struct TraceRow {
    /// Its id.
    pub id: String,
    /// When it was opened.
    pub opened: Timestamp,
    /// Its status.
    pub status: &'static str,
    /// Its overall grade.
    pub grade: Option<&'static str>,
    /// Whether it is flagged as likely stalled.
    pub is_stalled: bool,
    /// Whether it is flagged for invented tool calls.
    pub invents_calls: bool,
    /// Its cost, once completed.
    pub cost: Option<Money>,
    /// The time from its opening to its completion.
    pub duration: Option<Duration>,
    /// Its metadata, shortened.
    pub metadata: String,
}

/// A page of traces.
#[derive(Debug, Template)]
#[template(path = "traces.html")]
pub struct TracesPage {
    /// The frame.
    pub frame: Frame,
    /// The filters.
    pub filters: TraceFilters,
    /// The keys to choose from.
    pub keys: Vec<Choice>,
    /// The traces.
    pub rows: Vec<TraceRow>,
    /// How many there are, if that is known.
    pub total: Option<Count>,
    /// The address of the next page.
    pub next: Option<String>,
    /// Whether this is the first page.
    pub is_first: bool,
    /// The address of the changes of the list, if it is followed.
    pub live: Option<String>,
    /// The address of the whole list as a file.
    pub file: String,
}

impl TracesPage {
    /// What traces can be filtered by, as the API names it and in words.
    fn findings(&self) -> [(&'static str, &'static str); 3] {
        let words = &self.frame.t.words;
        [("pii", words.personal_data), ("injection", words.injection), ("secret", words.secret)]
    }
}

/// Rows of the list that are new or have changed.
#[derive(Debug, Template)]
#[template(path = "trace_rows.html")]
pub struct TraceRows<'f> {
    /// The frame of the page that shows them.
    pub frame: &'f Frame,
    /// The traces.
    pub rows: Vec<TraceRow>,
}
