//! The fate of stored insights when the rules are applied again.

use std::collections::BTreeMap;

use domain::insight::{Insight, InsightFacts, InsightKind, InsightStatus};
use domain::time::Timestamp;
use serde_json::Value;

use super::{Findings, LEAST_HOURS, PROJECTED_HOURS, WEEK_SECONDS};

/// The requests of a project in the last 7 days, among the data of a migration.
const REQUESTS_7D: &str = "requests_7d";
/// Facts of which one has changed by this part have changed.
const CHANGE: f64 = 0.25;

/// What to write once the rules have been applied again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsightChanges {
    /// Insights of new subjects.
    pub new: Vec<InsightFacts>,
    /// Insights that change, each with the status that it had.
    pub changed: Vec<(Insight, InsightStatus)>,
}

/// Compares the insights that are stored with what was found now. Each subject keeps its insight, and so its
/// number. One for which the rule does not hold is resolved. One that was dismissed comes back when its facts
/// have changed by a quarter since; once its figures have fallen by a quarter below the rule it is resolved, so
/// that it is raised when the rule holds again.
pub fn insight_changes(stored: Vec<Insight>, found: Findings, now: Timestamp) -> InsightChanges {
    let (mut raised, below) = (by_subject(found.raised), by_subject(found.below));
    let mut changes = InsightChanges::default();
    for mut insight in stored {
        let was = insight.status;
        let subject = subject(&insight.facts);
        match (raised.remove(&subject), was) {
            (Some(facts), InsightStatus::Active) if facts != insight.facts => {
                insight.facts = facts;
            }
            (Some(facts), InsightStatus::Dismissed) if !have_changed(&insight.facts, &facts) => {
                if is_measured_otherwise(&insight.facts, &facts) {
                    insight.facts = rebased(&insight.facts, facts);
                } else if let Some(requests) = missing_requests(&insight.facts, &facts) {
                    insight.facts.data.insert(REQUESTS_7D.to_owned(), requests.clone());
                } else {
                    continue;
                }
            }
            (Some(facts), InsightStatus::Dismissed | InsightStatus::Resolved) => {
                insight.facts = facts;
                (insight.status, insight.created_at) = (InsightStatus::Active, now);
            }
            (None, InsightStatus::Active) => insight.status = InsightStatus::Resolved,
            (None, InsightStatus::Dismissed)
                if below.get(&subject).is_some_and(|now| have_fallen(&insight.facts, now)) =>
            {
                insight.status = InsightStatus::Resolved;
            }
            (Some(_), InsightStatus::Active) | (None, _) => continue,
        }
        changes.changed.push((insight, was));
    }
    changes.new = raised.into_values().collect();
    changes
}

fn by_subject(facts: Vec<InsightFacts>) -> BTreeMap<(InsightKind, String), InsightFacts> {
    facts.into_iter().map(|facts| (subject(&facts), facts)).collect()
}

fn subject(facts: &InsightFacts) -> (InsightKind, String) {
    (facts.kind, facts.subject.clone())
}

/// Whether facts of the same subject differ by a quarter, or in what they suggest. The share of an intent in a
/// sample of less than a week follows the clock, so it is not compared.
fn have_changed(before: &InsightFacts, after: &InsightFacts) -> bool {
    let moved = |name: &&str| match (figure(before, name), figure(after, name)) {
        (Some(before), Some(after)) => is_moved(before, after),
        (before, after) => before.is_some() != after.is_some(),
    };
    let is_comparable = before.kind != InsightKind::IntentPattern
        || [before, after].into_iter().all(|facts| !is_short_sample(facts));
    before.data.get("suggested_model") != after.data.get("suggested_model")
        || have_savings_risen(before, after)
        || is_comparable && figures(before.kind).iter().any(moved)
}

/// Whether a figure of facts is a quarter lower now. Figures just below a rule have hardly changed, and an
/// insight that was dismissed must not come back each time that they cross it.
fn have_fallen(before: &InsightFacts, now: &InsightFacts) -> bool {
    let fell = |name: &&str| match (figure(before, name), figure(now, name)) {
        (Some(before), Some(now)) => now < before && is_moved(before, now),
        _ => false,
    };
    figures(before.kind).iter().any(fell)
}

/// The figures that are compared as they are.
fn figures(kind: InsightKind) -> &'static [&'static str] {
    match kind {
        InsightKind::MigrationAlert => &["savings_pct", "price_ratio"],
        InsightKind::LatencyAlert => &["p95_24h_ms", "factor"],
        InsightKind::IntentPattern => &["share_pct"],
    }
}

