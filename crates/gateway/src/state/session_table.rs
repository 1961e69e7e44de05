//! The memory of sessions: a table of a fixed size.
//!
//! A session falls into one of many sets, and in a full set the entry that expires first makes room.
//! A session that was forgotten is one that was never known.

use std::sync::Mutex;

use domain::time::Timestamp;

use crate::lock::lock;
use crate::state::session::SessionId;

/// The number of sets.
const SETS: usize = 12_500;
/// The most sessions of one set: 100,000 in all.
const OF_ONE: usize = 8;

/// A value for each of up to 100,000 sessions.
#[derive(Debug)]
pub(crate) struct SessionTable<T>(Vec<Mutex<Vec<Entry<T>>>>);

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    session: SessionId,
    value: T,
    /// The time from which the value is worth nothing.
    until: Timestamp,
}

impl<T> Default for SessionTable<T> {
    fn default() -> Self {
        Self(std::iter::repeat_with(Mutex::default).take(SETS).collect())
    }
}

impl<T: Copy> SessionTable<T> {
    /// The value of a session, if it has not expired.
    pub(crate) fn get(&self, session: SessionId, now: Timestamp) -> Option<T> {
        let set = lock(self.set(session)?);
        let entry = set.iter().find(|entry| entry.session == session)?;
        (entry.until > now).then_some(entry.value)
    }

    /// Notes the value of a session.
    pub(crate) fn note(&self, session: SessionId, value: T, until: Timestamp) {
        let Some(set) = self.set(session) else { return };
        let mut set = lock(set);
        let entry = Entry { session, value, until };
        if let Some(known) = set.iter_mut().find(|known| known.session == session) {
            *known = entry;
        } else if set.len() < OF_ONE {
            set.reserve_exact(1);
            set.push(entry);
        } else if let Some(first) = set.iter_mut().min_by_key(|known| known.until) {
            *first = entry;
        }
    }

    /// A session is a keyed hash: any of its bytes are spread evenly.
    fn set(&self, session: SessionId) -> Option<&Mutex<Vec<Entry<T>>>> {
        self.0.get((session.number() % SETS as u64) as usize)
    }

    /// The memory of the table, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let sets = self.0.capacity() * size_of::<Mutex<Vec<Entry<T>>>>();
        let entries: usize = self.0.iter().map(|set| lock(set).capacity()).sum();
        sets + entries * size_of::<Entry<T>>()
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::KeyId;
    use routing::Warm;

    use super::*;
    use crate::state::session::SessionKey;
    use crate::state::session_traces::SessionTrace;

    const NOW: Timestamp = Timestamp(1_790_000_000_000_000);
    const LATER: Timestamp = Timestamp(1_790_000_300_000_000);

    /// The sessions with these numbers.
    fn sessions(numbers: std::ops::Range<u64>) -> Vec<SessionId> {
        let key = SessionKey::new(&[7; 32]);
        numbers.map(|number| key.named(KeyId(7), &number.to_string())).collect()
    }

    #[test]
    fn a_session_is_known_until_its_value_expires() {
        let table = SessionTable::default();
        let [one, other] = sessions(0..2)[..] else { unreachable!("there are two") };
        assert_eq!(table.get(one, NOW), None);
        table.note(one, 10, LATER);
        table.note(other, 20, LATER);
        assert_eq!(table.get(one, NOW), Some(10));
        table.note(one, 30, LATER);
        assert_eq!(table.get(one, NOW), Some(30));
        assert_eq!(table.get(other, NOW), Some(20));
        assert_eq!(table.get(one, LATER), None);
    }

    #[test]
    fn sessions_without_number_take_a_bounded_memory() {
        let table = SessionTable::default();
        let known = |sessions: &[SessionId]| {
            sessions.iter().filter(|&&session| table.get(session, NOW).is_some()).count()
        };
        let first = sessions(0..100_000);
        for &session in &first {
            table.note(session, 0_u8, LATER);
        }
        assert!(known(&first) > 80_000, "{}", known(&first));
        let more = sessions(100_000..500_000);
        for (number, &session) in (1..).zip(&more) {
            table.note(session, 0, LATER.minus_micros(-number));
        }
        let held = known(&first) + known(&more);
        assert!((99_000..=100_000).contains(&held), "{held}");
        assert!(known(&more[350_000..]) > 48_000, "the newest are known");
    }

    /// The memory of all that is kept of 100,000 sessions.
    #[test]
    fn a_hundred_thousand_sessions_fit_into_32_mib() {
        const MOST: usize = 32 * 1024 * 1024;
        let (models, traces) = (SessionTable::<Warm>::default(), SessionTable::default());
        for session in sessions(0..500_000) {
            let tier = domain::tier::Tier::Simple;
            let warm = Warm { model: domain::ids::ModelId(1), tier, cached: 1, completion: 1 };
            models.note(session, warm, LATER);
            let trace = domain::ids::TraceId::first_at(NOW);
            traces.note(session, SessionTrace { trace, calls: 1, noted: 1 }, LATER);
        }
        let bytes = models.bytes() + traces.bytes();
        assert!(bytes < MOST, "{bytes}");
        assert!(bytes < 12_000_000, "docs/routing.md: less than 12 MB, not {bytes}");
    }
}
