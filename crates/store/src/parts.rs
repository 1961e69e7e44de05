//! The parts of a period of which whole units of time have sums: whole days, the units around them, and what is
//! in no sum yet.

/// A period in parts that follow each other. Units are counted from 1970 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The first unit; units go up to the first day.
    pub(crate) from: i64,
    /// The first unit of the first day, and that after the last day.
    pub(crate) days: (i64, i64),
    /// The unit after the last one that has a sum.
    pub(crate) until: i64,
}

impl Parts {
    /// The parts of the period from a unit up to but without another, where units before `until` have sums and
    /// `day` of them are a day.
    pub(crate) fn of(from: i64, to: i64, until: i64, day: i64) -> Self {
        let until = until.min(to).max(from);
        let first = from + (-from).rem_euclid(day);
        let last = until - until.rem_euclid(day);
        // Without a whole day the units are in one part.
        let days = if first < last { (first, last) } else { (until, until) };
        Self { from, days, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24;

    #[test]
    fn days_are_taken_whole() {
        let of = |from, to, until| {
            let parts = Parts::of(from, to, until, DAY);
            (parts.days, parts.until)
        };
        assert_eq!(of(30, 101, 100), ((48, 96), 100));
        assert_eq!(of(48, 96, 96), ((48, 96), 96));
        // A period that ends before the sums do, and one without a whole day.
        assert_eq!(of(24, 72, 100), ((24, 72), 72));
        assert_eq!(of(30, 51, 50), ((50, 50), 50));
        // Nothing has a sum.
        assert_eq!(of(30, 31, 10), ((30, 30), 30));
    }

    #[test]
    fn parts_follow_each_other() {
        let cases = (0..60).flat_map(|from| (0..130).map(move |until| (from, until)));
        for (from, until) in cases {
            for length in [0, 1, 23, 24, 71, 130] {
                let parts = Parts::of(from, from + length, until, DAY);
                let Parts { days: (first, last), until: end, .. } = parts.clone();
                assert!(from <= first && first <= last && last <= end, "{parts:?}");
                assert!(end <= until.max(from) && end <= from + length, "{parts:?}");
                if first < last {
                    assert_eq!((first % DAY, last % DAY), (0, 0));
                    assert!(first - from < DAY && end - last < DAY, "{parts:?}");
                }
            }
        }
    }
}
