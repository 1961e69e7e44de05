//! The verdicts on all parts of a request or an answer, weighed together.

use domain::safety::Action;

use crate::pattern::watch::{PatternList, SlowPattern};
use crate::policy::compiled::Policy;
use crate::policy::risk;
use crate::report::{Block, Finding, MAX_FINDINGS, Report, Verdict};

impl Policy {
    /// Weighs the verdicts on all parts of one request, in their order. Those that stand behind more findings than a
    /// request may have are not asked for. A pattern that took too long and may forbid the request does.
    pub fn conclude(&self, verdicts: impl IntoIterator<Item = Verdict>) -> Report {
        let mut report = self.conclude_trial(verdicts);
        for slow in &report.slow {
            match slow.list {
                // It may add to what blocks: a person should look.
                PatternList::Rules if self.rule_action(slow) == Some(Action::Flag) => {
                    report.review |= report.block.is_none();
                }
                // Text that the pattern would have found must not reach a model that it may not reach.
                PatternList::Rules | PatternList::Recognizers => {
                    report.block.get_or_insert_with(|| self.took_too_long(slow));
                    report.review = false;
                }
            }
        }
        report
    }

    /// Weighs the verdicts where nothing depends on it: a pattern that took too long counts as no match.
    pub fn conclude_trial(&self, verdicts: impl IntoIterator<Item = Verdict>) -> Report {
        let (mut findings, mut suspicion, mut parts) = (Vec::new(), 0.0, 0);
        let (mut slow, mut abandoned) = (Vec::new(), false);
        for mut verdict in verdicts {
            for finding in &mut verdict.findings {
                finding.part += parts;
            }
            parts += verdict.parts;
            abandoned |= verdict.abandoned;
            suspicion = f64::max(suspicion, verdict.suspicion);
            slow.append(&mut verdict.slow);
            findings.append(&mut verdict.findings);
            if abandoned || findings.len() > MAX_FINDINGS {
                break;
            }
        }
        let overflows = keep_most(&mut findings);
        let mut report = risk::weigh(&self.safety, findings, suspicion);
        if overflows {
            report.block.get_or_insert_with(too_many);
        }
        report.abandoned = abandoned;
        slow.sort_unstable();
        slow.dedup_by_key(|slow| (slow.list, slow.index));
        report.slow = slow;
        report
    }

    pub(super) fn conclude_output(&self, verdict: Verdict) -> Report {
        let Verdict { mut findings, slow, .. } = verdict;
        let overflows = keep_most(&mut findings);
        let mut report = risk::weigh_output(&self.safety, findings);
        report.slow = slow;
        if overflows && self.acts_on_outputs() {
            report.block.get_or_insert_with(too_many);
        }
        report
    }

    pub(super) fn took_too_long(&self, slow: &SlowPattern) -> Block {
        let what = match slow.list {
            PatternList::Rules => "Policy rule",
            PatternList::Recognizers => "Recognizer",
        };
        let reason = format!("{what} '{}' took too long", self.name_of(slow));
        Block { reason, finding: None }
    }
}

/// Leaves out what is more than a request may have. Returns whether there was more: what stands behind was not judged,
/// and must not go on.
fn keep_most(findings: &mut Vec<Finding>) -> bool {
    let overflows = findings.len() > MAX_FINDINGS;
    findings.truncate(MAX_FINDINGS);
    overflows
}

fn too_many() -> Block {
    Block {
        reason: format!(
            "Blocked by safety check: more than {MAX_FINDINGS} findings in one request."
        ),
        finding: None,
    }
}
