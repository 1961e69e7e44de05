//! The database, and how it is reached.

use std::path::Path;

use domain::secret::Secret;
use store::Location;

use super::Error;

/// The location of the data: a PostgreSQL if there is a URL, else a file in the data folder.
pub(super) fn location(
    url: Option<Secret>,
    direct: Option<Secret>,
    data_dir: &Path,
) -> Result<Location, Error> {
    let (url, direct) = (postgres(url, "database_url")?, postgres(direct, "database_direct_url")?);
    match (url, direct) {
        (None, None) => Ok(Location::Sqlite(data_dir.join("sluice.db"))),
        (Some(url), None) => Ok(Location::Postgres(url)),
        (Some(pooler), Some(direct)) => Ok(Location::Pooled { pooler, direct }),
        (None, Some(_)) => Err(Error(
            "database_direct_url needs database_url as well: the URL of the connection pooler in front of \
             that server. Without a pooler give the server's own URL in database_url alone"
                .to_owned(),
        )),
    }
}

fn postgres(url: Option<Secret>, key: &str) -> Result<Option<Secret>, Error> {
    let is_postgres =
        |url: &Secret| ["postgres://", "postgresql://"].iter().any(|s| url.expose().starts_with(s));
    match url {
        Some(url) if !is_postgres(&url) => Err(Error(format!(
            "{key} must begin with postgres://; leave it out for the embedded SQLite"
        ))),
        url => Ok(url),
    }
}
