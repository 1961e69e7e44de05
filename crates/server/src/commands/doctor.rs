//! `sluice doctor`: which checks pass, which fail, and how to fix them.

use std::path::Path;
use std::time::Duration;

use domain::time::Clock;
use store::{Claim, Location, Pages, Store};

use super::{Failure, say};
use crate::config::Config;
use crate::open;

/// The time within which a model must be reachable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for which the pages of the database are read.
const CHECK_TIMEOUT: Duration = Duration::from_mins(1);

/// Checks everything that can be checked from here. Fails when something has to be done.
pub(crate) async fn run(config: &Config) -> Result<(), Failure> {
    let mut troubles = 0;
    let mut report = |well: bool, what: &str| -> Result<(), Failure> {
        troubles += usize::from(!well);
        say(&format!("{} {what}", if well { "ok  " } else { "TODO" }))
    };
    report(true, "The configuration can be read.")?;
    if let Location::Sqlite(path) = &config.location
        && path.exists()
    {
        for (well, what) in file(path).await {
            report(well, &what)?;
        }
    }
    let clock = Clock::system();
    let store = match store(config, &clock).await {
        Ok(store) => store,
        Err(failure) => {
            report(false, &failure.to_string())?;
            return end(troubles);
        }
    };
    report(true, "The database answers, its schema is current, and the master key opens it.")?;
    if store.is_empty().await? {
        report(false, "The database is empty: start `sluice serve` once to set it up.")?;
    }
    let client = open::client(config)?;
    for finding in gateway::inspect_models(&store, &client, PROBE_TIMEOUT, &clock).await? {
        report(finding.well, &finding.what)?;
    }
    for sentence in gateway::inspect_reviews(&store, &clock).await? {
        say(&format!("note {sentence}"))?;
    }
    store.close().await;
    end(troubles)
}

/// Prints how many things need attention, and fails if any does.
fn end(troubles: usize) -> Result<(), Failure> {
    match troubles {
        0 => say("Everything is well."),
        1 => Err(Failure("1 thing needs attention".to_owned())),
        many => Err(Failure(format!("{many} things need attention"))),
    }
}

/// The checks of the database file, each with whether it passes.
async fn file(path: &Path) -> Vec<(bool, String)> {
    let named = path.display();
    let health = match store::inspect_file(path, CHECK_TIMEOUT).await {
        Ok(health) => health,
        Err(error) => {
            return vec![(false, format!("The file {named} cannot be checked: {error}."))];
        }
    };
    let mut seen = Vec::new();
    if health.lacks_log {
        let what = format!(
            "The database was not closed cleanly, and its write-ahead log {named}-wal is \
             missing: what was written last may be lost. If {named} was copied without it, copy \
             it too, from the same moment, before anything opens the database; else restore a \
             backup. (Nothing is missing if another program, such as sqlite3, has opened or \
             copied the database: start Sluice and stop it again.)"
        );
        seen.push((false, what));
    }
    let (well, what) = match health.pages {
        Pages::Sound => (true, "The pages of the database are sound (quick_check).".to_owned()),
        Pages::Stopped => {
            let what = format!(
                "The pages of the database that were read within {} seconds are sound. For all of them, run: \
                 sqlite3 {named} 'PRAGMA quick_check'",
                CHECK_TIMEOUT.as_secs()
            );
            (true, what)
        }
        Pages::Damaged(faults) => {
            let what = format!(
                "The database file {named} is damaged ({}): stop the gateway, keep a copy of the folder, and \
                 restore a backup.",
                faults.join("; ")
            );
            (false, what)
        }
    };
    seen.push((well, what));
    seen
}

/// Opens the database to read it. Nothing is made or changed.
pub(super) async fn store(config: &Config, clock: &Clock) -> Result<Store, Failure> {
    match &config.location {
        Location::Sqlite(path) if !path.exists() => Err(Failure(format!(
            "There is no database at {}: start `sluice serve` once to make it, or name its folder in \
             SLUICE_DATA_DIR.",
            path.display()
        ))),
        _ => open::store(config, Claim::Look, clock).await,
    }
}
