//! Bias drift: whether a model's behaviour has changed between two windows.

use std::cmp::Reverse;

/// A figure that moved by more than this is flagged.
pub const DRIFT_LIMIT: f64 = 0.2;
/// Least number of run steps in each window for a drift report.
pub const MIN_DRIFT_SAMPLES: u64 = 50;

/// Bins of a figure with few samples, and with many.
const MIN_GROUPS: u64 = 2;
const MAX_GROUPS: u64 = 10;
/// Samples of each window for another bin.
const SAMPLES_A_GROUP: u64 = 25;

/// A language stays apart if its share has changed by so many standard errors.
const MOVED_LANGUAGE: f64 = 3.0;
/// A bin beyond all others is few if it holds less than this part of all samples.
const FEW: u64 = 10;

/// A model's answers in a window, as counts per bin. Bins mean the same in every window, and those of
/// length and latency are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// All run steps.
    pub samples: u64,
    /// Counts by length of the output.
    pub output_length: Vec<u64>,
    /// Number of refusals.
    pub refusals: u64,
    /// Counts by latency.
    pub latency: Vec<u64>,
    /// Counts by language of the output.
    pub language: Vec<u64>,
}

/// The change of each figure of a model from one window to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct DriftReport {
    /// The model's identifier.
    pub model: String,
    /// Run steps in the window.
    pub samples: u64,
    /// Run steps in the window before.
    pub baseline_samples: u64,
    /// PSI of output length.
    pub output_length: f64,
    /// PSI of the refusal rate.
    pub refusal_rate: f64,
    /// PSI of latency.
    pub latency: f64,
    /// PSI of output language.
    pub language: f64,
    /// Whether any of the indices is above [`DRIFT_LIMIT`].
    pub flagged: bool,
}

/// Compares two windows of one model; `None` when either has too few samples.
pub fn drift(model: &str, before: &Profile, after: &Profile) -> Option<DriftReport> {
    if before.samples.min(after.samples) < MIN_DRIFT_SAMPLES {
        return None;
    }
    let refusals = |p: &Profile| [p.refusals, p.samples.saturating_sub(p.refusals)];
    // Each bin adds to the index by chance, the more the fewer samples there are.
    let groups = before.samples.min(after.samples) / SAMPLES_A_GROUP;
    let groups = groups.clamp(MIN_GROUPS, MAX_GROUPS);
    let ordered = |before: &[u64], after: &[u64]| {
        let (before, after) = grouped(before, after, groups);
        psi(&before, &after)
    };
    let moved = [
        ordered(&before.output_length, &after.output_length),
        psi(&refusals(before), &refusals(after)),
        ordered(&before.latency, &after.latency),
        {
            let (before, after) = frequent(&before.language, &after.language, groups);
            psi(&before, &after)
        },
    ];
    let [output_length, refusal_rate, latency, language] = moved;
    Some(DriftReport {
        model: model.to_owned(),
        samples: after.samples,
        baseline_samples: before.samples,
        output_length,
        refusal_rate,
        latency,
        language,
        flagged: moved.iter().any(|&psi| psi > DRIFT_LIMIT),
    })
}

/// Joins neighbouring bins to about `groups` that had as many samples each before. Bins below and above
/// all samples of before stay apart if they hold many now: what is there is new.
fn grouped(before: &[u64], after: &[u64], groups: u64) -> (Vec<u64>, Vec<u64>) {
    let all: u64 = before.iter().sum();
    let (mut joined, mut seen, mut closed) = (vec![(0, 0)], 0, 0);
    for bin in 0..before.len().max(after.len()) {
        let at = |counts: &[u64]| counts.get(bin).copied().unwrap_or(0);
        let (had, has) = (at(before), at(after));
        if seen == 0 && had > 0 {
            joined.push((0, 0));
        }
        if let Some(last) = joined.last_mut() {
            *last = (last.0 + had, last.1 + has);
        }
        seen += had;
        if had > 0 && seen * groups >= all * (closed + 1) {
            closed = seen * groups / all;
            joined.push((0, 0));
        }
    }
    let now: u64 = after.iter().sum();
    // A few samples beyond all others are what chance does.
    let is_few = |&(had, has): &(u64, u64)| had == 0 && has * FEW < now;
    if joined.len() > 1 && joined.last().is_some_and(is_few) {
        let (_, has) = joined.pop().unwrap_or_default();
        if let Some(last) = joined.last_mut() {
            last.1 += has;
        }
    }
    if joined.len() > 1 && joined.first().is_some_and(is_few) {
        let (_, has) = joined.remove(0);
        if let Some(first) = joined.first_mut() {
            first.1 += has;
        }
    }
    joined.into_iter().unzip()
}

