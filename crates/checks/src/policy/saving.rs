//! The cost of a project's own patterns, measured when they are saved.

use std::collections::HashMap;

use domain::safety::Safety;

use crate::pattern::Pattern;
use crate::pattern::trial::{self, Trial};
use crate::pattern::work::{ALL_PER_BYTE, ALL_UNSEEN};
use crate::policy::compiled::{MAX_MATCHES, MAX_RULES};
use crate::report::MAX_FINDINGS;

/// The message for patterns that cost too much together, but not each by itself.
const TOO_DEAR: &str = "settings.safety: the patterns of all rules and recognizers take more than 4,000 ns together for a \
                        byte of a text: use fewer of them, or fewer and smaller counted repetitions";

/// Returns what is wrong with the cost of patterns not among those `before`, and of all together if there are more of
/// them. Called when settings are saved, it takes seconds if they are hostile; settings saved before continue to
/// work, within the budget of every search. It ends early when `stop` answers `true`.
pub fn slow_to_save(safety: &Safety, before: &Safety, stop: &dyn Fn() -> bool) -> Vec<String> {
    let mut trial = Trial::default();
    let known = all(before);
    let new: Vec<_> =
        all(safety).into_iter().filter(|one| !known.iter().any(|k| k.is(one))).collect();
    let mut tried: HashMap<(&str, usize), Option<String>> = HashMap::new();
    // Patterns that cannot be compiled are refused elsewhere.
    let faults = new.iter().filter_map(|one| {
        let fault = tried.entry((one.pattern, one.most)).or_insert_with(|| {
            let pattern = Pattern::compile(one.pattern).ok().filter(|_| !stop())?;
            trial.run(&pattern, one.most, stop).err()
        });
        let fault = fault.as_ref()?;
        Some(format!("settings.safety.{}[{}].pattern: {fault}", one.list, one.index))
    });
    let mut faults: Vec<String> = faults.collect();
    let count = |among: &[Own<'_>], one: &Own<'_>| among.iter().filter(|own| own.is(one)).count();
    let all = all(safety);
    let has_more = all.iter().any(|one| count(&all, one) > count(&known, one));
    if faults.is_empty() && has_more && cost_too_much(&all, stop) {
        faults.push(TOO_DEAR.to_owned());
    }
    faults
}

/// A pattern of a project.
struct Own<'p> {
    list: &'static str,
    index: usize,
    pattern: &'p str,
    most: usize,
}

impl Own<'_> {
    fn is(&self, other: &Own<'_>) -> bool {
        (self.pattern, self.list) == (other.pattern, other.list)
    }
}

fn all(safety: &Safety) -> Vec<Own<'_>> {
    let rules = safety.rules.iter().take(MAX_RULES).enumerate();
    let rules = rules.map(|(index, rule)| ("rules", index, &*rule.pattern, MAX_MATCHES));
    let own = safety.recognizers.iter().enumerate();
    let own = own.map(|(index, own)| ("recognizers", index, &*own.pattern, MAX_FINDINGS + 1));
    rules
        .chain(own)
        .map(|(list, index, pattern, most)| Own { list, index, pattern, most })
        .collect()
}

/// Whether patterns do not fit into what the searches for all of them may cost, each counted as often as it stands.
fn cost_too_much(all: &[Own<'_>], stop: &dyn Fn() -> bool) -> bool {
    let mut patterns: HashMap<(&str, usize), (Pattern, u64)> = HashMap::new();
    for one in all {
        let key = (one.pattern, one.most);
        if let Some((_, count)) = patterns.get_mut(&key) {
            *count += 1;
        } else if let Some(pattern) = Pattern::compile(one.pattern).ok().filter(|_| !stop()) {
            patterns.insert(key, (pattern, 1));
        }
    }
    let worst = |(pattern, count): &(Pattern, u64)| pattern.worst().saturating_mul(*count);
    let sum = |costs: &mut dyn Iterator<Item = u64>| costs.fold(0, u64::saturating_add);
    if sum(&mut patterns.values().map(worst)) <= ALL_UNSEEN {
        return false;
    }
    let mut trial = Trial::default();
    let mut left = ALL_PER_BYTE;
    patterns.iter().any(|((_, most), (pattern, count))| {
        let cost = trial.cost(pattern, *most, stop).unwrap_or(u64::MAX);
        let fits = left.checked_sub(cost.saturating_mul(*count));
        left = fits.unwrap_or_default();
        fits.is_none()
    })
}

/// The texts on which a pattern is tried before it is saved, each with a name: for measurements.
#[doc(hidden)]
pub fn hostile_texts(pattern: &str) -> Vec<(String, String)> {
    Pattern::compile(pattern).map(|pattern| trial::texts(pattern.hir())).unwrap_or_default()
}
