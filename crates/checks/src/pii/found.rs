//! The findings of the detectors so far.

use std::ops::Range;

/// A piece of personal data, before overlaps are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    /// Its type, upper-case.
    pub(crate) kind: &'static str,
    /// Its range in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How sure, 0 to 1.
    pub(crate) score: f64,
}

impl Entity {
    pub(super) fn new(kind: &'static str, bytes: Range<usize>, score: f64) -> Self {
        Self { kind, bytes, score }
    }
}

/// So many stand together.
const CHUNK: usize = 1024;

/// Pieces of personal data in the order in which they were found. A hostile text has one for every few of its bytes: they
/// stand in chunks, because a list that doubles takes three times its size while it is moved.
#[derive(Default)]
pub(super) struct Found {
    full: Vec<Vec<Entity>>,
    last: Vec<Entity>,
}

impl Found {
    #[inline]
    pub(super) fn push(&mut self, entity: Entity) {
        if self.last.len() == CHUNK {
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK)));
        }
        self.last.push(entity);
    }

    /// Adds what another word did not lead to already: many of them may stand in front of one date.
    pub(super) fn push_once(&mut self, entity: Entity) {
        if self.last().is_none_or(|last| last.bytes != entity.bytes) {
            self.push(entity);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.last.len()
    }

    /// The one that was found last.
    pub(super) fn last(&self) -> Option<&Entity> {
        self.last.last()
    }

    pub(super) fn get(&self, at: usize) -> &Entity {
        &self.full.get(at / CHUNK).unwrap_or(&self.last)[at % CHUNK]
    }
}

impl Extend<Entity> for Found {
    fn extend<I: IntoIterator<Item = Entity>>(&mut self, entities: I) {
        entities.into_iter().for_each(|entity| self.push(entity));
    }
}
