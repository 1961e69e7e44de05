//! Limits: rolling windows of requests and money, counted in memory.
//!
//! Pure: the clock is a parameter, nothing is read or written. Which key has which windows, and
//! in which order they are asked, is the gateway's business.

mod gate;
mod spend;
mod window;

pub use gate::{KeyWindows, LONGEST_LOOP_WINDOW, RateExceeded};
pub use spend::{HourSpend, MonthSpend, SetAside};
pub use window::Window;
