//! A stream: the changes of a view since it was opened.

use std::sync::Arc;

use domain::secret::Secret;
use domain::time::{MINUTE, SECOND, Timestamp};
use domain::trace::Trace;
use tokio::sync::watch;

use crate::control::sessions::Standing;
use crate::error::Result;
use crate::evidence::figures::ComparedFigures;
use crate::gateway::Gateway;
use crate::live::Seen;
use crate::live::places::Place;
use crate::state::member::Member;

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
    Traces(Vec<Trace>),
    /// The figures.
    Figures(Arc<ComparedFigures>),
    /// Nothing has happened for a while.
    Quiet,
}

/// A view that is watched.
#[derive(Debug)]
pub struct LiveStream {
    place: Place,
    seen: watch::Receiver<Seen>,
    /// The state of the view that was reported last.
    reported: Seen,
    member: Member,
    token: Secret,
    opened_at: Timestamp,
    checked_at: Timestamp,
    reported_at: Timestamp,
}

impl LiveStream {
    pub(super) fn new(
        place: Place,
        seen: watch::Receiver<Seen>,
        member: Member,
        token: &str,
    ) -> Self {
        let now = place.views.0.gateway.clock.now();
        Self {
            place,
            seen,
            reported: Seen::Nothing,
            member,
            token: Secret::new(token.to_owned()),
            opened_at: now,
            checked_at: now,
            reported_at: now,
        }
    }

    /// Waits for the next change. `None` at the end: the session is over, the project is out of its sight,
    /// the stream has been open for long enough, or the gateway stops.
    pub async fn next(&mut self) -> Option<LiveEvent> {
        loop {
            // The task of the view looks once a second, and shows by it that time passes.
            self.seen.changed().await.ok()?;
            let now = self.gateway().clock.now();
            if now.since(self.opened_at) >= LONGEST {
                return None;
            }
            if now.since(self.checked_at) >= CHECK_EVERY {
                self.check().await.ok()?;
                self.checked_at = now;
            }
            let seen = self.seen.borrow_and_update().clone();
            let event = match change(&self.reported, &seen) {
                None if now.since(self.reported_at) < QUIET => continue,
                None => LiveEvent::Quiet,
                Some(event) => event,
            };
            (self.reported, self.reported_at) = (seen, now);
            return Some(event);
        }
    }

    /// Whether the session still stands, and sees the project. A page that is merely open does not prolong it.
    async fn check(&self) -> Result<()> {
        let (token, origin) = (self.token.expose(), &self.member.origin);
        let found = self.gateway().idle_session(token, origin, Standing::Full).await?;
        self.gateway().visible_project(&found.0, self.place.subject.0)?;
        Ok(())
    }

    fn gateway(&self) -> &Gateway {
        &self.place.views.0.gateway
    }
}

/// The change from one state of a view to another.
fn change(before: &Seen, now: &Seen) -> Option<LiveEvent> {
    match (before, now) {
        (_, Seen::Nothing) => None,
        (Seen::Figures(before), Seen::Figures(now)) if before == now => None,
        (_, Seen::Figures(now)) => Some(LiveEvent::Figures(now.clone())),
        (before, Seen::Traces(now)) => {
            let known: &[Trace] = if let Seen::Traces(before) = before { before } else { &[] };
            let changed: Vec<Trace> =
                now.iter().filter(|trace| !known.contains(trace)).cloned().collect();
            (!changed.is_empty()).then_some(LiveEvent::Traces(changed))
        }
    }
}
