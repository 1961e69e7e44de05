//! The decision about one request of one key, from its windows and the clock.

use domain::money::Usd;
use domain::settings::Limits;
use domain::time::{HOUR, SECOND, Timestamp};

use crate::spend::{HourSpend, Reserved};
use crate::window::Window;

/// The longest window of loop detection, in seconds.
pub const LONGEST_LOOP_WINDOW: u64 = 86_400;

/// The key has made too many requests in the rolling hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateExceeded {
    /// Seconds until there is room again, at least 1.
    pub retry_after: u64,
}

/// The windows of one key.
#[derive(Debug)]
pub struct KeyWindows {
    requests: Window,
    attempts: Window,
    spend: HourSpend,
    /// Money reserved for calls with the key that have not settled.
    pub set_aside: Reserved,
    limits: Limits,
    last_used: Timestamp,
    changed: bool,
}

impl KeyWindows {
    /// Creates empty windows under these limits.
    pub fn new(limits: &Limits) -> Self {
        let (requests, attempts) = windows(limits);
        Self {
            requests,
            attempts,
            spend: HourSpend::default(),
            set_aside: Reserved::default(),
            limits: limits.clone(),
            last_used: Timestamp::default(),
            changed: false,
        }
    }

    /// Takes over new limits and keeps what was counted.
    pub fn set_limits(&mut self, limits: &Limits) {
        if *limits == self.limits {
            return;
        }
        let (mut requests, mut attempts) = windows(limits);
        self.requests.entries().for_each(|(at, count)| requests.add_many(at, count));
        self.attempts.entries().for_each(|(at, count)| attempts.add_many(at, count));
        (self.requests, self.attempts, self.limits) = (requests, attempts, limits.clone());
    }

    /// Notes that the key is used. Its requests are counted elsewhere.
    pub fn note_use(&mut self, now: Timestamp) {
        self.last_used = now;
        self.changed = true;
    }

    /// Counts an authenticated request for loop detection, refused ones too. Returns true if the
    /// requests in the window exceed the limit.
    pub fn record_attempt(&mut self, now: Timestamp) -> bool {
        self.note_use(now);
        let Some(limit) = self.limits.loop_requests else { return false };
        // One entry above the limit is enough to detect a loop: a caller that continues costs no
        // memory.
        if self.attempts.count(now.0) <= limit {
            self.attempts.add(now.0);
        }
        self.attempts.count(now.0) > limit
    }

    /// Counts a request against the hourly rate, unless it finds the limit reached: then it is
    /// refused and not counted.
    pub fn admit(&mut self, now: Timestamp) -> Result<(), RateExceeded> {
        let Some(limit) = self.limits.requests_per_hour else { return Ok(()) };
        if self.requests.count(now.0) >= limit {
            let wait = self.requests.until_room(now.0, limit);
            let retry_after = (wait + SECOND - 1).div_euclid(SECOND).max(1).cast_unsigned();
            return Err(RateExceeded { retry_after });
        }
        self.requests.add(now.0);
        Ok(())
    }

    /// Returns the requests admitted in the rolling hour.
    pub fn requests(&mut self, now: Timestamp) -> u64 {
        self.requests.count(now.0)
    }

    /// Returns the money spent in the rolling hour.
    pub fn spent(&mut self, now: Timestamp) -> Usd {
        self.spend.total(now)
    }

    /// Adds the cost of a call at the time it ended. Returns the money spent in the rolling hour.
    pub fn settle(&mut self, ended: Timestamp, cost: Usd) -> Usd {
        self.spend.add(ended, cost);
        self.spend.total(ended)
    }

    /// Raises the spend in the second of `at` to at least `least`, whoever spent it.
    pub fn raise_spent(&mut self, at: Timestamp, least: Usd) {
        self.spend.raise(at, least);
    }

    /// Resets the key: loop and spend count from now on. Reservations for running calls stay: those
    /// calls will be paid for.
    pub fn reset(&mut self) {
        self.attempts.clear();
        self.spend.clear();
    }

    /// Returns the time of the last authenticated request on this node.
    pub fn last_used(&self) -> Option<Timestamp> {
        (self.last_used != Timestamp::default()).then_some(self.last_used)
    }

