//! The places of streams, and the views that they watch.

use std::collections::HashMap;

use domain::ids::UserId;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::live::{LiveViews, Seen, Subject};
use crate::lock::lock;

/// The most streams of this node.
const MOST_STREAMS: usize = 64;
/// The most streams of a user on this node.
const MOST_OF_USER: usize = 8;
/// The most views that are watched on this node: each reads the database.
const MOST_VIEWS: usize = 32;

/// The streams that are open.
#[derive(Debug, Default)]
pub(super) struct Places {
    of_user: HashMap<UserId, usize>,
    views: HashMap<Subject, Watched>,
}

#[derive(Debug)]
struct Watched {
    streams: usize,
    seen: watch::Receiver<Seen>,
}

/// The place of one stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) views: LiveViews,
    user: UserId,
    pub(super) subject: Subject,
}

impl LiveViews {
    /// Takes a place for a stream, and begins to follow its view if it is the first one.
    pub(super) fn take_place(
        &self,
        user: UserId,
        subject: Subject,
    ) -> Result<(Place, watch::Receiver<Seen>)> {
        let mut places = lock(&self.0.places);
        let of_user = places.of_user.get(&user).copied().unwrap_or_default();
        let streams: usize = places.of_user.values().sum();
        // The task of a view that is over has let go of it.
        let known = places.views.get(&subject).filter(|known| known.seen.has_changed().is_ok());
        let is_full = known.is_none() && places.views.len() >= MOST_VIEWS;
        if of_user >= MOST_OF_USER || streams >= MOST_STREAMS || is_full {
            return Err(Error::TooManyLiveViews);
        }
        if known.is_none() {
            let (sender, seen) = watch::channel(Seen::Nothing);
            places.views.insert(subject, Watched { streams: 0, seen });
            self.start(subject, sender);
        }
        *places.of_user.entry(user).or_default() += 1;
        let watched = places.views.get_mut(&subject).ok_or(Error::TooManyLiveViews)?;
        watched.streams += 1;
        let seen = watched.seen.clone();
        Ok((Place { views: self.clone(), user, subject }, seen))
    }

    /// Whether nobody watches a view any more; it is let go of then.
    pub(super) fn is_left(&self, subject: Subject) -> bool {
        let mut places = lock(&self.0.places);
        let is_left = places.views.get(&subject).is_none_or(|watched| watched.streams == 0);
        if is_left {
            places.views.remove(&subject);
        }
        is_left
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = lock(&self.views.0.places);
        if let Some(watched) = places.views.get_mut(&self.subject) {
            watched.streams = watched.streams.saturating_sub(1);
        }
        let of_user = places.of_user.entry(self.user).or_default();
        *of_user = of_user.saturating_sub(1);
        if *of_user == 0 {
            places.of_user.remove(&self.user);
        }
    }
}
