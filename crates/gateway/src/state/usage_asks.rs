//! Questions about usage that are likely to be asked again.
//!
//! The sums of many groups take seconds after each hour that is summed. Those of the questions that were asked
//! within a day are made again before anybody waits for them.

use std::sync::Mutex;

use domain::ids::ProjectId;
use domain::time::{DAY, Timestamp};
use hashlink::LruCache;
use store::Dimension;

use crate::lock::lock;

/// The most questions: each has two sums at a time, which find room in what the store keeps.
const MOST_ASKS: usize = 24;
/// The time after which a question is not expected any more, in microseconds.
const EXPECTED: i64 = DAY;

/// A question about usage up to now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ask {
    project: ProjectId,
    dimension: Dimension,
    since: Since,
}

/// The hour that a question begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Since {
    /// So many hours before that of the question.
    HoursAgo(i64),
    /// Always the same.
    Hour(i64),
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    last: Timestamp,
    /// When somebody asked it last, if anybody did.
    by_somebody: Option<Timestamp>,
    /// The first hour of the latest sums that were made ahead, and that up to which they go.
    made: Option<(i64, i64)>,
}

/// The latest questions.
#[derive(Debug)]
pub(crate) struct UsageAsks(Mutex<LruCache<Ask, Asked>>);

impl Default for UsageAsks {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST_ASKS)))
    }
}

impl UsageAsks {
    /// Notes a question that somebody asks.
    pub(crate) fn note(
        &self,
        project: ProjectId,
        dimension: &Dimension,
        since: Since,
        now: Timestamp,
    ) {
        self.insert((project, dimension, since), now, Some(now));
    }

    /// Notes a question that nobody may have asked yet.
    pub(crate) fn expect(
        &self,
        project: ProjectId,
        dimension: &Dimension,
        since: Since,
        now: Timestamp,
    ) {
        self.insert((project, dimension, since), now, None);
    }

    fn insert(
        &self,
        (project, dimension, since): (ProjectId, &Dimension, Since),
        last: Timestamp,
        by_somebody: Option<Timestamp>,
    ) {
        let ask = Ask { project, dimension: dimension.clone(), since };
        let mut asks = lock(&self.0);
        let before = asks.get(&ask).copied();
        let by_somebody = by_somebody.or(before.and_then(|before| before.by_somebody));
        let made = before.and_then(|before| before.made);
        asks.insert(ask, Asked { last, by_somebody, made });
    }

    /// The attributes by which somebody has asked about a project within a day.
    pub(crate) fn attributes(&self, project: ProjectId, now: Timestamp) -> Vec<Dimension> {
        let asks = lock(&self.0);
        let mut found = Vec::new();
        for (ask, asked) in asks.iter().filter(|(ask, _)| ask.project == project) {
            let is_lately = asked.by_somebody.is_some_and(|at| now.since(at) <= EXPECTED);
            let is_attribute = matches!(ask.dimension, Dimension::Attribute(_));
            if is_lately && is_attribute && !found.contains(&ask.dimension) {
                found.push(ask.dimension.clone());
            }
        }
        found
    }

    /// The sums to make for a project whose hours before `until` are summed: dimensions, and the hours that they
    /// begin with, up to that of the questions of the next hour. Each is due once.
    pub(crate) fn due(
        &self,
        project: ProjectId,
        until: i64,
        now: Timestamp,
    ) -> Vec<(Dimension, i64)> {
        let mut asks = lock(&self.0);
        asks.retain(|_, asked| now.since(asked.last) <= EXPECTED);
        let mut due = Vec::new();
        for (ask, asked) in asks.iter_mut().filter(|(ask, _)| ask.project == project) {
            let (first, last) = match ask.since {
                Since::HoursAgo(hours) => (now.hour() - hours, now.hour() - hours + 1),
                Since::Hour(hour) => (hour, hour),
            };
            let made = asked.made.filter(|made| made.1 == until).map_or(first - 1, |made| made.0);
            due.extend((first.max(made + 1)..=last).map(|from| (ask.dimension.clone(), from)));
            asked.made = Some((last, until));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use domain::time::{HOUR, MINUTE};

    use super::*;

    const PROJECT: ProjectId = ProjectId(1);

    fn due(asks: &UsageAsks, until: i64, now: Timestamp) -> Vec<i64> {
        let due = asks.due(PROJECT, until, now);
        assert!(due.iter().all(|(dimension, _)| *dimension == Dimension::Model), "{due:?}");
        due.into_iter().map(|(_, from)| from).collect()
    }

    #[test]
    fn a_window_is_made_for_this_hour_and_the_next() {
        let asks = UsageAsks::default();
        let at = |hour: i64, minute: i64| Timestamp(hour * HOUR + minute * MINUTE);
        let note = |now| asks.note(PROJECT, &Dimension::Model, Since::HoursAgo(24), now);
        note(at(1_000, 7));
        assert_eq!(asks.due(ProjectId(2), 1_000, at(1_000, 8)), []);
        assert_eq!(due(&asks, 1_000, at(1_000, 8)), [976, 977]);
        assert_eq!(due(&asks, 1_000, at(1_000, 9)), [0; 0], "each is due once");
        note(at(1_000, 10));
        assert_eq!(due(&asks, 1_000, at(1_000, 11)), [0; 0]);
        // The next hour begins, and then the one before it is summed.
        assert_eq!(due(&asks, 1_000, at(1_001, 1)), [978]);
        assert_eq!(due(&asks, 1_001, at(1_001, 6)), [977, 978]);
        // Nobody has asked for a day.
        assert_eq!(due(&asks, 1_024, at(1_024, 10)), [1_000, 1_001]);
        assert_eq!(due(&asks, 1_025, at(1_024, 11)), [0; 0]);
    }

    #[test]
    fn what_is_only_expected_is_not_asked() {
        let asks = UsageAsks::default();
        let at = |hour: i64| Timestamp(hour * HOUR);
        let [team, user] = ["tag:team", "user"].map(|name| Dimension::parse(name).unwrap());
        asks.note(PROJECT, &team, Since::HoursAgo(24), at(1_000));
        asks.note(PROJECT, &Dimension::Model, Since::HoursAgo(24), at(1_000));
        for hour in 1_000..1_030 {
            asks.expect(PROJECT, &team, Since::HoursAgo(24), at(hour));
            asks.expect(PROJECT, &user, Since::HoursAgo(24), at(hour));
        }
        assert_eq!(asks.attributes(PROJECT, at(1_024)), [team]);
        assert_eq!(asks.attributes(PROJECT, at(1_025)), []);
        assert_eq!(asks.attributes(ProjectId(2), at(1_000)), []);
        let due = asks.due(PROJECT, 1_030, at(1_030));
        assert!(due.iter().any(|(by, _)| *by == user), "{due:?}");
    }

    #[test]
    fn a_period_of_dates_is_made_while_it_goes_on() {
        let asks = UsageAsks::default();
        let now = Timestamp(1_000 * HOUR);
        asks.note(PROJECT, &Dimension::Model, Since::Hour(970), now);
        assert_eq!(due(&asks, 1_000, now), [970]);
        assert_eq!(due(&asks, 1_000, Timestamp(now.0 + HOUR)), [0; 0]);
        assert_eq!(due(&asks, 1_001, Timestamp(now.0 + HOUR)), [970]);
    }
}
