//! The rules of insights.

mod changes;

use std::collections::BTreeMap;

use domain::insight::{InsightFacts, InsightKind};
use domain::money::{Prices, Usd};
use domain::sketch::Sketch;
use domain::tier::{Intent, Tier};
use domain::time::{DAY, HOUR, SECOND};
use domain::usage::Usage;
use serde_json::{Map, Value, json};

pub use changes::{InsightChanges, insight_changes};

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
/// Savings are projected to 30 days.
const PROJECTED_HOURS: u64 = 30 * 24;
/// Calls that were observed for less time are no measure of the next 30 days.
const LEAST_HOURS: u64 = 24;
/// The calls of a shorter sample depend on the hours of the day and the days of the week that it has.
const WEEK_SECONDS: u64 = 7 * 24 * 60 * 60;

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
    /// The requests of the project in the last 7 days, if it had some in the week before.
    pub requests_7d: Option<u64>,
}

impl Observed {
    /// The time of all calls since the first one, in microseconds.
    pub fn all(known: i64, requests_7d: Option<u64>) -> Self {
        Self { hours: hours(known, known), sampled_seconds: None, requests_7d }
    }

    /// The time of the latest calls of more: `known` since the first record of the project, `looked_at` since
    /// the start of the sample, in microseconds.
    pub fn sample(known: i64, looked_at: i64, requests_7d: Option<u64>) -> Self {
        let seconds = looked_at.max(SECOND).unsigned_abs().div_ceil(SECOND.unsigned_abs());
        Self { hours: hours(known, looked_at), sampled_seconds: Some(seconds), requests_7d }
    }

    /// Whether the calls are a sample of less than a week.
    fn is_short_sample(self) -> bool {
        self.sampled_seconds.is_some_and(|seconds| seconds < WEEK_SECONDS)
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

/// The findings of a rule in its figures.
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
        if let Some(requests) = observed.requests_7d {
            data["requests_7d"] = requests.into();
        }
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
/// all of them, and are no pattern. A sample of less than a week cannot tell that a pattern is over.
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
        let holds = steps * 100 >= all * PATTERN_PCT;
        if holds || !observed.is_short_sample() {
            found.add(holds, facts);
        }
    }
    found
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
