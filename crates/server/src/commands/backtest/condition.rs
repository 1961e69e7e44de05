//! Conditions under which a backtest fails: `blocked>1%`, `cost>+10%`.

use super::figures::Figures;
use crate::commands::job::condition::Parsed;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition(Parsed<Figure>);

/// A figure of a backtest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// Requests that would be blocked and were not.
    Blocked,
    /// Requests that would pass and were blocked.
    Passed,
    /// Requests that would be sent to another tier.
    Moved,
    /// Requests that a limit would have refused.
    Refused,
    /// Requests that could not be judged.
    Unjudged,
    /// The change of the cost in percent.
    Cost,
    /// The estimated savings in USD.
    Savings,
}

const FIGURES: [(&str, Figure); 7] = [
    ("blocked", Figure::Blocked),
    ("passed", Figure::Passed),
    ("moved", Figure::Moved),
    ("refused", Figure::Refused),
    ("unjudged", Figure::Unjudged),
    ("cost", Figure::Cost),
    ("savings", Figure::Savings),
];

impl Condition {
    /// Reads a condition. The error names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "'{text}' is no condition: it has the form of blocked>1%, passed>0, moved>5%, refused>0, unjudged>10%, \
                 cost>+10% or savings<5"
            )
        };
        let parsed = Parsed::read(text, &FIGURES).ok_or_else(fault)?;
        if parsed.figure == Figure::Savings && parsed.is_percent {
            return Err(fault());
        }
        Ok(Self(parsed))
    }

    /// Why a backtest fails by it; `None` if it does not. A figure that is not known is no success.
    pub(crate) fn failure(&self, figures: &Figures) -> Option<String> {
        let Self(condition) = self;
        let found = match condition.figure {
            Figure::Blocked => self.part(figures.blocked, figures.judged),
            Figure::Passed => self.part(figures.passed, figures.judged),
            Figure::Moved => self.part(figures.moved, figures.judged),
            Figure::Refused => self.part(figures.refused, figures.judged),
            Figure::Unjudged => self.part(figures.unjudged, figures.judged + figures.unjudged),
            Figure::Cost => figures.cost_change.map(|found| (found, format!("{found:+.1} %"))),
            Figure::Savings => Some((figures.savings, format!("${:.6}", figures.savings))),
        };
        let Some((found, shown)) = found else {
            return Some(format!("{}: there is nothing to compare", condition.text));
        };
        condition.holds(found).then(|| format!("{}: it is {shown}", condition.text))
    }

    /// A number of requests, or their share in percent. No requests have no share.
    fn part(&self, part: u64, of: u64) -> Option<(f64, String)> {
        if !self.0.is_percent {
            return Some((part as f64, part.to_string()));
        }
        // In this order the share of 7 in 100 is 7, and not a little more.
        let share = (of > 0).then(|| part as f64 * 100.0 / of as f64)?;
        Some((share, format!("{share:.2} % ({part} of {of})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_beyond_its_limit() {
        let figures = Figures {
            judged: 200,
            unjudged: 50,
            blocked: 3,
            moved: 100,
            cost_change: Some(-12.5),
            savings: 1.25,
            ..Figures::default()
        };
        let failure = |text: &str| Condition::parse(text).unwrap().failure(&figures);
        for fine in [
            "blocked>1.5%",
            "blocked > 3",
            "passed>0",
            "moved>50%",
            "refused>0%",
            "unjudged>20%",
            "cost>+10%",
            "cost<-12.5%",
            "savings<1.25",
        ] {
            assert_eq!(failure(fine), None, "{fine}");
        }
        for (text, reason) in [
            ("blocked>1%", "blocked>1%: it is 1.50 % (3 of 200)"),
            ("blocked>2", "blocked>2: it is 3"),
            ("moved>10%", "moved>10%: it is 50.00 % (100 of 200)"),
            ("passed<1", "passed<1: it is 0"),
            ("unjudged>19%", "unjudged>19%: it is 20.00 % (50 of 250)"),
            ("cost<-10", "cost<-10: it is -12.5 %"),
            ("savings<2", "savings<2: it is $1.250000"),
        ] {
            assert_eq!(failure(text).as_deref(), Some(reason));
        }
        let none = Condition::parse("blocked>1%").unwrap().failure(&Figures::default());
        assert_eq!(none.as_deref(), Some("blocked>1%: there is nothing to compare"));
        let none = Condition::parse("cost>+10%").unwrap().failure(&Figures::default());
        assert_eq!(none.as_deref(), Some("cost>+10%: there is nothing to compare"));
    }

    #[test]
    fn a_share_that_is_its_limit_is_not_beyond_it() {
        for blocked in 0..=100 {
            let figures = Figures { judged: 100, blocked, ..Figures::default() };
            for text in [format!("blocked>{blocked}%"), format!("blocked<{blocked}%")] {
                assert_eq!(Condition::parse(&text).unwrap().failure(&figures), None);
            }
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["", "blocked", "blocked>", "blocked=1", "blocked>NaN", "price>5", "savings>5%"]
        {
            assert!(Condition::parse(text).is_err(), "{text}");
        }
    }
}
