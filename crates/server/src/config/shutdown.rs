//! How long a gateway that is asked to stop goes on to serve.

use std::time::Duration;

use super::Error;

/// The wait where another node may take over: load balancers look every few seconds.
const BESIDE_OTHERS: u64 = 5;
/// The longest wait, in seconds.
const MOST: u64 = 600;

/// The time between the end of readiness and the stop, in seconds as it is given.
pub(super) fn delay(given: Option<u64>, may_have_others: bool) -> Result<Duration, Error> {
    let default = if may_have_others { BESIDE_OTHERS } else { 0 };
    match given.unwrap_or(default) {
        seconds if seconds <= MOST => Ok(Duration::from_secs(seconds)),
        seconds => {
            Err(Error(format!("shutdown_delay is {seconds}: it must be {MOST} seconds or less")))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Layer;
    use crate::config::tests::load;

    #[test]
    fn a_node_that_may_have_others_waits_before_it_stops() {
        const PG: (&str, &str) = ("SLUICE_DATABASE_URL", "postgres://x");
        let key = "00".repeat(32);
        let key = ("SLUICE_MASTER_KEY", key.as_str());
        let shared = ("SLUICE_ALLOW_INEXACT_LIMITS", "true");
        let redis = ("SLUICE_REDIS_URL", "redis://localhost");
        for (env, seconds) in [
            (vec![], 0),
            (vec![shared], 0),
            (vec![PG, key], 0),
            (vec![PG, key, shared], 5),
            // A SQLite database has one node, whatever that counts in.
            (vec![redis], 0),
            (vec![PG, key, redis], 5),
            (vec![PG, key, redis, ("SLUICE_SHUTDOWN_DELAY", "0")], 0),
            (vec![PG, key, shared, ("SLUICE_SHUTDOWN_DELAY", "0")], 0),
            (vec![("SLUICE_SHUTDOWN_DELAY", "30")], 30),
        ] {
            let config = load("", &env, Layer::default()).unwrap();
            assert_eq!(config.shutdown_delay.as_secs(), seconds, "{env:?}");
        }
        let error = load("shutdown_delay = 601", &[], Layer::default()).unwrap_err();
        assert!(error.0.contains("600 seconds or less"), "{error}");
    }
}
