//! The parts of a request that have no canonical form: no fault in a request that may go on as it came.

use axum::http::StatusCode;
use domain::original::Original;

use crate::http::error::Result;

/// Whether such parts are tolerated, and the first of them.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    passes: bool,
    untranslatable: Option<String>,
    is_partial: bool,
}

impl Tolerance {
    /// The tolerance for a request; it has an original if it may go on as it came.
    pub(crate) fn of(original: Option<&Original>) -> Self {
        Self { passes: original.is_some(), ..Self::default() }
    }

    /// Whether the request may go on as it came.
    pub(crate) fn passes(&self) -> bool {
        self.passes
    }

    /// The part of a request that was read; none of one that has no canonical form, if the request may
    /// go on as it came.
    pub(crate) fn allow<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(failure) if self.passes && failure.status() == StatusCode::UNPROCESSABLE_ENTITY => {
                self.untranslatable.get_or_insert_with(|| failure.into_body().error);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Notes that the canonical form lacks a part of the conversation that other formats do without.
    pub(crate) fn omit(&mut self) {
        self.is_partial = true;
    }

    /// Whether there was any part without a canonical form.
    pub(crate) fn has_met_any(&self) -> bool {
        self.untranslatable.is_some()
    }

    /// Notes in the original of the request what its canonical form lacks, and what keeps it from being
    /// translated.
    pub(crate) fn note_in(self, original: &mut Original) {
        (original.untranslatable, original.is_partial) = (self.untranslatable, self.is_partial);
    }
}
