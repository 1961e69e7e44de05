//! From byte ranges to character ranges, in one pass for all findings of a text.

use crate::report::Finding;

/// Sets `start` and `end` of findings that are sorted by place; ranges must lie on character borders.
pub(crate) fn fill(text: &str, findings: &mut [Finding]) {
    if findings.is_empty() {
        return;
    }
    if text.is_ascii() {
        for finding in findings {
            finding.start = finding.bytes.start;
            finding.end = finding.bytes.end;
        }
        return;
    }
    let (mut byte, mut chars) = (0, 0);
    for finding in findings {
        // Findings are sorted by their start, so this cursor never goes back.
        chars += text[byte..finding.bytes.start].chars().count();
        byte = finding.bytes.start;
        finding.start = chars;
        finding.end = chars + text[finding.bytes.clone()].chars().count();
    }
}
