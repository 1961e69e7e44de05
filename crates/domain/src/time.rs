//! Points in time and their source.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use serde::{Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// One second in microseconds.
pub const SECOND: i64 = 1_000_000;
/// One minute in microseconds.
pub const MINUTE: i64 = 60 * SECOND;
/// One hour in microseconds.
pub const HOUR: i64 = 60 * MINUTE;
/// One day in microseconds.
pub const DAY: i64 = 24 * HOUR;

impl Timestamp {
    /// This time plus a duration.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// This time minus `micros` microseconds.
    #[must_use]
    pub fn minus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_sub(micros))
    }

    /// Microseconds from `earlier` to this; 0 if the clock went back.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// Whole minutes since 1970.
    pub fn minute(self) -> i64 {
        self.0.div_euclid(MINUTE)
    }

    /// Whole hours since 1970.
    pub fn hour(self) -> i64 {
        self.0.div_euclid(HOUR)
    }

    /// Unix seconds, rounded down.
    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// The first moment of this time's calendar month, UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        Self::of_civil(self.civil().date().first_of_month().to_datetime(Time::midnight()))
    }

    /// The first moment of the calendar month after this time's, UTC.
    #[must_use]
    pub fn next_month_start(self) -> Self {
        // Every month has 28 to 31 days.
        Self(self.month_start().0.saturating_add(32 * DAY)).month_start()
    }

    /// Reads an ISO 8601 date (its first moment) or time. A text without an offset is UTC.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Some(Self(at.as_microsecond()));
        }
        // A zone in brackets would be ignored.
        if text.contains('[') {
            return None;
        }
        // The last day of the year 9999 is used to mean never, and jiff's timestamps end before it.
        let is_never = text.starts_with("9999-12-3");
        let local = if is_never { text.trim_end_matches(['Z', 'z']) } else { text };
        local.parse::<DateTime>().ok().map(Self::of_civil)
    }

    /// Reads an ISO 8601 calendar date: its first moment, UTC.
    pub fn parse_date(text: &str) -> Option<Self> {
        let date = text.parse::<Date>().ok().filter(|_| text.len() == 10)?;
        Some(Self::of_civil(date.to_datetime(Time::midnight())))
    }

    /// ISO 8601 in UTC with microseconds, for a request that must name this very time.
    pub fn exact(self) -> String {
        format!("{:.6}Z", self.civil())
    }

    fn of_civil(at: DateTime) -> Self {
        // The years -9999 to 9999 are 2^59 microseconds.
        Self(at.duration_since(EPOCH).as_micros() as i64)
    }

    fn civil(self) -> DateTime {
        EPOCH.saturating_add(SignedDuration::from_micros(self.0))
    }
}

/// ISO 8601 in UTC with milliseconds: `2026-11-21T12:00:00.123Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Z", self.civil())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A duration in whole microseconds.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds as the milliseconds that answers show, exact to the microsecond.
pub fn millis(micros: i64) -> f64 {
    micros as f64 / 1000.0
}

/// The source of the time: the machine, or a test.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that does not move until [`Clock::set`] moves it.
    pub fn fixed(at: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicI64::new(at.0))))
    }

    /// Moves a fixed clock; has no effect on the machine's.
    pub fn set(&self, at: Timestamp) {
        if let Some(fixed) = &self.0 {
            fixed.store(at.0, Ordering::SeqCst);
        }
    }

    /// The time of a fixed clock; `None` for the machine's.
    pub fn fixed_at(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|fixed| Timestamp(fixed.load(Ordering::SeqCst)))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(fixed) => Timestamp(fixed.load(Ordering::SeqCst)),
            None => Timestamp(system_micros()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
fn system_micros() -> i64 {
    std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_8601_both_ways() {
        let at = Timestamp::parse("2026-11-21T12:00:00.123Z").unwrap();
        assert_eq!(at.to_string(), "2026-11-21T12:00:00.123Z");
        assert_eq!(Timestamp::parse("2026-11-21T13:00:00.123+01:00"), Some(at));
        assert_eq!(Timestamp::parse("2026-11-21").unwrap().to_string(), "2026-11-21T00:00:00.000Z");
        assert_eq!(Timestamp::parse("2026-11-21T12:00:00.123"), Some(at), "no offset is UTC");
        for never in ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999"] {
            assert_eq!(Timestamp::parse(never).unwrap().to_string(), "9999-12-31T23:59:59.999Z");
        }
        assert_eq!(Timestamp(-1_000).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::parse("9999-12-01T00:00:00Z").unwrap().to_string()[..7], *"9999-12");
        assert!(Timestamp::parse_date("9999-12-31") > Some(at));
        for text in ["yesterday", "", "12:00", "2026-13-01", "2026-11-21T25:00:00"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        assert_eq!(at.month_start().to_string(), "2026-11-01T00:00:00.000Z");
        for (at, next) in [
            ("2026-11-21", "2026-12-01"),
            ("2026-12-31T23:59:59.999", "2027-01-01"),
            ("2026-01-01", "2026-02-01"),
            ("2026-01-31", "2026-02-01"),
            ("2028-02-29", "2028-03-01"),
        ] {
            let next = Timestamp::parse(next).unwrap();
            assert_eq!(Timestamp::parse(at).unwrap().next_month_start(), next, "{at}");
        }
    }
}
