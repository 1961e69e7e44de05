//! A value for each string of a streamed answer, found by the string's path.

use indexmap::IndexMap;

use crate::safety::json_path::JsonPath;

/// Strings have numbers, from 0 on, in the order in which they began.
#[derive(Debug)]
pub(super) struct ByPath<T>(IndexMap<JsonPath, T>);

impl<T> Default for ByPath<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

impl<T> ByPath<T> {
    /// The number of strings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of a string, if it has begun.
    pub(super) fn number(&self, path: &JsonPath) -> Option<usize> {
        self.0.get_index_of(path)
    }

    /// The value of a string, and its number. A string that begins gets the value that `begin`
    /// makes.
    pub(super) fn at(&mut self, path: &JsonPath, begin: impl FnOnce() -> T) -> (usize, &mut T) {
        let number =
            self.number(path).unwrap_or_else(|| self.0.insert_full(path.clone(), begin()).0);
        (number, &mut self.0[number])
    }

    /// A string that has begun, by its number, and its value.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<(&JsonPath, &mut T)> {
        self.0.get_index_mut(number)
    }

    /// All strings, by their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&JsonPath, &T)> {
        self.0.iter()
    }
}
