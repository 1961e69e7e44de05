//! Reads of the database, bounded in time.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::{Error, Result};

/// Long reads end after this.
pub(crate) const READ_BOUND: Duration = Duration::from_secs(5);

/// Bounds a long read. It is boxed: a query is kilobytes of state in every future above, also where
/// it is hardly ever made.
pub(crate) fn bounded<'a, T: 'a>(
    read: impl Future<Output = std::result::Result<T, store::Error>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    Box::pin(async move {
        match tokio::time::timeout(READ_BOUND, read).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Error::Unavailable("the query took longer than 5 seconds".to_owned())),
        }
    })
}
