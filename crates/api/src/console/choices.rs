//! Lists to choose from.

use dashboard::Choice;

/// The most entries of a list, besides those that are chosen: a page stays small.
pub(super) const MOST: usize = 100;

/// The first choices, and those that are chosen.
pub(super) fn bounded(mut choices: Vec<Choice>) -> Vec<Choice> {
    let others = choices.split_off(choices.len().min(MOST)).into_iter();
    choices.extend(others.filter(|choice| choice.is_chosen));
    choices
}

/// Some choices, and the chosen one also if it is gone: a browser takes the first where none is selected.
pub(super) fn with_gone(mut choices: Vec<Choice>, chosen: Option<&str>) -> Vec<Choice> {
    let gone = chosen.filter(|chosen| choices.iter().all(|choice| choice.value != *chosen));
    choices.extend(gone.map(|gone| Choice { is_chosen: true, ..Choice::of(gone.to_owned()) }));
    choices
}
