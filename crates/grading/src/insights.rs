//! The rules of insights, and what becomes of earlier ones when the rules are applied again.

use std::collections::BTreeMap;

use domain::insight::{Insight, InsightFacts, InsightKind, InsightStatus};
use domain::money::{Prices, Usd};
use domain::sketch::Sketch;
use domain::tier::{Intent, Tier};
use domain::time::{DAY, HOUR, SECOND, Timestamp};
use domain::usage::Usage;
use serde_json::{Map, Value, json};

/// Least number of calls of one intent on one model for a migration alert.
const MIGRATION_STEPS: u64 = 100;
/// The model in use is at least this many times as dear as the one that is suggested.
const MIGRATION_RATIO: u64 = 5;
/// Least number of calls in each of both times for a latency alert.
const LATENCY_CALLS: u64 = 20;
/// A model whose 95th percentile has grown by this factor raises a latency alert.
const LATENCY_FACTOR: f64 = 2.0;
/// Least number of calls for an intent pattern.
const PATTERN_CALLS: u64 = 200;
/// The share of one intent that makes a pattern, in percent.
const PATTERN_PCT: u64 = 30;
/// Facts of which one has changed by this part have changed.
const CHANGE: f64 = 0.25;
/// Savings are projected to 30 days.
const PROJECTED_HOURS: u64 = 30 * 24;
/// Calls that were observed for less time are no measure of the next 30 days.
const LEAST_HOURS: u64 = 24;

/// The completed calls of one intent, tier and model.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The intent.
    pub intent: Intent,
    /// The tier that their inputs classify as.
    pub tier: Tier,
    /// The model.
    pub model: String,
    /// How many there are.
    pub steps: u64,
    /// Their tokens together.
    pub usage: Usage,
    /// The most tokens of one, prompt and completion.
    pub longest: u64,
    /// Their recorded cost together.
    pub cost: Usd,
}

/// A registered model that answers with text, as a candidate for calls of another.
#[derive(Clone, Debug)]
pub struct CandidateModel {
    /// Its identifier.
    pub model: String,
    /// Today's prices.
    pub prices: Prices,
    /// The tiers whose requests it may be suggested for.
    pub tiers: Vec<Tier>,
    /// The most tokens that it takes, prompt and completion.
    pub context_window: Option<u64>,
    /// Whether it is the gateway's own stand-in for a model. It replaces nothing else.
    pub is_sandbox: bool,
}

/// The time for which calls stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Hours, at least 1: savings are projected from them.
    pub hours: u64,
    /// The time of the calls themselves, in seconds, at least 1, if they are a sample: the latest of more.
    pub sampled_seconds: Option<u64>,
}

impl Observed {
    /// The time of all calls since the first one, in microseconds.
    pub fn all(known: i64) -> Self {
        Self { hours: hours(known, known), sampled_seconds: None }
    }

    /// The time of the latest calls of more: `known` since the first record of the project, `looked_at` since
    /// the begin of the sample, in microseconds.
    pub fn sample(known: i64, looked_at: i64) -> Self {
        let seconds = looked_at.max(SECOND).unsigned_abs().div_ceil(SECOND.unsigned_abs());
        Self { hours: hours(known, looked_at), sampled_seconds: Some(seconds) }
    }

    /// The part of the time of a sample to look at, in microseconds. One of more than a day is cut to whole days:
    /// with a part of one, work that is done once a day would be there twice at times, and be taken for growth.
    pub fn sampled(looked_at: i64) -> i64 {
        if looked_at < DAY { looked_at } else { looked_at - looked_at % DAY }
    }

    /// Adds what it is to the data of an insight.
    fn note(self, data: &mut Value) {
        data["observed_hours"] = self.hours.into();
        data["sampled"] = self.sampled_seconds.is_some().into();
        if let Some(seconds) = self.sampled_seconds {
            data["sampled_seconds"] = seconds.into();
        }
    }
}

/// Less than a day is rounded down, and more up, so that no saving is made up. A sample of less than a day of
/// a project that is older stands for a day: it had at least these calls.
fn hours(known: i64, looked_at: i64) -> u64 {
    let hour = HOUR.unsigned_abs();
    if known < DAY {
        return (known.max(0).unsigned_abs() / hour).max(1);
    }
    looked_at.max(DAY).unsigned_abs().div_ceil(hour)
}

/// What a rule finds in its figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The facts of the subjects for which it holds.
    pub raised: Vec<InsightFacts>,
    /// The figures of those for which it does not, although there are calls enough to tell.
    pub below: Vec<InsightFacts>,
}

impl Findings {
    /// Adds the facts of a subject.
    fn add(&mut self, holds: bool, facts: InsightFacts) {
        if holds { self.raised.push(facts) } else { self.below.push(facts) }
    }

    /// Adds the findings of another rule.
    pub fn extend(&mut self, other: Self) {
        self.raised.extend(other.raised);
        self.below.extend(other.below);
    }
}

