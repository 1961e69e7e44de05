//! The figures of a backtest that conditions and reports are about, from the answer of the API.

use std::fmt;

use serde_json::Value;

/// The figures of a backtest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests that were judged.
    pub(crate) judged: u64,
    /// Requests without a content, or with one that cannot be read.
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
}

impl Figures {
    /// The figures of a job; `None` if it has no report.
    pub(crate) fn of_job(job: &Value) -> Option<Self> {
        let report = job.get("report").filter(|report| report.is_object())?;
        let count = |of: &Value| of.as_u64().unwrap_or(0);
        let dollars = |of: &Value| of.as_f64().unwrap_or(0.0);
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
        })
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
            write!(f, ", {} without a content", self.unjudged)?;
        }
        if self.is_truncated {
            f.write_str(", later ones left out")?;
        }
        Ok(())
    }
}
