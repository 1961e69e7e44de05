//! The safety layer: what a text holds that should not travel unseen, and what to do about it.
//!
//! Everything here is a pure function of the text and the project's settings: no I/O, no clock, no randomness (a
//! [`Redactor`] is given its nonce or its tags). Work is linear in the text, and cheap scans decide which detectors run at all.
//! The crate knows nothing of requests, providers or steps: callers hand over text parts and get a [`Report`].

mod blocked_terms;
mod injection;
mod pattern;
mod pii;
mod policy;
mod recognizers;
mod redact;
mod report;
mod scan;
mod secrets;
mod stream_judge;
#[cfg(test)]
mod tests;
mod text;
mod vocabulary;

pub use crate::blocked_terms::{BlockedTerms, Violation, ViolationKind};
pub use crate::injection::{Features as InjectionFeatures, features as injection_features};
pub use crate::pattern::watch::{GiveUp, PatternList, SlowPattern};
pub use crate::pii::kinds::{found_kinds, wrong_kinds};
pub use crate::policy::compiled::Policy;
#[doc(hidden)]
pub use crate::policy::saving::hostile_texts;
pub use crate::policy::saving::slow_to_save;
pub use crate::redact::file::{FileKind, FileText, file_kind};
pub use crate::redact::json_text::{JsonText, label, long_number};
pub use crate::redact::look_alikes::imitates_placeholder;
pub use crate::redact::reading::Reading;
pub use crate::redact::redactor::Redactor;
pub use crate::redact::restore::{Placeholders, StreamRestorer};
pub use crate::report::{Block, Finding, Part, Report, Verdict};
pub use crate::scan::keywords::search_vocabulary;
pub use crate::stream_judge::{StreamJudge, Withheld};
