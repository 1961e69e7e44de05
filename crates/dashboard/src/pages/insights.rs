//! Possible savings, and changes.

use askama::Template;
use domain::time::Timestamp;

use crate::format::Money;
use crate::frame::Frame;

/// An insight.
#[derive(Clone, Debug)]
pub struct InsightCard {
    /// Its number.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// Its description.
    pub description: &'static str,
    /// The savings in a month.
    pub savings: Money,
    /// When it became active.
    pub since: Timestamp,
    /// The numbers that it was computed from, as JSON.
    pub data: String,
}

/// The active insights of a project.
#[derive(Debug, Template)]
#[template(path = "insights.html")]
pub struct InsightsPage {
    /// The frame.
    pub frame: Frame,
    /// The insights.
    pub cards: Vec<InsightCard>,
    /// Whether the user may compute and dismiss them.
    pub may_manage: bool,
}
