//! The failures of the database.

/// A failure of the store, by the remedy of the caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A unique value is taken.
    #[error("the value has already been taken")]
    Taken,
    /// The database cannot be read or written right now: a full disk, a lost connection, a
    /// time-out. A write may have been stored all the same, and only its answer lost. Trying again
    /// later may help.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A newer binary has changed the schema in a way that this one does not work with.
    #[error(
        "the database was written by a newer version of Sluice (schema {found}, which supports schema {oldest} and \
         newer; this binary knows {known}): start a newer version, or restore a backup made before the upgrade"
    )]
    Newer {
        /// The schema version of the database.
        found: i64,
        /// The newest schema version that this binary supports.
        known: i64,
        /// The oldest schema version whose binaries work with the database.
        oldest: i64,
    },
    /// An older binary's schema: it is not changed beside a gateway that may be running.
    #[error(
        "the database has schema version {found}, and this version of sluice needs {known}: stop the gateway \
         and run `sluice migrate`, or start this version"
    )]
    Older {
        /// The schema version of the database.
        found: i64,
        /// The schema version that this binary needs.
        known: i64,
    },
    /// The database has never been set up.
    #[error("the database is empty: start `sluice serve` once to set it up")]
    Empty,
    /// The master key does not open this database.
    #[error(
        "the master key does not fit this database: set SLUICE_MASTER_KEY to the key it was created with, \
         or put the key file back into the data folder"
    )]
    WrongMasterKey,
    /// A sealed value cannot be opened.
    #[error("a sealed value cannot be opened: it was damaged or its key is gone")]
    Seal,
    /// Another process serves this database.
    #[error("{0}")]
    InUse(String),
    /// A stored value is invalid: a defect or a manual change.
    #[error("the database holds an unexpected value: {0}")]
    Corrupt(String),
}

/// The result of every function of the store.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether only one row is at fault, so that another row of the same commit may be fine.
    pub(crate) fn is_of_one_row(&self) -> bool {
        matches!(self, Self::Taken | Self::Corrupt(_))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) if database.is_unique_violation() => Self::Taken,
            sqlx::Error::Database(database)
                if database.is_foreign_key_violation() || database.is_check_violation() =>
            {
                Self::Corrupt(error.to_string())
            }
            // PostgreSQL's classes 22 and 54: values that its column, or an index, cannot hold.
            sqlx::Error::Database(database)
                if database.code().is_some_and(|code| {
                    code.len() == 5 && (code.starts_with("22") || code.starts_with("54"))
                }) =>
            {
                Self::Corrupt(error.to_string())
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => {
                Self::Corrupt(error.to_string())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// Whether others have what a statement needs: the wait for it was too long, or would have been for ever.
pub(crate) fn is_in_use(error: &sqlx::Error) -> bool {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    const DEADLOCK_DETECTED: &str = "40P01";
    matches!(code(error).as_deref(), Some(LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED))
}

/// Whether a statement was ended because it took too long.
pub(crate) fn is_slow(error: &sqlx::Error) -> bool {
    const QUERY_CANCELED: &str = "57014";
    code(error).as_deref() == Some(QUERY_CANCELED)
}

fn code(error: &sqlx::Error) -> Option<std::borrow::Cow<'_, str>> {
    error.as_database_error()?.code()
}
