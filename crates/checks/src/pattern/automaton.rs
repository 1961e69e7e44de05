//! A lazy automaton that counts every state it looks at and can be interrupted at any byte.
//!
//! It finds what `regex` finds (leftmost, the first alternative preferred). `regex` may step through thousands of states
//! for one byte and comes back only at the end of a search. This one is slower on ordinary patterns, and is used where
//! the other might take too long.
//!
//! A state of the automaton is an ordered list of states of the NFA. Its successor for a byte is computed once and kept
//! in a table. Which assertions (`\b`, `^`) hold at a place is part of the key, so no text makes it slower than another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regex_automata::nfa::thompson::{NFA, State, WhichCaptures};
use regex_automata::util::alphabet::ByteClasses;
use regex_automata::util::look::{Look, LookMatcher};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::Hir;

use crate::pattern::work::{Budget, GivenUp};

/// A table that takes more bytes is emptied.
const MAX_TABLE: usize = 1 << 20;
/// An NFA that takes more bytes is not built.
const MAX_NFA: usize = 8 << 20;
/// Patterns with more kinds of assertions have no table.
const MAX_LOOKS: usize = 4;
/// So many tables are kept for the next search.
const MAX_KEPT: usize = 2;
/// The most bytes that the tables of all patterns take which are kept; others are filled anew by each search.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// The bytes that they take now.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The cost of keeping a new state, beside looking at others.
const NEW_STATE: u64 = 32;
/// The cost of beginning a search.
const SEARCH: u64 = 16;
/// Marks a next state that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The state without a way on.
const DEAD: u32 = 0;

/// The automaton of one pattern.
#[derive(Debug)]
pub(super) struct Automaton {
    /// Finds where the leftmost match ends.
    forward: Half,
    /// Finds where a match begins of which the end is known.
    backward: Half,
    kept: Mutex<Vec<Kept>>,
}

/// Tables that are kept for the next search, and counted in [`KEPT_BYTES`].
#[derive(Debug)]
struct Kept {
    tables: [Table; 2],
    bytes: usize,
}

/// One direction of it.
#[derive(Debug)]
struct Half {
    nfa: NFA,
    classes: ByteClasses,
    /// The kinds of assertions in the pattern, as they read in the text.
    looks: Vec<Look>,
    matcher: LookMatcher,
}

/// The known states of one direction.
#[derive(Debug, Default)]
struct Table {
    ids: HashMap<Arc<[u32]>, u32>,
    lists: Vec<Arc<[u32]>>,
    /// By state, assertions that hold, and class of the byte: twice the next state, and one where a match ends.
    next: Vec<u32>,
    bytes: usize,
    start: Option<u32>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    stack: Vec<u32>,
    ahead: Vec<u32>,
    /// In which round a state was looked at last: now, and as one that follows.
    seen: Vec<[u32; 2]>,
    round: u32,
    list: Vec<u32>,
    /// States that were looked at.
    looked_at: u64,
}

// === impl Automaton ===

