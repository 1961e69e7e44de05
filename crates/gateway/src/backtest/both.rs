//! Something by the settings of now, and by those of a draft.

/// Something by the settings of now, and by those of a draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Both<T> {
    /// By the settings of now; of money the recorded amount.
    pub(super) now: T,
    /// By the draft.
    pub(super) draft: T,
}