/// Whether the savings of a migration cannot be told apart, since one of both is of a sample and the other is not,
/// or one of a short sample without the requests of a week. The later ones are compared with from then on.
fn is_measured_otherwise(before: &InsightFacts, after: &InsightFacts) -> bool {
    let has_requests = |facts| figure(facts, REQUESTS_7D).is_some();
    let needs_requests = is_short_sample(before) || is_short_sample(after);
    before.kind == InsightKind::MigrationAlert
        && (sample_seconds(before).is_some() != sample_seconds(after).is_some()
            || needs_requests && has_requests(before) != has_requests(after))
}

/// The requests of a week that facts of all calls lack, and later ones have: a jump is compared with them.
fn missing_requests<'f>(before: &InsightFacts, after: &'f InsightFacts) -> Option<&'f Value> {
    let is_whole = |facts| sample_seconds(facts).is_none();
    let may_have =
        before.kind == InsightKind::MigrationAlert && is_whole(before) && is_whole(after);
    let lacks = figure(before, REQUESTS_7D).is_none();
    after.data.get(REQUESTS_7D).filter(|_| may_have && lacks)
}

/// The later facts with the earlier figures that compare whatever the calls are: otherwise those could creep on
/// by less than a quarter each time.
fn rebased(before: &InsightFacts, mut after: InsightFacts) -> InsightFacts {
    for name in figures(before.kind) {
        if let Some(figure) = before.data.get(*name) {
            after.data.insert((*name).to_owned(), figure.clone());
        }
    }
    after
}

/// The time of a sample in seconds. Samples of earlier versions have their hours alone.
fn sample_seconds(facts: &InsightFacts) -> Option<f64> {
    let is_sampled = facts.data.get("sampled").and_then(Value::as_bool) == Some(true);
    let hours = figure(facts, "observed_hours").filter(|_| is_sampled);
    figure(facts, "sampled_seconds").or(hours.map(|hours| hours * 3_600.0))
}

fn is_short_sample(facts: &InsightFacts) -> bool {
    sample_seconds(facts).is_some_and(|seconds| seconds < WEEK_SECONDS as f64)
}

/// Whether a quarter more is saved in the same time, by new calls. Time alone changes savings too: old calls leave
/// the window, which lowers the sum, and a window that begins later raises the sum of an hour. So both sums have to
/// rise. The sum of a sample says nothing, since its calls are as many as before; its time is that of its calls. If
/// it is less than a week, that of an hour follows the clock, so what a call saves, times the requests of the last
/// 7 days, has to rise as well. If only one of both is of a sample, the sum of all its calls is not known: then it is enough
/// that the sum of an hour rises, by the time that the calls stand for, and what a call saves times those requests.
///
/// A fall is no reason: an alert that saves less is no news. Nor is anything below the least time, for which no
/// savings are known.
fn have_savings_risen(before: &InsightFacts, after: &InsightFacts) -> bool {
    let saved = |facts: &InsightFacts| {
        Some(figure(facts, "current_cost_usd")? - figure(facts, "suggested_cost_usd")?)
    };
    let hours = |facts: &InsightFacts| {
        // Those of earlier versions have none, and were projected to a month.
        figure(facts, "observed_hours").unwrap_or(PROJECTED_HOURS as f64).max(1.0)
    };
    let (Some(was), Some(is)) = (saved(before), saved(after)) else { return false };
    if hours(after) < LEAST_HOURS as f64 {
        return false;
    }
    let has_risen = |was: f64, is: f64| is > was && is_moved(was, is);
    let of_week = |facts: &InsightFacts, saved: f64| {
        Some(saved / figure(facts, "steps")? * figure(facts, REQUESTS_7D)?)
    };
    let has_week_risen = || match (of_week(before, was), of_week(after, is)) {
        (Some(was), Some(is)) => has_risen(was, is),
        _ => false,
    };
    match (sample_seconds(before), sample_seconds(after)) {
        (Some(then), Some(now)) => {
            let is_short = is_short_sample(before) || is_short_sample(after);
            has_risen(was / then, is / now) && (!is_short || has_week_risen())
        }
        (then, now) => {
            let is_mixed = then.is_some() || now.is_some();
            has_risen(was / hours(before), is / hours(after))
                && (has_risen(was, is) || is_mixed && has_week_risen())
        }
    }
}

fn figure(facts: &InsightFacts, name: &str) -> Option<f64> {
    facts.data.get(name).and_then(Value::as_f64)
}

fn is_moved(before: f64, after: f64) -> bool {
    // Figures are read back from decimals: a quarter may be off by their last digit.
    let quarter = (CHANGE - 1e-9) * before.abs();
    (after - before).abs() >= quarter && after.to_bits() != before.to_bits()
}
