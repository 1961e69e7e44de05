//! The parts of a request that have no canonical form: no fault in a request that may go on as it came.

use axum::http::StatusCode;
use domain::original::Original;

use crate::http::error::Result;

/// Whether such parts are tolerated, and the first of them.
#[derive(Debug, Default)]
pub(crate) struct Tolerance {
    passes: bool,
    untranslatable: Option<String>,
}

impl Tolerance {
    /// The tolerance for a request; it has an original if it may go on as it came.
    pub(crate) fn of(original: Option<&Original>) -> Self {
        Self { passes: original.is_some(), untranslatable: None }
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

    /// Notes in the original of the request what keeps it from being translated.
    pub(crate) fn note_in(self, original: Option<Original>) -> Option<Box<Original>> {
        let untranslatable = self.untranslatable;
        original.map(|original| Box::new(Original { untranslatable, ..original }))
    }
}