impl Automaton {
    /// `None` where the pattern is too large.
    pub(super) fn new(hir: &Hir) -> Option<Self> {
        let half = |backward| {
            let config = NFA::config()
                .reverse(backward)
                // Classes read backwards have hundreds of beginnings otherwise.
                .shrink(backward)
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(MAX_NFA));
            NFA::compiler().configure(config).build_from_hir(hir).ok().map(Half::new)
        };
        Some(Self { forward: half(false)?, backward: half(true)?, kept: Mutex::default() })
    }

    /// The range of the first match that begins at `from` or behind it.
    pub(super) fn find_at(
        &self,
        text: &[u8],
        from: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<(usize, usize)>, GivenUp> {
        let kept = self.kept().pop();
        let mut tables = kept.map(Kept::take).unwrap_or_default();
        let found = self.find(&mut tables, text, from, budget);
        let mut all = self.kept();
        if all.len() < MAX_KEPT {
            all.extend(Kept::new(tables));
        }
        found
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(
        &self,
        [ahead, back]: &mut [Table; 2],
        text: &[u8],
        from: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<(usize, usize)>, GivenUp> {
        let Some(end) = self.forward.last_match(
            ahead,
            text,
            (from..=text.len()).map(|at| (at, text.get(at))),
            budget,
        )?
        else {
            return Ok(None);
        };
        let places = (from..=end).rev().map(|at| (at, (at > from).then(|| &text[at - 1])));
        let start = self.backward.last_match(back, text, places, budget)?;
        Ok(Some((start.unwrap_or(end), end)))
    }
}

// === impl Kept ===

impl Kept {
    /// `None` where there is no room for more.
    fn new(tables: [Table; 2]) -> Option<Self> {
        let bytes = tables.iter().map(Table::memory).sum();
        let add = |all: usize| all.checked_add(bytes).filter(|all| *all <= MAX_KEPT_BYTES);
        KEPT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Self { tables, bytes })
    }

    fn take(mut self) -> [Table; 2] {
        std::mem::take(&mut self.tables)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

// === impl Half ===

impl Half {
    fn new(nfa: NFA) -> Self {
        let as_read = |look: Look| if nfa.is_reverse() { look.reversed() } else { look };
        Self {
            classes: *nfa.byte_classes(),
            looks: nfa.look_set_any().iter().map(as_read).collect(),
            matcher: nfa.look_matcher().clone(),
            nfa,
        }
    }

    /// The last of the places at which a match ends, in the order in which they come, each with the byte behind it.
    fn last_match<'t>(
        &self,
        table: &mut Table,
        text: &[u8],
        places: impl Iterator<Item = (usize, Option<&'t u8>)>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, GivenUp> {
        let mut state = self.start(table, budget)?;
        let mut last = None;
        for (at, byte) in places {
            let holding = self.holding(text, at);
            let next = self.next(table, state, holding, byte.copied(), budget)?;
            if next & 1 == 1 {
                last = Some(at);
            }
            state = next >> 1;
            if state == DEAD {
                break;
            }
        }
        Ok(last)
    }

    /// Which of the assertions hold at a place, as bits.
    #[inline]
    fn holding(&self, text: &[u8], at: usize) -> u32 {
        let holds = |look: Look| self.matcher.matches(plain(look, text, at), text, at);
        self.looks.iter().enumerate().fold(0, |bits, (n, &look)| bits | u32::from(holds(look)) << n)
    }

    /// Returns the next state, in the form in which tables hold it.
    #[inline]
    fn next(
        &self,
        table: &mut Table,
        state: u32,
        holding: u32,
        byte: Option<u8>,
        budget: &mut Budget<'_>,
    ) -> Result<u32, GivenUp> {
        let class = match byte {
            Some(byte) => usize::from(self.classes.get(byte)),
            None => self.classes.alphabet_len() - 1,
        };
        let place =
            (state as usize * self.rows() + holding as usize) * self.classes.alphabet_len() + class;
        let is_kept = self.looks.len() <= MAX_LOOKS;
        match table.next.get(place) {
            Some(&known) if is_kept && known != UNKNOWN => {
                budget.spend(1 + self.looks.len() as u64)?;
                return Ok(known);
            }
            _ => {}
        }
        let matches = table.scratch.step(self, &table.lists[state as usize], holding, byte);
        budget.spend_at_once(NEW_STATE + table.scratch.looked_at)?;
        let emptied = table.bytes > MAX_TABLE;
        if emptied {
            table.empty();
        }
        let next = table.add(self) << 1 | u32::from(matches);
        if is_kept && !emptied {
            table.next[place] = next;
        }
        Ok(next)
    }

    /// How many rows of the table a state has.
    #[inline]
    fn rows(&self) -> usize {
        if self.looks.len() <= MAX_LOOKS { 1 << self.looks.len() } else { 0 }
    }

    fn start(&self, table: &mut Table, budget: &mut Budget<'_>) -> Result<u32, GivenUp> {
        budget.spend(SEARCH)?;
        if let Some(known) = table.start {
            return Ok(known);
        }
        if table.lists.is_empty() {
            table.empty();
        }
        table.scratch.begin(self);
        let nfa = &self.nfa;
        let first = if nfa.is_reverse() { nfa.start_anchored() } else { nfa.start_unanchored() };
        table.scratch.follow(self, first.as_u32());
        budget.spend(NEW_STATE + table.scratch.looked_at)?;
        let id = table.add(self);
        table.start = Some(id);
        Ok(id)
    }
}

/// A word's border between characters of ASCII is found without decoding any.
#[inline]
fn plain(look: Look, text: &[u8], at: usize) -> Look {
    let is_ascii = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii);
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    match look {
        Look::WordUnicode if is_ascii(before) && is_ascii(text.get(at)) => Look::WordAscii,
        Look::WordUnicodeNegate if is_ascii(before) && is_ascii(text.get(at)) => {
            Look::WordAsciiNegate
        }
        other => other,
    }
}

// === impl Table ===

impl Table {
    /// The bytes that it takes, about.
    fn memory(&self) -> usize {
        self.bytes + self.scratch.seen.capacity() * size_of::<[u32; 2]>()
    }

    /// Forgets all that is known.
    fn empty(&mut self) {
        self.ids.clear();
        self.lists.clear();
        self.next.clear();
        self.bytes = 0;
        self.start = None;
        // The dead state, without rows: nothing is asked of it.
        let dead: Arc<[u32]> = Arc::from([]);
        self.ids.insert(dead.clone(), DEAD);
        self.lists.push(dead);
    }

    /// The state of the list that was put together.
    fn add(&mut self, half: &Half) -> u32 {
        let list = &*self.scratch.list;
        if let Some(&known) = self.ids.get(list) {
            return known;
        }
        let id = self.lists.len() as u32;
        let list: Arc<[u32]> = Arc::from(list);
        let rows = half.rows() * half.classes.alphabet_len();
        self.next.resize((self.lists.len() + 1) * rows, UNKNOWN);
        self.bytes += 64 + (list.len() + rows) * size_of::<u32>();
        self.ids.insert(list.clone(), id);
        self.lists.push(list);
        id
    }
}

// === impl Scratch ===

impl Scratch {
    fn begin(&mut self, half: &Half) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 || self.seen.len() != half.nfa.states().len() {
            self.seen.clear();
            self.seen.resize(half.nfa.states().len(), [0; 2]);
            self.round = 1;
        }
        self.list.clear();
        self.looked_at = 0;
    }

    /// Puts together what follows a list for a byte. Returns whether a match ends before it.
    fn step(&mut self, half: &Half, list: &[u32], holding: u32, byte: Option<u8>) -> bool {
        self.begin(half);
        let mut matches = false;
        let mut stack = std::mem::take(&mut self.stack);
        'all: for &first in list {
            stack.push(first);
            while let Some(id) = stack.pop() {
                let seen = &mut self.seen[id as usize][0];
                if *seen == self.round {
                    continue;
                }
                *seen = self.round;
                self.looked_at += 1;
                match half.nfa.states().get(id as usize) {
                    Some(State::ByteRange { trans }) => {
                        let next =
                            byte.filter(|&byte| trans.matches_byte(byte)).map(|_| trans.next);
                        if let Some(next) = next {
                            self.follow(half, next.as_u32());
                        }
                    }
                    Some(State::Sparse(ranges)) => {
                        self.looked_at += ranges.transitions.len() as u64 / 8;
                        if let Some(next) = byte.and_then(|byte| ranges.matches_byte(byte)) {
                            self.follow(half, next.as_u32());
                        }
                    }
                    Some(State::Dense(all)) => {
                        if let Some(next) = byte.and_then(|byte| all.matches_byte(byte)) {
                            self.follow(half, next.as_u32());
                        }
                    }
                    Some(State::Look { look, next }) => {
                        let look = if half.nfa.is_reverse() { look.reversed() } else { *look };
                        let index = half.looks.iter().position(|&known| known == look);
                        if index.is_some_and(|index| holding >> index & 1 == 1) {
                            stack.push(next.as_u32());
                        }
                    }
                    Some(State::Match { .. }) => {
                        matches = true;
                        // The first of two matches is preferred; backwards the longest.
                        if !half.nfa.is_reverse() {
                            stack.clear();
                            break 'all;
                        }
                    }
                    Some(other) => push_alternatives(other, &mut stack),
                    None => {}
                }
            }
        }
        self.stack = stack;
        matches
    }

    /// Adds a state to the list, or those that it leads to without reading anything.
    fn follow(&mut self, half: &Half, first: u32) {
        let states = half.nfa.states();
        self.ahead.push(first);
        while let Some(id) = self.ahead.pop() {
            let seen = &mut self.seen[id as usize][1];
            if *seen == self.round {
                continue;
            }
            *seen = self.round;
            self.looked_at += 1;
            match states.get(id as usize) {
                Some(
                    State::ByteRange { .. }
                    | State::Sparse(_)
                    | State::Dense(_)
                    | State::Look { .. }
                    | State::Match { .. },
                ) => self.list.push(id),
                Some(other) => push_alternatives(other, &mut self.ahead),
                None => {}
            }
        }
    }
}

/// The states that one leads to without reading anything and without asking anything, the preferred one last.
fn push_alternatives(state: &State, stack: &mut Vec<u32>) {
    match state {
        State::Union { alternates } => stack.extend(alternates.iter().rev().map(StateID::as_u32)),
        State::BinaryUnion { alt1, alt2 } => stack.extend([alt2.as_u32(), alt1.as_u32()]),
        State::Capture { next, .. } => stack.push(next.as_u32()),
        _ => {}
    }
}
