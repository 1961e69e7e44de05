//! Lists the schema's history for `src/migrate.rs`, so that a new migration is a new file and nothing
//! else: `migrations/NNNN_name.sql` if both databases read the same text, otherwise a file of that name
//! in `migrations/sqlite` and one in `migrations/postgres`. The first line of a migration declares whether it
//! leaves the binaries before it working.

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

/// The first migration that declares what it is. Those before are frozen.
const FIRST_DECLARED: i64 = 34;

/// The oldest schema version whose binaries work after a migration, as its first line declares it: `-- expand`
/// for all that worked before it, `-- contract 36` for those that know schema 36 and newer.
fn contract(version: i64, text: &Path) -> Result<Option<i64>, Box<dyn Error>> {
    if version < FIRST_DECLARED {
        return Ok(None);
    }
    let text = std::fs::read_to_string(text)?;
    match text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>()[..] {
        ["--", "expand"] => Ok(None),
        ["--", "contract", oldest] => match oldest.parse::<i64>()? {
            oldest if oldest < version => Ok(Some(oldest)),
            _ => Err(format!("migration {version} leaves no binary before it working").into()),
        },
        _ => Err(format!(
            "the first line of migration {version} is not `-- expand` or `-- contract N`"
        )
        .into()),
    }
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
    let mut last = 0;
    for name in names {
        let (number, label) = name.split_once('_').ok_or_else(|| format!("{name}: no number"))?;
        let version: i64 = number.parse()?;
        if version <= last {
            return Err(format!("{name}: migration {version} is there already").into());
        }
        last = version;
        let (sqlite, postgres) = match (both.get(name), sqlite.get(name), postgres.get(name)) {
            (Some(path), None, None) => (path, path),
            (None, Some(sqlite), Some(postgres)) => (sqlite, postgres),
            _ => {
                return Err(format!("{name} needs one text for both databases, or one each").into());
            }
        };
        let contract = match (contract(version, sqlite)?, contract(version, postgres)?) {
            (sqlite, postgres) if sqlite == postgres => sqlite,
            _ => return Err(format!("{name}: the two texts declare different things").into()),
        };
        let (sqlite, postgres) = (include(manifest, sqlite)?, include(manifest, postgres)?);
        writeln!(
            list,
            "Change {{ version: {version}, name: {label:?}, sqlite: {sqlite}, postgres: {postgres}, \
             contract: {contract:?} }},"
        )?;
    }
    list.push(']');
    std::fs::write(Path::new(&std::env::var("OUT_DIR")?).join("history.rs"), list)?;
    Ok(())
}
