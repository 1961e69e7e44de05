//! From findings to one number and a decision.

use domain::safety::{Action, Category, Origin, Safety};

use crate::injection::ATTACK_WORDING;
use crate::report::{Block, CERTAIN, Finding, Report};

/// Personal data alone never weighs more: ten e-mail addresses are not an attack.
const PII_CAP: f64 = 0.5;

const CATEGORIES: [Category; 4] =
    [Category::Pii, Category::Injection, Category::Secret, Category::Policy];

/// Weighs the findings of a request. `suspicion` is how much it looks like an injection, also where that is too little
/// for a finding: it orders requests without one, and decides nothing.
pub(crate) fn weigh(safety: &Safety, findings: Vec<Finding>, suspicion: f64) -> Report {
    if findings.is_empty() {
        let risk_score = rounded(suspicion.min(safety.block_threshold));
        return Report { risk_score, ..Report::default() };
    }
    let action = |category| match category {
        Category::Pii => safety.pii,
        Category::Injection => safety.injection,
        Category::Secret => safety.secrets,
        Category::Policy => Action::Block,
    };
    let mut risk_score = combined(&findings, |_| true);
    let forced = findings.iter().position(|f| must_block(safety, f));
    // The application does not attack itself, though its words often look like it: "follow these instructions only".
    let spares_application = safety.injection_application == Action::Flag;
    let noted = |f: &Finding| f.held || spares_application && f.origin.is_application();
    // Redacted secrets do not leave, flagged categories only ask for a look: neither adds to what blocks. An injection
    // has to pass by itself or with what the project's own rules add: personal data beside a suspicion makes it no surer.
    let acts = |f: &Finding| f.category != Category::Pii && action(f.category) == Action::Block;
    let suspected = |f: &Finding| f.category == Category::Injection && !noted(f);
    let wanted = |f: &Finding| acts(f) && (suspected(f) || f.category == Category::Policy);
    let passes = combined(&findings, wanted) > safety.block_threshold;
    let counted =
        |f: &Finding| acts(f) && (f.category != Category::Injection || passes && !noted(f));
    // Personal data adds what it weighs to what is certain.
    let certain = findings.iter().any(|f| counted(f) && f.score >= CERTAIN);
    let adds = |f: &Finding| counted(f) || (f.category == Category::Pii && certain);
    let over = combined(&findings, adds) > safety.block_threshold;
    if !over && findings.iter().any(acts) {
        risk_score = passing(risk_score, safety.block_threshold);
    }
    let strongest = || {
        let candidates = findings.iter().enumerate().filter(|(_, f)| counted(f));
        // A mechanism that suffices is a better reason than the model's opinion of the whole.
        let suffices = |f: &Finding| f.kind != ATTACK_WORDING && f.score > safety.block_threshold;
        let order = |a: &Finding, b: &Finding| {
            suffices(a).cmp(&suffices(b)).then(a.score.total_cmp(&b.score))
        };
        candidates.max_by(|a, b| order(a.1, b.1)).map(|(i, _)| i)
    };
    let finding = forced.or_else(|| over.then(strongest).flatten());
    let block = finding.map(|i| Block { reason: reason(&findings[i], false), finding: Some(i) });
    let review = block.is_none() && risk_score > 0.0 && risk_score >= safety.review_threshold;
    Report { findings, risk_score, review, block, spares_application, ..Report::default() }
}

/// Weighs the findings of an answer: an action decides, no threshold does.
pub(crate) fn weigh_output(safety: &Safety, findings: Vec<Finding>) -> Report {
    if findings.is_empty() {
        return Report::default();
    }
    let risk_score = combined(&findings, |_| true);
    let blocks = |f: &&Finding| match f.category {
        Category::Secret => safety.output_secrets == Action::Block && f.score >= 0.5,
        _ => safety.output_pii == Action::Block,
    };
    let finding = findings.iter().position(|f| blocks(&f));
    let block = finding.map(|i| Block { reason: reason(&findings[i], true), finding: Some(i) });
    let review = block.is_none() && risk_score > 0.0 && risk_score >= safety.review_threshold;
    Report { findings, risk_score, review, block, ..Report::default() }
}

/// The score of what may pass though it weighs more than the threshold: just beneath it, and the further the less it weighs,
/// so that scores still show which is to be looked at first.
fn passing(score: f64, threshold: f64) -> f64 {
    const SPREAD: f64 = 0.01;
    if score <= threshold { score } else { rounded(threshold * (1.0 - SPREAD * (1.0 - score))) }
}

