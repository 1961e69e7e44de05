//! Notes which of a project's own patterns could not be searched for to the end, and whether anybody still waits for the
//! verdict.

use std::cell::{Cell, RefCell};

use crate::pattern::work::{Budget, GivenUp, Shared};

/// A pattern of a project that was not searched for to the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlowPattern {
    /// The list of the settings that it is in.
    pub list: PatternList,
    /// Its place in that list.
    pub index: usize,
    /// Whether there was no time left, rather than that it took too long.
    pub stopped: bool,
}

/// The lists of patterns in `settings.safety`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PatternList {
    /// `rules`
    Rules,
    /// `recognizers`
    Recognizers,
}

impl PatternList {
    /// Its name in `settings.safety`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Recognizers => "recognizers",
        }
    }
}

/// Work on texts that ends before they are judged. The question is asked every few milliseconds.
#[derive(Clone, Copy)]
pub enum GiveUp<'s> {
    /// Nothing is given up.
    Never,
    /// The project's own patterns are, once this answers `true`; everything else is judged.
    Patterns(&'s dyn Fn() -> bool),
    /// Everything is, once this answers `true`: the verdict is [`abandoned`](crate::Verdict::abandoned).
    All(&'s dyn Fn() -> bool),
}

/// Watches over the searches in texts that are judged together.
pub(crate) struct Watch<'s> {
    give_up: GiveUp<'s>,
    slow: RefCell<Vec<SlowPattern>>,
    is_abandoned: Cell<bool>,
    shared: Shared,
}

impl<'s> Watch<'s> {
    pub(crate) fn new(give_up: GiveUp<'s>) -> Self {
        Self::with_slow(give_up, Vec::new())
    }

    /// Goes on where patterns were given up already.
    pub(crate) fn with_slow(give_up: GiveUp<'s>, slow: Vec<SlowPattern>) -> Self {
        Self {
            give_up,
            slow: RefCell::new(slow),
            is_abandoned: Cell::new(false),
            shared: Shared::default(),
        }
    }

    /// Makes room for the searches for all patterns in a text of so many bytes.
    pub(crate) fn allow(&self, bytes: usize) {
        self.shared.allow(bytes);
    }

    /// Returns the budget of the search for one pattern in a text of `bytes` bytes: a part of the budget of all.
    pub(crate) fn budget(&self, bytes: usize) -> Budget<'_> {
        Budget::part_of(&self.shared, bytes, self.stop())
    }

    /// Whether nobody waits for the verdict any more: what is found from now on does not matter.
    pub(crate) fn is_over(&self) -> bool {
        if let GiveUp::All(stop) = self.give_up
            && !self.is_abandoned.get()
        {
            self.is_abandoned.set(stop());
        }
        self.is_abandoned.get()
    }

    fn stop(&self) -> &'s dyn Fn() -> bool {
        match self.give_up {
            GiveUp::Never => &|| false,
            GiveUp::Patterns(stop) | GiveUp::All(stop) => stop,
        }
    }

    /// Searches for a pattern, unless there is no time left, and notes when it is given up.
    pub(crate) fn search<T>(
        &self,
        list: PatternList,
        index: usize,
        search: impl FnOnce() -> Result<T, GivenUp>,
    ) -> Option<T> {
        // Each costs its whole budget but once.
        if self.slow.borrow().iter().any(|known| (known.list, known.index) == (list, index)) {
            return None;
        }
        let searched = if self.stop()() { Err(GivenUp::Stopped) } else { search() };
        let given_up = match searched {
            Ok(found) => return Some(found),
            Err(given_up) => given_up,
        };
        let stopped = given_up == GivenUp::Stopped;
        if stopped && matches!(self.give_up, GiveUp::All(_)) {
            self.is_abandoned.set(true);
        }
        let slow = SlowPattern { list, index, stopped };
        self.slow.borrow_mut().push(slow);
        None
    }

    /// Returns the patterns that were given up, each once.
    pub(crate) fn slow(self) -> Vec<SlowPattern> {
        self.slow.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_was_given_up_is_not_searched_for_again() {
        let searches = Cell::new(0);
        let search = |watch: &Watch<'_>, index| {
            watch.search(PatternList::Rules, index, || {
                searches.set(searches.get() + 1);
                Err::<(), _>(GivenUp::Stopped)
            })
        };
        let watch = Watch::new(GiveUp::Never);
        for index in [0, 0, 1, 0, 1] {
            assert_eq!(search(&watch, index), None);
        }
        assert_eq!(searches.get(), 2);
        let watch = Watch::with_slow(GiveUp::Never, watch.slow());
        assert_eq!(search(&watch, 1), None);
        assert_eq!(searches.get(), 2);
        assert_eq!(watch.slow().len(), 2);
    }
}
