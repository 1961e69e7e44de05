//! Verdicts of safety on messages, kept for when they come again: an application sends its whole
//! conversation with every turn.
//!
//! No text of a message is kept. A verdict holds locations and types, and is found by a keyed hash
//! of all that it depends on: the texts, who wrote them, and the compiled policy, each of which has
//! a random key of its own. So a text cannot be crafted to match another, and no verdict outlives
//! the settings, the project or the process that it belongs to.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use checks::Verdict;

use crate::cache::Cache;
use crate::error::Result;

/// The most memory that verdicts take, in bytes, about: some 25,000 messages.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The bytes of an entry beside its verdict.
const OVERHEAD: usize = 300;

/// The first half of an HMAC-SHA256 tag.
type Print = [u8; 16];

/// The verdicts of all projects. Cheap to clone; the clones share them.
#[derive(Clone, Debug)]
pub(crate) struct VerdictStore(Arc<Cache<Print, Verdict>>);

impl VerdictStore {
    pub(crate) fn new() -> Self {
        Self::bounded(MOST_BYTES)
    }

    fn bounded(most: usize) -> Self {
        let weigh = |verdict: &Verdict| verdict.bytes() + OVERHEAD;
        Self(Arc::new(Cache::weighted(most, weigh, Duration::MAX)))
    }
}

/// The verdicts of one compiled policy.
#[derive(Clone, Debug)]
pub(crate) struct VerdictCache {
    key: hmac::Key,
    kept: VerdictStore,
}

impl VerdictCache {
    /// An empty cache, in which no verdict of another policy can be found.
    pub(crate) fn new(kept: VerdictStore) -> Result<Self> {
        let key = store::random::<32>()?;
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), kept })
    }

    /// Begins to hash what a verdict depends on.
    pub(crate) fn hasher(&self) -> Hasher {
        Hasher(hmac::Context::with_key(&self.key))
    }

    /// The verdict on what was hashed, as it was given before, or as it is given now.
    pub(crate) fn verdict(&self, of: Hasher, judge: impl FnOnce() -> Verdict) -> Verdict {
        let print = of.finish();
        if let Some(known) = self.kept.0.get(&print) {
            return known;
        }
        let verdict = judge();
        if !verdict.abandoned {
            self.kept.0.insert(print, verdict.clone());
        }
        verdict
    }
}

/// Hashes fields, so that no two lists of fields are hashed alike.
pub(crate) struct Hasher(hmac::Context);

impl Hasher {
    /// Adds a field.
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn finish(self) -> Print {
        let tag = self.0.sign();
        let mut print = Print::default();
        print.copy_from_slice(&tag.as_ref()[..size_of::<Print>()]);
        print
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(memory: &VerdictCache, fields: &[&str]) -> Hasher {
        let mut hasher = memory.hasher();
        for field in fields {
            hasher.field(field.as_bytes());
        }
        hasher
    }

    /// Whether a cache judges a text anew.
    fn judges(memory: &VerdictCache, fields: &[&str]) -> bool {
        let mut judged = false;
        memory.verdict(hashed(memory, fields), || {
            judged = true;
            Verdict::default()
        });
        judged
    }

    #[test]
    fn what_comes_again_is_not_judged_again() {
        let memory = VerdictCache::new(VerdictStore::new()).unwrap();
        assert!(judges(&memory, &["a", "bc"]));
        assert!(!judges(&memory, &["a", "bc"]));
        assert!(!judges(&memory.clone(), &["a", "bc"]));
        for other in [&["ab", "c"][..], &["abc"], &["a", "bc", ""], &["bc", "a"]] {
            assert!(judges(&memory, other), "{other:?}");
        }
    }

    #[test]
    fn what_was_not_judged_to_its_end_is_judged_again() {
        let memory = VerdictCache::new(VerdictStore::new()).unwrap();
        let mut abandoned = Verdict::default();
        abandoned.abandoned = true;
        memory.verdict(hashed(&memory, &["a"]), || abandoned);
        assert!(judges(&memory, &["a"]));
    }

    #[test]
    fn another_policy_knows_nothing_of_it() {
        let kept = VerdictStore::new();
        let (one, other) =
            (VerdictCache::new(kept.clone()).unwrap(), VerdictCache::new(kept).unwrap());
        assert!(judges(&one, &["a"]));
        assert!(judges(&other, &["a"]));
    }

    #[test]
    fn takes_no_more_than_it_may() {
        let kept = VerdictStore::bounded(100 * 1024);
        let memory = VerdictCache::new(kept.clone()).unwrap();
        for number in 0..10_000 {
            assert!(judges(&memory, &[&number.to_string()]));
        }
        let (count, weight) = kept.0.size();
        assert!(weight <= 100 * 1024);
        assert!((1..640).contains(&count), "{count}");
        assert!(!judges(&memory, &["9999"]), "the last is still known");
        assert!(judges(&memory, &["0"]), "the first is not");
    }
}
