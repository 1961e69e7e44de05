//! Conversations with MCP servers that outlive a request, and the tools that their servers have
//! listed.
//!
//! Nothing is shared between projects, or between tokens. A server that gives a conversation an id
//! may tie its state to it, so such a conversation is kept for its trace alone. Unused entries end
//! soon, and nothing lasts long.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{ProjectId, TraceId};
use domain::secret::Secret;
use futures_util::future::join_all;
use providers::{McpAddress, McpAnswer, McpClient, McpError, McpSession, McpTool};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cache::Cache;
use crate::lock::lock;
use crate::state::mcp_shares::Shares;

/// The time for which a list of tools is valid, unless the server reports a change.
const LISTED_FOR: Duration = Duration::from_mins(1);
/// The most bytes of all lists that are kept.
const MOST_LISTED: usize = 32 * 1024 * 1024;
/// The most conversations that are kept, and those of one project; the time after which an unused
/// one ends, and after which any ends.
const MOST_KEPT: usize = 1024;
const MOST_OF_PROJECT: usize = 128;
const IDLE: Duration = Duration::from_mins(5);
const AGE: Duration = Duration::from_hours(1);
/// The longest time for ending all conversations at a stop.
const PARTING: Duration = Duration::from_secs(3);

type Done<T> = std::result::Result<T, McpError>;

/// A server as a request of a project may call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct To<'a> {
    pub(crate) project: ProjectId,
    pub(crate) trace: TraceId,
    pub(crate) address: &'a McpAddress,
    pub(crate) token: Option<&'a Secret>,
}

/// The owner of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Owner {
    project: ProjectId,
    /// `None` if all requests of the project may share it.
    trace: Option<TraceId>,
    address: McpAddress,
}

/// A conversation, if there is one.
#[derive(Debug, Default)]
struct Kept {
    token: Option<Secret>,
    session: Option<Arc<McpSession>>,
    /// Whether the server gives conversations ids.
    is_stateful: bool,
}

/// The tools that a server has listed for a token.
#[derive(Clone, Debug)]
struct Listed {
    token: Option<Secret>,
    tools: Arc<[McpTool]>,
}

/// The place of a conversation.
#[derive(Debug)]
struct Slot {
    used: std::sync::Mutex<Instant>,
    kept: Mutex<Kept>,
}

/// The conversations of this process.
#[derive(Debug)]
pub(crate) struct Sessions {
    client: McpClient,
    kept: Cache<Owner, Arc<Slot>>,
    shares: Shares<Owner>,
    listed: Arc<Cache<(ProjectId, McpAddress), Listed>>,
}

impl Sessions {
    pub(crate) fn new(client: McpClient) -> Self {
        let weigh = |listed: &Listed| {
            let bytes: usize = listed.tools.iter().map(McpTool::bytes).sum();
            bytes + 256
        };
        let listed = Cache::weighted(MOST_LISTED, weigh, LISTED_FOR);
        let kept = Cache::new(MOST_KEPT, AGE);
        Self { client, kept, shares: Shares::of(MOST_OF_PROJECT), listed: Arc::new(listed) }
    }

    /// The tools of a server, as it has listed them within the last minute, or lists them now.
    pub(crate) async fn tools(&self, to: To<'_>, until: Instant) -> Done<Arc<[McpTool]>> {
        let place = (to.project, to.address.clone());
        if let Some(listed) = self.listed.get(&place)
            && is_same(listed.token.as_ref(), to.token)
        {
            return Ok(listed.tools);
        }
        let list = |session: Arc<McpSession>| {
            let place = place.clone();
            async move {
                let before = session.changes();
                let tools: Arc<[McpTool]> = session.tools(until).await?.into();
                let token = to.token.cloned();
                self.listed.insert(place.clone(), Listed { token, tools: tools.clone() });
                // A change that was reported before is handled by its receiver, but this list was
                // not there yet.
                if session.changes() != before {
                    self.listed.remove(&place);
                }
                Ok(tools)
            }
        };
        self.with_session(to, until, list).await
    }

    /// Runs a tool.
    pub(crate) async fn call(
        &self,
        to: To<'_>,
        tool: &str,
        arguments: &Map<String, Value>,
        until: Instant,
    ) -> Done<McpAnswer> {
        let call = |session: Arc<McpSession>| async move {
            session.call(tool, arguments.clone(), until).await
        };
        self.with_session(to, until, call).await
    }

    /// Drops conversations and lists that were not used for a while.
    pub(crate) fn sweep(&self) {
        self.kept.sweep(|slot: &Arc<Slot>| lock(&slot.used).elapsed() < IDLE);
        self.shares.retain(|owner| self.kept.get(owner).is_some());
        self.listed.sweep(|_| true);
    }

    /// Ends the conversations with all servers.
    pub(crate) async fn close(&self) {
        let all = self.kept.take_all();
        let parting = all.iter().map(async |slot| {
            let session = slot.kept.lock().await.session.take();
            if let Some(session) = session.and_then(Arc::into_inner) {
                session.close().await;
            }
        });
        // A server that does not answer is left.
        let _ = timeout(PARTING, join_all(parting)).await;
    }

