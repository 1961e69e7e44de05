//! Money spent in a rolling hour and in a calendar month.

use std::collections::VecDeque;

use domain::money::Usd;
use domain::time::{HOUR, SECOND, Timestamp};

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
        let second = at.0.div_euclid(SECOND);
        self.total += amount;
        match self.seconds.back_mut() {
            Some(last) if last.0 >= second => last.1 += amount,
            _ => self.seconds.push_back((second, amount)),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What was spent in a calendar month.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthSpend {
    start: Timestamp,
    total: Usd,
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

    fn roll(&mut self, now: Timestamp) {
        // A day is the least that two month starts can be apart; most calls end here.
        if now >= self.start && now.0 - self.start.0 < 28 * 24 * HOUR {
            return;
        }
        let start = now.month_start();
        if start != self.start {
            *self = Self { start, total: Usd::ZERO };
        }
    }
}

#[cfg(test)]
mod tests {
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
