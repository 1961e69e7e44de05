//! The traces to replay: those of the command line, and those of a file.

use std::fmt;
use std::path::Path;

use crate::commands::Failure;

/// The most bytes of a file.
const MOST_BYTES: u64 = 1024 * 1024;

/// A trace to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) trace: String,
    /// Its name in the suite.
    name: Option<String>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.trace),
            None => f.write_str(&self.trace),
        }
    }
}

/// The traces of the command line, then those of the file.
pub(crate) fn entries(traces: &[String], suite: Option<&Path>) -> Result<Vec<Entry>, Failure> {
    let given = traces.iter().map(|trace| Entry { trace: trace.clone(), name: None });
    let mut entries: Vec<Entry> = given.collect();
    if let Some(path) = suite {
        let fault = |what: &dyn fmt::Display| Failure(format!("{}: {what}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| fault(&error))?.len();
        if size > MOST_BYTES {
            return Err(fault(&"it is larger than 1 MiB"));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
        entries.extend(text.lines().filter_map(entry));
    }
    if entries.is_empty() {
        return Err(Failure("there is no trace to replay".to_owned()));
    }
    Ok(entries)
}

/// A line of a suite: a trace, and the rest as its name. Lines that begin with `#` are remarks.
fn entry(line: &str) -> Option<Entry> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (trace, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
    Some(Entry { trace: trace.to_owned(), name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_trace_with_a_name() {
        let named = |trace: &str, name: Option<&str>| {
            Some(Entry { trace: trace.to_owned(), name: name.map(str::to_owned) })
        };
        assert_eq!(entry("  t-1 "), named("t-1", None));
        assert_eq!(entry("t-1\t refund,  angry "), named("t-1", Some("refund,  angry")));
        assert_eq!(entry("# t-1"), None);
        assert_eq!(entry(" "), None);
        assert_eq!(entry("t-1 refund").unwrap().to_string(), "refund (t-1)");
    }
}
