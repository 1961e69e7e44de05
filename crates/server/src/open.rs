//! From a configuration to an open store, gateway and provider client.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use domain::time::Clock;
use store::{Claim, Claimed, Location, Store};

use crate::commands::Failure;
use crate::config::Config;
use crate::master_key;

/// Opens the store. The claim comes first: a data folder is set up, and its master key made, by one
/// process alone.
pub(crate) async fn store(config: &Config, claim: Claim, clock: &Clock) -> Result<Store, Failure> {
    if let Location::Sqlite(_) = config.location
        && claim != Claim::Look
    {
        make_folder(&config.data_dir).map_err(|error| {
            Failure(format!(
                "the data folder {} cannot be made: {error}. Choose another with SLUICE_DATA_DIR",
                config.data_dir.display()
            ))
        })?;
    }
    let claimed = Claimed::take(config.location.clone(), claim).await?;
    let master = match master_key::of(config, &claimed).await {
        Ok(master) => master,
        Err(failure) => {
            claimed.release().await;
            return Err(failure);
        }
    };
    Ok(claimed.open(master, clock.clone()).await?)
}

/// Makes the data folder, for the owner alone, and its entry in the folder above last.
fn make_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match path.canonicalize()?.parent() {
        Some(above) => File::open(above)?.sync_all(),
        None => Ok(()),
    }
}

/// The client through which every call to a provider goes.
pub(crate) fn client(config: &Config) -> Result<providers::Client, Failure> {
    let client = providers::Client::new(config.egress.clone());
    client.map_err(|error| Failure(format!("provider client: {error}")))
}

/// What the gateway has to know of the configuration.
pub(crate) fn gateway_config(config: &Config) -> gateway::Config {
    gateway::Config {
        perimeter: config.perimeter.clone(),
        max_body_bytes: config.max_body_bytes,
        max_body_memory: config.max_body_memory,
        egress_allow: config.egress.allow.clone(),
        idle_hours: config.trace_idle_hours,
    }
}
