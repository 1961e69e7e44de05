//! Lists the schema's history for `src/migrate.rs`, so that a new migration is a new file and nothing
//! else: `migrations/NNNN_name.sql` if both databases read the same text, otherwise a file of that name
//! in `migrations/sqlite` and one in `migrations/postgres`.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The migrations of one folder, by name.
fn read(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.extension().is_some_and(|extension| extension == "sql") {
            found.insert(name, path);
        }
    }
    Ok(found)
}

/// The expression that includes a file, from the folder of the crate: a checkout may move with its builds.
fn include(manifest: &Path, path: &Path) -> Result<String, Box<dyn Error>> {
    let path = path.strip_prefix(manifest)?.to_str().ok_or("a name that is not UTF-8")?;
    Ok(format!(r#"include_str!(concat!(env!("CARGO_MANIFEST_DIR"), {:?}))"#, format!("/{path}")))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=migrations");
    let manifest = std::env::var("CARGO_MANIFEST_DIR")?;
    let manifest = Path::new(&manifest);
    let folder = manifest.join("migrations");
    let (both, sqlite, postgres) =
        (read(&folder)?, read(&folder.join("sqlite"))?, read(&folder.join("postgres"))?);
    let names: BTreeSet<&String> =
        both.keys().chain(sqlite.keys()).chain(postgres.keys()).collect();
    let mut list = String::from("&[\n");
    for (index, name) in names.into_iter().enumerate() {
        let (number, label) = name.split_once('_').ok_or_else(|| format!("{name}: no number"))?;
        let version: usize = number.parse()?;
        if version != index + 1 {
            return Err(format!("{name} is migration number {}", index + 1).into());
        }
        let (sqlite, postgres) = match (both.get(name), sqlite.get(name), postgres.get(name)) {
            (Some(path), None, None) => (path, path),
            (None, Some(sqlite), Some(postgres)) => (sqlite, postgres),
            _ => {
                return Err(format!("{name} needs one text for both databases, or one each").into());
            }
        };
        let (sqlite, postgres) = (include(manifest, sqlite)?, include(manifest, postgres)?);
        writeln!(list, "({version}, {label:?}, {sqlite}, {postgres}),")?;
    }
    list.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("history.rs"), list)?;
    Ok(())
}
