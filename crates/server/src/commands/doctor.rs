//! `sluice doctor`: what is well, what is not, and what to do about it.

use std::time::Duration;

use domain::time::Clock;
use store::{Claim, Location, Store};

use super::{Failure, say};
use crate::config::Config;
use crate::open;

/// A model has this long to show that it can be reached.
const PROBE: Duration = Duration::from_secs(10);

/// Checks everything that can be checked from here. Fails when something has to be done.
pub(crate) async fn run(config: &Config) -> Result<(), Failure> {
    let mut troubles = 0;
    let mut report = |well: bool, what: &str| -> Result<(), Failure> {
        troubles += usize::from(!well);
        say(&format!("{} {what}", if well { "ok  " } else { "TODO" }))
    };
    report(true, "The configuration can be read.")?;
    let clock = Clock::system();
    let store = match store(config, &clock).await {
        Ok(store) => store,
        Err(failure) => {
            report(false, &failure.to_string())?;
            return Err(Failure("1 thing needs attention".to_owned()));
        }
    };
    report(true, "The database answers, its schema is current, and the master key opens it.")?;
    if store.is_empty().await? {
        report(false, "The database is empty: start `sluice serve` once to set it up.")?;
    }
    let client = open::client(config)?;
    for finding in gateway::inspect_models(&store, &client, PROBE, &clock).await? {
        report(finding.well, &finding.what)?;
    }
    store.close().await;
    match troubles {
        0 => say("Everything is well."),
        1 => Err(Failure("1 thing needs attention".to_owned())),
        many => Err(Failure(format!("{many} things need attention"))),
    }
}

/// Opens the database, and makes none.
async fn store(config: &Config, clock: &Clock) -> Result<Store, Failure> {
    match &config.location {
        Location::Sqlite(path) if !path.exists() => Err(Failure(format!(
            "There is no database at {}: start `sluice serve` once to make it, or name its folder in \
             SLUICE_DATA_DIR.",
            path.display()
        ))),
        _ => open::store(config, Claim::Visit, clock).await,
    }
}
