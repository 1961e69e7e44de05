//! The selection of an export: its format, its time, and whether contents belong to it.

use domain::export::ExportFormat;
use domain::ids::ProjectId;
use domain::moment::Moment;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::error::{Error, Faults, Result};

/// The most characters of a value that a fault shows.
const LONGEST_SHOWN: usize = 40;

/// An export as it is asked for.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The word of a format.
    pub format: String,
    /// The first moment: a date, a time, or an age such as `7d`, `12h` or `90m`.
    pub since: String,
    /// The moment after the last, likewise; now if it is left out or lies in the future.
    pub until: Option<String>,
    /// Whether inputs and outputs belong to it.
    pub content: bool,
}

/// The steps of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The format of the file.
    pub format: ExportFormat,
    /// Steps that ended at this time or later.
    pub since: Timestamp,
    /// Steps that ended before this time.
    pub until: Timestamp,
    /// Whether inputs and outputs belong to it, where they are stored.
    pub content: bool,
}

impl Selection {
    /// The metadata of the audit event of an export.
    pub(crate) fn audited(&self, project: ProjectId) -> Map<String, Value> {
        let Self { format, since, until, content } = self;
        Map::from_iter([
            ("project_id".to_owned(), json!(project)),
            ("format".to_owned(), json!(format)),
            ("since".to_owned(), json!(since)),
            ("until".to_owned(), json!(until)),
            ("content".to_owned(), json!(content)),
        ])
    }
}

impl ExportRequest {
    /// The selection that is asked for at a time.
    pub fn read(&self, now: Timestamp) -> Result<Selection> {
        let mut faults = Faults::default();
        let format = ExportFormat::parse(&self.format);
        if format.is_none() {
            let shown = shown(&self.format);
            faults.add(format!("format must be jsonl, parquet or focus, not '{shown}'"));
        }
        let since = faults.note(moment("since", &self.since, now));
        let until = self.until.as_deref().map_or(Ok(now), |until| moment("until", until, now));
        let until = faults.note(until).map(|until| until.min(now));
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            faults.add("since must be before until and before now".to_owned());
        }
        if self.content && format == Some(ExportFormat::Focus) {
            faults.add("content: a file of costs holds none".to_owned());
        }
        faults.none()?;
        let (Some(format), Some(since), Some(until)) = (format, since, until) else {
            return Err(Error::Internal("a selection without faults has its parts".to_owned()));
        };
        Ok(Selection { format, since, until, content: self.content })
    }
}

fn moment(field: &str, text: &str, now: Timestamp) -> Result<Timestamp> {
    let moment = Moment::parse(text).map(|moment| moment.seen_from(now));
    moment.ok_or_else(|| {
        let (forms, shown) = (Moment::FORMS, shown(text));
        Error::invalid(format!("{field} must be {forms}, not '{shown}'"))
    })
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(since: &str, until: Option<&str>) -> Result<Selection> {
        let now = Timestamp::parse("2026-11-27T12:00:00Z").unwrap();
        let request = ExportRequest {
            format: "jsonl".to_owned(),
            since: since.to_owned(),
            until: until.map(str::to_owned),
            content: false,
        };
        request.read(now)
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let times = |since, until| {
            let read = read(since, until).unwrap();
            (read.since.to_string(), read.until.to_string())
        };
        let noon = "2026-11-27T12:00:00.000Z".to_owned();
        let week = ("2026-11-20T12:00:00.000Z".to_owned(), noon.clone());
        assert_eq!(times("7d", None), week);
        assert_eq!(times("168h", Some("0d")), week);
        assert_eq!(times("2026-11-20T13:00:00+01:00", Some("2030-01-01")), week);
        let october =
            ("2026-10-01T00:00:00.000Z".to_owned(), "2026-11-01T00:00:00.000Z".to_owned());
        assert_eq!(times("2026-10-01", Some("2026-11-01")), october);
    }

    #[test]
    fn faults_name_their_fields() {
        let fault = |since, until| read(since, until).unwrap_err().to_string();
        let named = "since must be a date, a time, or an age such as 7d, 12h or 90m, not '7w'";
        assert_eq!(fault("7w", None), named);
        assert!(fault("7d", Some("soon")).starts_with("until must be a date"));
        for (since, until) in [("7d", Some("7d")), ("2026-12-01", None), ("1d", Some("2d"))] {
            assert_eq!(fault(since, until), "since must be before until and before now");
        }
    }
}
