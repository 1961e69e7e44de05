//! A time of the command line: so long ago, or a date.

use domain::time::{DAY, HOUR, MINUTE, Timestamp};

/// The units of durations, in microseconds.
const UNITS: [(char, i64); 3] = [('m', MINUTE), ('h', HOUR), ('d', DAY)];
/// The largest number of units.
const MOST_UNITS: i64 = 1_000_000;

/// A time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Since {
    /// So many microseconds ago.
    Ago(i64),
    /// As it is given; the gateway reads it.
    At(String),
}

impl Since {
    /// Reads a time. The error names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if Timestamp::parse(text).is_some() {
            return Ok(Self::At(text.to_owned()));
        }
        let duration = text.chars().last().and_then(|last| {
            let (_, unit) = UNITS.iter().find(|(letter, _)| *letter == last)?;
            let number: i64 = text[..text.len() - 1].parse().ok()?;
            (1..=MOST_UNITS).contains(&number).then_some(number * unit)
        });
        duration.map(Self::Ago).ok_or_else(|| {
            format!("'{text}' is no time: it has the form of 90m, 24h, 7d or 2026-11-21T12:00:00Z")
        })
    }

    /// The time as the gateway reads it.
    pub(crate) fn at(&self, now: Timestamp) -> String {
        match self {
            Self::Ago(micros) => now.minus_micros(*micros).to_string(),
            Self::At(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_so_long_ago() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        for (text, at) in [
            ("90m", "2026-11-21T10:30:00.000Z"),
            ("24h", "2026-11-20T12:00:00.000Z"),
            ("7d", "2026-11-14T12:00:00.000Z"),
            ("2026-11-01", "2026-11-01"),
            ("2026-11-01T10:00:00+01:00", "2026-11-01T10:00:00+01:00"),
        ] {
            assert_eq!(Since::parse(text).unwrap().at(now), at);
        }
        for text in ["", "d", "7", "-7d", "0d", "7w", "7é", "1000001d", "yesterday"] {
            assert!(Since::parse(text).is_err(), "{text}");
        }
    }
}