    /// Runs an operation in the conversation with a server, and once more in a new one if the
    /// server does not recognise the old one any more: then it has done nothing.
    async fn with_session<T, F>(
        &self,
        to: To<'_>,
        until: Instant,
        act: impl Fn(Arc<McpSession>) -> F,
    ) -> Done<T>
    where
        F: Future<Output = Done<T>> + Send,
    {
        let mut session = self.session(to, until).await?;
        let mut done = act(session.clone()).await;
        if matches!(done, Err(McpError::Gone)) {
            self.forget(to, &session, until).await;
            session = self.session(to, until).await?;
            done = act(session.clone()).await;
        }
        if let Err(
            McpError::Unreachable | McpError::Malformed | McpError::Status(_) | McpError::Gone,
        ) = done
        {
            // The next conversation greets the server anew.
            self.forget(to, &session, until).await;
        }
        done
    }

    /// The open conversation with a server, or a new one. If it is being opened, waits for it.
    async fn session(&self, to: To<'_>, until: Instant) -> Done<Arc<McpSession>> {
        let common = self.slot(to, None);
        let mut common = locked(&common, to.token, until).await?;
        let mut new = None;
        if !common.is_stateful {
            if let Some(session) = common.open() {
                return Ok(session);
            }
            let session = self.open(to, until).await?;
            if !session.is_stateful() {
                common.session = Some(session.clone());
                return Ok(session);
            }
            common.is_stateful = true;
            new = Some(session);
        }
        drop(common);
        let own = self.slot(to, Some(to.trace));
        let mut own = locked(&own, to.token, until).await?;
        if let Some(session) = own.open() {
            return Ok(session);
        }
        let session = match new {
            Some(session) => session,
            None => self.open(to, until).await?,
        };
        Ok(own.session.insert(session).clone())
    }

    /// Greets a server. Its list is dropped once it reports that the list has changed.
    async fn open(&self, to: To<'_>, until: Instant) -> Done<Arc<McpSession>> {
        let (listed, place) = (self.listed.clone(), (to.project, to.address.clone()));
        let forget = move || listed.remove(&place);
        self.client.open(to.address, to.token, forget, until).await.map(Arc::new)
    }

    /// Drops a conversation in which something is wrong, if it is still the one that is kept.
    async fn forget(&self, to: To<'_>, session: &Arc<McpSession>, until: Instant) {
        for trace in [None, Some(to.trace)] {
            let Some(slot) = self.kept.get(&to.owner(trace)) else { continue };
            // A task that holds it for long is opening another one.
            if let Ok(mut kept) = timeout_at(until, slot.kept.lock()).await {
                kept.session.take_if(|kept| Arc::ptr_eq(kept, session));
            }
        }
    }

    fn slot(&self, to: To<'_>, trace: Option<TraceId>) -> Arc<Slot> {
        let owner = to.owner(trace);
        if let Some(unused) = self.shares.note(to.project, &owner) {
            self.kept.remove(&unused);
        }
        let slot = self.kept.get_or_insert(owner, Arc::default);
        *lock(&slot.used) = Instant::now();
        slot
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self { used: std::sync::Mutex::new(Instant::now()), kept: Mutex::default() }
    }
}

impl To<'_> {
    fn owner(&self, trace: Option<TraceId>) -> Owner {
        Owner { project: self.project, trace, address: self.address.clone() }
    }
}

impl Kept {
    fn open(&self) -> Option<Arc<McpSession>> {
        self.session.clone().filter(|session| !session.is_closed())
    }
}

/// A slot, without the conversation that another token has left in it.
async fn locked<'a>(
    slot: &'a Slot,
    token: Option<&Secret>,
    until: Instant,
) -> Done<tokio::sync::MutexGuard<'a, Kept>> {
    let mut kept = timeout_at(until, slot.kept.lock()).await.map_err(|_| McpError::Late)?;
    if !is_same(kept.token.as_ref(), token) {
        *kept = Kept { token: token.cloned(), ..Kept::default() };
    }
    Ok(kept)
}

fn is_same(one: Option<&Secret>, other: Option<&Secret>) -> bool {
    one.map(Secret::expose) == other.map(Secret::expose)
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    #[tokio::test]
    async fn what_one_project_opens_costs_no_other_its_own() {
        let client = providers::Client::new(providers::Egress::default()).unwrap();
        let sessions = Sessions::new(McpClient::new(client));
        let address = McpAddress::read("https://tools.example/mcp").unwrap();
        let to = |project, millis: i64| To {
            project: ProjectId(project),
            trace: TraceId::first_at(Timestamp(millis * 1000)),
            address: &address,
            token: None,
        };
        let modest = sessions.slot(to(1, 0), None);
        let often = sessions.slot(to(2, 0), None);
        for trace in 0..2000 {
            let greedy = to(2, trace);
            sessions.slot(greedy, None);
            sessions.slot(greedy, Some(greedy.trace));
        }
        sessions.sweep();
        assert!(Arc::ptr_eq(&modest, &sessions.slot(to(1, 0), None)));
        assert!(Arc::ptr_eq(&often, &sessions.slot(to(2, 0), None)), "what is used stays");
        assert_eq!(sessions.kept.take_all().len(), MOST_OF_PROJECT + 1);
    }
}
