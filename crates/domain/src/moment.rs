//! Points in time as people write them in requests and on the command line.

use crate::time::{DAY, HOUR, MINUTE, Timestamp};

/// The units of ages, in microseconds.
const UNITS: [(char, i64); 3] = [('m', MINUTE), ('h', HOUR), ('d', DAY)];
/// The largest number of units.
const MOST_UNITS: u32 = 1_000_000;

/// A point in time, or how long ago it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// So many microseconds ago.
    Ago(i64),
    /// At this time.
    At(Timestamp),
}

impl Moment {
    /// The forms that are read, for messages.
    pub const FORMS: &str = "a date, a time, or an age such as 7d, 12h or 90m";

    /// Reads an ISO 8601 date (its first moment) or time, or an age in whole minutes, hours or days: `90m`,
    /// `12h`, `7d`.
    pub fn parse(text: &str) -> Option<Self> {
        age(text).map(Self::Ago).or_else(|| Timestamp::parse(text).map(Self::At))
    }

    /// The point in time, seen from `now`.
    pub fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(micros) => now.minus_micros(micros),
            Self::At(at) => at,
        }
    }
}

fn age(text: &str) -> Option<i64> {
    let last = text.chars().next_back()?;
    let (_, unit) = UNITS.iter().find(|(letter, _)| *letter == last)?;
    let number = text.strip_suffix(last)?;
    // `parse` would take a sign.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u32>().ok().filter(|number| is_plain && *number <= MOST_UNITS)?;
    Some(i64::from(number) * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_a_time_or_an_age() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        for (text, at) in [
            ("90m", "2026-11-21T10:30:00.000Z"),
            ("24h", "2026-11-20T12:00:00.000Z"),
            ("7d", "2026-11-14T12:00:00.000Z"),
            ("0d", "2026-11-21T12:00:00.000Z"),
            ("1000000m", "2024-12-27T01:20:00.000Z"),
            ("2026-11-01", "2026-11-01T00:00:00.000Z"),
            ("2026-11-01T10:00:00+01:00", "2026-11-01T09:00:00.000Z"),
        ] {
            assert_eq!(Moment::parse(text).unwrap().seen_from(now).to_string(), at, "{text}");
        }
        for text in
            ["", "d", "7", "-7d", "+7d", "7w", "7é", "7 d", "1000001d", "99999999999d", "yesterday"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