/// Joins bins without an order to about `groups`: the most frequent ones stay apart, the others are one.
/// Those are the most frequent of both windows together, so that the choice favours neither. A bin whose
/// share has changed much, up or down, stays apart as well.
fn frequent(before: &[u64], after: &[u64], groups: u64) -> (Vec<u64>, Vec<u64>) {
    let at = |counts: &[u64], bin: usize| counts.get(bin).copied().unwrap_or(0);
    let bins = 0..before.len().max(after.len());
    let mut kept: Vec<(u64, u64)> = bins.map(|bin| (at(before, bin), at(after, bin))).collect();
    let (all, now) = (before.iter().sum::<u64>(), after.iter().sum::<u64>());
    // The sum of the shares in both windows, times both sums.
    let share = |&(had, has): &(u64, u64)| {
        u128::from(had) * u128::from(now) + u128::from(has) * u128::from(all)
    };
    kept.sort_by_key(|bin| Reverse(share(bin)));
    let most = usize::try_from(groups.saturating_sub(1)).unwrap_or(usize::MAX);
    let others = kept.split_off(kept.len().min(most));
    let has_moved = |&(had, has): &(u64, u64)| {
        let (all, now) = (all as f64, now as f64);
        let both = (had + has) as f64 / (all + now);
        let error = (both * (1.0 - both) * (1.0 / all + 1.0 / now)).sqrt();
        (had as f64 / all - has as f64 / now).abs() > MOVED_LANGUAGE * error
    };
    let (moved, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(has_moved);
    let rest = rest.iter().fold((0, 0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
    kept.into_iter().chain(moved).chain([rest]).unzip()
}

/// The population stability index of two binned counts: 0 when they are alike.
///
/// Half an observation is added to every bin that either side uses, so that an empty one does not
/// make the index infinite. A shorter side is empty in the bins it lacks; 0 when either is empty.
pub fn psi(before: &[u64], after: &[u64]) -> f64 {
    let bins = before.len().max(after.len());
    let at = |counts: &[u64], bin: usize| counts.get(bin).copied().unwrap_or(0);
    let used: Vec<(f64, f64)> = (0..bins)
        .map(|bin| (at(before, bin), at(after, bin)))
        .filter(|&(b, a)| b > 0 || a > 0)
        .map(|(b, a)| (b as f64 + 0.5, a as f64 + 0.5))
        .collect();
    if before.iter().all(|&n| n == 0) || after.iter().all(|&n| n == 0) {
        return 0.0;
    }
    let (b_sum, a_sum) = used.iter().fold((0.0, 0.0), |(x, y), (b, a)| (x + b, y + a));
    used.iter().map(|(b, a)| (b / b_sum, a / a_sum)).map(|(b, a)| (a - b) * (a / b).ln()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn profile(samples: u64, refusals: u64) -> Profile {
        Profile { samples, refusals, output_length: vec![samples], ..Profile::default() }
    }

    #[test]
    fn too_few_samples_say_nothing() {
        assert_eq!(drift("m", &profile(49, 0), &profile(500, 0)), None);
        assert_eq!(drift("m", &profile(50, 0), &profile(49, 0)), None);
        assert!(drift("m", &profile(50, 0), &profile(50, 0)).is_some_and(|found| !found.flagged));
    }

    #[test]
    fn refusals_that_rise_are_flagged() {
        let found = drift("m", &profile(100, 1), &profile(100, 20)).unwrap();
        assert!(found.flagged && found.refusal_rate > DRIFT_LIMIT);
        assert_eq!((found.samples, found.baseline_samples), (100, 100));
        assert!(found.latency.abs() < 1e-12);
    }

    #[test]
    fn a_known_index() {
        // (0.6 - 0.5) ln(0.6 / 0.5) + (0.4 - 0.5) ln(0.4 / 0.5)
        let exact = 0.1 * 1.2f64.ln() - 0.1 * 0.8f64.ln();
        assert!((psi(&[500_000, 500_000], &[600_000, 400_000]) - exact).abs() < 1e-5);
    }

    #[test]
    fn a_shift_out_of_all_bins_of_before_is_seen() {
        let of = |bin: usize| {
            let mut bins = vec![0; 8];
            bins[bin] = 60;
            Profile {
                samples: 60,
                output_length: bins.clone(),
                latency: bins,
                ..Profile::default()
            }
        };
        for (before, after) in [(3, 4), (3, 2), (0, 7), (7, 0)] {
            let found = drift("m", &of(before), &of(after)).unwrap();
            assert!(found.flagged && found.output_length > 1.0 && found.latency > 1.0, "{found:?}");
        }
        let same = drift("m", &of(3), &of(3)).unwrap();
        assert!(!same.flagged && same.latency.abs() < 1e-12, "{same:?}");
    }

    #[test]
    fn chance_is_seldom_flagged() {
        // Latencies and languages of one distribution each, drawn by a plain generator.
        let mut state = 7_u64;
        let mut draw = move |samples: u64, languages: u64| {
            let (mut bins, mut language) = (vec![0; 12], vec![0; languages as usize]);
            for _ in 0..samples {
                let mut sum = 0;
                for _ in 0..4 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    sum += (state >> 33) % 4;
                }
                bins[sum as usize % 12] += 1;
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                language[((state >> 33) % languages) as usize] += 1;
            }
            Profile { samples, latency: bins, language, ..Profile::default() }
        };
        for samples in [50, 100, 1_000] {
            for languages in [1, 2, 5, 10, 20] {
                let found = (0..200).map(|_| {
                    let (before, after) = (draw(samples, languages), draw(samples, languages));
                    drift("m", &before, &after).unwrap()
                });
                let found: Vec<DriftReport> = found.collect();
                let above = |index: fn(&DriftReport) -> f64| {
                    found.iter().filter(|found| index(found) > DRIFT_LIMIT).count()
                };
                let flagged = [above(|found| found.latency), above(|found| found.language)];
                assert!(
                    flagged.iter().all(|&flagged| flagged <= 12),
                    "{samples}, {languages} languages: {flagged:?} of 200"
                );
            }
        }
    }

    #[test]
    fn a_language_that_takes_over_is_flagged() {
        let of = |language: &[u64]| Profile {
            samples: 50,
            language: language.to_vec(),
            ..Profile::default()
        };
        for (before, after) in [
            (&[50, 0][..], &[30, 20][..]),
            (&[0, 50], &[50, 0]),
            (&[5; 10], &[0, 0, 0, 50, 0, 0, 0, 0, 0, 0]),
            (&[30, 20, 0], &[30, 0, 20]),
            (&[40, 2, 2, 2, 2, 2], &[10, 8, 8, 8, 8, 8]),
            (&[25, 24, 1], &[25, 1, 24]),
            (&[25, 13, 12], &[25, 25, 0]),
        ] {
            let found = drift("m", &of(before), &of(after)).unwrap();
            assert!(
                found.flagged && found.language > DRIFT_LIMIT,
                "{before:?} {after:?} {found:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn groups_hold_all_samples(
            before in proptest::collection::vec(0..100u64, 0..20),
            after in proptest::collection::vec(0..100u64, 0..20),
            groups in 2..10u64,
        ) {
            let (had, has) = grouped(&before, &after, groups);
            prop_assert_eq!(had.iter().sum::<u64>(), before.iter().sum::<u64>());
            prop_assert_eq!(has.iter().sum::<u64>(), after.iter().sum::<u64>());
            prop_assert!(had.len() as u64 <= groups + 3);
        }

        #[test]
        fn the_index_is_finite_and_never_negative(
            before in proptest::collection::vec(0..1_000_000u64, 0..20),
            after in proptest::collection::vec(0..1_000_000u64, 0..20),
        ) {
            let moved = psi(&before, &after);
            prop_assert!(moved.is_finite() && moved >= 0.0);
            prop_assert!((moved - psi(&after, &before)).abs() < 1e-9);
            prop_assert!(psi(&before, &before).abs() < 1e-12);
        }
    }
}
