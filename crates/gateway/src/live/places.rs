//! The places of streams, and the views that they watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use domain::ids::UserId;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::live::view::{Seen, Subject};
use crate::lock::lock;

/// The most streams of this node.
const MOST_STREAMS: usize = 64;
/// The most streams of a user on this node.
const MOST_OF_USER: usize = 8;
/// The most views that are watched on this node: each reads the database.
const MOST_VIEWS: usize = 32;

/// The streams that are open, behind one cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
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
    places: Places,
    user: UserId,
    subject: Subject,
}

impl Places {
    /// Takes a place for a stream, with the states of its view. For the first stream of a view there is a
    /// sender of them too, for the task that follows it.
    pub(super) fn take(
        &self,
        user: UserId,
        subject: Subject,
    ) -> Result<(Place, watch::Receiver<Seen>, Option<watch::Sender<Seen>>)> {
        let mut taken = lock(&self.0);
        let of_user = taken.of_user.get(&user).copied().unwrap_or_default();
        if of_user >= MOST_OF_USER || taken.of_user.values().sum::<usize>() >= MOST_STREAMS {
            return Err(Error::TooManyLiveViews);
        }
        let known = taken.views.get_mut(&subject);
        // A task that has failed has dropped the sender: another follows the view.
        let known = known.filter(|known| known.seen.has_changed().is_ok());
        let (seen, sender) = if let Some(known) = known {
            known.streams += 1;
            (known.seen.clone(), None)
        } else if taken.views.len() < MOST_VIEWS {
            let (sender, seen) = watch::channel(Seen::Nothing);
            taken.views.insert(subject, Watched { streams: 1, seen: seen.clone() });
            (seen, Some(sender))
        } else {
            return Err(Error::TooManyLiveViews);
        };
        *taken.of_user.entry(user).or_default() += 1;
        drop(taken);
        Ok((Place { places: self.clone(), user, subject }, seen, sender))
    }

    /// Whether nobody watches a view any more; it is forgotten then.
    pub(super) fn forget_unwatched(&self, subject: Subject) -> bool {
        let mut taken = lock(&self.0);
        let is_unwatched = taken.views.get(&subject).is_none_or(|watched| watched.streams == 0);
        if is_unwatched {
            taken.views.remove(&subject);
        }
        is_unwatched
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.0);
        if let Some(watched) = taken.views.get_mut(&self.subject) {
            watched.streams = watched.streams.saturating_sub(1);
        }
        if let Some(of_user) = taken.of_user.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.of_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::ProjectId;

    use super::*;
    use crate::live::view::LiveView;

    fn subject(hours: i64) -> Subject {
        (ProjectId(1), LiveView::Figures { hours })
    }

    #[test]
    fn a_node_has_places_for_64_streams_and_32_views() {
        let places = Places::default();
        let mut taken = Vec::new();
        for at in 0..64 {
            let (place, seen, sender) = places.take(UserId(at / 8), subject(at % 32)).unwrap();
            assert_eq!(sender.is_some(), at < 32, "one task for each view");
            taken.push((place, seen, sender));
        }
        let refused = |user, hours| {
            matches!(places.take(UserId(user), subject(hours)), Err(Error::TooManyLiveViews))
        };
        assert!(refused(9, 0), "no further stream");
        taken.pop();
        assert!(refused(0, 0), "no further stream of this user");
        assert!(refused(9, 32), "no further view");
        assert!(!refused(9, 0));
    }

    #[test]
    fn a_view_is_forgotten_when_its_last_stream_ends() {
        let places = Places::default();
        let (first, _seen, sender) = places.take(UserId(1), subject(1)).unwrap();
        let (second, _seen, none) = places.take(UserId(2), subject(1)).unwrap();
        assert!(sender.is_some() && none.is_none());
        drop(first);
        assert!(!places.forget_unwatched(subject(1)));
        drop(second);
        // A stream that comes before the task has noticed keeps it.
        let (third, ..) = places.take(UserId(1), subject(1)).unwrap();
        assert!(!places.forget_unwatched(subject(1)));
        drop(third);
        assert!(places.forget_unwatched(subject(1)));
        let (_place, _seen, sender) = places.take(UserId(1), subject(1)).unwrap();
        assert!(sender.is_some());
        // A task that has failed is replaced.
        drop(sender);
        assert!(places.take(UserId(1), subject(1)).unwrap().2.is_some());
    }
}
