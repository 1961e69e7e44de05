//! What is kept for each string of a streamed answer, found by where the string stands.

use std::collections::HashMap;

use crate::leaves::Place;

/// Strings have numbers, from 0 on, in the order in which they began.
#[derive(Debug)]
pub(super) struct ByPlace<T> {
    numbers: HashMap<Place, usize>,
    kept: Vec<(Place, T)>,
}

impl<T> Default for ByPlace<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), kept: Vec::new() }
    }
}

impl<T> ByPlace<T> {
    /// How many strings there are.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of a string, if it has begun.
    pub(super) fn number(&self, place: &Place) -> Option<usize> {
        self.numbers.get(place).copied()
    }

    /// What is kept for a string, and its number. One that begins gets what `begin` makes.
    pub(super) fn at(&mut self, place: &Place, begin: impl FnOnce() -> T) -> (usize, &mut T) {
        let number = self.number(place).unwrap_or_else(|| {
            let number = self.kept.len();
            self.numbers.insert(place.clone(), number);
            self.kept.push((place.clone(), begin()));
            number
        });
        (number, &mut self.kept[number].1)
    }

    /// A string that has begun, by its number, and what is kept for it.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<(&Place, &mut T)> {
        self.kept.get_mut(number).map(|(place, kept)| (&*place, kept))
    }

    /// All strings, by their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Place, &T)> {
        self.kept.iter().map(|(place, kept)| (place, kept))
    }
}
