//! The id of the request that a task is at work for. Log lines tell it.

use std::sync::Arc;

tokio::task_local! {
    static ID: Arc<str>;
}

/// Has work done for a request.
pub async fn within<F: Future>(id: Arc<str>, work: F) -> F::Output {
    ID.scope(id, work).await
}

/// Work that goes on in another task, for the request that is worked for here.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    under(current(), work)
}

/// Work for a request, if it is one's.
pub(crate) async fn under<F: Future>(id: Option<Arc<str>>, work: F) -> F::Output {
    match id {
        Some(id) => within(id, work).await,
        None => work.await,
    }
}

/// The id of the request that is worked for here; `None` where it is none's.
pub fn current() -> Option<Arc<str>> {
    ID.try_with(Arc::clone).ok()
}
