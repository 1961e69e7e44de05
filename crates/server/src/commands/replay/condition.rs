//! Conditions under which a replay fails: `cost>+10%`, `similarity<0.8`.

use super::figures::Figures;
use crate::commands::job::condition::Parsed;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition(Parsed<Figure>);

/// A figure of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// The change of the cost in percent.
    Cost,
    /// The change of the time in percent.
    Latency,
    /// The least similarity of two answers.
    Similarity,
    /// The calls that were left out.
    Skipped,
    /// The calls that safety refused.
    Blocked,
}

const FIGURES: [(&str, Figure); 5] = [
    ("cost", Figure::Cost),
    ("latency", Figure::Latency),
    ("similarity", Figure::Similarity),
    ("skipped", Figure::Skipped),
    ("blocked", Figure::Blocked),
];

impl Condition {
    /// Reads a condition. The error names the fault.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "'{text}' is no condition: it has the form of cost>+10%, latency>+20%, similarity<0.8, skipped>0 or \
                 blocked>0"
            )
        };
        let mut parsed = Parsed::read(text, &FIGURES).ok_or_else(fault)?;
        match parsed.figure {
            Figure::Similarity if parsed.is_percent => parsed.limit /= 100.0,
            Figure::Skipped | Figure::Blocked if parsed.is_percent => return Err(fault()),
            _ => {}
        }
        Ok(Self(parsed))
    }

    /// Why a replay fails by it; `None` if it does not. A figure that is not known is no success, unless
    /// calls have failed, which is none by itself. Neither is a likeness that only some of the calls have, or
    /// that is known of only some of the answers.
    pub(crate) fn failure(&self, figures: &Figures) -> Option<String> {
        let Self(condition) = self;
        if condition.figure == Figure::Similarity && !condition.is_above {
            let unanswered = figures.skipped + figures.blocked;
            for (count, what) in
                [(unanswered, "no answer"), (figures.uncompared, "an answer that was not compared")]
            {
                if count > 0 {
                    let calls = if count == 1 { "call has" } else { "calls have" };
                    return Some(format!("{}: {count} {calls} {what}", condition.text));
                }
            }
        }
        let found = match condition.figure {
            Figure::Cost => figures.cost_change,
            Figure::Latency => figures.latency_change,
            Figure::Similarity => figures.least_similarity,
            Figure::Skipped => Some(figures.skipped as f64),
            Figure::Blocked => Some(figures.blocked as f64),
        };
        let Some(found) = found else {
            // Where calls have failed, that is why: it was not measured.
            let is_measured = figures.errors.is_empty();
            return is_measured.then(|| format!("{}: there is nothing to compare", condition.text));
        };
        let shown = match condition.figure {
            Figure::Cost | Figure::Latency => format!("{found:+.1} %"),
            Figure::Similarity => format!("{found:.3}"),
            Figure::Skipped | Figure::Blocked => format!("{found:.0}"),
        };
        condition.holds(found).then(|| format!("{}: it is {shown}", condition.text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_holds_beyond_its_limit() {
        let figures = Figures {
            cost_change: Some(10.0),
            latency_change: None,
            least_similarity: Some(0.75),
            ..Figures::default()
        };
        let skipping = Figures { skipped: 1, ..figures.clone() };
        let failure = |text: &str| {
            let figures = if text.starts_with("skipped") { &skipping } else { &figures };
            Condition::parse(text).unwrap().failure(figures)
        };
        for fine in [
            "cost>+10%",
            "cost > 10",
            "cost<-5%",
            "similarity<0.75",
            "similarity < 75 %",
            "blocked>0",
            "skipped>1",
            "cost<10%",
        ] {
            assert_eq!(failure(fine), None, "{fine}");
        }
        for (text, reason) in [
            ("cost>+9.9%", "cost>+9.9%: it is +10.0 %"),
            ("similarity<0.8", "similarity<0.8: it is 0.750"),
            ("similarity<80%", "similarity<80%: it is 0.750"),
            ("skipped>0", "skipped>0: it is 1"),
            ("latency>+20%", "latency>+20%: there is nothing to compare"),
        ] {
            assert_eq!(failure(text).as_deref(), Some(reason));
        }
        let failed = Figures { errors: vec!["step 5: Oh.".to_owned()], ..Figures::default() };
        let unknown = Condition::parse("cost>+10%").unwrap().failure(&failed);
        assert_eq!(unknown, None, "nothing was measured");
    }

    #[test]
    fn calls_without_an_answer_are_not_alike() {
        let failure = |text: &str, skipped, blocked| {
            let figures =
                Figures { least_similarity: Some(1.0), skipped, blocked, ..Figures::default() };
            Condition::parse(text).unwrap().failure(&figures)
        };
        assert_eq!(failure("similarity<0.8", 0, 0), None);
        for (skipped, blocked, reason) in [
            (1, 0, "similarity<0.8: 1 call has no answer"),
            (0, 1, "similarity<0.8: 1 call has no answer"),
            (4, 5, "similarity<0.8: 9 calls have no answer"),
        ] {
            assert_eq!(failure("similarity<0.8", skipped, blocked).as_deref(), Some(reason));
        }
        assert_eq!(failure("blocked>9", 4, 5), None);
    }

    /// Answers that are too large to compare, or are not stored, have no similarity.
    #[test]
    fn answers_that_were_not_compared_are_not_alike() {
        let answered = json!({"similarity": 0.9, "skipped": null});
        let unknown = json!({"similarity": null, "skipped": null});
        let skipped = json!({"similarity": null, "skipped": "max_cost"});
        let image = json!({"similarity": null, "skipped": "not_repeatable"});
        let failed = json!({"similarity": null, "skipped": null, "error": "Oh."});
        let one = "similarity<0.8: 1 call has an answer that was not compared";
        let nothing = "similarity>0.8: there is nothing to compare";
        for (text, steps, reason) in [
            ("similarity<0.8", vec![&answered], None),
            ("similarity<0.8", vec![&answered, &image], None),
            ("similarity<0.8", vec![&answered, &failed], None),
            ("similarity<0.8", vec![&unknown], Some(one)),
            ("similarity<0.8", vec![&answered, &unknown], Some(one)),
            ("similarity<0.8", vec![&unknown, &failed], Some(one)),
            (
                "similarity<0.8",
                vec![&unknown, &answered, &unknown],
                Some("similarity<0.8: 2 calls have an answer that was not compared"),
            ),
            (
                "similarity<0.8",
                vec![&unknown, &skipped],
                Some("similarity<0.8: 1 call has no answer"),
            ),
            ("similarity>0.8", vec![&unknown], Some(nothing)),
            // The least of them is not more than the one that is known.
            ("similarity>0.95", vec![&answered, &unknown], None),
            ("cost>+10%", vec![&unknown], None),
        ] {
            let replay = json!({"steps": steps, "cost_change_pct": 0.0});
            let figures = Figures::of_job(&json!({"comparison": {"replay": replay}}));
            let found = Condition::parse(text).unwrap().failure(&figures[0]);
            assert_eq!(found.as_deref(), reason, "{text} of {steps:?}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in [
            "",
            "cost",
            "cost>",
            "cost=5",
            "cost>ten",
            "cost>NaN",
            "cost>inf",
            "price>5",
            "skipped>5%",
            "cost>5%%",
        ] {
            assert!(Condition::parse(text).is_err(), "{text}");
        }
    }
}