/// Whether a finding blocks whatever it weighs.
fn must_block(safety: &Safety, finding: &Finding) -> bool {
    match finding.category {
        Category::Pii => safety.pii == Action::Block,
        Category::Policy => safety
            .rules
            .iter()
            .any(|r| r.action == Action::Block && finding.kind == r.name.as_str()),
        Category::Injection | Category::Secret => false,
    }
}

/// The strongest finding of each category, categories combined as independent chances.
fn combined(findings: &[Finding], counted: impl Fn(&Finding) -> bool) -> f64 {
    let safe: f64 = CATEGORIES
        .iter()
        .map(|&category| {
            let of = findings.iter().filter(|f| f.category == category && counted(f));
            let strongest = of.map(|f| f.score).fold(0.0, f64::max);
            1.0 - if category == Category::Pii { strongest.min(PII_CAP) } else { strongest }
        })
        .product();
    rounded(1.0 - safe)
}

pub(crate) fn rounded(score: f64) -> f64 {
    (score * 10_000.0).round() / 10_000.0
}

/// A sentence for the caller. It names the type and the place, never the value.
fn reason(finding: &Finding, is_output: bool) -> String {
    let what = match finding.category {
        Category::Pii => format!("personal data ({})", finding.kind),
        Category::Injection => {
            format!("a prompt injection attempt ({})", finding.kind.replace('_', " "))
        }
        Category::Secret => format!("a credential ({})", finding.kind.replace('_', " ")),
        Category::Policy => format!("text that the project's rule \"{}\" forbids", finding.kind),
    };
    let place = match finding.origin {
        _ if is_output => "the output contains",
        Origin::Tool => "a tool result or document in the input contains",
        Origin::System => "the system instructions contain",
        Origin::ToolDefinition => "a tool definition contains",
        Origin::User | Origin::Assistant | Origin::Other => "the input contains",
    };
    format!("Blocked by safety check: {place} {what}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(category: Category, score: f64) -> Finding {
        let kind = std::borrow::Cow::Borrowed("kind");
        Finding {
            category,
            kind,
            part: 0,
            origin: Origin::User,
            start: 0,
            end: 1,
            bytes: 0..1,
            score,
            high_sensitivity: false,
            held: false,
        }
    }

    #[test]
    fn personal_data_blocks_neither_alone_nor_with_a_suspicion() {
        use Category::{Injection, Pii};
        for (of, risk, blocks) in [
            (vec![(Pii, 0.9), (Pii, 0.9)], 0.5, false),
            (vec![(Injection, 0.41)], 0.41, false),
            (vec![(Injection, 0.41), (Pii, 0.9)], 0.6979, false),
            (vec![(Injection, 0.3), (Pii, 0.9)], 0.65, false),
            (vec![(Injection, 0.7), (Pii, 0.9)], 0.699, false),
            (vec![(Injection, 0.6), (Category::Secret, 0.55)], 0.6987, false),
            (vec![(Injection, 0.6), (Category::Policy, 0.4)], 0.76, true),
            (vec![(Category::Secret, 0.55), (Pii, 0.9)], 0.775, true),
            (vec![(Injection, 0.71)], 0.71, true),
            (vec![(Category::Policy, 0.68)], 0.68, false),
        ] {
            let findings = of.iter().map(|&(category, score)| found(category, score)).collect();
            let report = weigh(&Safety::default(), findings, 0.19);
            assert_eq!((report.risk_score, report.block.is_some()), (risk, blocks), "{of:?}");
            assert!(report.review != blocks);
        }
    }

    #[test]
    fn what_is_held_blocks_by_no_threshold() {
        for block_threshold in [0.3, 0.7, 0.9] {
            let safety = Safety { block_threshold, ..Safety::default() };
            let held = Finding { held: true, ..found(Category::Injection, 0.95) };
            let report = weigh(&safety, vec![held, found(Category::Pii, 0.9)], 0.95);
            assert!(report.block.is_none());
            assert!(
                report.risk_score < block_threshold && report.risk_score > block_threshold - 0.01
            );
        }
    }

    #[test]
    fn what_passes_is_told_no_more_than_may_pass() {
        let strict = Safety { block_threshold: 0.05, ..Safety::default() };
        for (safety, told) in [(strict, 0.05), (Safety::default(), 0.09)] {
            let report = weigh(&safety, Vec::new(), 0.09);
            assert_eq!((report.risk_score, report.block.is_some()), (told, false));
        }
    }
}
