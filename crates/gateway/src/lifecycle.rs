//! From an open store to a serving gateway, and back.

use std::sync::Arc;
use std::time::Duration;

use domain::time::Clock;
use store::Store;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::capacity::body_memory::BodyMemory;
use crate::capacity::detail_places::DetailPlaces;
use crate::capacity::replay_memory::ReplayMemory;
use crate::capacity::shadow_slots::ShadowSlots;
use crate::capacity::trials::Trials;
use crate::config::Config;
use crate::error::Result;
use crate::evidence::trace_search::TRACE_SEARCHES;
use crate::gateway::{Gateway, Inner};
use crate::jobs;
use crate::jobs::{letters, telemetry_export};
use crate::otlp::queue::{Record, queue};
use crate::outbox::{self, Errand};
use crate::pipeline::upstream::Upstream;
use crate::state::claims::{Claims, MOST_KEPT_BYTES};
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

/// The ends of the queues that background work takes from.
struct Waiting {
    records: Option<mpsc::Receiver<Record>>,
    errands: Option<mpsc::Receiver<Errand>>,
}

impl Gateway {
    /// Loads the registry, settles the calls that a crash interrupted, and starts the background
    /// jobs.
    pub async fn open(
        store: Store,
        client: providers::Client,
        config: Config,
        clock: Clock,
    ) -> Result<Self> {
        let (gateway, waiting) = Self::assemble(store, client, config, clock).await?;
        jobs::start(&gateway);
        let config = &gateway.config;
        if let (Some(otlp), Some(records)) = (config.otlp.clone(), waiting.records) {
            telemetry_export::start(&gateway, otlp, records);
        }
        if let (Some(mailer), Some(errands)) = (config.mailer.clone(), waiting.errands) {
            letters::start(&gateway, mailer, errands);
        }
        Ok(gateway)
    }

    /// The gateway before anything of its own runs, and what waits for that.
    async fn assemble(
        store: Store,
        client: providers::Client,
        config: Config,
        clock: Clock,
    ) -> Result<(Self, Waiting)> {
        let telemetry = config.otlp.as_ref().map(|otlp| queue(otlp.content, clock.now()));
        let (telemetry, records) = telemetry.unzip();
        if let Some(queue) = telemetry.clone() {
            // Before lost calls are settled: they are steps too.
            store.writer().observe(Box::new(move |observed| queue.step(observed)));
        }
        let (outbox, errands) = config.mailer.as_ref().map(|_| outbox::queue()).unzip();
        let registry = match load(&store, &clock).await {
            Ok(registry) => registry,
            Err(error) => {
                store.close().await;
                return Err(error);
            }
        };
        let counters = config.shared_counters.as_ref().map(|shared| shared.counters.clone());
        let login_throttle = LoginThrottle::new(registry.pepper(), counters);
        let gateway = Self(Arc::new(Inner {
            registry,
            fleet: config.shared_counters.clone().map(|shared| Arc::new(Fleet::new(shared))),
            mcp: mcp_sessions::Sessions::new(providers::McpClient::new(client.clone())),
            issuers: providers::issuers(client.clone()),
            upstream: Upstream::new(client, clock.clone()),
            start_journal: StartJournal::here(),
            traces: KnownTraces::new(store.may_have_other_nodes(), store.serves_beside_others()),
            warm_models: SessionTable::default(),
            session_traces: SessionTraces::default(),
            detail_slots: DetailPlaces::default(),
            trace_searches: Arc::new(Semaphore::new(TRACE_SEARCHES)),
            login_throttle,
            failure_rows: FailureRows::default(),
            perimeter_counts: PerimeterCounts::default(),
            trials: Trials::default(),
            shadow_slots: ShadowSlots::default(),
            weekly_drift: WeeklyDrift::default(),
            usage_asks: UsageAsks::default(),
            insight_runs: Semaphore::new(1),
            recounted: Recounted::default(),
            settled: Arc::default(),
            body_memory: BodyMemory::new(config.max_body_memory),
            replay_memory: ReplayMemory::new(config.max_body_memory, MOST_KEPT_BYTES),
            config,
            clock,
            telemetry,
            outbox,
            claims: Claims::default(),
            kept_bytes: KeptBytes::default(),
            job_waits: JobWaits::default(),
            job_wakes: JobWakes::default(),
            running_jobs: RunningJobs::default(),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            winding_down: CancellationToken::new(),
            stopping: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            store,
        }));
        Ok((gateway, Waiting { records, errands }))
    }

    /// A gateway without background work: what a test queues, claims or counts is the test's alone.
    #[cfg(test)]
    pub(crate) async fn idle(
        store: Store,
        client: providers::Client,
        config: Config,
        clock: Clock,
    ) -> Result<Self> {
        Self::assemble(store, client, config, clock).await.map(|(gateway, _)| gateway)
    }

    /// Whether this node should get requests: the database, the writer and the shared counters are well, the node
    /// has its lock, and it is not about to stop. The error names what is not so.
    pub async fn ready(&self) -> std::result::Result<(), String> {
        if self.draining.is_cancelled() {
            return Err("the gateway is about to stop".to_owned());
        }
        let ping = tokio::time::timeout(Duration::from_secs(2), self.store.ping());
        match ping.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("the database does not answer".to_owned()),
        }
        self.fleet.as_ref().map_or(Ok(()), |fleet| fleet.counters.check())
    }

    /// Waits until another process has taken the place of this one at the database. The server has
    /// to stop then: two would make limits inexact.
    pub async fn displaced(&self) {
        self.store.displaced().await;
    }

    /// The token to cancel before connections are cut off at a stop: it distinguishes calls that
    /// end by that from those whose caller hung up.
    pub fn cut_off(&self) -> CancellationToken {
        self.cut_off.clone()
    }

    /// Is not ready from now on, so that load balancers send nothing new. Requests are served as before.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Cancelled by [`Gateway::drain`].
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Begins no further part of a job from now on.
    pub fn wind_down(&self) {
        self.winding_down.cancel();
    }

    /// Stops the jobs, waits until what is in flight is recorded, and closes the database.
    pub async fn close(self) {
        self.wind_down();
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        jobs::job::log_failure("request windows", jobs::key_windows::save(&self).await);
        self.flush_perimeter_audit().await;
        if let Some(fleet) = &self.fleet {
            fleet.counters.close().await;
        }
        self.mcp.close().await;
        telemetry_export::close(&self).await;
        if let Err(error) = self.store.end_use().await {
            tracing::warn!(%error, "the database will seem to have been left in use");
        }
        match Arc::try_unwrap(self.0) {
            Ok(inner) => inner.store.close().await,
            // A handler that outlived the deadline still holds it; every request whose answer left
            // has waited for the writer.
            Err(_) => tracing::warn!("stopped while requests were still running"),
        }
    }
}

/// Settles the calls that a crash interrupted, loads the registry, and marks the database as in
/// use.
async fn load(store: &Store, clock: &Clock) -> Result<Registry> {
    // Before the registry counts the spend.
    let lost = store.settle_lost_calls(clock).await?;
    if lost > 0 {
        tracing::warn!(calls = lost, "calls whose end was lost were recorded as failed");
    }
    store.settle_lost_claims().await?;
    let registry = Registry::load(store, clock).await?;
    store.begin_use().await?;
    Ok(registry)
}
