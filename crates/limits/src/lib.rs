//! Limits: rolling windows of requests and money, counted in memory.
//!
//! Pure: the clock is a parameter, nothing is read or written. The gateway decides which key has which
//! windows, and in which order they are checked.

mod key_windows;
mod spend;
mod window;

pub use key_windows::{KeyWindows, LONGEST_LOOP_WINDOW, RateExceeded, RequestQuota};
pub use spend::{HourSpend, MonthSpend, Reserved};
pub use window::Window;
