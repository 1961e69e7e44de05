//! Credential formats that are recognized by their beginning: one row each. A new provider is a new row.

pub(crate) mod anywhere;
pub(crate) mod bodies;
mod cloud;
mod development;
pub(crate) mod format;
mod services;

use std::sync::LazyLock;

use format::Format;

/// All formats, in tables that are each short enough to be read.
const TABLES: [&[Format]; 3] = [cloud::FORMATS, development::FORMATS, services::FORMATS];

/// All formats, in the order in which [`get`] counts them.
pub(crate) fn all() -> impl Iterator<Item = &'static Format> {
    TABLES.iter().copied().flatten()
}

/// One format by its place in [`all`].
pub(crate) fn get(index: u16) -> Option<&'static Format> {
    let mut index = usize::from(index);
    for table in TABLES {
        if index < table.len() {
            return Some(&table[index]);
        }
        index -= table.len();
    }
    None
}

/// For each format the next one that begins alike, if there is one.
static NEXT: LazyLock<Vec<Option<u16>>> = LazyLock::new(|| {
    let next = |index: usize, format: &Format| {
        let mut others = all().enumerate().skip(index + 1);
        others.find(|(_, other)| other.prefix == format.prefix).map(|(other, _)| other as u16)
    };
    all().enumerate().map(|(index, format)| next(index, format)).collect()
});

/// A format and all behind it that begin alike.
pub(crate) fn alike(index: u16) -> impl Iterator<Item = u16> {
    std::iter::successors(Some(index), |&index| NEXT.get(usize::from(index)).copied().flatten())
}

/// The first of all formats that begin alike: a text is searched for their beginning once.
pub(crate) fn beginnings() -> impl Iterator<Item = (u16, &'static Format)> {
    let is_first = |index: usize, format: &Format| {
        !all().take(index).any(|other| other.prefix == format.prefix)
    };
    all()
        .enumerate()
        .filter(move |(index, format)| is_first(*index, format))
        .map(|(index, format)| (index as u16, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_counted_once_and_can_be_met() {
        for (index, format) in all().enumerate() {
            assert!(get(index as u16).is_some_and(|other| std::ptr::eq(other, format)));
            assert!(format.length.0 <= format.length.1, "{}", format.prefix);
        }
        assert!(get(all().count() as u16).is_none());
    }
}
