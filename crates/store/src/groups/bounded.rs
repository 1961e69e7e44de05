//! Values by key within one bound for all: those that were used longest ago make room.

use std::hash::Hash;

use hashlink::LruCache;

/// Values with a size each, whose sum has a bound.
#[derive(Debug)]
pub(super) struct Bounded<K, V> {
    entries: LruCache<K, (V, usize)>,
    size: usize,
    most: usize,
}

impl<K: Eq + Hash, V> Bounded<K, V> {
    /// None yet; their sizes may come to `most` together.
    pub(super) fn new(most: usize) -> Self {
        // Their sizes bound them.
        Self { entries: LruCache::new_unbounded(), size: 0, most }
    }

    /// The value of a key, which is used by this.
    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Keeps a value of a size in the place of the one before. One that is larger than the bound is not kept, and
    /// nothing else is then.
    pub(super) fn insert(&mut self, key: K, value: V, size: usize) {
        self.remove(&key);
        self.entries.insert(key, (value, size));
        self.size += size;
        while self.size > self.most {
            let Some((_, (_, size))) = self.entries.remove_lru() else { break };
            self.size -= size;
        }
    }

    /// Keeps the value of a key no longer.
    pub(super) fn remove(&mut self, key: &K) {
        self.size -= self.entries.remove(key).map_or(0, |(_, size)| size);
    }

    /// The sum of the sizes.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }
}
