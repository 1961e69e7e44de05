//! The places of streams, and the views that they watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use domain::ids::UserId;
use domain::time::{MINUTE, Timestamp};
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

/// The time after which a stream does not count any more, in microseconds: longer than one lasts.
const EXPIRES: i64 = 12 * MINUTE;

/// The streams that are open, behind one cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    /// The number of the latest stream.
    latest: u64,
    streams: HashMap<u64, Stream>,
    views: HashMap<Subject, watch::Receiver<Seen>>,
}

#[derive(Debug)]
struct Stream {
    user: UserId,
    subject: Subject,
    began: Timestamp,
}

impl Taken {
    /// Forgets streams that have outlived their time. A client that takes nothing more keeps its stream from
    /// ending itself.
    fn expire(&mut self, now: Timestamp) {
        self.streams.retain(|_, stream| {
            // Another thread may have read its clock earlier, and a clock may go back.
            stream.began = stream.began.min(now);
            now.since(stream.began) < EXPIRES
        });
    }

    fn watches(&self, subject: &Subject) -> bool {
        self.streams.values().any(|stream| stream.subject == *subject)
    }
}

/// The place of one stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    /// Takes a place for a stream, with the states of its view. For the first stream of a view there is a
    /// sender of them too, for the task that follows it.
    pub(super) fn take(
        &self,
        user: UserId,
        subject: Subject,
        now: Timestamp,
    ) -> Result<(Place, watch::Receiver<Seen>, Option<watch::Sender<Seen>>)> {
        let mut taken = lock(&self.0);
        taken.expire(now);
        let of_user = taken.streams.values().filter(|stream| stream.user == user).count();
        if of_user >= MOST_OF_USER || taken.streams.len() >= MOST_STREAMS {
            return Err(Error::TooManyLiveViews);
        }
        // A task that has failed has dropped the sender: another follows the view.
        let known = taken.views.get(&subject).filter(|known| known.has_changed().is_ok());
        let (seen, sender) = if let Some(known) = known {
            (known.clone(), None)
        } else if taken.views.len() < MOST_VIEWS {
            let (sender, seen) = watch::channel(Seen::Nothing);
            taken.views.insert(subject.clone(), seen.clone());
            (seen, Some(sender))
        } else {
            return Err(Error::TooManyLiveViews);
        };
        taken.latest += 1;
        let number = taken.latest;
        taken.streams.insert(number, Stream { user, subject, began: now });
        drop(taken);
        Ok((Place { places: self.clone(), number }, seen, sender))
    }

    /// Whether nobody watches a view any more; it is forgotten then.
    pub(super) fn forget_unwatched(&self, subject: &Subject, now: Timestamp) -> bool {
        let mut taken = lock(&self.0);
        taken.expire(now);
        let is_unwatched = !taken.watches(subject);
        if is_unwatched {
            taken.views.remove(subject);
        }
        is_unwatched
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.0).streams.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::ProjectId;

    use super::*;
    use crate::live::view::{LiveView, Span};

    const NOW: Timestamp = Timestamp(0);

    fn subject(hours: i64) -> Subject {
        (ProjectId(1), LiveView::Overview(Span::Hours(hours), [].into()))
    }

    #[test]
    fn a_node_has_places_for_64_streams_and_32_views() {
        let places = Places::default();
        let mut taken = Vec::new();
        for at in 0..64 {
            let (place, seen, sender) = places.take(UserId(at / 8), subject(at % 32), NOW).unwrap();
            assert_eq!(sender.is_some(), at < 32, "one task for each view");
            taken.push((place, seen, sender));
        }
        let refused = |user, hours| {
            matches!(places.take(UserId(user), subject(hours), NOW), Err(Error::TooManyLiveViews))
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
        let (first, _seen, sender) = places.take(UserId(1), subject(1), NOW).unwrap();
        let (second, _seen, none) = places.take(UserId(2), subject(1), NOW).unwrap();
        assert!(sender.is_some() && none.is_none());
        drop(first);
        assert!(!places.forget_unwatched(&subject(1), NOW));
        drop(second);
        // A stream that comes before the task has noticed keeps it.
        let (third, ..) = places.take(UserId(1), subject(1), NOW).unwrap();
        assert!(!places.forget_unwatched(&subject(1), NOW));
        drop(third);
        assert!(places.forget_unwatched(&subject(1), NOW));
        let (_place, _seen, sender) = places.take(UserId(1), subject(1), NOW).unwrap();
        assert!(sender.is_some());
        // A task that has failed is replaced.
        drop(sender);
        assert!(places.take(UserId(1), subject(1), NOW).unwrap().2.is_some());
    }

    #[test]
    fn a_stream_that_is_never_read_to_its_end_gives_its_place_back() {
        let places = Places::default();
        let stalled: Vec<_> =
            (0..8).map(|_| places.take(UserId(1), subject(1), NOW).unwrap()).collect();
        assert!(places.take(UserId(1), subject(1), Timestamp(EXPIRES - 1)).is_err());
        let later = Timestamp(EXPIRES);
        assert!(places.forget_unwatched(&subject(1), later));
        let (_place, _seen, sender) = places.take(UserId(1), subject(1), later).unwrap();
        assert!(sender.is_some());
        // A thread that has read its clock earlier forgets nobody.
        assert!(!places.forget_unwatched(&subject(1), Timestamp(EXPIRES - 1)));
        // One that ends after all takes nothing from the others.
        drop(stalled);
        assert!(!places.forget_unwatched(&subject(1), later));
    }
}
