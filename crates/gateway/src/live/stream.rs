//! A stream: the changes of a view since it was opened.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::ProjectId;
use domain::job::Job;
use domain::secret::Secret;
use domain::time::{MINUTE, SECOND, Timestamp};
use tokio::sync::watch;

use crate::control::sessions::Standing;
use crate::error::{Error, Result};
use crate::evidence::listed_trace::ListedTrace;
use crate::gateway::Gateway;
use crate::live::places::Place;
use crate::live::view::{LiveOverview, Seen};
use crate::state::member::Member;

/// The time between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);
/// A stream with nothing to report shows after this time that it is there, in microseconds.
const QUIET: i64 = 15 * SECOND;
/// The session is looked up again after this time, in microseconds.
const CHECK_EVERY: i64 = 30 * SECOND;
/// A stream ends after this time, in microseconds: the client opens another.
const LONGEST: i64 = 10 * MINUTE;

/// A change of a view.
#[derive(Clone, Debug)]
pub enum LiveEvent {
    /// Traces that are new or have changed, newest first; at first all that are followed.
    Traces(Vec<ListedTrace>),
    /// The newest jobs, newest first: those of a page, and one more if there is another page.
    Jobs(Arc<[Job]>),
    /// The job. It changes no more once it is over.
    Job(Arc<Job>),
    /// The overview.
    Overview(Arc<LiveOverview>),
    /// The overview of days that are over. It changes no more.
    Over(Arc<LiveOverview>),
    /// Nothing has happened for a while.
    Quiet,
}

/// A view that is watched.
#[derive(Debug)]
pub struct LiveStream {
    gateway: Gateway,
    _place: Place,
    seen: watch::Receiver<Seen>,
    /// The state of the view that was reported last.
    reported: Seen,
    member: Member,
    project: ProjectId,
    token: Secret,
    /// The time from which on the view changes no more.
    ends: Option<Timestamp>,
    /// Whether that was reported.
    is_over: bool,
    opened_at: Timestamp,
    checked_at: Timestamp,
    reported_at: Timestamp,
}

impl LiveStream {
    pub(super) fn new(
        gateway: Gateway,
        place: Place,
        seen: watch::Receiver<Seen>,
        member: Member,
        project: ProjectId,
        (token, ends): (&str, Option<Timestamp>),
    ) -> Self {
        let now = gateway.clock.now();
        Self {
            gateway,
            _place: place,
            seen,
            reported: Seen::Nothing,
            member,
            project,
            token: Secret::new(token.to_owned()),
            ends,
            is_over: false,
            opened_at: now,
            checked_at: now,
            reported_at: now,
        }
    }

    /// Waits for the next change. `None` at the end: the job or the days that are watched are over, the session is over,
    /// the project is out of its sight, its role is another, the stream has been open for long enough, or the
    /// gateway stops.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        if self.is_over || matches!(&self.reported, Seen::Job(job) if job.state.is_over()) {
            return None;
        }
        loop {
            if let Ok(changed) = tokio::time::timeout(TICK, self.seen.changed()).await {
                // Only its task drops the sender.
                changed.ok()?;
            }
            let now = self.gateway.clock.now();
            if now.since(self.opened_at) >= LONGEST {
                return None;
            }
            if now.since(self.checked_at) >= CHECK_EVERY {
                self.check().await.ok()?;
                self.checked_at = now;
            }
            let seen = self.seen.borrow_and_update().clone();
            if let Seen::Overview(overview) = &seen
                && overview.usages.is_some()
                && self.ends.is_some_and(|ends| overview.read_at >= ends)
            {
                self.is_over = true;
                return Some(LiveEvent::Over(overview.clone()));
            }
            let event = match change(&self.reported, &seen) {
                None if now.since(self.reported_at) < QUIET => continue,
                None => LiveEvent::Quiet,
                Some(event) => event,
            };
            (self.reported, self.reported_at) = (seen, now);
            return Some(event);
        }
    }

    /// Whether the session still stands, sees the project, and has the role that the page is for. A page that is
    /// merely open does not prolong it.
    async fn check(&self) -> Result<()> {
        let (token, origin) = (self.token.expose(), &self.member.origin);
        let (member, _) = self.gateway.idle_session(token, origin, Standing::Full).await?;
        self.gateway.visible_project(&member, self.project)?;
        // Another role is shown other parts: the page opens another stream.
        if member.role == self.member.role { Ok(()) } else { Err(Error::Forbidden) }
    }
}

/// The change from one state of a view to another.
fn change(before: &Seen, now: &Seen) -> Option<LiveEvent> {
    match (before, now) {
        (_, Seen::Nothing) => None,
        (Seen::Overview(before), Seen::Overview(now)) if before.is_as(now) => None,
        (_, Seen::Overview(now)) => Some(LiveEvent::Overview(now.clone())),
        (Seen::Jobs(before), Seen::Jobs(now)) if before == now => None,
        (_, Seen::Jobs(now)) => Some(LiveEvent::Jobs(now.clone())),
        (Seen::Job(before), Seen::Job(now)) if before == now => None,
        (_, Seen::Job(now)) => Some(LiveEvent::Job(now.clone())),
        (before, Seen::Traces(now)) => {
            let known: &[ListedTrace] =
                if let Seen::Traces(before) = before { before } else { &[] };
            let changed: Vec<ListedTrace> =
                now.iter().filter(|trace| !known.contains(trace)).cloned().collect();
            (!changed.is_empty()).then_some(LiveEvent::Traces(changed))
        }
    }
}
