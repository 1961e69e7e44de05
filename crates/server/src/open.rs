//! From a configuration to an open store, gateway and provider client.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use domain::time::Clock;
use gateway::SharedCounters;
use providers::{Collector, Egress};
use store::{Claim, Claimed, Location, Store};

use crate::commands::Failure;
use crate::config::Config;
use crate::master_key;

/// The attempts of a command without a lock to open a database that its master key does not fit.
const OPEN_ATTEMPTS: usize = 5;
/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A collector at one of these is reached without the egress proxy.
const NOT_BEHIND_PROXY: &str =
    "localhost,127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,::1,fc00::/7";

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
    let mut tries = if matches!(claim, Claim::Look | Claim::Visit) { OPEN_ATTEMPTS } else { 1 };
    loop {
        tries -= 1;
        let claimed = Claimed::take(config.location.clone(), claim).await?;
        let master = match master_key::of(config, &claimed).await {
            Ok(master) => master,
            Err(failure) => {
                claimed.release().await;
                return Err(failure);
            }
        };
        match claimed.open(master, clock.clone()).await {
            // A look takes no lock, and a visit none that another process has: a rotation may have replaced the
            // key between the two reads.
            Err(store::Error::WrongMasterKey) if tries > 0 => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            opened => return Ok(opened?),
        }
    }
}

/// Makes the data folder, for the owner alone, and syncs it and every new folder above it to disk.
fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made = path.ancestors().take_while(is_new).count();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Each new folder is an entry of the one above it.
    path.canonicalize()?.ancestors().skip(1).take(made).try_for_each(sync_folder)
}

/// Syncs the entries of a folder to disk, if possible: a folder above may not be readable, and not
/// every file system can sync one.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error) if is_not_for_folders(error.kind()) => Ok(()),
        synced => synced,
    }
}

fn is_not_for_folders(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::Unsupported)
}

/// The client through which every call to a provider goes.
pub(crate) fn client(config: &Config) -> Result<providers::Client, Failure> {
    let client = providers::Client::new(config.egress.clone());
    client.map_err(|error| Failure(format!("provider client: {error}")))
}

/// The export to a collector of OpenTelemetry, if there is one.
fn otlp(config: &Config) -> Result<Option<gateway::Otlp>, Failure> {
    let otlp = &config.otlp;
    let Some(address) = otlp.address.clone() else { return Ok(None) };
    let no_proxy = Some(NOT_BEHIND_PROXY.to_owned());
    let client = providers::Client::new(Egress { no_proxy, ..config.egress.clone() });
    let client = client.map_err(|error| Failure(format!("client of the collector: {error}")))?;
    Ok(Some(gateway::Otlp {
        collector: Collector::new(client, address),
        protocol: otlp.protocol,
        compression: otlp.compression,
        content: otlp.content,
        resource: otlp.resource()?,
    }))
}

/// The counters that all gateways share, if there is a Redis.
async fn shared_counters(
    config: &Config,
    store: &Store,
    clock: &Clock,
) -> Result<Option<SharedCounters>, Failure> {
    let Some(target) = config.redis.clone() else { return Ok(None) };
    let opened = SharedCounters::open(store, target, config.on_counter_loss, clock).await;
    opened.map(Some).map_err(Failure)
}

/// The part of the configuration that the gateway needs.
pub(crate) async fn gateway_config(
    config: &Config,
    store: &Store,
    clock: &Clock,
) -> Result<gateway::Config, Failure> {
    Ok(gateway::Config {
        perimeter: config.perimeter.clone(),
        max_body_bytes: config.max_body_bytes,
        max_body_memory: config.max_body_memory,
        egress_allow: config.egress.allow.clone(),
        public_url: config.public_url.clone(),
        mailer: config.mailer.clone(),
        idle_hours: config.trace_idle_hours,
        otlp: otlp(config)?,
        shared_counters: shared_counters(config, store, clock).await?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_may_be_made_in_one_that_cannot_be_read() {
        let above = tempfile::tempdir().unwrap();
        let set = |mode| {
            std::fs::set_permissions(above.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o300);
        let path = above.path().join("sluice-data");
        let made = make_folder(&path);
        set(0o700);
        made.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        // Nothing is forbidden to root.
        for kind in [ErrorKind::PermissionDenied, ErrorKind::InvalidInput, ErrorKind::Unsupported] {
            assert!(is_not_for_folders(kind), "{kind}");
        }
        for kind in [ErrorKind::StorageFull, ErrorKind::NotFound, ErrorKind::Other] {
            assert!(!is_not_for_folders(kind), "{kind}");
        }
        assert!(sync_folder(&above.path().join("nowhere")).is_err());
    }
}
