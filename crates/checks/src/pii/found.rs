//! The findings of the detectors so far.

use crate::pii::Entity;

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