    /// Returns the state that must survive a restart, if it has changed since the last checkpoint: the
    /// windows as bytes and the time of last use.
    pub fn checkpoint(&mut self) -> Option<(Vec<u8>, Timestamp)> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.requests.count(self.last_used.0);
        self.attempts.count(self.last_used.0);
        let mut bytes = Vec::new();
        for window in [&self.requests, &self.attempts] {
            let entries: Vec<_> = window.entries().collect();
            bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
            for (at, count) in entries {
                bytes.extend_from_slice(&at.to_le_bytes());
                bytes.extend_from_slice(&(count as u32).to_le_bytes());
            }
        }
        Some((bytes, self.last_used))
    }

    /// Restores the windows from a checkpoint; damaged bytes are read as far as possible.
    pub fn restore(&mut self, bytes: &[u8], reset_at: Option<Timestamp>) {
        let mut rest = bytes;
        let since = reset_at.unwrap_or_default().0;
        read_window(&mut rest, |at, count| self.requests.add_many(at, count));
        read_window(&mut rest, |at, count| {
            if at >= since {
                self.attempts.add_many(at, count);
            }
        });
    }
}

fn windows(limits: &Limits) -> (Window, Window) {
    let loop_window = limits.loop_window_seconds.min(LONGEST_LOOP_WINDOW).cast_signed() * SECOND;
    (
        Window::new(HOUR, limits.requests_per_hour.unwrap_or(0)),
        Window::new(loop_window, limits.loop_requests.unwrap_or(0)),
    )
}

fn read_window(rest: &mut &[u8], mut add: impl FnMut(i64, u64)) -> Option<()> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    for _ in 0..u32::from_le_bytes(*head) {
        let (at, tail) = rest.split_first_chunk::<8>()?;
        let (count, tail) = tail.split_first_chunk::<4>()?;
        *rest = tail;
        add(i64::from_le_bytes(*at), u64::from(u32::from_le_bytes(*count)));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_000_000 * SECOND + seconds * SECOND)
    }

    #[test]
    fn the_51st_request_in_ten_seconds_is_a_loop() {
        let mut windows = KeyWindows::new(&Limits::default());
        for request in 0..50 {
            assert!(!windows.record_attempt(at(request / 10)), "request {request}");
        }
        assert!(windows.record_attempt(at(5)));
        windows.reset();
        assert!(!windows.record_attempt(at(5)));
    }

    #[test]
    fn fifty_in_every_ten_seconds_is_no_loop() {
        let mut windows = KeyWindows::new(&Limits::default());
        for second in 0..100 {
            for _ in 0..5 {
                assert!(!windows.record_attempt(at(second)));
            }
        }
    }

    #[test]
    fn a_refused_request_is_not_counted_against_the_rate() {
        let limits = Limits { requests_per_hour: Some(2), ..Limits::default() };
        let mut windows = KeyWindows::new(&limits);
        assert_eq!(windows.admit(at(0)), Ok(()));
        assert_eq!(windows.admit(at(10)), Ok(()));
        assert_eq!(windows.admit(at(20)), Err(RateExceeded { retry_after: 3_580 }));
        assert_eq!(windows.admit(at(3_599)), Err(RateExceeded { retry_after: 1 }));
        assert_eq!(windows.admit(at(3_600)), Ok(()));
        assert!(windows.admit(at(3_601)).is_err());
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let limits = Limits { requests_per_hour: Some(3), ..Limits::default() };
        let mut before = KeyWindows::new(&limits);
        for second in 0..3 {
            before.record_attempt(at(second));
            before.admit(at(second)).unwrap();
        }
        let (bytes, last_used) = before.checkpoint().unwrap();
        assert_eq!(last_used, at(2));
        assert!(before.checkpoint().is_none());
        let mut after = KeyWindows::new(&limits);
        after.restore(&bytes, None);
        assert!(after.admit(at(4)).is_err());
        for cut in 0..bytes.len() {
            KeyWindows::new(&limits).restore(&bytes[..cut], None);
        }
    }

    #[test]
    fn new_limits_keep_what_was_counted() {
        let mut windows = KeyWindows::new(&Limits::default());
        windows.admit(at(0)).unwrap();
        windows.set_limits(&Limits { requests_per_hour: Some(1), ..Limits::default() });
        assert!(windows.admit(at(1)).is_err());
    }
}
