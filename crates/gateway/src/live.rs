//! Live views: pages that are open keep up with the database.
//!
//! A view of a project that somebody watches has one task on this node. It reads the database, so that it sees
//! what other nodes write, and calls take no part in it:
//!
//! ```text
//! first stream opens -> task looks once a second -> last stream is gone, or the gateway stops
//! ```

mod look;
mod overview;
mod places;
pub(crate) mod stream;
pub(crate) mod view;

use std::time::Duration;

use domain::ids::ProjectId;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::live::look::Look;
use crate::live::overview::Turns;
use crate::live::places::Places;
use crate::live::stream::LiveStream;
use crate::live::view::{LiveView, Seen, Subject};
use crate::state::member::Member;

/// The time between two looks at the database.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The views that are watched on this node.
#[derive(Clone, Debug)]
pub struct LiveViews {
    gateway: Gateway,
    places: Places,
    turns: Turns,
}

impl LiveViews {
    /// No views yet.
    pub fn new(gateway: Gateway) -> Self {
        Self { gateway, places: Places::default(), turns: Turns::new() }
    }

    /// Watches a view of a project that is a member's to see, for as long as their session lasts. Fails with
    /// [`TooManyLiveViews`](crate::Error::TooManyLiveViews) if all places are taken.
    pub fn open(
        &self,
        member: &Member,
        token: &str,
        project: ProjectId,
        view: LiveView,
    ) -> Result<LiveStream> {
        self.gateway.visible_project(member, project)?;
        let (place, seen, sender) =
            self.places.take(member.user, (project, view.clone()), self.gateway.clock.now())?;
        let ends = view.ends();
        if let Some(sender) = sender {
            self.start((project, view), sender);
        }
        let (gateway, member) = (self.gateway.clone(), member.clone());
        Ok(LiveStream::new(gateway, place, seen, member, project, (token, ends)))
    }

    /// Follows a view until nobody watches it, or the gateway stops.
    fn start(&self, subject: Subject, sender: watch::Sender<Seen>) {
        let (places, winding_down) = (self.places.clone(), self.gateway.winding_down.clone());
        let clock = self.gateway.clock.clone();
        let mut look = Look::new(self.gateway.clone(), subject.clone(), self.turns.clone());
        let follow = async move {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if places.forget_unwatched(&subject, clock.now()) {
                    return;
                }
                match look.look().await {
                    Ok(Some(seen)) => {
                        sender.send_replace(seen);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::debug!(?subject, error = error.cause(), "a view was not read");
                    }
                }
            }
        };
        self.gateway.tasks.spawn(async move { winding_down.run_until_cancelled(follow).await });
    }
}
