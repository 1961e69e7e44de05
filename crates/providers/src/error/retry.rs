//! Wait before the same model is tried again.

use std::time::Duration;

/// Longest wait. If a provider asks for more, another model is the better choice.
pub const MAX_BACK_OFF: Duration = Duration::from_secs(5);

const FIRST: Duration = Duration::from_millis(200);

/// Returns the wait before attempt `attempt + 1`, when `attempt` (from 1) has just failed: doubling
/// from 200 ms, half of it left to chance, at least what the provider asked for, at most
/// [`MAX_BACK_OFF`]. `jitter` lies between 0 and 1.
pub fn back_off(attempt: u32, retry_after: Option<Duration>, jitter: f64) -> Duration {
    let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 0.5 };
    let doublings = attempt.saturating_sub(1).min(10);
    let whole = FIRST.saturating_mul(1 << doublings).min(MAX_BACK_OFF);
    let wait = whole.mul_f64(0.5 + jitter / 2.0);
    // Callers that were given the same wait must not all come back in the same moment.
    let asked = retry_after
        .map_or(Duration::ZERO, |asked| asked.min(MAX_BACK_OFF).mul_f64(1.0 + jitter / 10.0));
    wait.max(asked).min(MAX_BACK_OFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        assert_eq!(back_off(1, None, 1.0), Duration::from_millis(200));
        assert_eq!(back_off(1, None, 0.0), Duration::from_millis(100));
        assert_eq!(back_off(3, None, 1.0), Duration::from_millis(800));
        assert_eq!(back_off(40, None, 1.0), MAX_BACK_OFF);
        assert_eq!(back_off(0, None, f64::NAN), Duration::from_millis(150));
    }

    #[test]
    fn what_the_provider_asks_for_is_kept() {
        assert_eq!(back_off(1, Some(Duration::from_secs(2)), 0.0), Duration::from_secs(2));
        assert_eq!(back_off(1, Some(Duration::from_secs(2)), 1.0), Duration::from_millis(2200));
        assert_eq!(back_off(1, Some(Duration::from_mins(10)), 1.0), MAX_BACK_OFF);
        assert_eq!(back_off(1, Some(Duration::MAX), 1.0), MAX_BACK_OFF);
    }
}
