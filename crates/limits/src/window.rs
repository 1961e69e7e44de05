//! Requests in a rolling window.

use std::collections::VecDeque;

/// Up to this many requests are kept with their own times, so that counting is exact.
const EXACT_REQUESTS: u64 = 10_000;
/// Above that, times are rounded to this part of the window: memory stays bounded, and a request
/// counts for at most 0.03 % of the window too long.
const WINDOW_PARTS: i64 = 3_600;

/// Counts requests in a rolling window.
///
/// The times are microseconds on one clock. A clock that goes back makes requests count longer,
/// never shorter, but for less than two windows.
#[derive(Clone, Debug)]
pub struct Window {
    length: i64,
    grain: i64,
    /// Time and count, oldest first.
    entries: VecDeque<(i64, u64)>,
    total: u64,
}

impl Window {
    /// Creates a window of `length` microseconds for a limit of `limit` requests.
    pub fn new(length: i64, limit: u64) -> Self {
        let grain = if limit <= EXACT_REQUESTS { 1 } else { (length / WINDOW_PARTS).max(1) };
        Self { length, grain, entries: VecDeque::new(), total: 0 }
    }

    /// Returns the number of requests within the window that ends now.
    pub fn count(&mut self, now: i64) -> u64 {
        self.bring_back(now);
        while let Some(&(at, count)) = self.entries.front()
            && at <= now - self.length
        {
            self.entries.pop_front();
            self.total -= count;
        }
        self.total
    }

    /// Makes requests that would count for more than two windows count from now on: their time came
    /// from a clock that has gone back since.
    fn bring_back(&mut self, now: i64) {
        let latest = now.saturating_add(self.length + self.grain);
        if self.entries.back().is_none_or(|(at, _)| *at <= latest) {
            return;
        }
        let later = self.entries.partition_point(|(at, _)| *at <= now);
        let count = self.entries.drain(later..).map(|(_, count)| count).sum();
        self.entries.push_back((now, count));
    }

    /// Counts a request.
    pub fn add(&mut self, now: i64) {
        self.add_many(now, 1);
    }

    /// Counts several requests at one time.
    pub fn add_many(&mut self, now: i64, count: u64) {
        // Rounded up, so that rounding makes a request count longer and never shorter.
        let at = (now + self.grain - 1).div_euclid(self.grain) * self.grain;
        self.total += count;
        match self.entries.back_mut() {
            Some(last) if last.0 >= at => last.1 += count,
            _ => self.entries.push_back((at, count)),
        }
    }

    /// Returns the time until enough requests have left the window for one more to fit, in
    /// microseconds.
    pub fn until_room(&self, now: i64, limit: u64) -> i64 {
        let mut over = (self.total + 1).saturating_sub(limit);
        for &(at, count) in &self.entries {
            if over <= count {
                return (at + self.length - now).max(0);
            }
            over -= count;
        }
        self.length
    }

    /// Returns the time until the oldest request leaves the window, in microseconds; 0 if there is none.
    pub fn until_next(&self, now: i64) -> i64 {
        self.entries.front().map_or(0, |(at, _)| (at + self.length - now).max(0))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.total = 0;
    }

    /// Returns the times and counts, oldest first, for a checkpoint.
    pub fn entries(&self) -> impl Iterator<Item = (i64, u64)> {
        self.entries.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_request_counts_for_exactly_the_window() {
        let mut window = Window::new(10 * SECOND, 50);
        window.add(SECOND);
        assert_eq!(window.count(11 * SECOND - 1), 1);
        assert_eq!(window.count(11 * SECOND), 0);
    }

    #[test]
    fn says_when_there_is_room() {
        let mut window = Window::new(10 * SECOND, 2);
        window.add(SECOND);
        window.add(4 * SECOND);
        assert_eq!(window.until_room(5 * SECOND, 2), 6 * SECOND);
        assert_eq!(window.until_room(5 * SECOND, 1), 9 * SECOND);
    }

    #[test]
    fn a_clock_that_goes_back_makes_requests_count_for_two_windows_at_most() {
        for back in [5, 10, 11, 100_000_000] {
            let mut window = Window::new(10 * SECOND, 50);
            window.add(0);
            window.add(back * SECOND);
            window.add((back + 1) * SECOND);
            assert_eq!(window.count(SECOND), 3, "{back}");
            window.add(2 * SECOND);
            assert_eq!(window.count(10 * SECOND - 1), 4, "{back}");
            assert_eq!(window.count(22 * SECOND), 0, "{back}");
        }
    }

    #[test]
    fn a_huge_limit_takes_little_memory() {
        let mut window = Window::new(3_600 * SECOND, 1_000_000_000);
        for request in 0..200_000 {
            window.add(request * 1_000);
        }
        assert!(window.entries.len() <= 202);
        assert_eq!(window.count(200 * SECOND), 200_000);
        assert_eq!(window.count(3_900 * SECOND), 0);
    }

    proptest! {
        #[test]
        fn counts_what_a_list_would(gaps in prop::collection::vec(0i64..3_000_000, 1..200)) {
            let mut window = Window::new(10 * SECOND, 50);
            let mut times = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                window.add(now);
                times.push(now);
                let expected = times.iter().filter(|&&at| at > now - 10 * SECOND).count();
                prop_assert_eq!(window.count(now), expected as u64);
            }
        }
    }
}
