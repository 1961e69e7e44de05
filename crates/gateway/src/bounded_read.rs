//! Reads of the database, bounded in time.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Result};
use crate::request_id;

/// Long reads end after this; PostgreSQL ends the statements of those that are repeated itself.
pub(crate) use store::READ_BOUND;
/// The pauses before work that nobody waits for is repeated: a database that starts again is away for
/// some seconds.
const REPEAT_PAUSES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];

/// Bounds a long read. It is boxed: a query is kilobytes of state in every future above, also where
/// it is hardly ever made.
pub(crate) fn bounded<'a, T: 'a>(
    read: impl Future<Output = std::result::Result<T, store::Error>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    Box::pin(async move {
        match tokio::time::timeout(READ_BOUND, read).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(took_too_long()),
        }
    })
}

/// The values that were read, or none if they cannot be had now: all else is worth having without them.
pub(crate) fn or_none<T>(read: Result<Vec<T>>, warning: &str) -> Result<Vec<T>> {
    match read {
        Err(Error::Unavailable(cause)) => {
            tracing::warn!(%cause, "{warning}");
            Ok(Vec::new())
        }
        read => read,
    }
}

/// Bounds a long read of work that nobody waits for, and reads again after a pause if it took too long or the
/// database was away. It may be dropped at any time.
pub(crate) async fn read_again<T, F>(read: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, store::Error>> + Send,
{
    again(|| bounded(read())).await
}

/// Writes again what nobody waits for, after a pause, if the database was busy or away. It may then be done
/// twice: the write has to be one that changes nothing the second time. Its waits are bounded by the store.
pub(crate) async fn write_again<T, F>(write: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, store::Error>> + Send,
{
    again(|| async { Ok(write().await?) }).await
}

async fn again<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    for pause in REPEAT_PAUSES {
        match attempt().await {
            Err(Error::Unavailable(_)) => tokio::time::sleep(pause).await,
            other => return other,
        }
    }
    attempt().await
}

/// How many records of these sizes are read at once, in their order: as many as have `most` bytes together,
/// and one at least.
pub(crate) fn light(sizes: impl ExactSizeIterator<Item = usize>, most: usize) -> usize {
    let count = sizes.len();
    let mut held = 0_usize;
    let fits = sizes.take_while(|size| {
        held = held.saturating_add(*size);
        held <= most
    });
    fits.count().max(1).min(count)
}

/// Bounds a long read that holds something until it ends. Nobody may wait for it any more by then: a
/// statement goes on in the database, and takes a connection, when its caller has gone.
pub(crate) async fn bounded_holding<H: Send + 'static, T: Send + 'static>(
    tasks: &TaskTracker,
    held: H,
    read: impl Future<Output = std::result::Result<T, store::Error>> + Send + 'static,
) -> Result<T> {
    let read = tasks.spawn(request_id::carried(async move {
        let result = read.await;
        drop(held);
        result
    }));
    match tokio::time::timeout(READ_BOUND, read).await {
        Ok(Ok(result)) => Ok(result?),
        Ok(Err(failed)) => Err(Error::Internal(format!("a read of the database: {failed}"))),
        Err(_) => Err(took_too_long()),
    }
}

/// The refusal of a read that is over its bound.
pub(crate) fn took_too_long() -> Error {
    Error::Unavailable("the query took longer than 5 seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn a_page_does_without_what_takes_too_long() {
        let late = Error::Unavailable("the query took longer than 5 seconds".to_owned());
        assert_eq!(or_none::<u8>(Err(late), "left out").unwrap(), [0_u8; 0]);
        assert!(or_none::<u8>(Err(Error::Internal("a defect".to_owned())), "left out").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_read_is_repeated_four_times() {
        let tried = std::sync::atomic::AtomicU32::new(0);
        let slow_until = |fast| {
            let number = tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            async move {
                if number < fast {
                    tokio::time::sleep(Duration::from_mins(1)).await;
                }
                Ok(number)
            }
        };
        assert_eq!(read_again(|| slow_until(5)).await.unwrap(), 5);
        let late = read_again(|| slow_until(u32::MAX)).await;
        assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
        assert_eq!(tried.into_inner(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_is_away_for_ten_seconds_is_read_when_it_is_back() {
        let back = tokio::time::Instant::now() + Duration::from_secs(10);
        let read = || async move {
            let is_back = tokio::time::Instant::now() >= back;
            is_back.then_some(5).ok_or_else(|| store::Error::Unavailable("refused".to_owned()))
        };
        assert_eq!(read_again(read).await.unwrap(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_meets_a_busy_database_is_repeated_four_times() {
        let tried = std::sync::atomic::AtomicU32::new(0);
        let busy_until = |free| {
            let number = tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            async move {
                let busy = || store::Error::Unavailable("other writes take too long".to_owned());
                if number < free { Err(busy()) } else { Ok(number) }
            }
        };
        assert_eq!(write_again(|| busy_until(5)).await.unwrap(), 5);
        let refused = write_again(|| busy_until(u32::MAX)).await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        assert_eq!(tried.into_inner(), 10);
        let damaged = || async { Err::<(), _>(store::Error::Seal) };
        assert!(matches!(write_again(damaged).await, Err(Error::Internal(_))));
    }

    #[test]
    fn as_many_records_are_read_as_fit_and_one_at_least() {
        for (sizes, count) in [
            (&[][..], 0),
            (&[10], 1),
            (&[11, 1], 1),
            (&[4, 6, 0], 3),
            (&[4, 7, 1], 1),
            (&[1, usize::MAX, 1], 1),
        ] {
            assert_eq!(light(sizes.iter().copied(), 10), count, "{sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_nobody_waits_for_holds_its_place() {
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().unwrap();
        let read = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok(())
        };
        let late = bounded_holding(&TaskTracker::new(), place, read).await;
        assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
        assert_eq!(places.available_permits(), 0, "its statement runs");
        tokio::time::sleep(Duration::from_secs(26)).await;
        assert_eq!(places.available_permits(), 1);
    }
}
