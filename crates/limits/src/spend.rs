//! Money spent in a rolling hour and in a calendar month.

use std::collections::VecDeque;
use std::time::Duration;

use domain::money::Usd;
use domain::time::{HOUR, Timestamp};

/// Money spent in the rolling hour, second by second.
#[derive(Clone, Debug, Default)]
pub struct HourSpend {
    /// Unix second and amount, oldest first.
    seconds: VecDeque<(i64, Usd)>,
    total: Usd,
    /// Amounts moved to an earlier second, by their original date, oldest first: the database reports
    /// them at that date, when they have already counted.
    moved: VecDeque<(i64, Usd)>,
}

/// Most seconds whose moved amounts are remembered.
const MOST_MOVED_SECONDS: usize = 8_192;

impl HourSpend {
    /// Returns the money spent within the hour that ends now.
    pub fn total(&mut self, now: Timestamp) -> Usd {
        self.bring_back(now);
        let oldest = now.minus_micros(HOUR).unix_seconds();
        while let Some(&(second, amount)) = self.seconds.front()
            && second < oldest
        {
            self.seconds.pop_front();
            self.total = self.total - amount;
        }
        while self.moved.front().is_some_and(|(second, _)| *second < oldest) {
            self.moved.pop_front();
        }
        self.total
    }

    /// Adds money spent at a time.
    pub fn add(&mut self, at: Timestamp, amount: Usd) {
        *at_second(&mut self.seconds, at.unix_seconds()) += amount;
        self.total += amount;
    }

    /// Raises the spend in the second of `at` to at least `least`, whoever spent it. Amounts already
    /// counted here may be a part of it or more.
    pub fn raise(&mut self, at: Timestamp, least: Usd) {
        let second = at.unix_seconds();
        let moved = self.moved.binary_search_by_key(&second, |(moved, _)| *moved);
        let moved = moved.map_or(Usd::ZERO, |place| self.moved[place].1);
        let known = at_second(&mut self.seconds, second);
        let missing = (least - *known - moved).max(Usd::ZERO);
        *known += missing;
        self.total += missing;
    }

    /// Moves amounts from a clock that went back by more than an hour. They would count for longer than
    /// they should, for years perhaps: they count for an hour from now on, and not again when the clock
    /// reaches their date.
    fn bring_back(&mut self, now: Timestamp) {
        let latest = now.plus(Duration::from_hours(1)).unix_seconds();
        if self.seconds.back().is_none_or(|(second, _)| *second <= latest) {
            return;
        }
        let later = self.seconds.partition_point(|(second, _)| *second <= latest);
        let mut sum = Usd::ZERO;
        for (second, amount) in self.seconds.drain(later..) {
            *at_second(&mut self.moved, second) += amount;
            sum += amount;
        }
        self.moved.truncate(MOST_MOVED_SECONDS);
        *at_second(&mut self.seconds, now.unix_seconds()) += sum;
    }

    /// Forgets all spend. Moved amounts do not come back at their date.
    pub fn clear(&mut self) {
        self.seconds.clear();
        self.total = Usd::ZERO;
    }
}

/// Returns the amount of a second. Calls are added in about the order in which they end.
fn at_second(seconds: &mut VecDeque<(i64, Usd)>, second: i64) -> &mut Usd {
    let place = seconds.partition_point(|(known, _)| *known < second);
    if seconds.get(place).is_none_or(|(known, _)| *known != second) {
        seconds.insert(place, (second, Usd::ZERO));
    }
    &mut seconds[place].1
}

/// Reserved money: it is not spent yet, and nobody else may spend it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserved(Usd);

impl Reserved {
    /// Returns all reserved money.
    pub fn total(self) -> Usd {
        self.0
    }

    /// Reserves money for a call.
    pub fn add(&mut self, amount: Usd) {
        self.0 += amount;
    }

    /// Releases the reservation of a call.
    pub fn give_back(&mut self, amount: Usd) {
        self.0 = self.0 - amount;
    }
}

/// Number of months whose sums are kept beside that of the current month.
const MOST_OTHER_MONTHS: usize = 2;

/// Money spent in a calendar month.
///
/// A clock that steps over the end of a month and back frees nothing: every month that it has shown
/// keeps its own sum, and after a step back the sum of the later month keeps counting until the clock
/// reaches another month.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonthSpend {
    start: Timestamp,
    total: Usd,
    /// The sum that counted before the clock went back, plus all spend since.
    carried: Option<Usd>,
    /// Other months that the clock has shown, by their start.
    others: [(Timestamp, Usd); MOST_OTHER_MONTHS],
    /// Money reserved for calls that have not settled, whenever they began.
    pub set_aside: Reserved,
}

impl MonthSpend {
    /// Returns the money spent in the month of `now`, but at least the sum that counted before the
    /// clock went back.
    pub fn total(&mut self, now: Timestamp) -> Usd {
        self.roll(now);
        self.counted()
    }

    /// Adds money spent now.
    pub fn add(&mut self, now: Timestamp, amount: Usd) {
        self.roll(now);
        self.total += amount;
        if let Some(carried) = &mut self.carried {
            *carried += amount;
        }
    }

    /// Raises the spend in the month of `now` to at least `least`, whoever spent it.
    pub fn raise(&mut self, now: Timestamp, least: Usd) {
        if now < self.start {
            // `now` was read before the month ended.
            let start = now.month_start();
            if let Some((_, total)) = self.others.iter_mut().find(|(known, _)| *known == start) {
                *total = (*total).max(least);
            }
            return;
        }
        self.roll(now);
        self.total = self.total.max(least);
    }

    fn counted(&self) -> Usd {
        self.carried.map_or(self.total, |carried| self.total.max(carried))
    }

