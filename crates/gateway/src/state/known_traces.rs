//! The traces that the request path finds without a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use domain::attributes::{Attributes, Gathering};
use domain::ids::{ProjectId, TraceId};
use domain::time::{SECOND, Timestamp};
use domain::trace::{Trace, TraceStatus};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::cache::{Cache, SHARDS};
use crate::state::session::is_session_name;

/// The most open traces that are found without a query.
const KNOWN: usize = 100_000;
/// The time for which a trace is cached where another process may change it.
const KNOWN_FOR: Duration = Duration::from_mins(1);
/// The time for which it is known that a trace is pending where another node may end it, in microseconds: half of the
/// time within which that has to hold everywhere.
pub(crate) const PENDING_FOR: i64 = SECOND / 2;
/// The time for which the usual pause between steps is cached.
const GAP_FOR: Duration = Duration::from_mins(10);
/// A trace is dropped after this time without use.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(1);
/// The time for which a trace that was not found is not looked up again.
const UNKNOWN_FOR: Duration = Duration::from_secs(1);

/// The cached state of a trace.
#[derive(Debug)]
pub(crate) struct TraceHandle {
    pub(crate) id: TraceId,
    pub(crate) project: ProjectId,
    status: AtomicU8,
    /// The time at which its status was asked for, in microseconds.
    asked: AtomicI64,
    /// Held by whoever asks for it: the others wait for the answer.
    pub(crate) asking: Mutex<()>,
    is_gone: AtomicBool,
    sensitive: bool,
    /// The name of the session in its metadata.
    session: Option<Box<str>>,
    /// The attributes in its metadata.
    attributes: Option<Box<Attributes>>,
    /// The number of regradings that were requested.
    pub(crate) regrades: AtomicU64,
    /// One grading at a time: the last one has seen every step. The number of requests that have
    /// been served.
    pub(crate) grading: Mutex<u64>,
}

impl TraceHandle {
    pub(crate) fn of(trace: &Trace) -> Self {
        let named = |name| trace.metadata.as_ref().and_then(|metadata| metadata.get(name));
        let session = named("session").and_then(Value::as_str).filter(|name| is_session_name(name));
        let mut gathering = Gathering::default();
        if let Some(metadata) = trace.metadata.as_ref().and_then(Value::as_object) {
            gathering.metadata(metadata);
        }
        let (attributes, _) = gathering.finish();
        Self {
            id: trace.id,
            project: trace.project,
            status: AtomicU8::new(trace.status as u8),
            asked: AtomicI64::new(i64::MIN),
            asking: Mutex::default(),
            is_gone: AtomicBool::new(false),
            sensitive: asks_secure(named("sensitivity")),
            session: session.map(Box::from),
            attributes: (!attributes.is_empty()).then(|| Box::new(attributes)),
            regrades: AtomicU64::default(),
            grading: Mutex::default(),
        }
    }

    /// The handle of a trace that was asked for at a time, or was not there before.
    pub(crate) fn asked_at(self, asked: Timestamp) -> Self {
        Self { asked: AtomicI64::new(asked.0), ..self }
    }

    pub(crate) fn id(&self) -> TraceId {
        self.id
    }

    /// Whether its metadata asks for private models.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    /// The name of the session in its metadata.
    pub(crate) fn session_name(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The attributes in its metadata.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_deref()
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.has(TraceStatus::Completed)
    }

    pub(crate) fn has(&self, status: TraceStatus) -> bool {
        self.status.load(Ordering::Acquire) == status as u8
    }

    pub(crate) fn set(&self, status: TraceStatus) {
        self.status.store(status as u8, Ordering::Release);
    }

    /// Whether the trace was deleted, as far as is known.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Notes that the trace was deleted.
    pub(crate) fn note_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Takes over the status that the database had when it was asked at a time. The end of a trace is final, and this
    /// node may have begun to complete it since.
    pub(crate) fn found(&self, status: TraceStatus, asked: Timestamp) {
        let pending = TraceStatus::Pending as u8;
        let (set, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.status.compare_exchange(pending, status as u8, set, failed);
        self.asked.store(asked.0, Ordering::Release);
    }
}

/// Whether `sensitivity` in a trace's metadata asks for private models.
pub(crate) fn asks_secure(sensitivity: Option<&Value>) -> bool {
    sensitivity.and_then(Value::as_str) == Some("secure")
}

/// The cache of traces for the request path.
#[derive(Debug)]
pub(crate) struct KnownTraces {
    pub(crate) known: Cache<TraceId, Arc<TraceHandle>>,
    pub(crate) unknown: Cache<(ProjectId, TraceId), ()>,
    /// The usual pause between two steps, in milliseconds, if there are enough to compute it.
    pub(crate) gaps: Cache<ProjectId, Option<f64>>,
    /// Whether other nodes end traces.
    has_other_nodes: bool,
}

impl KnownTraces {
    /// An empty cache. If other processes may change traces, its entries are valid for a short time only; if other
    /// nodes end them, a trace is known to be pending for an even shorter one.
    pub(crate) fn new(may_change: bool, has_other_nodes: bool) -> Self {
        let known_for = if may_change { KNOWN_FOR } else { Duration::MAX };
        Self {
            has_other_nodes,
            known: Cache::new(KNOWN, known_for).idle(FORGOTTEN_AFTER).in_parts(SHARDS),
            unknown: Cache::new(10_000, UNKNOWN_FOR),
            gaps: Cache::new(10_000, GAP_FOR),
        }
    }

    /// Whether the status of a trace has to be asked for before it counts.
    pub(crate) fn is_stale(&self, handle: &TraceHandle, now: Timestamp) -> bool {
        self.is_stale_for(handle, now, now)
    }

    /// The same for a request that came at a time and has waited since: it needs no later answer than one that was
    /// new when it came, or those that wait would each ask for one of their own.
    pub(crate) fn is_stale_for(
        &self,
        handle: &TraceHandle,
        came: Timestamp,
        now: Timestamp,
    ) -> bool {
        let asked = Timestamp(handle.asked.load(Ordering::Acquire));
        // A clock that went back makes nothing valid for longer.
        let is_fresh = asked <= now && came.0.saturating_sub(asked.0) < PENDING_FOR;
        self.has_other_nodes && handle.has(TraceStatus::Pending) && !is_fresh
    }

    /// Drops what has expired.
    pub(crate) fn sweep(&self) {
        self.known.sweep();
        self.unknown.sweep();
        self.gaps.sweep();
    }

    pub(crate) fn set(&self, id: TraceId, status: TraceStatus) {
        if let Some(handle) = self.known.get(&id) {
            handle.set(status);
        }
    }
}
