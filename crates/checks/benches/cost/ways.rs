//! The ways in which a text is judged, each to be measured alone.

use std::hint::black_box;

use checks::{BlockedTerms, Part, Policy, Redactor, StreamJudge};
use domain::safety::{Action, Origin, Safety};

use crate::search::quickest;

/// One way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// A user's text: everything. The search looks for what is dear this way; the others do a part of the same work.
    Input,
    /// A whole answer.
    Output,
    /// An answer in pieces of 64 bytes, with both redacted.
    Stream,
    /// A prompt for an image.
    Image,
}

/// All of them.
pub const WAYS: [Way; 4] = [Way::Input, Way::Output, Way::Stream, Way::Image];

impl Way {
    /// The heading of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "credentials and personal data",
            Self::Stream => "stream",
            Self::Image => "brands",
        }
    }
}

/// Everything that judging needs.
pub struct Ways {
    plain: Policy,
    redacting: Policy,
    terms: BlockedTerms,
}

impl Ways {
    /// With the settings that projects begin with, but for streams, which are judged only where something is to be done.
    pub fn new() -> Self {
        let acts = Safety {
            output_secrets: Action::Redact,
            output_pii: Action::Redact,
            ..Safety::default()
        };
        Self {
            plain: Policy::compile(&Safety::default()).unwrap(),
            redacting: Policy::compile(&acts).unwrap(),
            terms: BlockedTerms::compile(&[]),
        }
    }

    /// Nanoseconds a byte.
    pub fn cost(&self, way: Way, text: &str, times: usize) -> f64 {
        quickest(text, times, || self.judge(way, text))
    }

    fn judge(&self, way: Way, text: &str) {
        let part = |origin| [Part { origin, text }];
        match way {
            Way::Input => drop(black_box(self.plain.inspect(&part(Origin::User)))),
            Way::Output => drop(black_box(self.plain.inspect_output(&[text]))),
            Way::Stream => self.stream(text),
            Way::Image => drop(black_box(self.terms.violations(text))),
        }
    }

    fn stream(&self, text: &str) {
        let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::new(7));
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, further) = rest.split_at(rest.ceil_char_boundary(64.min(rest.len())));
            rest = further;
            if black_box(judge.push(&self.redacting, &mut redactor, piece)).is_err() {
                return;
            }
        }
        let _ = black_box(judge.flush(&self.redacting, &mut redactor));
    }
}
