//! The id of the request that a task serves. Log lines carry it.

use std::sync::Arc;

tokio::task_local! {
    static ID: Arc<str>;
}

/// Runs work for a request.
pub async fn within<F: Future>(id: Arc<str>, work: F) -> F::Output {
    ID.scope(id, work).await
}

/// Work that continues in another task, for the request that is served here.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    under(current(), work)
}

/// Work for a request, if there is one.
pub(crate) async fn under<F: Future>(id: Option<Arc<str>>, work: F) -> F::Output {
    match id {
        Some(id) => within(id, work).await,
        None => work.await,
    }
}

/// The id of the request that is served here; `None` if there is none.
pub fn current() -> Option<Arc<str>> {
    ID.try_with(Arc::clone).ok()
}
