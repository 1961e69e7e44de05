//! The jobs of a project.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Count, Percent};
use crate::frame::Frame;
use crate::pages::paging::Pages;
use crate::texts::Texts;

/// A job.
#[derive(Clone, Debug)]
pub struct JobRow {
    /// Its id.
    pub id: String,
    /// Its kind, for people.
    pub kind: &'static str,
    /// The page of its outcome.
    pub href: String,
    /// `queued`, `running`, `completed` or `failed`.
    pub state: &'static str,
    /// The parts that are done, and how many there are.
    pub progress: (Count, Count),
    /// When it was asked for.
    pub created: Timestamp,
    /// Its duration, or how long it has been running.
    pub took: String,
    /// Why it has failed.
    pub error: Option<String>,
}

impl JobRow {
    fn share(&self) -> f64 {
        let (Count(done), Count(total)) = self.progress;
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }

    pub(crate) fn percent(&self) -> Percent {
        Percent(self.share())
    }

    pub(crate) fn width(&self) -> String {
        format!("{:.1}", self.share() * 100.0)
    }
}

/// The jobs of a project.
#[derive(Debug, Template)]
#[template(path = "jobs.html")]
pub struct JobsPage {
    /// The frame.
    pub frame: Frame,
    /// The jobs, newest first.
    pub rows: Vec<JobRow>,
    /// The other pages of them.
    pub pages: Pages,
    /// The address of the whole list as a file.
    pub file: String,
}

/// The jobs alone, for a page that is open.
#[derive(Debug, Template)]
#[template(path = "job_rows.html")]
pub struct JobRows {
    /// The texts.
    pub t: &'static Texts,
    /// The jobs, newest first.
    pub rows: Vec<JobRow>,
    /// The other pages of them.
    pub pages: Pages,
}
