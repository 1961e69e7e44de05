//! A latency histogram that merges: the usage ledger keeps one of many calls.

use crate::time::millis;

/// Each bucket's upper bound is this much above the one before.
const GROWTH: f64 = 1.02;
/// More than the bucket of `i64::MAX` microseconds.
const BUCKETS: u64 = 2_300;
const VERSION: u8 = 2;
/// The growth of version 1, in which earlier releases wrote.
const COARSE_GROWTH: f64 = 1.06;
const COARSE_VERSION: u8 = 1;

/// Counts of latencies in buckets of equal ratio. A percentile is off by at most 1 %; one of counts in
/// the coarse buckets of earlier releases by at most 4 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Bucket and how many fell into it, by bucket, no count zero.
    counts: Vec<(u16, u64)>,
}

impl Sketch {
    /// An empty sketch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one latency; a negative one as zero.
    pub fn record(&mut self, micros: i64) {
        self.add(bucket(micros as f64), 1);
    }

    /// Counts all that another sketch has counted.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.counts {
            self.add(bucket, count);
        }
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// The nearest-rank percentile in milliseconds, `p` from 0 to 100; `None` of an empty sketch.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let total = self.count();
        let rank = ((p.clamp(0.0, 100.0) / 100.0 * total as f64).ceil() as u64).max(1);
        let mut below = 0u64;
        let found = self.counts.iter().find(|&&(_, count)| {
            below = below.saturating_add(count);
            below >= rank
        });
        found.or(self.counts.last()).map(|&(bucket, _)| millis(1) * middle(bucket, GROWTH))
    }

    /// A compact form for storage.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        let mut last = 0;
        for &(bucket, count) in &self.counts {
            put(&mut bytes, u64::from(bucket - last));
            put(&mut bytes, count);
            last = bucket;
        }
        bytes
    }

    /// Reads [`Sketch::to_bytes`], that of earlier releases too; `None` for anything else. No bytes at all
    /// are an empty sketch.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let Some((&version, mut rest)) = bytes.split_first() else { return Some(Self::new()) };
        let is_coarse = version == COARSE_VERSION;
        if version != VERSION && !is_coarse {
            return None;
        }
        let mut counts: Vec<(u16, u64)> = Vec::new();
        while !rest.is_empty() {
            let step = take(&mut rest)?;
            let count = take(&mut rest)?;
            let last = counts.last().map(|&(bucket, _)| u64::from(bucket));
            let bucket = last.unwrap_or(0).checked_add(step).filter(|&at| at < BUCKETS)?;
            if count == 0 || (last.is_some() && step == 0) {
                return None;
            }
            counts.push((bucket as u16, count));
        }
        let read = Self { counts };
        Some(if is_coarse { read.refined() } else { read })
    }

    /// The same counts in the buckets of today.
    fn refined(&self) -> Self {
        let mut fine = Self::new();
        for &(coarse, count) in &self.counts {
            fine.add(bucket(middle(coarse, COARSE_GROWTH)), count);
        }
        fine
    }

    fn add(&mut self, bucket: u16, count: u64) {
        match self.counts.binary_search_by_key(&bucket, |&(at, _)| at) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(count),
            Err(at) => self.counts.insert(at, (bucket, count)),
        }
    }
}

/// The bucket of a latency in microseconds: bucket 0 holds zero, bucket n latencies of at most `GROWTH` to
/// the power of n - 1.
fn bucket(micros: f64) -> u16 {
    if micros <= 0.0 { 0 } else { 1 + (micros.ln() / GROWTH.ln()).ceil() as u16 }
}

/// The microseconds that stand for a bucket: as far, by ratio, from its lower bound as from its upper one.
fn middle(bucket: u16, growth: f64) -> f64 {
    let Some(power) = bucket.checked_sub(1) else { return 0.0 };
    2.0 * growth.powi(i32::from(power)) / (1.0 + growth)
}

/// Seven bits a byte, the lowest first, the high bit set on all but the last.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sketch(latencies: &[i64]) -> Sketch {
        let mut sketch = Sketch::new();
        for &micros in latencies {
            sketch.record(micros);
        }
        sketch
    }

    fn merged(a: &Sketch, b: &Sketch) -> Sketch {
        let mut both = a.clone();
        both.merge(b);
        both
    }

    #[test]
    fn the_edges() {
        assert_eq!(Sketch::new().percentile(50.0), None);
        assert_eq!(sketch(&[0, -5]).percentile(99.0), Some(0.0));
        assert!(u64::from(bucket(i64::MAX as f64)) < BUCKETS);
        assert_eq!(Sketch::from_bytes(&[]), Some(Sketch::new()));
        for broken in [&[9][..], &[2, 5], &[2, 5, 0], &[1, 5, 1, 0, 1], &[2, 0xff, 0xff, 0x7f, 1]] {
            assert_eq!(Sketch::from_bytes(broken), None, "{broken:?}");
        }
        assert!(sketch(&[1_500_000; 1000]).to_bytes().len() < 8);
    }

    #[test]
    fn sketches_of_earlier_releases_are_read() {
        // Two calls of up to 1.06^200 = 115,126 microseconds, and one of up to 1.06^300.
        let older = Sketch::from_bytes(&[1, 0xc9, 0x01, 2, 100, 1]).unwrap();
        assert_eq!(older.count(), 3);
        for (p, upper) in [(50.0, 115.126), (99.0, 39_063.0)] {
            let found = older.percentile(p).unwrap();
            assert!((found / (upper / 1.03) - 1.0).abs() < 0.011, "{found} for {upper}");
        }
        let mut all = sketch(&[0]);
        all.merge(&older);
        assert_eq!(Sketch::from_bytes(&all.to_bytes()), Some(all));
    }

    fn latencies() -> impl Strategy<Value = Vec<i64>> {
        proptest::collection::vec(0..300_000_000i64, 1..200)
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent(latencies in latencies(), p in 0.0..100.0f64) {
            let mut exact: Vec<f64> = latencies.iter().map(|&micros| millis(micros)).collect();
            exact.sort_by(f64::total_cmp);
            // Nearest rank.
            let rank = (p / 100.0 * exact.len() as f64).ceil() as usize;
            let exact = exact[rank.saturating_sub(1)];
            let found = sketch(&latencies).percentile(p).unwrap();
            prop_assert!((found - exact).abs() <= 0.01 * exact, "{found} for {exact}");
        }

        #[test]
        fn merging_is_associative_and_counts_all(a in latencies(), b in latencies(), c in latencies()) {
            let (x, y, z) = (sketch(&a), sketch(&b), sketch(&c));
            let left = merged(&merged(&x, &y), &z);
            prop_assert_eq!(&left, &merged(&x, &merged(&y, &z)));
            prop_assert_eq!(&left, &merged(&z, &merged(&y, &x)));
            prop_assert_eq!(&left, &sketch(&[a, b, c].concat()));
        }

        #[test]
        fn bytes_give_back_the_sketch(latencies in latencies(), noise in proptest::collection::vec(any::<u8>(), 0..40)) {
            let sketch = sketch(&latencies);
            prop_assert_eq!(Sketch::from_bytes(&sketch.to_bytes()), Some(sketch));
            if let Some(read) = Sketch::from_bytes(&noise) {
                prop_assert_eq!(Sketch::from_bytes(&read.to_bytes()), Some(read));
            }
        }
    }
}
