//! Anthropic's `thinking` for models of other vendors.

use serde_json::Value;

/// The least budget of a medium effort, and that of a high one, in tokens.
const MEDIUM: u64 = 4096;
const HIGH: u64 = 16_384;

/// The amount of thinking that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// None.
    Off,
    /// As much as the model does by itself.
    Default,
    /// The effort nearest to a budget of tokens.
    Effort(&'static str),
}

impl Thinking {
    /// Reads the parameter.
    pub(crate) fn read(thinking: &Value) -> Self {
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        match (super::text(thinking.get("type")), budget) {
            ("disabled", _) => Self::Off,
            ("enabled", Some(..MEDIUM)) => Self::Effort("low"),
            ("enabled", Some(..HIGH)) => Self::Effort("medium"),
            ("enabled", Some(_)) => Self::Effort("high"),
            _ => Self::Default,
        }
    }

    /// The effort; none leaves the model its default.
    pub(crate) fn effort(self) -> Option<&'static str> {
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
            (of(1024), Thinking::Effort("low")),
            (of(4095), Thinking::Effort("low")),
            (of(4096), Thinking::Effort("medium")),
            (of(16_383), Thinking::Effort("medium")),
            (of(16_384), Thinking::Effort("high")),
            (of(31_999), Thinking::Effort("high")),
            (json!({"type": "adaptive"}), Thinking::Default),
            (json!({"type": "enabled"}), Thinking::Default),
            (json!({"type": "disabled"}), Thinking::Off),
        ] {
            assert_eq!(Thinking::read(&thinking), expected, "{thinking}");
        }
    }
}
