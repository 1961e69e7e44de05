//! The parts of a period: whole days, the hours around them, and steps that are in no row yet.

use domain::time::{HOUR, Timestamp};

/// The hours of a day.
pub(super) const DAY_HOURS: i64 = 24;

/// A period in parts that follow each other. Hours are counted from 1970 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// The first hour; hours go up to the first day.
    pub(super) from: i64,
    /// The first hour of the first day, and that after the last day.
    pub(super) days: (i64, i64),
    /// The hour after the last hour that has rows.
    pub(super) until: i64,
    /// The time of steps that have no rows.
    pub(super) steps: (Timestamp, Timestamp),
}

impl Parts {
    /// The parts of the period from an hour up to a moment, where hours before `until` have rows.
    pub(super) fn of(from: i64, until: i64, end: Timestamp) -> Self {
        let until = until.min(end.0.div_euclid(HOUR)).max(from);
        let first = from + (-from).rem_euclid(DAY_HOURS);
        let last = until - until.rem_euclid(DAY_HOURS);
        // Without a whole day the hours are in one part.
        let days = if first < last { (first, last) } else { (until, until) };
        Self { from, days, until, steps: (Timestamp(until * HOUR), end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_taken_whole() {
        let at = |hours: i64, micros: i64| Timestamp(hours * HOUR + micros);
        let of = |from, until, end| {
            let parts = Parts::of(from, until, end);
            (parts.days, parts.until, parts.steps.0)
        };
        assert_eq!(of(30, 100, at(101, 5)), ((48, 96), 100, at(100, 0)));
        assert_eq!(of(48, 96, at(96, 5)), ((48, 96), 96, at(96, 0)));
        // A period that ends before the rows do, and one without a whole day.
        assert_eq!(of(24, 100, at(72, 0)), ((24, 72), 72, at(72, 0)));
        assert_eq!(of(30, 50, at(51, 5)), ((50, 50), 50, at(50, 0)));
        // Nothing has rows.
        assert_eq!(of(30, 10, at(31, 5)), ((30, 30), 30, at(30, 0)));
    }

    #[test]
    fn parts_follow_each_other() {
        let cases = (0..60).flat_map(|from| (0..130).map(move |until| (from, until)));
        for (from, until) in cases {
            for (length, micros) in [(0, 0), (1, 7), (23, 0), (24, HOUR - 1), (71, 0), (130, 1)] {
                let end = Timestamp((from + length) * HOUR + micros);
                let parts = Parts::of(from, until, end);
                let Parts { days: (first, last), until: hour, steps, .. } = parts.clone();
                assert!(from <= first && first <= last && last <= hour, "{parts:?}");
                assert!(hour <= until.max(from) && steps == (Timestamp(hour * HOUR), end));
                assert!(steps.0 <= steps.1, "{parts:?}");
                if first < last {
                    assert_eq!((first % DAY_HOURS, last % DAY_HOURS), (0, 0));
                    assert!(first - from < DAY_HOURS && hour - last < DAY_HOURS, "{parts:?}");
                }
            }
        }
    }
}
