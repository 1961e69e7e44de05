//! The questions asked of a policy: what is in these texts, and may they go on.

use std::borrow::Cow;

use domain::safety::{Category, Origin};

use crate::injection;
use crate::pattern::watch::{GiveUp, Watch};
use crate::policy::compiled::Policy;
use crate::policy::detection::finding;
use crate::policy::{encoded, offsets, risk};
use crate::redact::reading::Reading;
use crate::report::{Finding, MAX_FINDINGS, Part, Report, Verdict};
use crate::scan::{Scan, Scope};
use crate::text::normalize::Normalized;

impl Policy {
    /// Judges all parts of one request together.
    pub fn inspect(&self, parts: &[Part<'_>]) -> Report {
        self.conclude([self.judge(parts)])
    }

    /// Judges parts that belong together, for [`Policy::conclude`].
    pub fn judge(&self, parts: &[Part<'_>]) -> Verdict {
        self.judge_until(parts, GiveUp::Never)
    }

    /// Judges parts that belong together, as long as somebody waits for the verdict.
    pub fn judge_until(&self, parts: &[Part<'_>], give_up: GiveUp<'_>) -> Verdict {
        let read = parts.iter().map(|part| (part.origin, Reading::Plain(part.text.into())));
        self.readings(read, Scope::Everything, Watch::new(give_up))
    }

    /// Judges readings that belong together, one by one, for [`Policy::conclude`]: each is let go of before the next one is
    /// made. A finding in a file has its place in the text of the file for a [`Redactor`], and that of the whole file for
    /// people.
    ///
    /// [`Redactor`]: crate::Redactor
    pub fn judge_readings<'a>(
        &self,
        readings: impl IntoIterator<Item = (Origin, Reading<'a>)>,
        give_up: GiveUp<'_>,
    ) -> Verdict {
        self.readings(readings.into_iter(), Scope::Everything, Watch::new(give_up))
    }

    fn readings<'a>(
        &self,
        readings: impl Iterator<Item = (Origin, Reading<'a>)>,
        scope: Scope,
        watch: Watch<'_>,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        for (origin, reading) in readings {
            if watch.is_over() {
                break;
            }
            let index = verdict.parts;
            verdict.parts += 1;
            if verdict.findings.len() > MAX_FINDINGS {
                continue;
            }
            let part = Part { origin, text: reading.text() };
            // One more than a request may have shows that there are more.
            let (mut found, suspected) = self.part(&part, scope, MAX_FINDINGS + 1, &watch);
            if let Reading::File(file) = &reading
                && !found.is_empty()
            {
                let span = file.span();
                for finding in &mut found {
                    (finding.start, finding.end) = (span.start, span.end);
                }
            }
            for finding in &mut found {
                finding.part = index;
            }
            verdict.suspicion = f64::max(verdict.suspicion, suspected);
            verdict.findings.append(&mut found);
            verdict.findings.truncate(MAX_FINDINGS + 1);
        }
        verdict.abandoned = watch.is_over();
        verdict.slow = watch.slow();
        verdict
    }

    /// Judges all that a model answered together: only secrets and personal data, by the actions set for outputs.
    pub fn inspect_output(&self, texts: &[&str]) -> Report {
        let read = texts.iter().map(|text| (Origin::Assistant, Reading::Plain((*text).into())));
        let verdict = self.readings(read, Scope::Leaks, Watch::new(GiveUp::Never));
        let mut report = self.conclude_output(verdict);
        if self.acts_on(Category::Pii)
            && let Some(slow) = report.slow.first()
        {
            report.block.get_or_insert_with(|| self.took_too_long(slow));
        }
        report
    }

    /// Judges an answer where nothing depends on it: a pattern that took too long counts as no match.
    pub fn try_output<'a>(
        &self,
        readings: impl IntoIterator<Item = Reading<'a>>,
        give_up: GiveUp<'_>,
    ) -> Report {
        let readings = readings.into_iter().map(|reading| (Origin::Assistant, reading));
        self.conclude_output(self.readings(readings, Scope::Leaks, Watch::new(give_up)))
    }

    /// Returns the parts of a text that must not leave as they are, in order. `None` if a pattern took too long.
    pub(crate) fn leaks(&self, text: &str) -> Option<Vec<Finding>> {
        let part = Part { origin: Origin::Assistant, text };
        let watch = Watch::new(GiveUp::Never);
        let (mut found, _) = self.part(&part, Scope::Leaks, MAX_FINDINGS, &watch);
        found.retain(|finding| self.acts_on(finding.category));
        (watch.slow().is_empty() || !self.acts_on(Category::Pii)).then_some(found)
    }

    pub(crate) fn part(
        &self,
        part: &Part<'_>,
        scope: Scope,
        room: usize,
        watch: &Watch<'_>,
    ) -> (Vec<Finding>, f64) {
        if part.text.is_empty() {
            return (Vec::new(), 0.0);
        }
        watch.allow(part.text.len());
        let normalized = Normalized::new(part.text);
        let text = normalized.text.as_ref();
        let mut scan = Scan::new(text, scope);
        if watch.is_over() {
            return (Vec::new(), 0.0);
        }
        let (mut findings, mut suspicion) = (Vec::new(), 0.0);
        if scope == Scope::Everything {
            let verdict = injection::find(&normalized, &scan, part.origin);
            suspicion = verdict.score;
            findings.extend(verdict.attempts.into_iter().map(|a| {
                let score = risk::rounded(a.score);
                let kind = Cow::Borrowed(a.kind);
                let found = finding(&normalized, Category::Injection, kind, a.bytes, score);
                Finding { held: a.held, ..found }
            }));
        }
        if watch.is_over() {
            return (Vec::new(), 0.0);
        }
        // A long text may be full of words that only injections are looked for by.
        scan.anchors = Vec::new();
        findings.extend(self.leaks_in(&normalized, &scan, room, watch));
        encoded::add(self, &normalized, &scan, &mut findings, room, watch);
        if scope == Scope::Everything {
            self.rules(part.text, watch, &mut findings);
        }
        findings
            .sort_by(|a, b| a.bytes.start.cmp(&b.bytes.start).then(a.bytes.end.cmp(&b.bytes.end)));
        findings.truncate(room);
        for finding in &mut findings {
            finding.origin = part.origin;
        }
        offsets::fill(part.text, &mut findings);
        (findings, suspicion)
    }
}
