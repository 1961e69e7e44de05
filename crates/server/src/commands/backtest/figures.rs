//! The figures of a backtest that conditions and reports are about, from the answer of the API.

use std::fmt;

use serde_json::Value;

/// The figures of a backtest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests that were judged.
    pub(crate) judged: u64,
    /// Requests without a stored content, or that could not be judged.
    pub(crate) unjudged: u64,
    /// Requests that would be blocked and were not, and the other way round.
    pub(crate) blocked: u64,
    pub(crate) passed: u64,
    /// Requests that would be sent to another tier.
    pub(crate) moved: u64,
    /// Requests that a limit would have refused.
    pub(crate) refused: u64,
    /// USD.
    pub(crate) recorded: f64,
    pub(crate) draft: f64,
    pub(crate) savings: f64,
    /// The change of the cost in percent, if anything was spent.
    pub(crate) cost_change: Option<f64>,
    /// Whether there were more requests than were read.
    pub(crate) is_truncated: bool,
    /// The sections of the draft that have no effect.
    pub(crate) ignored: Vec<String>,
}

impl Figures {
    /// The figures of a job; `None` if it has no report.
    pub(crate) fn of_job(job: &Value) -> Option<Self> {
        let report = job.get("report").filter(|report| report.is_object())?;
        let count = |of: &Value| of.as_u64().unwrap_or(0);
        let dollars = |of: &Value| of.as_f64().unwrap_or(0.0);
        let ignored = report["ignored_settings"].as_array().into_iter().flatten();
        let (steps, blocked, cost) = (&report["steps"], &report["blocked"], &report["cost"]);
        Some(Self {
            judged: count(&steps["judged"]),
            unjudged: count(&steps["without_content"]) + count(&steps["unreadable"]),
            blocked: count(&blocked["newly_blocked"]),
            passed: count(&blocked["newly_passed"]),
            moved: count(&report["tiers"]["moved"]),
            refused: count(&report["refused"]["steps"]),
            recorded: dollars(&cost["recorded"]),
            draft: dollars(&cost["draft"]),
            savings: dollars(&report["estimated_savings_usd"]),
            cost_change: cost["change_pct"].as_f64(),
            is_truncated: steps["truncated"].as_bool().unwrap_or(false),
            ignored: ignored.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Why the figures are not those of the window, if they are not.
    pub(crate) fn fault(&self) -> Option<String> {
        let Self { judged, unjudged, is_truncated, .. } = self;
        if *judged == 0 && *unjudged > 0 {
            Some(format!("none of {unjudged} requests could be judged"))
        } else if *is_truncated {
            Some(
                "the window has more steps than are read: later requests were not judged"
                    .to_owned(),
            )
        } else {
            None
        }
    }
}

/// The figures in one line.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { judged, blocked, passed, moved, refused, .. } = self;
        write!(f, "{judged} requests, {blocked} newly blocked, {passed} newly passed, ")?;
        write!(f, "{moved} moved, {refused} refused, ")?;
        write!(f, "cost ${:.6} -> ${:.6}", self.recorded, self.draft)?;
        if let Some(change) = self.cost_change {
            write!(f, " ({change:+.1} %)")?;
        }
        write!(f, ", savings ${:.6}", self.savings)?;
        if self.unjudged > 0 {
            write!(f, ", {} not judged", self.unjudged)?;
        }
        if self.is_truncated {
            f.write_str(", later ones left out")?;
        }
        if !self.ignored.is_empty() {
            write!(f, ", ignored: {}", self.ignored.join(", "))?;
        }
        Ok(())
    }
}
