//! Limits: rolling windows of requests, money and failures, counted in memory.
//!
//! Pure: the clock is a parameter, nothing is read or written. The gateway decides which key has which
//! windows, and in which order they are checked.

mod failures;
mod key_windows;
mod spend;
mod window;

pub use failures::{Failures, TooManyFailures};
pub use key_windows::{KeyWindows, LONGEST_LOOP_WINDOW, RateExceeded, RequestQuota};
pub use spend::{HourSpend, MonthSpend, Reserved};
pub use window::Window;
