//! Work, counted: the same pattern and text cost the same on every machine, however busy it is.
//!
//! The unit is one state of an automaton that is looked at, about 4 ns on a slow core (`cargo bench -p checks --bench cost
//! -- --rules`).

use std::cell::Cell;

/// As many units as one microsecond has.
const PER_MICROSECOND: u64 = 250;
/// The most that a saved rule may cost for a byte: one microsecond.
pub(crate) const PER_BYTE: u64 = PER_MICROSECOND;
/// The most that a saved rule may cost for any one byte, when nothing is known of it yet: three microseconds.
pub(crate) const AT_ONCE: u64 = 3 * PER_BYTE;
/// The cost of a rule for a byte at which a search is given up. Saved rules stay below a quarter of it on long texts;
/// on short ones, where tables are not filled yet, below three.
const MOST_PER_BYTE: u64 = 4 * PER_BYTE;
/// The further cost allowed a rule for any text: one millisecond, for the work of a search before it reads anything.
const FOR_ANY_TEXT: u64 = 1000 * PER_MICROSECOND;
/// The most that all patterns of a project may cost for a byte of one text, as far as it is counted, and as far as it is
/// not: a hundred ordinary rules cost less than a third of it.
pub(crate) const ALL_PER_BYTE: u64 = MOST_PER_BYTE;
pub(crate) const ALL_UNSEEN: u64 = 12 * PER_BYTE;
/// The further cost allowed them for all texts that are judged together.
const FOR_ALL_TEXTS: u64 = FOR_ANY_TEXT;
/// So many bytes a text counts for besides its own: to begin a search takes time as well.
const BEGIN: u64 = 16;
/// How often `stop` is called: after two milliseconds or less.
const BETWEEN_QUESTIONS: u64 = 500 * PER_MICROSECOND;

/// Why a search did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It would have cost too much.
    Costly,
    /// Nobody waits for it any more.
    Stopped,
}

/// The remaining budget of the searches for all patterns of a project.
#[derive(Debug)]
pub(crate) struct Shared {
    left: Cell<u64>,
    unseen: Cell<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { left: Cell::new(FOR_ALL_TEXTS), unseen: Cell::new(FOR_ALL_TEXTS) }
    }
}

impl Shared {
    /// Makes room for a text of so many bytes.
    pub(crate) fn allow(&self, bytes: usize) {
        let bytes = (bytes as u64).saturating_add(BEGIN);
        let add = |room: &Cell<u64>, per_byte: u64| {
            room.set(room.get().saturating_add(bytes.saturating_mul(per_byte)));
        };
        add(&self.left, ALL_PER_BYTE);
        add(&self.unseen, ALL_UNSEEN);
    }

    fn take(room: &Cell<u64>, units: u64) {
        room.set(room.get().saturating_sub(units));
    }
}

/// The remaining budget of the search for one pattern in one text.
pub(crate) struct Budget<'s> {
    /// Units that are left.
    pub(super) left: u64,
    /// Whether to stop is asked when less is left.
    ask_at: u64,
    /// Units that may be spent unseen, by an engine that cannot be interrupted.
    pub(super) unseen: u64,
    /// The amounts given of both.
    given: (u64, u64),
    /// The most that was spent on one byte.
    dearest: u64,
    stop: &'s dyn Fn() -> bool,
    /// The shared budget that it is a part of.
    shared: Option<&'s Shared>,
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared {
            Shared::take(&shared.left, self.given.0 - self.left);
            Shared::take(&shared.unseen, self.given.1 - self.unseen);
        }
    }
}

impl<'s> Budget<'s> {
    /// The budget for a text of so many bytes.
    pub(crate) fn new(bytes: usize, stop: &'s dyn Fn() -> bool) -> Self {
        let of = |per_byte: u64| per_byte.saturating_mul(bytes as u64).saturating_add(FOR_ANY_TEXT);
        let (left, unseen) = (of(MOST_PER_BYTE), of(AT_ONCE));
        Self { left, ask_at: left, unseen, given: (left, unseen), dearest: 0, stop, shared: None }
    }

    /// The budget for a text of so many bytes, as far as what is shared has room.
    pub(crate) fn part_of(shared: &'s Shared, bytes: usize, stop: &'s dyn Fn() -> bool) -> Self {
        let own = Self::new(bytes, stop);
        let left = own.left.min(shared.left.get());
        let unseen = own.unseen.min(shared.unseen.get());
        let given = (left, unseen);
        Self { left, ask_at: left, unseen, given, dearest: 0, stop, shared: Some(shared) }
    }

    /// So many units, all of them counted.
    pub(crate) fn counted(left: u64, stop: &'s dyn Fn() -> bool) -> Self {
        let given = (left, 0);
        Self { left, ask_at: left, unseen: 0, given, dearest: 0, stop, shared: None }
    }

    /// Whether an engine that cannot be interrupted may start a search that costs so much at the most.
    pub(crate) fn may_spend_unseen(&self, units: u64) -> bool {
        units <= self.unseen
    }

    /// Such an engine has spent so much at the most.
    pub(crate) fn spent_unseen(&mut self, units: u64) {
        self.unseen = self.unseen.saturating_sub(units);
    }

    /// So many units are spent.
    #[inline]
    pub(crate) fn spend(&mut self, units: u64) -> Result<(), GivenUp> {
        let Some(left) = self.left.checked_sub(units) else { return Err(GivenUp::Costly) };
        self.left = left;
        if left < self.ask_at { self.ask() } else { Ok(()) }
    }

    /// So many units are spent on one byte of which was not known yet what follows.
    pub(crate) fn spend_at_once(&mut self, units: u64) -> Result<(), GivenUp> {
        self.dearest = self.dearest.max(units);
        self.spend(units)
    }

    /// The most that was spent on one byte.
    pub(crate) fn dearest(&self) -> u64 {
        self.dearest
    }

    /// Asks whether to stop.
    #[cold]
    pub(crate) fn ask(&mut self) -> Result<(), GivenUp> {
        self.ask_at = self.left.saturating_sub(BETWEEN_QUESTIONS);
        if (self.stop)() { Err(GivenUp::Stopped) } else { Ok(()) }
    }

    /// Units that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}
