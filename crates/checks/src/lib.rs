//! The safety layer: what a text holds that should not travel unseen, and what to do about it.
//!
//! Everything here is a pure function of the text and the project's settings: no I/O, no clock, no randomness (a
//! [`Redactor`] is given its nonce). Work is linear in the text, and cheap scans decide which detectors run at all.
//! The crate knows nothing of requests, providers or steps: callers hand over text parts and get a [`Report`].

mod brands;
mod checksum;
mod encoded;
mod fold;
mod injection;
mod joined;
mod json_lexer;
mod json_text;
mod keywords;
mod offsets;
mod pattern;
mod pii;
mod policy;
mod prefixes;
mod recognizers;
mod redact;
mod report;
mod restore;
mod risk;
mod saving;
mod scan;
mod secrets;
mod sha256;
mod spans;
mod stream_judge;
#[cfg(test)]
mod tests;
mod watch;
mod words;

pub use brands::{BlockedTerms, Violation, ViolationKind};
pub use encoded::{FileKind, FileText, file_kind};
pub use injection::{Features as InjectionFeatures, features as injection_features};
pub use json_text::{JsonText, Reading, label, long_number};
pub use keywords::search_vocabulary;
pub use pii::kinds::wrong_kinds;
pub use policy::Policy;
pub use redact::Redactor;
pub use report::{Block, Finding, Part, Report, Verdict};
pub use restore::{Placeholders, StreamRestorer};
#[doc(hidden)]
pub use saving::hostile_texts;
pub use saving::slow_to_save;
pub use stream_judge::{StreamJudge, Withheld};
pub use watch::{GiveUp, PatternList, SlowPattern};

/// No text yields more findings than this; the rest is not looked at.
pub(crate) const MAX_FINDINGS: usize = 1000;
