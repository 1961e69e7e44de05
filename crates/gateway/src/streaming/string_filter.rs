//! One string of a streamed answer on its way out: judged if the project asks for it, then put back
//! into the caller's own words.

use std::borrow::Cow;
use std::sync::Arc;

use checks::{Placeholders, Redactor, StreamJudge, StreamRestorer, Withheld};

use crate::safety::json_path::JsonPath;
use crate::safety::output_check;
use crate::state::registry::ProjectState;

/// Judges what streams, by the settings of a project.
#[derive(Debug)]
pub(super) struct Judging {
    project: Arc<ProjectState>,
    pub(super) redactor: Redactor,
    /// Why the rest of the answer must not leave. Nothing leaves any more then.
    pub(super) blocked: Option<String>,
}

impl Judging {
    pub(super) fn new(project: Arc<ProjectState>, nonce: u64) -> Self {
        Self { project, redactor: Redactor::of_answer(nonce), blocked: None }
    }

    /// The part that may leave of a string that came whole.
    pub(super) fn whole(&mut self, text: &str) -> String {
        let mut judge = StreamJudge::default();
        let mut out = self.more(&mut judge, text);
        out.push_str(&self.rest(&mut judge));
        out
    }

    fn more(&mut self, judge: &mut StreamJudge, text: &str) -> String {
        self.release(|policy, redactor| judge.push(policy, redactor, text))
    }

    fn rest(&mut self, judge: &mut StreamJudge) -> String {
        self.release(|policy, redactor| judge.flush(policy, redactor))
    }

    fn release(
        &mut self,
        judged: impl FnOnce(&checks::Policy, &mut Redactor) -> Result<String, Withheld>,
    ) -> String {
        if self.blocked.is_some() {
            return String::new();
        }
        judged(&self.project.policy, &mut self.redactor).unwrap_or_else(|withheld| {
            self.blocked = Some(output_check::withheld(withheld.finding.as_ref()));
            withheld.said
        })
    }
}

/// A string that leaves in pieces.
#[derive(Debug)]
pub(super) struct StringFilter {
    judge: StreamJudge,
    restorer: StreamRestorer,
}

impl StringFilter {
    /// The beginning of a string; of the text of choice 0 if there is no path.
    pub(super) fn new(placeholders: &Placeholders, path: Option<&JsonPath>) -> Self {
        let restorer = match path {
            Some(path) if path.is_json() => placeholders.json_stream(),
            _ => placeholders.stream(),
        };
        Self { judge: StreamJudge::default(), restorer }
    }

    /// Whether something is held back.
    pub(super) fn holds(&self) -> bool {
        self.judge.holds() || self.restorer.holds()
    }

    /// Takes more of the string; returns the part that may leave, not restored yet.
    pub(super) fn judged<'t>(
        &mut self,
        text: &'t str,
        judging: Option<&mut Judging>,
    ) -> Cow<'t, str> {
        match judging {
            Some(judging) => judging.more(&mut self.judge, text).into(),
            None => text.into(),
        }
    }

    /// Returns the text that the judge holds back, as if nothing followed.
    pub(super) fn judged_rest(&mut self, judging: Option<&mut Judging>) -> String {
        judging.map(|judging| judging.rest(&mut self.judge)).unwrap_or_default()
    }

    /// Replaces placeholders in judged text with their originals; returns the part that is certain.
    pub(super) fn restored(&mut self, judged: &str) -> String {
        self.restorer.push(judged)
    }

    /// Restores judged text like `restored`, at the end of the string or of a part that is
    /// interrupted.
    pub(super) fn restored_rest(&mut self, judged: &str) -> String {
        let mut out = self.restorer.push(judged);
        out.push_str(&self.restorer.rest());
        out
    }
}
