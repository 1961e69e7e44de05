//! The parts of a request that have no canonical form: no fault in a request that may pass through.

use axum::http::StatusCode;
use domain::original::Original;

use crate::http::error::Result;

/// The parts without a canonical form that were met while a request was read.
#[derive(Debug, Default)]
pub(crate) struct TranslationGaps {
    may_pass_through: bool,
    /// Why the request cannot be translated: the fault of the first part that no other format has.
    untranslatable: Option<String>,
    /// Whether a part was left out that other formats do without.
    is_partial: bool,
    /// Whether tools were left out that only the vendor has.
    lacks_tools: bool,
}

impl TranslationGaps {
    /// No gaps yet, of a request that may pass through if it has an original.
    pub(crate) fn of(original: Option<&Original>) -> Self {
        Self { may_pass_through: original.is_some(), ..Self::default() }
    }

    /// Whether the request may pass through, in the format and bytes that it came in.
    pub(crate) fn may_pass_through(&self) -> bool {
        self.may_pass_through
    }

    /// Turns a 422 into `None` if the request may pass through, and every other result into `Some` or its
    /// error. The first 422 is recorded as the reason why the request cannot be translated.
    pub(crate) fn allow<T>(&mut self, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(failure)
                if self.may_pass_through
                    && failure.status() == StatusCode::UNPROCESSABLE_ENTITY =>
            {
                self.untranslatable.get_or_insert_with(|| failure.into_body().error);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Records that the canonical form lacks a part of the conversation that other formats do without.
    pub(crate) fn record_omission(&mut self) {
        self.is_partial = true;
    }

    /// Records that the canonical form lacks tools that only the vendor has, which are no part of the conversation.
    pub(crate) fn record_omitted_tools(&mut self) {
        self.lacks_tools = true;
    }

    /// Whether any part keeps the request from being translated.
    pub(crate) fn is_untranslatable(&self) -> bool {
        self.untranslatable.is_some()
    }

    /// Records the gaps in the original of the request.
    pub(crate) fn note_in(self, original: &mut Original) {
        (original.untranslatable, original.is_partial) = (self.untranslatable, self.is_partial);
        original.lacks_tools = self.lacks_tools;
    }
}
