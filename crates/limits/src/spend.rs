//! Money spent in a rolling hour and in a calendar month.

use std::collections::VecDeque;

use domain::money::Usd;
use domain::time::{HOUR, Timestamp};

/// What was spent in the rolling hour, second by second.
#[derive(Clone, Debug, Default)]
pub struct HourSpend {
    /// Unix second and amount, oldest first.
    seconds: VecDeque<(i64, Usd)>,
    total: Usd,
}

impl HourSpend {
    /// What was spent within the hour that ends now.
    pub fn total(&mut self, now: Timestamp) -> Usd {
        let oldest = now.minus_micros(HOUR).unix_seconds();
        while let Some(&(second, amount)) = self.seconds.front()
            && second < oldest
        {
            self.seconds.pop_front();
            self.total = self.total - amount;
        }
        self.total
    }

    /// Adds what was spent at a time.
    pub fn add(&mut self, at: Timestamp, amount: Usd) {
        *self.second(at) += amount;
        self.total += amount;
    }

    /// Takes in that at least so much was spent in the second of a time, by whomever. What is
    /// known here already may be a part of it or more.
    pub fn raise(&mut self, at: Timestamp, least: Usd) {
        let known = self.second(at);
        let missing = (least - *known).max(Usd::ZERO);
        *known += missing;
        self.total += missing;
    }

    /// What was spent in the second of a time. Calls are added in about the order in which they end.
    fn second(&mut self, at: Timestamp) -> &mut Usd {
        let second = at.unix_seconds();
        let place = self.seconds.partition_point(|(known, _)| *known < second);
        if self.seconds.get(place).is_none_or(|(known, _)| *known != second) {
            self.seconds.insert(place, (second, Usd::ZERO));
        }
        &mut self.seconds[place].1
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Money that is set aside: it is not spent yet, and nobody else may spend it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAside(Usd);

impl SetAside {
    /// All of it.
    pub fn total(self) -> Usd {
        self.0
    }

    /// Sets money aside for a call.
    pub fn add(&mut self, amount: Usd) {
        self.0 += amount;
    }

    /// Gives back what was set aside for a call.
    pub fn give_back(&mut self, amount: Usd) {
        self.0 = self.0 - amount;
    }
}

/// What was spent in a calendar month.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthSpend {
    start: Timestamp,
    total: Usd,
    /// For calls that have not settled, whenever they began.
    pub set_aside: SetAside,
}

impl MonthSpend {
    /// What was spent in the month that `now` lies in.
    pub fn total(&mut self, now: Timestamp) -> Usd {
        self.roll(now);
        self.total
    }

    /// Adds what was spent now.
    pub fn add(&mut self, now: Timestamp, amount: Usd) {
        self.roll(now);
        self.total += amount;
    }

    /// Takes in that at least so much was spent in the month that `now` lies in, by whomever.
    pub fn raise(&mut self, now: Timestamp, least: Usd) {
        if now < self.start {
            // Read before the month ended.
            return;
        }
        self.roll(now);
        self.total = self.total.max(least);
    }

    fn roll(&mut self, now: Timestamp) {
        // A day is the least that two month starts can be apart; most calls end here.
        if now >= self.start && now.0 - self.start.0 < 28 * 24 * HOUR {
            return;
        }
        let start = now.month_start();
        if start != self.start {
            *self = Self { start, total: Usd::ZERO, set_aside: self.set_aside };
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::time::SECOND;

    use super::*;

    #[test]
    fn an_amount_counts_for_an_hour() {
        let mut spend = HourSpend::default();
        let start = Timestamp(1_000 * SECOND);
        spend.add(start, Usd(5));
        spend.add(Timestamp(start.0 + 30 * SECOND), Usd(7));
        assert_eq!(spend.total(Timestamp(start.0 + HOUR)), Usd(12));
        assert_eq!(spend.total(Timestamp(start.0 + HOUR + SECOND)), Usd(7));
        assert_eq!(spend.total(Timestamp(start.0 + HOUR + 31 * SECOND)), Usd(0));
    }

    #[test]
    fn calls_count_in_the_second_they_ended_in() {
        let at = |second: i64| Timestamp(second * SECOND);
        let mut spend = HourSpend::default();
        for second in [1_002, 1_000, 1_001, 1_000, 1_002] {
            spend.add(at(second), Usd(1));
        }
        let left: Vec<_> =
            (1_000..1_004).map(|second| spend.total(Timestamp(at(second).0 + HOUR))).collect();
        assert_eq!(left, [Usd(5), Usd(3), Usd(2), Usd(0)]);
    }

    #[test]
    fn what_others_spent_counts_once() {
        let at = |second: i64| Timestamp(second * SECOND);
        let mut spend = HourSpend::default();
        // Own calls; the database holds the first of them, and one of somebody else.
        spend.add(at(1_000), Usd(2));
        spend.add(at(1_000), Usd(3));
        spend.raise(at(1_000), Usd(4));
        spend.raise(at(999), Usd(10));
        assert_eq!(spend.total(at(1_001)), Usd(15), "no more than is certain");
        // Now it holds them all, and says so again and again.
        for _ in 0..3 {
            spend.raise(at(1_000), Usd(7));
            spend.raise(at(999), Usd(10));
        }
        assert_eq!(spend.total(at(1_001)), Usd(17));
        spend.add(at(1_000), Usd(1));
        assert_eq!(spend.total(at(1_001)), Usd(18));

        let mut month = MonthSpend::default();
        month.add(at(1_000), Usd(5));
        month.raise(at(1_000), Usd(4));
        assert_eq!(month.total(at(1_000)), Usd(5));
        month.raise(at(1_000), Usd(9));
        month.add(at(1_000), Usd(1));
        assert_eq!(month.total(at(1_000)), Usd(10));
    }

    #[test]
    fn a_month_starts_at_nothing() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let mut month = MonthSpend::default();
        month.add(at("2026-02-28T23:59:59Z"), Usd(3));
        month.add(at("2026-02-01T00:00:00Z"), Usd(1));
        assert_eq!(month.total(at("2026-02-28T23:59:59.999Z")), Usd(4));
        assert_eq!(month.total(at("2026-03-01T00:00:00Z")), Usd(0));
        month.add(at("2026-03-31T12:00:00Z"), Usd(9));
        assert_eq!(month.total(at("2026-03-31T23:00:00Z")), Usd(9));
        assert_eq!(month.total(at("2026-04-01T00:00:00Z")), Usd(0));
    }
}