    fn roll(&mut self, now: Timestamp) {
        // Two month starts are at least 28 days apart; most calls end here.
        if now >= self.start && now.0 - self.start.0 < 28 * 24 * HOUR {
            return;
        }
        let start = now.month_start();
        if start == self.start {
            return;
        }
        let went_back = start < self.start;
        let counted = self.counted();
        let known = self.others.iter().position(|(known, _)| *known == start);
        // The slot of the month that counts now, else that of the earliest month.
        let place =
            known.or_else(|| (0..MOST_OTHER_MONTHS).min_by_key(|place| self.others[*place].0));
        let total = known.map_or(Usd::ZERO, |known| self.others[known].1);
        if let Some(place) = place {
            self.others[place] = (self.start, self.total);
        }
        (self.start, self.total) = (start, total);
        self.carried = went_back.then_some(counted);
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
        // Own calls; the database holds the first of them, and one of another node.
        spend.add(at(1_000), Usd(2));
        spend.add(at(1_000), Usd(3));
        spend.raise(at(1_000), Usd(4));
        spend.raise(at(999), Usd(10));
        assert_eq!(spend.total(at(1_001)), Usd(15), "no more than is certain");
        // Now the database holds them all, and reports them again and again.
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

    #[test]
    fn a_clock_that_steps_over_the_end_of_a_month_and_back_frees_nothing() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let (february, march) = (at("2026-02-28T23:59:59Z"), at("2026-03-01T00:00:01Z"));
        for spent_in_march in [0, 2, 9] {
            let mut month = MonthSpend::default();
            month.add(february, Usd(5));
            assert_eq!(month.total(march), Usd(0));
            month.add(march, Usd(spent_in_march));
            for _ in 0..3 {
                let counted = month.total(february);
                assert_eq!(counted, Usd(spent_in_march.max(5)), "the month does not go back");
                assert_eq!(month.total(march), Usd(spent_in_march), "nor does it begin again");
            }
            month.total(february);
            month.add(february, Usd(4));
            assert_eq!(month.total(february), Usd((spent_in_march + 4).max(9)));
            assert_eq!(month.total(march), Usd(spent_in_march));
            assert_eq!(month.total(at("2026-04-01")), Usd(0));
        }
    }

    #[test]
    fn a_far_future_counts_no_longer_than_a_month() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let mut month = MonthSpend::default();
        month.add(at("2026-02-10"), Usd(1));
        month.add(at("2031-07-01"), Usd(8));
        assert_eq!(month.total(at("2026-02-10")), Usd(8));
        month.add(at("2026-02-11"), Usd(1));
        assert_eq!(month.total(at("2026-02-11")), Usd(9));
        assert_eq!(month.total(at("2026-03-01")), Usd(0));
        month.add(at("2026-03-02"), Usd(3));
        // The ledger's sum of February comes late, that of March in time.
        month.raise(at("2026-02-28"), Usd(6));
        assert_eq!(month.total(at("2026-03-03")), Usd(3));
        month.raise(at("2026-03-03"), Usd(4));
        assert_eq!(month.total(at("2026-03-03")), Usd(4));
        assert_eq!(month.total(at("2026-02-28")), Usd(6));
    }

    #[test]
    fn what_was_set_aside_outlasts_every_step() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let mut month = MonthSpend::default();
        month.set_aside.add(Usd(7));
        for day in ["2026-02-28", "2026-03-01", "2026-02-28", "2031-01-01", "2026-02-28"] {
            month.total(at(day));
            assert_eq!(month.set_aside.total(), Usd(7), "{day}");
        }
    }

    #[test]
    fn an_hour_outlasts_a_clock_that_goes_back() {
        let at = |second: i64| Timestamp((1_000_000 + second) * SECOND);
        let hour = HOUR / SECOND;
        // Within an hour amounts stay where they are: the database has them there as well.
        let mut spend = HourSpend::default();
        spend.add(at(600), Usd(5));
        assert_eq!(spend.total(at(0)), Usd(5));
        spend.raise(at(600), Usd(5));
        assert_eq!(spend.total(at(hour)), Usd(5));
        assert_eq!(spend.total(at(hour + 601)), Usd(0));
        // Beyond it they count for an hour, and the database has them by their date all the same.
        let mut spend = HourSpend::default();
        spend.add(at(5_400), Usd(3));
        for second in 60..=(60 + hour) {
            spend.raise(at(5_400), Usd(3));
            assert_eq!(spend.total(at(second)), Usd(3), "{second}");
        }
        for second in 60 + hour + 1..3 * hour {
            spend.raise(at(5_400), Usd(3));
            assert_eq!(spend.total(at(second)), Usd(0), "{second}");
        }
        // New spend in a second whose amount was moved counts.
        let mut spend = HourSpend::default();
        spend.add(at(5_400), Usd(3));
        assert_eq!(spend.total(at(0)), Usd(3));
        spend.clear();
        spend.raise(at(5_400), Usd(3));
        assert_eq!(spend.total(at(5_300)), Usd(0));
        spend.add(at(5_400), Usd(1));
        spend.raise(at(5_400), Usd(6));
        assert_eq!(spend.total(at(5_400)), Usd(3));
        // Amounts count for an hour, not until the clock reaches their date.
        let mut spend = HourSpend::default();
        spend.add(at(0), Usd(1));
        spend.add(at(50_000_000), Usd(5));
        spend.add(at(50_000_001), Usd(6));
        assert_eq!(spend.total(at(10)), Usd(12));
        assert_eq!(spend.total(at(hour)), Usd(12));
        assert_eq!(spend.total(at(hour + 1)), Usd(11));
        assert_eq!(spend.total(at(hour + 11)), Usd(0));
    }
}
