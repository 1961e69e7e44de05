//! A report in the format of `JUnit`, which continuous integration shows.

use std::fmt::Write as _;

/// A measurement of a command, as a test: a replay on one model, or a backtest.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The thing that was measured, for people.
    pub(crate) name: String,
    /// The figures, in one line.
    pub(crate) figures: String,
    /// The conditions that hold.
    pub(crate) failures: Vec<String>,
    /// Why it could not be measured, or not as a whole.
    pub(crate) errors: Vec<String>,
    /// The time of its calls.
    pub(crate) seconds: f64,
}

impl Case {
    /// Something of which nothing was measured.
    pub(crate) fn without_figures(name: String, error: String) -> Self {
        let figures = "nothing was done".to_owned();
        Self { name, figures, failures: Vec::new(), errors: vec![error], seconds: 0.0 }
    }

    /// Whether it was measured and no condition holds.
    pub(crate) fn is_fine(&self) -> bool {
        self.failures.is_empty() && self.errors.is_empty()
    }
}

/// The report of the cases of a command.
pub(crate) fn report(command: &str, cases: &[Case]) -> String {
    // A test has one result: an error goes before failures.
    let errors = cases.iter().filter(|case| !case.errors.is_empty()).count();
    let failures = cases.iter().filter(|case| !case.is_fine()).count() - errors;
    let seconds: f64 = cases.iter().map(|case| case.seconds).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        xml,
        "<testsuite name=\"sluice {command}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" time=\"{seconds:.3}\">",
        cases.len()
    );
    for case in cases {
        let name = escaped(&case.name);
        let _ = writeln!(
            xml,
            "<testcase classname=\"sluice.{command}\" name=\"{name}\" time=\"{:.3}\">",
            case.seconds
        );
        for (element, reasons) in [("error", &case.errors), ("failure", &case.failures)] {
            for reason in reasons {
                let reason = escaped(reason);
                let _ = writeln!(xml, "<{element} message=\"{reason}\">{reason}</{element}>");
            }
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
        let case = |name: &str, failures: &[&str], errors: &[&str]| Case {
            name: name.to_owned(),
            figures: "cost +1.0 %".to_owned(),
            failures: failures.iter().map(|&failure| failure.to_owned()).collect(),
            errors: errors.iter().map(|&error| error.to_owned()).collect(),
            seconds: 0.5,
        };
        let report = report(
            "replay",
            &[
                case("a", &[], &[]),
                case("<b & \"c\"\u{1}>", &["cost>+1%: it is +2.0 %"], &[]),
                case("d", &["latency>+1%: there is nothing to compare"], &["step 5: Oh\nno."]),
            ],
        );
        assert!(
            report.contains("tests=\"3\" failures=\"1\" errors=\"1\" time=\"1.500\""),
            "{report}"
        );
        assert!(report.contains("name=\"&lt;b &amp; &quot;c&quot;\u{fffd}&gt;\""), "{report}");
        let failure =
            "<failure message=\"cost&gt;+1%: it is +2.0 %\">cost&gt;+1%: it is +2.0 %</failure>";
        assert!(report.contains(failure), "{report}");
        let error = report.find("<error message=\"step 5: Oh no.\">").unwrap();
        assert!(report.find("<failure message=\"latency").unwrap() > error, "{report}");
    }
}
