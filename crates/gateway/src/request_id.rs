//! The request that a task serves: its id, which log lines carry, and its place in the caller's own
//! trace.

use std::sync::{Arc, OnceLock};

use domain::trace_context::CallerTrace;
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    static SERVED: Served;
}

/// A request that is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its id.
    pub id: Arc<str>,
    /// Its place in the caller's own trace, if the caller named one.
    pub trace: Option<Arc<CallerTrace>>,
    /// The names of the attributes that are not kept, once they are known.
    pub dropped_attributes: Arc<OnceLock<Vec<String>>>,
    /// Cancelled once its answer has left, or will not leave.
    pub answer_left: CancellationToken,
}

/// Runs work for a request.
pub async fn within<F: Future>(served: Served, work: F) -> F::Output {
    SERVED.scope(served, work).await
}

/// Work that continues in another task, for the request that is served here.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    under(served(), work)
}

/// Work for a request, if there is one.
pub(crate) async fn under<F: Future>(served: Option<Served>, work: F) -> F::Output {
    match served {
        Some(served) => within(served, work).await,
        None => work.await,
    }
}

/// The request that is served here; `None` if there is none.
pub(crate) fn served() -> Option<Served> {
    SERVED.try_with(Served::clone).ok()
}

/// The id of the request that is served here; `None` if there is none.
pub fn current() -> Option<Arc<str>> {
    SERVED.try_with(|served| served.id.clone()).ok()
}

/// The place in the caller's own trace of the request that is served here.
pub(crate) fn caller_trace() -> Option<Arc<CallerTrace>> {
    SERVED.try_with(|served| served.trace.clone()).ok().flatten()
}

/// The names of the attributes of the request that is served here which are not kept.
pub(crate) fn dropped_attributes() -> Vec<String> {
    served().and_then(|served| served.dropped_attributes.get().cloned()).unwrap_or_default()
}

/// Names the attributes of the request that is served here which are not kept.
pub(crate) fn note_dropped_attributes(names: Vec<String>) {
    // Nobody is told beside a request.
    let _ = SERVED.try_with(|served| served.dropped_attributes.set(names));
}
