//! All commands but serving.

pub(crate) mod agent_setup;
pub(crate) mod audit;
pub(crate) mod backtest;
pub(crate) mod check_config;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod job;
pub(crate) mod judge;
pub(crate) mod keys;
pub(crate) mod migrate;
pub(crate) mod organization;
pub(crate) mod replay;
pub(crate) mod tokens;
pub(crate) mod users;

use std::io::Write as _;

use domain::secret::Secret;
use domain::time::Clock;
use store::{Claim, SealingKey, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Config;
use crate::{config, master_key, open};

/// Why a command failed: a message for its user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(pub(crate) String);

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        Self(format!("configuration: {error}"))
    }
}

impl From<gateway::Error> for Failure {
    fn from(error: gateway::Error) -> Self {
        match error {
            gateway::Error::Invalid(faults) => Self(faults.join("; ")),
            gateway::Error::Internal(cause) => Self(cause),
            other => Self(other.to_string()),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self(format!("database: {error}"))
    }
}

/// Prints the reason on the standard error output.
pub(crate) fn complain(failure: &Failure) {
    // If even that fails, there is no way left to report it.
    let _ = writeln!(std::io::stderr(), "sluice: {failure}");
}

/// Names the ignored variables on the standard error output.
pub(crate) fn warn_of_unknown_variables() {
    for warning in config::unknown_variables() {
        warn(&warning);
    }
}

/// Prints a warning on the standard error output.
pub(crate) fn warn(warning: &str) {
    complain(&Failure(format!("warning: {warning}")));
}

/// Prints a line on the standard output. A closed output ends the command quietly.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{line}")
        .map_err(|error| Failure(format!("the output cannot be written: {error}")))
}

pub(crate) fn openapi() -> Result<(), Failure> {
    let document = api::document().to_pretty_json();
    say(&document.map_err(|error| Failure(error.to_string()))?)
}

/// Watches a signal from now on: it ends the process no more.
pub(crate) fn watch(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure(format!("signals cannot be watched: {error}")))
}

/// Opens the store beside a gateway that may be running.
pub(crate) async fn visit(config: &Config) -> Result<Store, Failure> {
    open::store(config, Claim::Visit, &Clock::system()).await
}

/// Seals every data key and the pepper under a new master key: the one in
/// `SLUICE_NEW_MASTER_KEY`, else a generated one that replaces the file.
pub(crate) async fn rotate_master_key(config: &Config) -> Result<(), Failure> {
    let clock = Clock::system();
    let store = open::store(config, Claim::Alone, &clock).await?;
    let given = std::env::var("SLUICE_NEW_MASTER_KEY").ok().map(Secret::new);
    let in_file = config.master_key.is_none();
    let bytes = match &given {
        Some(text) => config::read_key(text)?,
        None if in_file => store::random::<32>()?,
        None => {
            return Err(Failure(
                "the master key comes from the environment: give the new one in SLUICE_NEW_MASTER_KEY".to_owned(),
            ));
        }
    };
    if in_file {
        // Kept beside the old one until the database has the new: whichever step fails, one of
        // the two files opens it.
        master_key::write_next(&config.data_dir, &bytes)?;
    }
    let new = SealingKey::master(&bytes)?;
    let count = gateway::rotate_master_key(&store, &new, &clock).await?;
    if in_file {
        // Here no other process can read the two files.
        master_key::promote_next(&config.data_dir)?;
    }
    store.close().await;
    say(&format!("{count} values were sealed under the new master key."))
}
