//! The cost of a project's own patterns, asked when they are saved.

use domain::safety::Safety;

use crate::MAX_FINDINGS;
use crate::pattern::Pattern;
use crate::pattern::trial::Trial;
use crate::policy::{MAX_MATCHES, MAX_RULES};

/// What is wrong with the cost of patterns that were not among those `before`. It is asked when settings are saved, and
/// takes seconds where they are hostile: what was saved before goes on to work, within the budget of every search.
pub fn slow_to_save(safety: &Safety, before: &Safety) -> Vec<String> {
    let mut trial = Trial::default();
    let rules = safety.rules.iter().take(MAX_RULES).enumerate();
    let rules = rules.filter(|(_, rule)| !before.rules.iter().any(|b| b.pattern == rule.pattern));
    let own = safety.recognizers.iter().enumerate();
    let own = own.filter(|(_, own)| !before.recognizers.iter().any(|b| b.pattern == own.pattern));
    let rules = rules.map(|(index, rule)| ("rules", index, &rule.pattern, MAX_MATCHES));
    let own = own.map(|(index, own)| ("recognizers", index, &own.pattern, MAX_FINDINGS + 1));
    // What cannot be compiled is refused elsewhere.
    let faults = rules.chain(own).filter_map(|(list, index, pattern, most)| {
        let fault = trial.run(&Pattern::compile(pattern).ok()?, most).err()?;
        Some(format!("settings.safety.{list}[{index}].pattern: {fault}"))
    });
    faults.collect()
}

/// The texts on which a pattern is tried before it is saved, each with a name: for measurements.
#[doc(hidden)]
pub fn hostile_texts(pattern: &str) -> Vec<(String, String)> {
    Pattern::compile(pattern).map(|pattern| pattern.hostile_texts()).unwrap_or_default()
}