/// Finds intents whose calls would have cost a fraction on another registered model that fits their
/// tier: from 100 calls, and a fifth. The suggestion is the one that saves most.
pub fn migration_alerts(
    calls: &[Calls],
    candidates: &[CandidateModel],
    observed: Observed,
) -> Vec<InsightFacts> {
    let mut groups: BTreeMap<(Intent, &str), Vec<&Calls>> = BTreeMap::new();
    for calls in calls {
        groups.entry((calls.intent, &calls.model)).or_default().push(calls);
    }
    let alert = |((intent, model), calls): ((Intent, &str), Vec<&Calls>)| {
        let current = candidates.iter().find(|candidate| candidate.model == model)?;
        let may_replace = |candidate: &&CandidateModel| {
            candidate.model != model && (!candidate.is_sandbox || current.is_sandbox)
        };
        let others = candidates.iter().filter(may_replace);
        let moves = others.filter_map(|candidate| Move::between(&calls, current, candidate));
        // The dearer of two that save the same would come last, by name.
        let best = moves
            .max_by(|a, b| (a.saved(), &b.suggested.model).cmp(&(b.saved(), &a.suggested.model)))?;
        Some(best.alert(intent, observed))
    };
    groups.into_iter().filter_map(alert).collect()
}

/// Calls that another model could have taken.
struct Move<'a> {
    current: &'a CandidateModel,
    suggested: &'a CandidateModel,
    tiers: BTreeMap<Tier, u64>,
    steps: u64,
    usage: Usage,
    longest: u64,
    recorded_cost: Usd,
    current_cost: Usd,
    suggested_cost: Usd,
}

impl<'a> Move<'a> {
    fn between(
        calls: &[&Calls],
        current: &'a CandidateModel,
        suggested: &'a CandidateModel,
    ) -> Option<Self> {
        let fits = |calls: &&&Calls| {
            let has_room = suggested.context_window.is_none_or(|window| calls.longest <= window);
            suggested.tiers.contains(&calls.tier) && has_room
        };
        let (mut tiers, mut steps, mut longest) = (BTreeMap::new(), 0, 0);
        let (mut usage, mut recorded_cost) = (Usage::default(), Usd::ZERO);
        for calls in calls.iter().filter(fits) {
            *tiers.entry(calls.tier).or_default() += calls.steps;
            steps += calls.steps;
            usage = usage + calls.usage;
            longest = longest.max(calls.longest);
            recorded_cost += calls.cost;
        }
        let current_cost = current.prices.cost(&usage);
        let suggested_cost = suggested.prices.cost(&usage);
        let is_dear =
            current_cost > Usd::ZERO && current_cost >= suggested_cost.times(MIGRATION_RATIO);
        let found = Self {
            current,
            suggested,
            tiers,
            steps,
            usage,
            longest,
            recorded_cost,
            current_cost,
            suggested_cost,
        };
        (is_dear && steps >= MIGRATION_STEPS).then_some(found)
    }

    fn saved(&self) -> Usd {
        self.current_cost - self.suggested_cost
    }

    fn alert(&self, intent: Intent, observed: Observed) -> InsightFacts {
        let tiers: Map<String, Value> =
            self.tiers.iter().map(|(tier, steps)| (tier.to_string(), (*steps).into())).collect();
        let mut data = json!({
            "intent": intent,
            "current_model": self.current.model,
            "suggested_model": self.suggested.model,
            "savings_pct": rounded(100.0 * part(self.saved(), self.current_cost)),
            "steps": self.steps,
            "tiers": tiers,
            "prompt_tokens": self.usage.prompt,
            "cached_tokens": self.usage.cached,
            "cache_write_tokens": self.usage.cache_write,
            "cache_write_1h_tokens": self.usage.cache_write_1h,
            "completion_tokens": self.usage.completion,
            "longest_call_tokens": self.longest,
            "current_prices": prices(&self.current.prices),
            "suggested_prices": prices(&self.suggested.prices),
            "recorded_cost_usd": self.recorded_cost,
            "current_cost_usd": self.current_cost,
            "suggested_cost_usd": self.suggested_cost,
        });
        observed.note(&mut data);
        if let Some(window) = self.suggested.context_window {
            data["suggested_context_window"] = window.into();
        }
        // Missing when the suggestion costs nothing: no number says how many times dearer that is.
        if self.suggested_cost > Usd::ZERO {
            let ratio = self.current_cost.dollars() / self.suggested_cost.dollars();
            data["price_ratio"] = rounded(ratio).into();
        }
        InsightFacts {
            kind: InsightKind::MigrationAlert,
            subject: format!("{intent}/{}", self.current.model),
            data: members(data),
            estimated_savings: projected(self.saved(), observed.hours),
        }
    }
}

/// Savings of some hours in 30 days; 0 if the time is too short to tell.
fn projected(saved: Usd, hours: u64) -> Usd {
    if hours < LEAST_HOURS {
        return Usd::ZERO;
    }
    let projection = PROJECTED_HOURS as f64 / hours as f64;
    Usd::from_dollars(saved.dollars() * projection).unwrap_or(Usd::MOST)
}

