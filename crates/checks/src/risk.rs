//! From findings to one number and a decision.

use domain::safety::{Action, Category, Origin, Safety};

use crate::report::{Block, Finding, Report};

/// Personal data alone never weighs more: ten e-mail addresses are not an attack.
const PII_CAP: f64 = 0.5;

const CATEGORIES: [Category; 4] =
    [Category::Pii, Category::Injection, Category::Secret, Category::Policy];

/// Weighs the findings of a request. `suspicion` says how much it looks like an injection, also where that is too little
/// for a finding: it orders clean requests, and decides nothing.
pub(crate) fn weigh(safety: &Safety, findings: Vec<Finding>, suspicion: f64) -> Report {
    if findings.is_empty() {
        return Report { risk_score: rounded(suspicion), ..Report::default() };
    }
    let action = |category| match category {
        Category::Pii => safety.pii,
        Category::Injection => safety.injection,
        Category::Secret => safety.secrets,
        Category::Policy => Action::Block,
    };
    let found = findings.iter().any(|f| f.category == Category::Injection);
    let known = combined(&findings, |_| true);
    let risk_score = if found { known } else { rounded(1.0 - (1.0 - known) * (1.0 - suspicion)) };
    let forced = findings.iter().position(|f| must_block(safety, f));
    // Redacted secrets do not leave, flagged categories only ask for a look: neither adds to what blocks. Personal data
    // adds what it weighs, but cannot block alone.
    let counted = |f: &Finding| f.category == Category::Pii || action(f.category) == Action::Block;
    let over = combined(&findings, counted) > safety.block_threshold
        && findings.iter().any(|f| f.category != Category::Pii && counted(f));
    let strongest = || {
        let candidates =
            findings.iter().enumerate().filter(|(_, f)| f.category != Category::Pii && counted(f));
        candidates.max_by(|a, b| a.1.score.total_cmp(&b.1.score)).map(|(i, _)| i)
    };
    let finding = forced.or_else(|| over.then(strongest).flatten());
    let block = finding.map(|i| Block { reason: reason(&findings[i], false), finding: Some(i) });
    let review = block.is_none() && risk_score > 0.0 && risk_score >= safety.review_threshold;
    Report { findings, risk_score, review, block }
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
    Report { findings, risk_score, review, block }
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

/// A sentence for the caller. It says what and where, never the value.
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
        Origin::User | Origin::Assistant | Origin::Other => "the input contains",
    };
    format!("Blocked by safety check: {place} {what}.")
}
