//! Failures that are counted, so that whoever has had too many has to wait.

/// The bounds of counts of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRule {
    /// The most failures within the window.
    pub most: usize,
    /// The window, in microseconds.
    pub window: i64,
    /// The most counts of one kind that are kept. Those whose last failure is the oldest make room.
    pub watched: usize,
}

/// A count of failures: of an account, or of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailureCount {
    /// The kind of failures.
    pub kind: &'static str,
    /// A keyed hash of whose failures they are, so that nobody reads names or addresses where they are counted.
    pub name: [u8; 16],
}
