//! Any JSON, and what looks like it: what is judged in it can be redacted and restored, in pieces too.

#![no_main]

use std::sync::LazyLock;

use checks::{Finding, JsonText, Part, Policy, Redactor};
use domain::safety::{Origin, Safety};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> =
    LazyLock::new(|| Policy::compile(&Safety::default()).expect("the defaults compile"));

fuzz_target!(|raw: &str| {
    let Some(json) = JsonText::read(raw) else { return };
    let report = POLICY.inspect(&[Part { origin: Origin::Tool, text: json.text() }]);
    let found: Vec<&Finding> = report.findings.iter().collect();
    let mut redactor = Redactor::new(42);
    let redacted = json.redact(&mut redactor, &found);
    let placeholders = redactor.into_placeholders();
    let redacted = redacted.as_deref().unwrap_or(raw);
    let restored = placeholders.restore_json(redacted);
    let mut stream = placeholders.json_stream();
    let mut pieces: String =
        redacted.chars().map(|c| stream.push(c.encode_utf8(&mut [0; 4]))).collect();
    pieces.push_str(&stream.finish());
    assert_eq!(pieces, restored);
});
