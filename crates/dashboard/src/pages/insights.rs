//! Possible savings, and changes.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Count, Money};
use crate::frame::Frame;
use crate::markup;

/// An insight.
#[derive(Clone, Debug)]
pub struct InsightCard {
    /// Its number.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// Its description.
    pub description: &'static str,
    /// The savings of following it; `None` if it is about something else.
    pub savings: Option<Savings>,
    /// When it became active.
    pub since: Timestamp,
    /// The numbers that it was computed from, as JSON.
    pub data: String,
}

/// The savings of a cheaper model.
#[derive(Clone, Copy, Debug)]
pub enum Savings {
    /// As much in a month.
    Monthly(Money),
    /// The calls of less than a day do not tell.
    NotKnownYet,
}

/// The drift of a model: how its answers have changed since the period before.
#[derive(Clone, Debug)]
pub struct DriftRow {
    /// The model.
    pub model: String,
    /// Its answers in the period and in the one before.
    pub samples: (Count, Count),
    /// The population stability indices of length, refusals, latency and language.
    pub indices: [f64; 4],
    /// Whether one of them is above the limit.
    pub is_flagged: bool,
}

impl DriftRow {
    fn shown(&self) -> [String; 4] {
        self.indices.map(|index| format!("{index:.2}"))
    }
}

/// The active insights of a project.
#[derive(Debug, Template)]
#[template(path = "insights.html")]
pub struct InsightsPage {
    /// The frame.
    pub frame: Frame,
    /// The insights.
    pub cards: Vec<InsightCard>,
    /// The drift of its models in the last 7 days.
    pub drift: Vec<DriftRow>,
    /// Whether the user may compute and dismiss them.
    pub may_manage: bool,
}
