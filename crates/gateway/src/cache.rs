//! A bounded cache that many threads share: the entry that was not used for the longest time goes first,
//! and none is returned after its time.
//!
//! Values are made, copied and dropped while their part of the cache is locked: they are small or shared, and
//! none of that may use the same cache.

use std::hash::{BuildHasher as _, Hash};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hashlink::LruCache;
use tokio::time::Instant;

use crate::lock::lock;

/// The parts of a cache that every call uses, each behind a lock of its own.
pub(crate) const SHARDS: usize = 16;

/// The cache. If it has several parts, each is bounded, so a key may find no room a little earlier than the
/// whole is full.
pub(crate) struct Cache<K, V> {
    shards: Vec<Mutex<Shard<K, V>>>,
    hasher: std::hash::RandomState,
    /// The weight of a value.
    weigh: fn(&V) -> usize,
    /// The most weight of a part.
    most: usize,
    /// The time for which an entry may be returned, and the longest time between two uses of it.
    valid: Duration,
    idle: Duration,
}

struct Shard<K, V> {
    entries: LruCache<K, Entry<V>>,
    weight: usize,
}

struct Entry<V> {
    value: V,
    weight: usize,
    since: Instant,
    used: Instant,
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache for at most so many entries, each valid for this time.
    pub(crate) fn new(most: usize, valid: Duration) -> Self {
        Self::weighted(most, |_| 1, valid)
    }

    /// An empty cache for entries of at most this weight together, each valid for this time.
    pub(crate) fn weighted(most: usize, weigh: fn(&V) -> usize, valid: Duration) -> Self {
        let hasher = std::hash::RandomState::new();
        let whole = Self { shards: Vec::new(), hasher, weigh, most, valid, idle: Duration::MAX };
        whole.in_parts(1)
    }

    /// The cache, empty and in parts, for what every call uses. An entry that takes more than its part is
    /// not kept.
    pub(crate) fn in_parts(self, parts: usize) -> Self {
        let shard = || Mutex::new(Shard { entries: LruCache::new_unbounded(), weight: 0 });
        let shards = std::iter::repeat_with(shard).take(parts).collect();
        Self { shards, most: self.most / parts, ..self }
    }

    /// The cache, with entries that expire when they were not used for this time.
    pub(crate) fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// The valid value of a key, which is used by that.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.get_in(&mut self.shard(key), key)
    }

    /// Whether a key has a valid value, which is not used by that.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.shard(key).entries.peek(key).is_some_and(|entry| self.is_valid(entry))
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let weight = (self.weigh)(&value);
        self.shard(&key).insert(key, value, weight, self.most);
    }

    /// The valid value of a key, or a new one. All who ask at once get the same.
    pub(crate) fn get_or_insert(&self, key: K, make: impl FnOnce() -> V) -> V {
        let mut shard = self.shard(&key);
        if let Some(value) = self.get_in(&mut shard, &key) {
            return value;
        }
        let value = make();
        shard.insert(key, value.clone(), (self.weigh)(&value), self.most);
        value
    }

    pub(crate) fn remove(&self, key: &K) {
        self.shard(key).remove(key);
    }

    /// Drops what has expired.
    pub(crate) fn sweep(&self) {
        for shard in &self.shards {
            lock(shard).retain(|entry| self.is_valid(entry));
        }
    }

    /// Empties the cache, and returns what was in it.
    pub(crate) fn take_all(&self) -> Vec<V> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.weight = 0;
            all.extend(shard.entries.drain().map(|(_, entry)| entry.value));
        }
        all
    }

    /// The number of entries, and their weight.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards.iter().map(lock).fold((0, 0), |(count, weight), shard| {
            (count + shard.entries.len(), weight + shard.weight)
        })
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V>> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % self.shards.len()])
    }

    fn get_in(&self, shard: &mut Shard<K, V>, key: &K) -> Option<V> {
        let entry = shard.entries.get_mut(key)?;
        if self.is_valid(entry) {
            entry.used = Instant::now();
            return Some(entry.value.clone());
        }
        shard.remove(key);
        None
    }

    fn is_valid(&self, entry: &Entry<V>) -> bool {
        entry.since.elapsed() < self.valid && entry.used.elapsed() < self.idle
    }
}

impl<K: Eq + Hash, V: Clone> Shard<K, V> {
    fn insert(&mut self, key: K, value: V, weight: usize, most: usize) {
        self.remove(&key);
        if weight > most {
            return;
        }
        while self.weight + weight > most
            && let Some((_, unused)) = self.entries.remove_lru()
        {
            self.weight -= unused.weight;
        }
        self.weight += weight;
        let now = Instant::now();
        self.entries.insert(key, Entry { value, weight, since: now, used: now });
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.weight -= entry.weight;
        }
    }

    fn retain(&mut self, keep: impl Fn(&Entry<V>) -> bool) {
        let mut weight = 0;
        self.entries.retain(|_, entry| {
            let stays = keep(entry);
            weight += if stays { entry.weight } else { 0 };
            stays
        });
        self.weight = weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_valid_for_its_time() {
        let cache = Cache::new(100, MINUTE);
        cache.insert(1, "one");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(cache.get(&1), Some("one"));
        assert_eq!(cache.get_or_insert(1, || "other"), "one");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get_or_insert(1, || "other"), "other");
        assert_eq!(cache.get(&1), Some("other"));
        cache.remove(&1);
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.size(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_is_not_used_expires() {
        let cache = Cache::new(100, Duration::MAX).idle(MINUTE);
        cache.insert(1, "used");
        cache.insert(2, "looked at");
        for _ in 0..2 {
            tokio::time::advance(MINUTE / 2).await;
            assert_eq!(cache.get(&1), Some("used"));
            cache.contains(&2);
        }
        assert!(cache.contains(&1) && !cache.contains(&2));
        cache.sweep();
        assert_eq!(cache.size(), (1, 1));
        assert_eq!(cache.take_all(), ["used"]);
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn what_is_looked_at_is_not_used() {
        let cache = Cache::new(2, Duration::MAX);
        cache.insert(1, ());
        cache.insert(2, ());
        assert!(cache.contains(&1));
        cache.insert(3, ());
        assert!(!cache.contains(&1) && cache.contains(&2) && cache.contains(&3));
    }

    #[test]
    fn the_longest_unused_make_room_by_weight() {
        let cache = Cache::weighted(100 * SHARDS, |bytes| *bytes, Duration::MAX);
        let cache = cache.in_parts(SHARDS);
        cache.insert(0, 10);
        for number in 1..1000 {
            cache.insert(number, 10);
            assert_eq!(cache.get(&0), Some(10), "what is used stays");
        }
        let (count, weight) = cache.size();
        assert_eq!(weight, count * 10);
        assert!((100..=160).contains(&count), "{count}");
        assert_eq!(cache.get(&999), Some(10));
        assert_eq!(cache.get(&1), None);
        cache.insert(999, 101);
        assert_eq!(cache.get(&999), None, "more than a part may hold");
        assert_eq!(cache.size().0, count - 1);
    }
}
