//! Any text: findings stand in it, on borders of characters, in order; redaction can be undone.

#![no_main]

use std::sync::LazyLock;

use checks::{Finding, Part, Policy, Redactor};
use domain::safety::{Origin, Safety};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> =
    LazyLock::new(|| Policy::compile(&Safety::default()).expect("the defaults compile"));
const ORIGINS: [Origin; 5] =
    [Origin::User, Origin::Tool, Origin::System, Origin::Assistant, Origin::Other];

fuzz_target!(|input: (u8, &str)| {
    let (origin, text) = input;
    let origin = ORIGINS[usize::from(origin) % ORIGINS.len()];
    let report = POLICY.inspect(&[Part { origin, text }]);
    assert!((0.0..=1.0).contains(&report.risk_score));
    for finding in &report.findings {
        let found = text.get(finding.bytes.clone()).expect("on borders of characters");
        assert!((0.0..=1.0).contains(&finding.score));
        assert_eq!(text[..finding.bytes.start].chars().count(), finding.start);
        assert_eq!(finding.start + found.chars().count(), finding.end);
    }
    assert!(report.findings.is_sorted_by_key(|finding| finding.bytes.start));

    let mut redactor = Redactor::new(42);
    let found: Vec<&Finding> = report.findings.iter().collect();
    if let Some(redacted) = redactor.redact(text, &found)
        // In URLs and the targets of links placeholders stay, lest a document carry something out.
        && !["//", "www.", "]("].iter().any(|sign| redacted.to_ascii_lowercase().contains(sign))
    {
        assert_eq!(redactor.into_placeholders().restore(&redacted), text);
    }
});
