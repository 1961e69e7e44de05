//! The gateway: one use case a file, and nothing of HTTP.
//!
//! Invariants: no status code is named here; only `admit` decides who may call and in which
//! order that is asked; only [`flow`] reaches a provider, and only with a funded call.

mod accounts;
mod admit;
mod assistants;
mod audit;
mod blocks;
mod body_memory;
mod bootstrap;
mod chat;
mod check;
mod cli;
mod clock_steps;
mod config;
mod doctor;
mod embeddings;
mod error;
mod execute;
pub mod flow;
mod follow_up;
mod hang_up;
mod images;
mod jobs;
mod keys;
mod labels;
mod leaves;
mod log;
mod login_throttle;
mod mcp;
mod models;
mod offload;
mod output;
mod own_trace;
mod plan;
mod prices;
mod prints;
mod projects;
mod recount;
mod registry;
pub mod request_id;
mod safety;
mod sessions;
mod simulate;
mod stats;
mod stream;
#[cfg(test)]
mod testing;
mod tokens;
mod tools;
mod traces;
mod verdicts;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::time::Clock;
use futures_util::future::BoxFuture;
use store::Store;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use accounts::Member;
pub use admit::{Caller, Origin, Spends};
pub use assistants::{AssistantAsk, Assisted};
pub use body_memory::{
    BodyCharge, BodyMemory, BodyOwner, ChargeSlot, json_bytes, least_body_memory, plain_bytes,
    too_deep,
};
pub use bootstrap::{FirstCredentials, FirstSettings, bootstrap};
pub use chat::{ChatAnswer, ChatAsk, ChatReply, Unanswered};
pub use check::CheckResult;
pub use checks::{Violation, ViolationKind};
pub use cli::{NewUser, create_key, create_user, reset_password, rotate_master_key};
pub use config::Config;
pub use doctor::{Finding, inspect_models};
pub use embeddings::{EmbeddingAsk, Embeddings, MOST_TEXTS};
pub use error::{Error, Result};
pub use execute::{ExecuteAsk, Executed, Outcome};
pub use flow::Located;
pub use hang_up::{CallerWaits, until_hang_up};
pub use images::{ImageAsk, Images};
pub use keys::{KeyChange, KeyView, NewKey};
pub use log::LogResult;
pub use models::{ModelChange, ModelView};
pub use offload::{Share, offload};
pub use plan::Plan;
pub use projects::{ProjectChange, ProjectView};
pub use registry::{KeyState, ProjectState};
pub use safety::{Direction, SafetyAsk, SafetyVerdict, SlowRule};
pub use sessions::{SESSION_ABSOLUTE, SESSION_IDLE, SignedIn};
pub use simulate::{Simulated, Simulation};
pub use stats::{Period, Stats};
pub use store::{Account, Audit, COUNT_LIMIT, Page};
pub use stream::{Piece, Started, Streamed};
pub use tools::{ToolCall, ToolResult};
pub use traces::{
    DetailText, MAX_METADATA_BYTES, StepList, TraceDetail, TracePage, metadata_too_large,
};

use flow::Upstream;
use login_throttle::LoginThrottle;
use registry::Registry;
use traces::{DetailPlaces, KnownTraces};

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
    starts: flow::Starts,
    mcp: mcp::Sessions,
    traces: KnownTraces,
    details: DetailPlaces,
    logins: LoginThrottle,
    blocks: blocks::Blocks,
    trials: safety::Trials,
    recounted: recount::Recounted,
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
            mcp: mcp::Sessions::new(providers::McpClient::new(client.clone())),
            upstream: Upstream::new(client, clock.clone()),
            starts: flow::Starts::here(),
            traces: KnownTraces::new(store.may_have_other_nodes()),
            details: DetailPlaces::default(),
            logins: LoginThrottle::default(),
            blocks: blocks::Blocks::default(),
            trials: safety::Trials::default(),
            recounted: recount::Recounted::default(),
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
