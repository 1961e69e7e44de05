//! The file of a generated master key. It is made, replaced and repaired only by a process that has
//! the data folder to itself, and never by a rename over a key that may be needed.
//!
//! A rotation keeps the new key in `master.next` until the database is sealed under it. Whichever
//! step a crash interrupts, one of the two files fits the database; the next process that has the
//! folder to itself finds that one, and removes the other.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::secret::Secret;
use store::{Claimed, SealingKey};

use crate::commands::Failure;
use crate::config::{Config, read_key};
use crate::open;

/// The key of this folder.
fn current(data_dir: &Path) -> PathBuf {
    data_dir.join("master.key")
}

/// The key that a rotation seals the database under.
fn next(data_dir: &Path) -> PathBuf {
    data_dir.join("master.next")
}

/// The configured master key, else the one in the data folder, else a new one there.
pub(crate) async fn of(config: &Config, claimed: &Claimed) -> Result<SealingKey, Failure> {
    let bytes = match config.master_key {
        Some(bytes) => bytes,
        None => in_folder(&config.data_dir, claimed).await?,
    };
    SealingKey::master(&bytes).map_err(|error| Failure(error.to_string()))
}

async fn in_folder(data_dir: &Path, claimed: &Claimed) -> Result<[u8; 32], Failure> {
    let path = current(data_dir);
    if next(data_dir).exists()
        && let Some(bytes) = after_rotation(data_dir, claimed).await?
    {
        return Ok(bytes);
    }
    let is_set_up = has_content(&data_dir.join("sluice.db"));
    if !is_set_up && claimed.may_set_up() && path.exists() && !has_content(&path) {
        // A crash can leave an empty file on file systems without links. Nothing is sealed yet.
        remove_leftover(&path).map_err(|error| unwritable(&path, &error))?;
    }
    if !path.exists() {
        if is_set_up {
            return Err(Failure(format!(
                "the database in {} has no master key beside it: put {} back, or set SLUICE_MASTER_KEY",
                data_dir.display(),
                path.display()
            )));
        }
        if !claimed.may_set_up() {
            return Err(Failure(format!(
                "there is no master key in {} yet: another Sluice is setting this data folder up, try again in a \
                 moment",
                data_dir.display()
            )));
        }
        let bytes = store::random::<32>().map_err(|error| Failure(error.to_string()))?;
        write_new(&path, &bytes)?;
    }
    read(&path)
}

/// Whether a file exists and is not empty.
fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// Ends a rotation that was interrupted: the key that fits the database stays, and nothing is
/// removed without that proof. `None` when the current key is to be used as always.
async fn after_rotation(data_dir: &Path, claimed: &Claimed) -> Result<Option<[u8; 32]>, Failure> {
    let (path, next) = (current(data_dir), next(data_dir));
    let no_database = || {
        Failure(format!(
            "{} of an interrupted rotation is here, but no database: put the database back, or move master.next away",
            next.display()
        ))
    };
    if path.exists() && fits(claimed, &read(&path)?).await?.ok_or_else(no_database)? {
        // The rotation ended before the database had the new key.
        if claimed.may_set_up() {
            std::fs::remove_file(&next).map_err(|error| unwritable(&next, &error))?;
            sync_folder(&next)?;
        }
        return Ok(None);
    }
    let bytes = read(&next)?;
    if !fits(claimed, &bytes).await?.ok_or_else(no_database)? {
        return Ok(None);
    }
    if claimed.may_set_up() {
        promote_next(data_dir)?;
        tracing::warn!(
            key = %path.display(),
            "a rotation of the master key was interrupted; the key that fits the database is in place now"
        );
    }
    Ok(Some(bytes))
}

async fn fits(claimed: &Claimed, bytes: &[u8; 32]) -> Result<Option<bool>, Failure> {
    Ok(claimed.fits(&SealingKey::master(bytes)?).await?)
}

/// Writes the key that a rotation is about to seal the database under. The current one fits it.
pub(crate) fn write_next(data_dir: &Path, bytes: &[u8; 32]) -> Result<(), Failure> {
    write_new(&next(data_dir), bytes)
}

/// Makes the key of a rotation the current one: the database is sealed under it.
pub(crate) fn promote_next(data_dir: &Path) -> Result<(), Failure> {
    let (path, next) = (current(data_dir), next(data_dir));
    std::fs::rename(&next, &path).map_err(|error| {
        Failure(format!(
            "the database has the new key, but {} cannot be replaced: {error}. Rename {} to it",
            path.display(),
            next.display()
        ))
    })?;
    sync_folder(&path)
}

fn read(path: &Path) -> Result<[u8; 32], Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure(format!("{} cannot be read: {error}", path.display())))?;
    read_key(&Secret::new(text)).map_err(|fault| Failure(format!("{}: {fault}", path.display())))
}

/// Writes a key, readable by its owner only, whole or not at all, and never over another one. It is
/// on the disk when this returns.
fn write_new(path: &Path, bytes: &[u8; 32]) -> Result<(), Failure> {
    let text = STANDARD.encode(bytes);
    let fresh = path.with_added_extension("tmp");
    let written = remove_leftover(&fresh).and_then(|()| {
        write_exclusively(&fresh, &text)?;
        let linked = match std::fs::hard_link(&fresh, path) {
            // Not every file system has links. On those a crash leaves the file empty or whole.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                write_exclusively(path, &text)
            }
            linked => linked,
        };
        std::fs::remove_file(&fresh)?;
        linked
    });
    written.map_err(|error| unwritable(path, &error))?;
    sync_folder(path)
}

/// Removes a file that a crash has left: no other process works in the folder.
fn remove_leftover(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_exclusively(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).inspect_err(|_| {
        // A full disk: half a key would be in the way of the next start.
        let _ = std::fs::remove_file(path);
    })
}

/// Syncs the entry of a file in its folder to disk.
fn sync_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    open::sync_folder(folder).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("the master key cannot be written to {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_never_written_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = current(folder.path());
        // The file as a crash leaves it.
        std::fs::write(folder.path().join("master.key.tmp"), "half").unwrap();
        write_new(&path, &[1; 32]).unwrap();
        assert_eq!(read(&path).unwrap(), [1; 32]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = write_new(&path, &[2; 32]).unwrap_err();
        assert!(refused.to_string().contains("master.key"), "{refused}");
        assert_eq!(read(&path).unwrap(), [1; 32]);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
