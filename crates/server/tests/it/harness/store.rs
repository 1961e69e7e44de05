//! The database of a server under test.

use std::process::Command;

use tempfile::TempDir;

/// Which database a server runs on.
#[derive(Clone, Debug)]
pub enum Backend {
    /// A file in the data folder.
    Sqlite,
    /// A database of its own on the server with this URL.
    Postgres(String),
}

impl Backend {
    /// PostgreSQL, where the environment names a server and its client is installed.
    pub fn postgres() -> Option<Self> {
        let url = super::server_at("SLUICE_TEST_PG")?;
        super::is_installed("psql", "--version").then_some(Self::Postgres(url))
    }
}

/// A data folder and, on PostgreSQL, a database. Both go with it.
pub struct Store {
    pub dir: TempDir,
    database: Option<Database>,
    /// The database of another store, which goes with that.
    shared: Option<String>,
}

struct Database {
    admin: String,
    name: String,
    url: String,
}

impl Store {
    pub fn new(backend: &Backend) -> Self {
        let dir = tempfile::Builder::new().prefix("sluice-it-").tempdir().unwrap();
        let database = match backend {
            Backend::Sqlite => None,
            Backend::Postgres(admin) => Some(Database::create(admin, dir.path())),
        };
        Self { dir, database, shared: None }
    }

    /// A data folder for another node on the database of a store.
    pub fn beside(other: &Self) -> Self {
        let dir = tempfile::Builder::new().prefix("sluice-it-").tempdir().unwrap();
        Self { dir, database: None, shared: other.url().map(str::to_owned) }
    }

    /// The URL of the database, where there is one.
    pub fn url(&self) -> Option<&str> {
        let own = self.database.as_ref().map(|database| database.url.as_str());
        own.or(self.shared.as_deref())
    }

    /// Everything that the store holds, as bytes: to search it for what must not be there.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(database) = &self.database {
            let dump = Command::new("pg_dump").arg(&database.url).output().unwrap();
            assert!(dump.status.success(), "pg_dump: {}", String::from_utf8_lossy(&dump.stderr));
            all.extend(dump.stdout);
        }
        for entry in std::fs::read_dir(self.dir.path().join("data")).unwrap() {
            all.extend(std::fs::read(entry.unwrap().path()).unwrap());
        }
        all
    }
}

impl Database {
    fn create(admin: &str, dir: &std::path::Path) -> Self {
        // Unique like the folder's, whose name may hold capitals.
        let unique = dir.file_name().unwrap().as_encoded_bytes();
        let unique = unique.iter().fold(0_u128, |hash, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_013b)
        });
        let name = format!("sluice_it_{}_{unique:x}", std::process::id());
        sql(admin, &format!("CREATE DATABASE {name}"));
        let (base, query) = admin.split_once('?').unwrap_or((admin, ""));
        let authority = base.find("://").map_or(0, |at| at + 3);
        let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}/{name}{mark}{query}", &base[..end]);
        Self { admin: admin.to_owned(), name, url }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        sql(&self.admin, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs a statement and gives what it returns.
pub fn sql(url: &str, statement: &str) -> String {
    let done = Command::new("psql").args([url, "-qXAtc", statement]).output().unwrap();
    let fine = done.status.success() || std::thread::panicking();
    assert!(fine, "{statement}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}
