//! From a configuration to an open store, gateway and provider client.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::secret::Secret;
use domain::time::Clock;
use store::{Claim, Location, Options, SealingKey, Store};

use crate::commands::Failure;
use crate::config::{Config, read_key};

/// Opens the store.
pub(crate) async fn store(config: &Config, claim: Claim, clock: &Clock) -> Result<Store, Failure> {
    if let Location::Sqlite(_) = config.location {
        // What is in there is for the owner alone.
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&config.data_dir);
        made.map_err(|error| {
            Failure(format!(
                "the data folder {} cannot be made: {error}. Choose another with SLUICE_DATA_DIR",
                config.data_dir.display()
            ))
        })?;
    }
    let master = master_key(config)?;
    let options =
        Options { location: config.location.clone(), master, claim, clock: clock.clone() };
    Store::open(options).await.map_err(|error| Failure(format!("database: {error}")))
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

/// The file of a generated master key.
pub(crate) fn master_key_path(data_dir: &Path) -> PathBuf {
    data_dir.join("master.key")
}

/// The configured master key, else the one in the data folder, else a new one there.
fn master_key(config: &Config) -> Result<SealingKey, Failure> {
    let bytes = match config.master_key {
        Some(bytes) => bytes,
        None => file_key(&config.data_dir)?,
    };
    SealingKey::master(&bytes).map_err(|error| Failure(error.to_string()))
}

fn file_key(data_dir: &Path) -> Result<[u8; 32], Failure> {
    let path = master_key_path(data_dir);
    if !path.exists() {
        if data_dir.join("sluice.db").exists() {
            return Err(Failure(format!(
                "the database in {} has no master key beside it: put {} back, or set SLUICE_MASTER_KEY",
                data_dir.display(),
                path.display()
            )));
        }
        let bytes = store::random::<32>().map_err(|error| Failure(error.to_string()))?;
        write_key(&path, &bytes)?;
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure(format!("{} cannot be read: {error}", path.display())))?;
    read_key(&Secret::new(text)).map_err(|fault| Failure(format!("{}: {fault}", path.display())))
}

/// Writes a key for its owner's eyes alone, whole or not at all.
pub(crate) fn write_key(path: &Path, bytes: &[u8; 32]) -> Result<(), Failure> {
    let text = STANDARD.encode(bytes);
    let fresh = path.with_extension("new");
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&fresh, path));
    written.map_err(|error| {
        Failure(format!("the master key cannot be written to {}: {error}", path.display()))
    })
}
