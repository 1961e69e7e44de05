//! Routing: the tiers of a project, a prompt to try, and what another threshold would change.

use askama::Template;

use crate::format::{Count, Money, Percent};
use crate::frame::Frame;
use crate::markup;

/// A tier.
#[derive(Clone, Debug)]
pub struct TierRow {
    /// Its name.
    pub name: &'static str,
    /// The prompts that it is for.
    pub purpose: &'static str,
    /// Its model; `None` if none is set.
    pub model: Option<String>,
}

/// The route of a prompt.
#[derive(Clone, Debug)]
pub enum Route {
    /// A model would be called.
    Model {
        /// The tier.
        tier: &'static str,
        /// The models that would be tried, in order.
        path: Vec<String>,
        /// The estimated cost; `None` without a price.
        cost: Option<Money>,
        /// 0 to 1.
        complexity: f64,
        /// 0 to 1.
        risk: f64,
        /// Why, as sentences.
        reasons: Vec<String>,
    },
    /// No model would be called.
    None {
        /// What became of the prompt.
        heading: &'static str,
        /// Why.
        reason: String,
    },
}

/// A threshold, and its effect on recent calls.
#[derive(Clone, Copy, Debug)]
pub struct ThresholdRow {
    /// The threshold, 0 to 1.
    pub threshold: f64,
    /// The share of recent calls that would go to `complex`, 0 to 1.
    pub complex: f64,
    /// The share of recent calls that would go elsewhere than today, 0 to 1.
    pub moved: f64,
    /// Whether it is the one in use.
    pub is_current: bool,
}

impl ThresholdRow {
    fn shown(self) -> String {
        format!("{:.2}", self.threshold)
    }

    fn complex_share(self) -> Percent {
        Percent(self.complex)
    }

    fn moved_share(self) -> Percent {
        Percent(self.moved)
    }

    fn width(self) -> String {
        format!("{:.1}", self.complex * 100.0)
    }
}

/// The routing of a project.
#[derive(Debug, Template)]
#[template(path = "routing.html")]
pub struct RoutingPage {
    /// The frame.
    pub frame: Frame,
    /// The tiers.
    pub tiers: Vec<TierRow>,
    /// Whether the user may try prompts.
    pub may_try: bool,
    /// Whether the user may set the threshold.
    pub may_set: bool,
    /// The prompt that was tried.
    pub text: String,
    /// Whether it was tried as sensitive.
    pub is_sensitive: bool,
    /// Its route.
    pub route: Option<Route>,
    /// The threshold in use.
    pub threshold: f64,
    /// Thresholds and their effects; empty without recent calls.
    pub thresholds: Vec<ThresholdRow>,
    /// The number of calls that the effects are taken from.
    pub calls: Count,
}

impl RoutingPage {
    fn current(&self) -> String {
        self.threshold.to_string()
    }
}
