//! A replay of a trace, beside its source.

use askama::Template;

use crate::format::{Count, Duration, Money};
use crate::frame::Frame;
use crate::markup;
use crate::pages::paging::Pages;
use crate::texts::Texts;

/// A trace of the comparison.
#[derive(Clone, Debug)]
pub struct ComparedTrace {
    /// `Source`, or the model that made all calls.
    pub name: String,
    /// Its page.
    pub href: String,
    /// Its cost.
    pub cost: Money,
    /// The change in the cost of the repeated calls, in words.
    pub cost_change: String,
    /// The change in the cost of all of it, in words.
    pub total_cost_change: String,
    /// Its time.
    pub latency: Duration,
    /// The change in the time of the repeated calls, in words.
    pub latency_change: String,
    /// The change in the time of all of it, in words.
    pub total_latency_change: String,
    /// Its overall grade.
    pub grade: &'static str,
    /// Its models.
    pub models: Vec<String>,
}

/// A repeated call.
#[derive(Clone, Debug)]
pub struct RepeatedCall {
    /// The model that was called, or would have been.
    pub model: String,
    /// The page of the repetition.
    pub href: Option<String>,
    /// Its cost, if it was made.
    pub cost: Option<Money>,
    /// Its time, if it was made.
    pub latency: Option<Duration>,
    /// How alike the answers are, in percent.
    pub similarity: Option<String>,
    /// Why there is no answer to compare.
    pub note: Option<String>,
    /// The parts of the source's request that it does without.
    pub left_out: Option<String>,
    /// Its answer, or the beginning of it.
    pub answer: Option<String>,
}

/// A call of the source beside its repetitions.
#[derive(Clone, Debug)]
pub struct ComparedCall {
    /// The number of its step.
    pub step: Count,
    /// The page of its step.
    pub href: String,
    /// Its answer, or the beginning of it.
    pub answer: Option<String>,
    /// The repetitions, in the order of the traces.
    pub repeated: Vec<RepeatedCall>,
}

/// A replay.
#[derive(Debug, Template)]
#[template(path = "replay.html")]
pub struct ReplayPage {
    /// The frame.
    pub frame: Frame,
    /// The id of its job.
    pub id: String,
    /// The id of the source.
    pub source: String,
    /// All but the heading.
    pub part: ReplayPart,
}

/// A replay without a heading, for a page that is open.
#[derive(Debug, Template)]
#[template(path = "replay_part.html")]
pub struct ReplayPart {
    /// The texts.
    pub t: &'static Texts,
    /// `queued`, `running`, `completed` or `failed`.
    pub state: &'static str,
    /// The calls that are done, and how many there are.
    pub progress: (Count, Count),
    /// Whether it is over.
    pub is_over: bool,
    /// Why it has failed.
    pub error: Option<String>,
    /// The source and its replays; empty until it is over.
    pub traces: Vec<ComparedTrace>,
    /// Calls of the source.
    pub calls: Vec<ComparedCall>,
    /// The other pages of them.
    pub pages: Pages,
}

impl ReplayPage {
    /// The address of the changes of the part.
    fn live(&self) -> String {
        self.frame.href(&format!("/live/jobs/{}", self.id))
    }

    fn source_href(&self) -> String {
        self.frame.href(&format!("/traces/{}", self.source))
    }
}