/// Prices in USD per 1,000 tokens, by the names that they have in a model.
fn prices(prices: &Prices) -> Value {
    json!({
        "input_cost_per_1k": prices.input,
        "output_cost_per_1k": prices.output,
        "cached_input_cost_per_1k": prices.cached_input,
        "cache_write_cost_per_1k": prices.cache_write,
        "cache_write_1h_cost_per_1k": prices.cache_write_1h,
    })
}

/// Finds models whose latency of the last 24 hours is twice that of the 7 days before, by the 95th
/// percentiles: from 20 calls in each.
pub fn latency_alerts(day: &BTreeMap<String, Sketch>, week: &BTreeMap<String, Sketch>) -> Findings {
    let mut found = Findings::default();
    for (model, day) in day {
        let Some(week) = week.get(model) else { continue };
        if day.count().min(week.count()) < LATENCY_CALLS {
            continue;
        }
        let (Some(now), Some(before)) = (day.percentile(95.0), week.percentile(95.0)) else {
            continue;
        };
        if before > 0.0 {
            let facts = InsightFacts {
                kind: InsightKind::LatencyAlert,
                subject: model.clone(),
                data: members(json!({
                    "model": model,
                    "p95_24h_ms": rounded(now),
                    "p95_7d_ms": rounded(before),
                    "factor": rounded(now / before),
                    "calls_24h": day.count(),
                    "calls_7d": week.count(),
                })),
                estimated_savings: Usd::ZERO,
            };
            found.add(now >= LATENCY_FACTOR * before, facts);
        }
    }
    found
}

/// Finds intents that make up 30 % or more of the calls: from 200. Calls of no known intent count among
/// all of them, and are no pattern.
pub fn intent_patterns(calls: &[Calls], observed: Observed) -> Findings {
    let mut found = Findings::default();
    let all: u64 = calls.iter().map(|calls| calls.steps).sum();
    if all < PATTERN_CALLS {
        return found;
    }
    for &intent in Intent::ALL.iter().filter(|intent| **intent != Intent::Other) {
        let own = calls.iter().filter(|calls| calls.intent == intent);
        let steps: u64 = own.map(|calls| calls.steps).sum();
        let mut data = json!({
            "intent": intent,
            "share_pct": rounded(steps as f64 * 100.0 / all as f64),
            "intent_requests": steps,
            "requests": all,
        });
        observed.note(&mut data);
        let facts = InsightFacts {
            kind: InsightKind::IntentPattern,
            subject: intent.to_string(),
            data: members(data),
            estimated_savings: Usd::ZERO,
        };
        found.add(steps * 100 >= all * PATTERN_PCT, facts);
    }
    found
}

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
                if !is_measured_otherwise(&insight.facts, &facts) {
                    continue;
                }
                insight.facts = facts;
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

/// Whether facts of the same subject differ by a quarter, or in what they suggest.
fn have_changed(before: &InsightFacts, after: &InsightFacts) -> bool {
    let moved = |name: &&str| match (figure(before, name), figure(after, name)) {
        (Some(before), Some(after)) => is_moved(before, after),
        (before, after) => before.is_some() != after.is_some(),
    };
    before.data.get("suggested_model") != after.data.get("suggested_model")
        || have_savings_risen(before, after)
        || figures(before.kind).iter().any(moved)
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

/// Whether facts are those of a sample and others are not: their savings cannot be told apart, so the later
/// ones are what is compared with from then on.
fn is_measured_otherwise(before: &InsightFacts, after: &InsightFacts) -> bool {
    let is_sampled = |facts| figure(facts, "sampled_seconds").is_some();
    is_sampled(before) != is_sampled(after)
}

/// Whether a quarter more is saved in the same time, by new calls. Time alone changes savings too: old calls leave
/// the window, which lowers the sum, and a window that begins later raises the sum of an hour. So both sums have to
/// rise. The sum of a sample says nothing, since its calls are as many as before; its time is that of its calls.
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
    let sample = |facts: &InsightFacts| figure(facts, "sampled_seconds");
    let (Some(was), Some(is)) = (saved(before), saved(after)) else { return false };
    if hours(after) < LEAST_HOURS as f64 {
        return false;
    }
    let has_risen = |was: f64, is: f64| is > was && is_moved(was, is);
    if let (Some(then), Some(now)) = (sample(before), sample(after)) {
        return has_risen(was / then, is / now);
    }
    has_risen(was / hours(before), is / hours(after)) && has_risen(was, is)
}

fn figure(facts: &InsightFacts, name: &str) -> Option<f64> {
    facts.data.get(name).and_then(Value::as_f64)
}

fn is_moved(before: f64, after: f64) -> bool {
    // Figures are read back from decimals: a quarter may be off by their last digit.
    let quarter = (CHANGE - 1e-9) * before.abs();
    (after - before).abs() >= quarter && after.to_bits() != before.to_bits()
}

fn part(some: Usd, all: Usd) -> f64 {
    some.dollars() / all.dollars()
}

/// A figure with two decimals.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

fn members(data: Value) -> Map<String, Value> {
    match data {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
