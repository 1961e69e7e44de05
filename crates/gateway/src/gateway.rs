//! The handle that every use case is a method of, and the state behind it.

use std::ops::Deref;
use std::sync::Arc;

use domain::time::Clock;
use providers::Issuers;
use routing::Warm;
use store::Store;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::capacity::body_memory::BodyMemory;
use crate::capacity::detail_places::DetailPlaces;
use crate::capacity::replay_memory::ReplayMemory;
use crate::capacity::shadow_slots::ShadowSlots;
use crate::capacity::trials::Trials;
use crate::config::Config;
use crate::otlp::queue::TelemetryQueue;
use crate::outbox::Outbox;
use crate::pipeline::upstream::Upstream;
use crate::state::claims::Claims;
use crate::state::failure_rows::FailureRows;
use crate::state::job_waits::JobWaits;
use crate::state::job_wakes::JobWakes;
use crate::state::kept_bytes::KeptBytes;
use crate::state::known_traces::KnownTraces;
use crate::state::login_throttle::LoginThrottle;
use crate::state::mcp_sessions;
use crate::state::perimeter_counts::PerimeterCounts;
use crate::state::recounted::Recounted;
use crate::state::registry::Registry;
use crate::state::running_jobs::RunningJobs;
use crate::state::session_table::SessionTable;
use crate::state::session_traces::SessionTraces;
use crate::state::shared_counters::Fleet;
use crate::state::start_journal::StartJournal;
use crate::state::usage_asks::UsageAsks;
use crate::state::weekly_drift::WeeklyDrift;

/// The whole gateway behind one cheap handle.
#[derive(Clone, Debug)]
pub struct Gateway(pub(crate) Arc<Inner>);

/// The parts of a [`Gateway`].
#[derive(Debug)]
pub struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    /// The counters that all gateways share, if this one is not alone.
    pub(crate) fleet: Option<Arc<Fleet>>,
    pub(crate) upstream: Upstream,
    pub(crate) start_journal: StartJournal,
    pub(crate) mcp: mcp_sessions::Sessions,
    pub(crate) traces: KnownTraces,
    /// The models that sessions used last, while their providers have the conversation in a cache.
    pub(crate) warm_models: SessionTable<Warm>,
    pub(crate) session_traces: SessionTraces,
    pub(crate) detail_slots: DetailPlaces,
    /// The permits of lists for which traces are looked through one by one.
    pub(crate) trace_searches: Arc<Semaphore>,
    /// The issuers of single sign-on.
    pub(crate) issuers: Issuers,
    pub(crate) login_throttle: LoginThrottle,
    pub(crate) failure_rows: FailureRows,
    pub(crate) perimeter_counts: PerimeterCounts,
    pub(crate) trials: Trials,
    pub(crate) shadow_slots: ShadowSlots,
    pub(crate) weekly_drift: WeeklyDrift,
    /// Questions about usage whose sums are made ahead.
    pub(crate) usage_asks: UsageAsks,
    /// Insights are computed for one project at a time.
    pub(crate) insight_runs: Semaphore,
    /// The time up to which the spend of keys was read from the database.
    pub(crate) recounted: Recounted,
    /// Notifies calls that wait for money when some was given back.
    pub(crate) settled: Arc<Notify>,
    pub(crate) body_memory: BodyMemory,
    pub(crate) replay_memory: ReplayMemory,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// Steps and traces for a collector of OpenTelemetry, if there is one.
    pub(crate) telemetry: Option<TelemetryQueue>,
    /// Letters that wait to be sent, if there is a mail server.
    pub(crate) outbox: Option<Outbox>,
    /// The requests with an `Idempotency-Key` that this node works on.
    pub(crate) claims: Claims,
    pub(crate) kept_bytes: KeptBytes,
    pub(crate) job_waits: JobWaits,
    pub(crate) job_wakes: JobWakes,
    pub(crate) running_jobs: RunningJobs,
    pub(crate) tasks: TaskTracker,
    /// Cancelled once the server is about to stop: it still serves, and is not ready.
    pub(crate) draining: CancellationToken,
    /// Cancelled when no further part of a job may begin: while open requests end, or later.
    pub(crate) winding_down: CancellationToken,
    /// Cancelled when a graceful stop begins.
    pub(crate) stopping: CancellationToken,
    /// Cancelled before open connections are closed at a stop.
    pub(crate) cut_off: CancellationToken,
}

impl Deref for Gateway {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
