//! The gateway: one use case a file, and nothing of HTTP.
//!
//! Invariants: no status code is named here; only `admit` decides who may call and in which
//! order that is asked; only [`flow`] reaches a provider, and only with a funded call.

mod admission;
mod capacity;
mod config;
mod control;
mod error;
mod evidence;
mod inference;
mod jobs;
mod metric_labels;
pub mod pipeline;
pub mod request_id;
mod safety;
mod state;
mod streaming;
#[cfg(test)]
mod testing;
mod tools;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::time::Clock;
use futures_util::future::BoxFuture;
use store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::admission::admit::{Caller, Origin, Spends};
pub use crate::capacity::body_memory::{
    BodyCharge, BodyMemory, BodyOwner, ChargeSlot, json_bytes, least_body_memory, plain_bytes,
    too_deep,
};
pub use crate::capacity::hang_up::{CallerWaits, until_hang_up};
pub use crate::capacity::offload::{Share, offload};
pub use crate::config::Config;
pub use crate::control::bootstrap::{FirstCredentials, FirstSettings, bootstrap};
pub use crate::control::command_line::{
    NewUser, create_key, create_user, reset_password, rotate_master_key,
};
pub use crate::control::doctor::{Finding, inspect_models};
pub use crate::control::keys::{KeyChange, KeyView, NewKey};
pub use crate::control::members::Member;
pub use crate::control::models::{ModelChange, ModelView};
pub use crate::control::projects::{ProjectChange, ProjectView};
pub use crate::control::safety_preview::{Direction, SafetyAsk, SafetyVerdict, SlowRule};
pub use crate::control::sdk_config::Plan;
pub use crate::control::sessions::{SESSION_ABSOLUTE, SESSION_IDLE, SignedIn};
pub use crate::error::{Error, Result};
pub use crate::evidence::logs::LogResult;
pub use crate::evidence::stats::{Period, Stats};
pub use crate::evidence::traces::detail::{StepList, TraceDetail};
pub use crate::evidence::traces::writing::DetailText;
pub use crate::evidence::traces::{MAX_METADATA_BYTES, TracePage, metadata_too_large};
pub use crate::inference::assistants::{AssistantAsk, Assisted};
pub use crate::inference::chat::{ChatAnswer, ChatAsk, ChatReply, Unanswered};
pub use crate::inference::checks::CheckResult;
pub use crate::inference::embeddings::{EmbeddingAsk, Embeddings, MOST_TEXTS};
pub use crate::inference::executions::{ExecuteAsk, Executed, Outcome};
pub use crate::inference::images::{ImageAsk, Images};
pub use crate::inference::simulate::{Simulated, Simulation};
pub use crate::safety::location::Located;
pub use crate::state::registry::{KeyState, ProjectState};
pub use crate::streaming::piece::{Piece, Started, Streamed};
pub use crate::tools::function_tools::{ToolCall, ToolResult};
pub use checks::{Violation, ViolationKind};
pub use store::{Account, Audit, COUNT_LIMIT, Page};

use crate::capacity::detail_places::DetailPlaces;
use crate::pipeline::call::Upstream;
use crate::state::known_traces::KnownTraces;
use crate::state::login_throttle::LoginThrottle;
use crate::state::mcp_sessions;
use crate::state::registry::Registry;

/// Long reads end after this.
const READ_BOUND: Duration = Duration::from_secs(5);

/// The whole gateway behind one cheap handle.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Inner>);

/// What a [`Gateway`] is made of.
#[derive(Debug)]
pub struct Inner {
    store: Store,
    registry: Registry,
    upstream: Upstream,
    starts: crate::pipeline::Starts,
    mcp: mcp_sessions::Sessions,
    traces: KnownTraces,
    details: DetailPlaces,
    logins: LoginThrottle,
    blocks: crate::admission::perimeter_audit::Blocks,
    trials: crate::control::safety_preview::Trials,
    recounted: crate::jobs::spend_sync::Recounted,
    /// Tells those who wait for money that some was given back.
    settled: Arc<Notify>,
    bodies: BodyMemory,
    config: Config,
    clock: Clock,
    tasks: TaskTracker,
    stopping: CancellationToken,
    cut_off: CancellationToken,
}

