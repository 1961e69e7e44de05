//! A report in the format of JUnit, which continuous integration shows.

use std::fmt::Write as _;

/// A replay on one model, as a test.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The trace, its name in the suite, and the model.
    pub(crate) name: String,
    /// The figures, in one line.
    pub(crate) figures: String,
    /// Why it has failed; none if it has not.
    pub(crate) failures: Vec<String>,
    /// The time of its calls.
    pub(crate) seconds: f64,
}

/// The report of cases.
pub(crate) fn report(cases: &[Case]) -> String {
    let failures = cases.iter().filter(|case| !case.failures.is_empty()).count();
    let seconds: f64 = cases.iter().map(|case| case.seconds).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "<testsuite name=\"sluice replay\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" time=\"{seconds:.3}\">",
        cases.len()
    );
    for case in cases {
        let name = escaped(&case.name);
        let _ = writeln!(
            xml,
            "<testcase classname=\"sluice.replay\" name=\"{name}\" time=\"{:.3}\">",
            case.seconds
        );
        for failure in &case.failures {
            let _ = writeln!(xml, "<failure message=\"{}\"/>", escaped(failure));
        }
        let _ = writeln!(xml, "<system-out>{}</system-out>\n</testcase>", escaped(&case.figures));
    }
    xml + "</testsuite>\n</testsuites>\n"
}

/// A text as XML holds it, without characters that XML has none for.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_any_text() {
        let case = |name: &str, failures: &[&str]| Case {
            name: name.to_owned(),
            figures: "cost +1.0 %".to_owned(),
            failures: failures.iter().map(|&failure| failure.to_owned()).collect(),
            seconds: 0.5,
        };
        let report =
            report(&[case("a", &[]), case("<b & \"c\"\u{1}>", &["cost>+1%: it is +2.0 %"])]);
        assert!(
            report.contains("tests=\"2\" failures=\"1\" errors=\"0\" time=\"1.000\""),
            "{report}"
        );
        assert!(report.contains("name=\"&lt;b &amp; &quot;c&quot;\u{fffd}&gt;\""), "{report}");
        assert!(report.contains("<failure message=\"cost&gt;+1%: it is +2.0 %\"/>"), "{report}");
    }
}
