//! The amount of thinking that a caller asks for, in the words of every format, and what a model is
//! asked for in its place.
//!
//! Chat completions and Responses name an effort, Anthropic a budget of tokens (`thinking`) or an
//! effort (`output_config.effort`), Gemini a level or a budget. All of them become one of seven
//! efforts; a model that lacks the one that was asked for gets its nearest.

use serde_json::Value;

/// The least budget of a medium effort, and that of a high one, in tokens.
const MEDIUM: u64 = 4096;
const HIGH: u64 = 16_384;

/// An effort, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The efforts that every model with any has.
    pub(crate) const USUAL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Reads the word of chat completions; `None` for any other.
    pub(crate) fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.word() == word)
    }

    /// Returns the word of chat completions.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns a budget of thinking tokens that reads as this effort. Google's own chat-completions
    /// endpoint has the same.
    pub(crate) fn budget(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Minimal | Self::Low => 1024,
            Self::Medium => 8192,
            Self::High | Self::Xhigh | Self::Max => 24_576,
        }
    }

    /// Returns the most of a model's efforts that is not above this one, else the least of them;
    /// `None` if it has none. They are in order.
    pub(crate) fn nearest(self, taken: &[Self]) -> Option<Self> {
        taken.iter().rev().find(|effort| **effort <= self).or(taken.first()).copied()
    }
}

/// The amount of thinking in Anthropic's `thinking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// None.
    Off,
    /// As much as the model does by itself.
    Default,
    /// The effort nearest to a budget of tokens.
    Effort(Effort),
}

impl Thinking {
    /// Reads the parameter.
    pub(crate) fn read(thinking: &Value) -> Self {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        match (super::text(thinking.get("type")), budget) {
            ("disabled", _) => Self::Off,
            ("enabled", Some(..MEDIUM)) => Self::Effort(Effort::Low),
            ("enabled", Some(..HIGH)) => Self::Effort(Effort::Medium),
            ("enabled", Some(_)) => Self::Effort(Effort::High),
            _ => Self::Default,
        }
    }

    /// The effort; none leaves the model its default.
    pub(crate) fn effort(self) -> Option<Effort> {
        match self {
            Self::Effort(effort) => Some(effort),
            Self::Off | Self::Default => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_is_an_effort() {
        let of = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
        for (thinking, expected) in [
            (of(1024), Thinking::Effort(Effort::Low)),
            (of(4095), Thinking::Effort(Effort::Low)),
            (of(4096), Thinking::Effort(Effort::Medium)),
            (of(16_383), Thinking::Effort(Effort::Medium)),
            (of(16_384), Thinking::Effort(Effort::High)),
            (of(31_999), Thinking::Effort(Effort::High)),
            (json!({"type": "adaptive"}), Thinking::Default),
            (json!({"type": "enabled"}), Thinking::Default),
            (json!({"type": "disabled"}), Thinking::Off),
        ] {
            assert_eq!(Thinking::read(&thinking), expected, "{thinking}");
        }
        for effort in Effort::USUAL {
            let there = of(effort.budget().into());
            assert_eq!(Thinking::read(&there), Thinking::Effort(effort), "there and back");
        }
    }

    #[test]
    fn a_model_gets_the_nearest_of_its_efforts() {
        use Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};
        let usual = &Effort::USUAL[..];
        for (asked, taken, expected) in [
            (None, usual, Some(Low)),
            (Minimal, usual, Some(Low)),
            (Medium, usual, Some(Medium)),
            (Max, usual, Some(High)),
            (Xhigh, &[Low, Medium, High, Max], Some(High)),
            (Medium, &[Low, High], Some(Low)),
            (None, &[None, Low], Some(None)),
            (High, &[None], Some(None)),
            (High, &[], Option::None),
        ] {
            assert_eq!(asked.nearest(taken), expected, "{asked:?} of {taken:?}");
        }
    }
}

#[cfg(test)]
#[path = "effort_tests.rs"]
mod model_tests;
