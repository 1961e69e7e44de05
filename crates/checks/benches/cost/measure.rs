//! Measures what a piece of work costs.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Processor time in microseconds: others that use the machine hardly change it.
pub fn micros(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let began = now();
    work();
    now() - began
}

/// The median and the 95th percentile.
pub fn quantiles(all: &mut [f64]) -> (f64, f64) {
    all.sort_by(f64::total_cmp);
    (all[all.len() / 2], all[(all.len() * 95 / 100).min(all.len() - 1)])
}

/// [`quantiles`] of the work on texts, which take turns for so many rounds: as it goes, and, for the
/// first 200 rounds, with all that it reads driven out of the processor's caches.
pub fn warm_and_cold(texts: &[String], rounds: usize, work: impl Fn(&str)) -> [(f64, f64); 2] {
    let mut cold = Vec::new();
    let mut junk = vec![1_u8; 64 << 20];
    for text in texts.iter().cycle().take(rounds.min(200)) {
        junk.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&junk);
        cold.push(micros(|| work(text)));
    }
    let texts = texts.iter().cycle().take(rounds);
    let mut warm: Vec<f64> = texts.map(|text| micros(|| work(text))).collect();
    [quantiles(&mut warm), quantiles(&mut cold)]
}
