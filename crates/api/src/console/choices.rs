//! Lists to choose from.

use dashboard::Choice;

/// The most entries of a list, besides the chosen one: a page stays small.
pub(super) const MOST: usize = 100;

/// The first choices, and the one that is chosen.
pub(super) fn bounded(mut choices: Vec<Choice>) -> Vec<Choice> {
    let mut others = choices.split_off(choices.len().min(MOST)).into_iter();
    choices.extend(others.find(|choice| choice.is_chosen));
    choices
}
