//! A project's settings, compiled.

use domain::safety::{Action, Category, PolicyRule, Safety};

use crate::pattern::watch::{PatternList, SlowPattern};
use crate::pattern::work::{ALL_PER_BYTE, ALL_UNSEEN, PER_BYTE};
use crate::pattern::{Pattern, TOO_LONG_TO_COMPILE, cost_of};
use crate::recognizers::Recognizers;

/// More rules than this are refused.
pub(crate) const MAX_RULES: usize = 100;
/// A longer pattern is refused.
const MAX_PATTERN: usize = 1024;
/// How many matches of one rule are reported for one text.
pub(crate) const MAX_MATCHES: usize = 100;

/// The settings of one project, ready to judge texts. Compile once, share in an `Arc`.
#[derive(Debug)]
pub struct Policy {
    pub(super) safety: Safety,
    pub(super) patterns: Vec<Pattern>,
    pub(super) recognizers: Recognizers,
}

impl Policy {
    /// Compiles the rules and the recognizers. Every error names the setting it is about.
    pub fn compile(safety: &Safety) -> Result<Self, Vec<String>> {
        Self::compile_until(safety, &|| false)
    }

    /// Compiles as [`Policy::compile`] does, until `stop` answers `true`, which is an error. It is asked between patterns.
    pub fn compile_until(safety: &Safety, stop: &dyn Fn() -> bool) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        if safety.rules.len() > MAX_RULES {
            errors.push(format!("settings.safety.rules: at most {MAX_RULES} rules are allowed"));
        }
        let mut patterns = Vec::new();
        for (index, rule) in safety.rules.iter().take(MAX_RULES).enumerate() {
            if stop() {
                return Err(vec![TOO_LONG_TO_COMPILE.to_owned()]);
            }
            match rule_pattern(rule) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => {
                    errors.push(format!("settings.safety.rules[{index}].pattern: {error}"));
                }
            }
        }
        let streams = safety.output_pii != Action::Flag;
        match Recognizers::compile(&safety.recognizers, streams, stop) {
            Ok(recognizers) if errors.is_empty() => {
                Ok(Self { safety: safety.clone(), patterns, recognizers })
            }
            Ok(_) => Err(errors),
            Err(more) => Err([errors, more].concat()),
        }
    }

    /// As many bytes as a text of so many counts for that is judged by this project's own patterns as well, when it is asked
    /// whether a text is long.
    pub fn effort(&self, bytes: usize) -> usize {
        let own = self.recognizers.worst().saturating_add(cost_of(&self.patterns));
        // Searches are given up beyond that.
        let own = own.min(ALL_UNSEEN + ALL_PER_BYTE);
        let times = usize::try_from(own / PER_BYTE).unwrap_or(usize::MAX).saturating_add(1);
        bytes.saturating_mul(times)
    }

    /// The settings this was compiled from.
    pub fn safety(&self) -> &Safety {
        &self.safety
    }

    /// Returns the action of the settings for outputs in which something of a category is found.
    pub fn output_action(&self, category: Category) -> Action {
        match category {
            Category::Secret => self.safety.output_secrets,
            Category::Pii => self.safety.output_pii,
            Category::Injection | Category::Policy => Action::Flag,
        }
    }

    /// Whether what is found of a category in outputs is redacted or blocks them.
    pub(crate) fn acts_on(&self, category: Category) -> bool {
        self.output_action(category) != Action::Flag
    }

    /// Whether anything that is found in outputs is redacted or blocks them.
    pub fn acts_on_outputs(&self) -> bool {
        self.acts_on(Category::Secret) || self.acts_on(Category::Pii)
    }

    /// The name of a pattern.
    pub fn name_of(&self, slow: &SlowPattern) -> &str {
        match slow.list {
            PatternList::Rules => self.safety.rules.get(slow.index).map(|rule| &*rule.name),
            PatternList::Recognizers => {
                self.safety.recognizers.get(slow.index).map(|own| &*own.name)
            }
        }
        .unwrap_or_default()
    }

    pub(super) fn rule_action(&self, slow: &SlowPattern) -> Option<Action> {
        self.safety.rules.get(slow.index).map(|rule| rule.action)
    }

    pub(crate) fn recognizers(&self) -> &Recognizers {
        &self.recognizers
    }
}

fn rule_pattern(rule: &PolicyRule) -> Result<Pattern, String> {
    if !matches!(rule.action, Action::Flag | Action::Block) {
        return Err("the action of a rule is `flag` or `block`".to_owned());
    }
    if rule.pattern.len() > MAX_PATTERN {
        return Err(format!("a pattern has at most {MAX_PATTERN} bytes"));
    }
    Pattern::compile(&rule.pattern)
}
