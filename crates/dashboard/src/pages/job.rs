//! The outcome of a job.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Bytes, Count, Money, Percent};
use crate::frame::Frame;
use crate::markup;
use crate::pages::jobs::JobRow;
use crate::pages::overview::Tile;
use crate::texts::Texts;

/// A step, and its page.
#[derive(Clone, Debug)]
pub struct StepLink {
    /// Its number.
    pub id: i64,
    /// Its page.
    pub href: String,
}

/// Requests whose verdict differs for one cause.
#[derive(Clone, Debug)]
pub struct CauseRow {
    /// The category and the type of the finding.
    pub cause: String,
    /// How many there are.
    pub steps: Count,
    /// Their share of the judged requests.
    pub share: Percent,
    /// The first of them.
    pub first: Vec<StepLink>,
}

/// Requests of one tier that go to one tier by the draft.
#[derive(Clone, Debug)]
pub struct TierMoveRow {
    /// The recorded tier, and that of the draft.
    pub tiers: (&'static str, &'static str),
    /// How many there are.
    pub steps: Count,
    /// Their recorded cost, and that of the draft.
    pub cost: (Money, Money),
}

impl TierMoveRow {
    fn is_move(&self) -> bool {
        self.tiers.0 != self.tiers.1
    }
}

/// Requests that a limit would have refused.
#[derive(Clone, Debug)]
pub struct RefusalRow {
    /// The limit.
    pub limit: &'static str,
    /// How many there are.
    pub steps: Count,
    /// The money that would not have been spent.
    pub cost: Money,
    /// The first of them.
    pub first: Vec<StepLink>,
}

/// The report of a backtest.
#[derive(Clone, Debug)]
pub struct BacktestView {
    /// Its totals.
    pub tiles: Vec<Tile>,
    /// The limits of the report, in sentences.
    pub notes: Vec<String>,
    /// Requests that were answered and would be blocked.
    pub blocked: Vec<CauseRow>,
    /// Requests that were blocked and would pass.
    pub passed: Vec<CauseRow>,
    /// Routed requests by tier.
    pub tiers: Vec<TierMoveRow>,
    /// Requests that a limit of the draft would have refused.
    pub refused: Vec<RefusalRow>,
}

impl BacktestView {
    /// The tables of causes, each with its title, its name and the text without a row.
    fn causes(&self, t: &Texts) -> [(&'static str, &'static str, &[CauseRow], &'static str); 2] {
        let t = &t.job;
        [
            (t.newly_blocked, "blocked", &self.blocked, t.none_newly_blocked),
            (t.newly_passed, "passed", &self.passed, t.none_newly_passed),
        ]
    }
}

/// The steps of an export.
#[derive(Clone, Copy, Debug)]
pub struct ExportedSteps {
    /// The format of its file.
    pub format: &'static str,
    /// The time from which on they ended.
    pub from: Timestamp,
    /// The time before which they ended.
    pub to: Timestamp,
    /// Whether the file has their contents.
    pub has_contents: bool,
}

/// An export.
#[derive(Clone, Debug)]
pub struct ExportView {
    /// The steps in it; `None` for those who may not know.
    pub what: Option<ExportedSteps>,
    /// The rows and the size of its file, once it is done.
    pub file: Option<(Count, Bytes)>,
    /// The address of the file, for those who may have it.
    pub download: Option<String>,
    /// The parts that the file lacks, in sentences.
    pub notes: Vec<String>,
}

/// A job and its outcome.
#[derive(Debug, Template)]
#[template(path = "job.html")]
pub struct JobPage {
    /// The frame.
    pub frame: Frame,
    /// All but the heading.
    pub part: JobPart,
}

impl JobPage {
    /// The address of the changes of the part.
    fn live(&self) -> String {
        self.frame.href(&format!("/live/jobs/{}", self.part.job.id))
    }
}

/// A job and its outcome without a heading, for a page that is open.
#[derive(Debug, Template)]
#[template(path = "job_part.html")]
pub struct JobPart {
    /// The texts.
    pub t: &'static Texts,
    /// The job as it is listed.
    pub job: JobRow,
    /// Whether it changes no more.
    pub is_over: bool,
    /// The time until which it is found, at the latest.
    pub until: Option<Timestamp>,
    /// The window of a backtest.
    pub window: Option<(Timestamp, Timestamp)>,
    /// The report of a backtest that is completed.
    pub backtest: Option<BacktestView>,
    /// The export.
    pub export: Option<ExportView>,
}
