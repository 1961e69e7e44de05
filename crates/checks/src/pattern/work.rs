//! Work, counted: the same pattern and text cost the same on every machine, however busy it is.
//!
//! The unit is one state of an automaton that is looked at, about 4 ns on a slow core (`cargo bench -p checks --bench cost
//! -- --rules`).

/// As many units as one microsecond has.
const PER_MICROSECOND: u64 = 250;
/// What a rule that is saved may cost for a byte: one microsecond.
pub(crate) const PER_BYTE: u64 = PER_MICROSECOND;
/// What a rule that is saved may cost for any one byte, when nothing is known of it yet: three microseconds.
pub(crate) const AT_ONCE: u64 = 3 * PER_BYTE;
/// What a rule may cost for a byte before a search is given up. Saved rules stay below a quarter of it on long texts;
/// on short ones, where tables are not filled yet, below three.
const MOST_PER_BYTE: u64 = 4 * PER_BYTE;
/// What a rule may cost for any text besides: one millisecond, for what a search costs before it reads anything.
const FOR_ANY_TEXT: u64 = 1000 * PER_MICROSECOND;
/// How often it is asked whether to stop: after two milliseconds or less.
const BETWEEN_QUESTIONS: u64 = 500 * PER_MICROSECOND;

/// Why a search did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It would have cost too much.
    Costly,
    /// Nobody waits for it any more.
    Stopped,
}

/// What the search for one pattern in one text may still cost.
pub(crate) struct Budget<'s> {
    /// Units that are left.
    pub(super) left: u64,
    /// Whether to stop is asked when less is left.
    ask_at: u64,
    /// Units that may be spent unseen, by an engine that cannot be interrupted.
    pub(super) unseen: u64,
    /// The most that was spent on one byte.
    dearest: u64,
    stop: &'s dyn Fn() -> bool,
}

impl<'s> Budget<'s> {
    /// The budget for a text of so many bytes.
    pub(crate) fn new(bytes: usize, stop: &'s dyn Fn() -> bool) -> Self {
        let of = |per_byte: u64| per_byte.saturating_mul(bytes as u64).saturating_add(FOR_ANY_TEXT);
        let left = of(MOST_PER_BYTE);
        Self { left, ask_at: left, unseen: of(AT_ONCE), dearest: 0, stop }
    }

    /// So many units, all of them counted.
    pub(crate) fn counted(left: u64) -> Self {
        Self { left, ask_at: 0, unseen: 0, dearest: 0, stop: &|| false }
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
