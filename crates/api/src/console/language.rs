//! The language of the pages.

use dashboard::{ENGLISH, Texts};

/// The texts of the pages. This is the only place that chooses a language: every page gets its texts from here,
/// most of them by their frame.
pub(super) fn texts() -> &'static Texts {
    &ENGLISH
}
