//! The most that a pattern may cost for a byte, computed from its form: a bound that no text exceeds.

use regex_syntax::hir::{Class, Hir, HirKind};

/// An engine of `regex` looks at a state when it steps from it and when it gives up, or looks for the start of a match.
const ENGINES: u64 = 2;
/// States that every pattern has.
const EVERY: u64 = 2;
/// So many ranges of a class are compared in the time in which one state is looked at.
const RANGES_A_UNIT: usize = 8;
/// No state of the machine for a class in UTF-8 has more ranges that matter.
const MOST_RANGES: usize = 64;

/// How many units of work [`regex::Regex`] takes for a byte at the most.
pub(super) fn per_byte(hir: &Hir) -> u64 {
    states(hir).saturating_add(EVERY).saturating_mul(ENGINES)
}

/// How many states may be alive at once: of a class only one at a time is, whatever it is made of, since characters
/// begin at one place only.
fn states(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(class) => {
            let ranges = match class {
                Class::Unicode(class) => class.ranges().len(),
                Class::Bytes(class) => class.ranges().len(),
            };
            1 + (ranges.min(MOST_RANGES) / RANGES_A_UNIT) as u64
        }
        HirKind::Repetition(repeated) => {
            let times = u64::from(repeated.max.unwrap_or(repeated.min).max(1));
            (states(&repeated.sub) + 1).saturating_mul(times) + 1
        }
        HirKind::Capture(group) => states(&group.sub).saturating_add(1),
        HirKind::Concat(parts) => sum(parts),
        HirKind::Alternation(parts) => sum(parts).saturating_add(parts.len() as u64),
    }
}

fn sum(parts: &[Hir]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(states(part)))
}
