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

/// The requests that a key has left in the rolling hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestQuota {
    /// The most requests in the hour.
    pub limit: u64,
    /// How many more there may be now.
    pub remaining: u64,
    /// Whole seconds until there may be one more than that: until the oldest request is an hour old. 0 if there
    /// was none.
    pub reset: u64,
}

impl RequestQuota {
    /// The length of its window, in seconds.
    pub const WINDOW_SECONDS: u64 = HOUR.unsigned_abs() / SECOND.unsigned_abs();
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
    /// refused and not counted. Returns what is left; `None` without a limit.
    pub fn admit(&mut self, now: Timestamp) -> Result<Option<RequestQuota>, RateExceeded> {
        let Some(limit) = self.limits.requests_per_hour else { return Ok(None) };
        let count = self.requests.count(now.0);
        if count >= limit {
            let wait = self.requests.until_room(now.0, limit);
            return Err(RateExceeded { retry_after: whole_seconds(wait).max(1) });
        }
        self.requests.add(now.0);
        let reset = whole_seconds(self.requests.until_next(now.0));
        Ok(Some(RequestQuota { limit, remaining: limit - count - 1, reset }))
    }

    /// Returns what is left of the hourly rate, and counts nothing; `None` without a limit.
    pub fn quota(&mut self, now: Timestamp) -> Option<RequestQuota> {
        let limit = self.limits.requests_per_hour?;
        let remaining = limit.saturating_sub(self.requests.count(now.0));
        let reset = match remaining {
            0 => self.requests.until_room(now.0, limit),
            _ => self.requests.until_next(now.0),
        };
        Some(RequestQuota { limit, remaining, reset: whole_seconds(reset) })
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

/// Microseconds as seconds, rounded up.
fn whole_seconds(micros: i64) -> u64 {
    (micros + SECOND - 1).div_euclid(SECOND).max(0).cast_unsigned()
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
        let quota = |remaining, reset| RequestQuota { limit: 2, remaining, reset };
        assert_eq!(windows.admit(at(0)), Ok(Some(quota(1, 3_600))));
        assert_eq!(windows.admit(at(10)), Ok(Some(quota(0, 3_590))));
        assert_eq!(windows.admit(at(20)), Err(RateExceeded { retry_after: 3_580 }));
        assert_eq!(windows.admit(at(3_599)), Err(RateExceeded { retry_after: 1 }));
        assert_eq!(windows.admit(at(3_600)), Ok(Some(quota(0, 10))));
        assert!(windows.admit(at(3_601)).is_err());
    }

    #[test]
    fn a_quota_that_is_read_counts_nothing() {
        let limits = Limits { requests_per_hour: Some(2), ..Limits::default() };
        let mut windows = KeyWindows::new(&limits);
        let quota = |remaining, reset| Some(RequestQuota { limit: 2, remaining, reset });
        assert_eq!(windows.quota(at(0)), quota(2, 0));
        windows.admit(at(0)).unwrap();
        windows.admit(at(600)).unwrap();
        assert_eq!(windows.quota(at(600)), quota(0, 3_000));
        assert_eq!(windows.quota(at(3_600)), quota(1, 600));
        // A limit that was lowered since is used up until enough requests are an hour old.
        windows.set_limits(&Limits { requests_per_hour: Some(1), ..Limits::default() });
        assert_eq!(windows.quota(at(700)).unwrap().remaining, 0);
        windows.set_limits(&Limits { requests_per_hour: None, ..Limits::default() });
        assert_eq!(windows.quota(at(700)), None);
        assert_eq!(windows.admit(at(700)), Ok(None));
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