impl Deref for Gateway {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Gateway {
    /// Loads the registry, settles what a crash has left, and starts the background jobs.
    pub async fn open(
        store: Store,
        client: providers::Client,
        config: Config,
        clock: Clock,
    ) -> Result<Self> {
        let registry = match load(&store, &clock).await {
            Ok(registry) => registry,
            Err(error) => {
                store.close().await;
                return Err(error);
            }
        };
        let gateway = Self(Arc::new(Inner {
            registry,
            mcp: mcp_sessions::Sessions::new(providers::McpClient::new(client.clone())),
            upstream: Upstream::new(client, clock.clone()),
            starts: crate::pipeline::Starts::here(),
            traces: KnownTraces::new(store.may_have_other_nodes()),
            details: DetailPlaces::default(),
            logins: LoginThrottle::default(),
            blocks: crate::admission::perimeter_audit::Blocks::default(),
            trials: crate::control::safety_preview::Trials::default(),
            recounted: crate::jobs::spend_sync::Recounted::default(),
            settled: Arc::default(),
            bodies: BodyMemory::new(config.max_body_memory),
            config,
            clock,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            cut_off: CancellationToken::new(),
            store,
        }));
        jobs::start(&gateway);
        Ok(gateway)
    }

    /// Whether the database, the writer and the registry are well. Says what is not.
    pub async fn ready(&self) -> std::result::Result<(), String> {
        let ping = tokio::time::timeout(Duration::from_secs(2), self.store.ping());
        match ping.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the database does not answer".to_owned()),
        }
    }

    /// Waits until another process has taken the place of this one at the database. Whoever
    /// serves has to stop then: two would make limits inexact.
    pub async fn displaced(&self) {
        self.store.displaced().await;
    }

    /// To be cancelled before connections are cut off at a stop: calls that end by it are told from
    /// those whose caller hung up.
    pub fn cut_off(&self) -> CancellationToken {
        self.cut_off.clone()
    }

    /// Stops the jobs, waits until what is in flight is recorded, and closes the database.
    pub async fn close(self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        jobs::save_windows(&self).await;
        self.tell_blocks().await;
        self.mcp.close().await;
        if let Err(error) = self.store.end_use().await {
            tracing::warn!(%error, "the database will seem to have been left in use");
        }
        match Arc::try_unwrap(self.0) {
            Ok(inner) => inner.store.close().await,
            // A handler that outlived the deadline still holds it; the writer has been waited for
            // by everyone whose answer left.
            Err(_) => tracing::warn!("stopped while requests were still running"),
        }
    }
}

/// Settles what a crash has left, loads the registry, and marks the database as in use.
async fn load(store: &Store, clock: &Clock) -> Result<Registry> {
    // Before the registry counts what was spent.
    let lost = store.settle_lost_calls(clock).await?;
    if lost > 0 {
        tracing::warn!(calls = lost, "calls whose end was lost were recorded as failed");
    }
    let registry = Registry::load(store, clock).await?;
    store.begin_use().await?;
    Ok(registry)
}

/// Bounds a long read. It is boxed: a query is kilobytes of state in every future above, also where
/// it is hardly ever made.
fn bounded<'a, T: 'a>(
    read: impl Future<Output = std::result::Result<T, store::Error>> + Send + 'a,
) -> BoxFuture<'a, Result<T>> {
    Box::pin(async move {
        match tokio::time::timeout(READ_BOUND, read).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Error::Unavailable("the query took longer than 5 seconds".to_owned())),
        }
    })
}

/// A number that nobody can guess.
fn nonce() -> Result<u64> {
    Ok(u64::from_be_bytes(store::random::<8>()?))
}
