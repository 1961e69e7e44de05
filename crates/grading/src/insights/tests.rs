use proptest::prelude::*;

use domain::ids::{InsightId, ProjectId};
use domain::money::CachePrices;

use super::*;

const NOW: Timestamp = Timestamp(1_795_000_000_000_000);

fn prices(input: i64, output: i64, cached: Option<i64>) -> Prices {
    let cache = CachePrices { read: cached.map(Usd), ..CachePrices::default() };
    Prices::new(Usd(input), Usd(output), cache)
}

fn candidate(model: &str, price: i64, tiers: &[Tier]) -> CandidateModel {
    CandidateModel {
        model: model.to_owned(),
        prices: prices(price, price * 4, None),
        tiers: tiers.to_vec(),
        context_window: None,
        is_sandbox: false,
    }
}

fn calls(intent: Intent, tier: Tier, model: &str, steps: u64) -> Calls {
    let usage = Usage { prompt: steps * 1000, completion: steps * 100, ..Usage::default() };
    Calls { intent, tier, model: model.to_owned(), steps, usage, longest: 1100, cost: Usd(7) }
}

fn day() -> Sample {
    Sample { hours: 24, ..Sample::default() }
}

const ALL: &[Tier] = Tier::ALL;

/// The alert of simple summaries on `dear`, among these models.
fn alert(steps: u64, candidates: &[CandidateModel]) -> Option<InsightFacts> {
    let calls = [calls(Intent::Summarise, Tier::Simple, "dear", steps)];
    migration_alerts(&calls, candidates, &day()).pop()
}

#[test]
fn a_migration_alert_takes_a_hundred_calls_and_a_fifth_of_the_price() {
    let dear = || candidate("dear", 5_000, &[]);
    let fifth = alert(100, &[dear(), candidate("cheap", 1_000, ALL)]).unwrap();
    assert_eq!(fifth.subject, "summarise/dear");
    assert_eq!(fifth.data["savings_pct"], 80.0);
    assert_eq!(fifth.data["price_ratio"], 5.0);
    assert_eq!(fifth.data["steps"], 100);
    assert_eq!(fifth.data["tiers"], json!({"simple": 100}));
    // 100,000 prompt and 10,000 completion tokens: $0.0007 instead of $0.00014.
    assert_eq!(fifth.data["current_cost_usd"], 0.0007);
    assert_eq!(fifth.data["suggested_cost_usd"], 0.00014);
    assert_eq!(fifth.data["recorded_cost_usd"], 7e-9);
    assert_eq!(fifth.estimated_savings, Usd(560_000 * 30), "of a day, for 30");
    assert_eq!(alert(99, &[dear(), candidate("cheap", 1_000, ALL)]), None);
    assert_eq!(alert(100, &[dear(), candidate("cheap", 1_001, ALL)]), None);
    assert_eq!(alert(100, &[candidate("cheap", 1_000, ALL)]), None, "the model in use is gone");
    let free = alert(100, &[dear(), candidate("free", 0, ALL)]).unwrap();
    assert_eq!(free.data["savings_pct"], 100.0);
    assert!(!free.data.contains_key("price_ratio"));
}

#[test]
fn the_suggestion_fits_the_tier_and_the_length_and_saves_most() {
    let dear = || candidate("dear", 100_000, &[]);
    let suggested = |candidates: &[CandidateModel]| {
        alert(100, candidates)
            .map(|facts| facts.data["suggested_model"].as_str().unwrap().to_owned())
    };
    let (a, b) = (candidate("a", 900, ALL), candidate("b", 800, ALL));
    assert_eq!(suggested(&[dear(), a.clone(), b]).as_deref(), Some("b"));
    assert_eq!(suggested(&[dear(), candidate("b", 900, ALL), a]).as_deref(), Some("a"), "by name");
    assert_eq!(suggested(&[dear(), candidate("c", 1, &[Tier::Complex, Tier::Secure])]), None);
    let stand_in = CandidateModel { is_sandbox: true, ..candidate("s", 0, ALL) };
    assert_eq!(suggested(&[dear(), stand_in.clone()]), None);
    let sandbox = CandidateModel { is_sandbox: true, ..dear() };
    assert_eq!(suggested(&[sandbox, stand_in]).as_deref(), Some("s"));
    let narrow = |window| CandidateModel { context_window: Some(window), ..candidate("n", 1, ALL) };
    assert_eq!(suggested(&[dear(), narrow(1099)]), None);
    assert_eq!(suggested(&[dear(), narrow(1100)]).as_deref(), Some("n"));
}

#[test]
fn calls_of_a_tier_that_a_model_does_not_fit_are_left_out() {
    let mixed = [
        calls(Intent::Code, Tier::Simple, "dear", 150),
        calls(Intent::Code, Tier::Secure, "dear", 1_000),
    ];
    let candidates = [candidate("dear", 10_000, &[]), candidate("cheap", 1_000, &[Tier::Simple])];
    let facts = migration_alerts(&mixed, &candidates, &day()).pop().unwrap();
    assert_eq!(facts.data["steps"], 150);
    assert_eq!(facts.data["tiers"], json!({"simple": 150}));
    let few = [
        calls(Intent::Code, Tier::Simple, "dear", 99),
        calls(Intent::Code, Tier::Secure, "dear", 1_000),
        calls(Intent::Answer, Tier::Simple, "dear", 99),
    ];
    assert!(migration_alerts(&few, &candidates, &day()).is_empty());
}

#[test]
fn cached_tokens_cost_what_either_model_charges_for_them() {
    let usage = Usage { prompt: 100_000, cached: 90_000, completion: 0, ..Usage::default() };
    let calls = Calls { usage, ..calls(Intent::Answer, Tier::Simple, "dear", 100) };
    let dear =
        CandidateModel { prices: prices(10_000, 0, Some(1_000)), ..candidate("dear", 0, &[]) };
    // Ten times dearer without a cache; with it, 190,000 against 100,000.
    let without = CandidateModel { prices: prices(1_000, 0, None), ..candidate("cheap", 0, ALL) };
    assert!(
        migration_alerts(std::slice::from_ref(&calls), &[dear.clone(), without], &day()).is_empty()
    );
    let with = CandidateModel { prices: prices(1_000, 0, Some(100)), ..candidate("cheap", 0, ALL) };
    let facts = migration_alerts(&[calls], &[dear, with], &day()).pop().unwrap();
    assert_eq!(facts.data["current_cost_usd"], 0.00019);
    assert_eq!(facts.data["suggested_cost_usd"], 0.000_019);
    assert_eq!(facts.data["cached_tokens"], 90_000);
}

#[test]
fn a_sample_stands_for_all_of_its_hours() {
    let calls = [calls(Intent::Summarise, Tier::Simple, "dear", 100)];
    let candidates = [candidate("dear", 10_000, &[]), candidate("cheap", 1_000, ALL)];
    let whole = migration_alerts(&calls, &candidates, &day()).pop().unwrap();
    let costs = BTreeMap::from([("dear".to_owned(), (Usd(1_000), Usd(20_000)))]);
    let sample = Sample { hours: 720, costs };
    let sampled = migration_alerts(&calls, &candidates, &sample).pop().unwrap();
    // 30 days instead of one, and 20 times the cost of the sample.
    let expected = whole.estimated_savings.dollars() / 30.0 * 20.0;
    assert!((sampled.estimated_savings.dollars() - expected).abs() < 1e-9);
    assert_eq!(sampled.data["model_cost_usd"], 0.00002);
}

fn sketch(latencies: impl IntoIterator<Item = i64>) -> Sketch {
    let mut sketch = Sketch::new();
    latencies.into_iter().for_each(|ms| sketch.record(ms * 1000));
    sketch
}

#[test]
fn a_latency_alert_takes_twice_the_week_and_twenty_calls() {
    let of = |latency: i64, calls: usize| {
        BTreeMap::from([("m".to_owned(), sketch(std::iter::repeat_n(latency, calls)))])
    };
    let facts = latency_alerts(&of(2_500, 20), &of(1_000, 20)).pop().unwrap();
    assert_eq!((facts.subject.as_str(), facts.estimated_savings), ("m", Usd::ZERO));
    assert!((facts.data["p95_24h_ms"].as_f64().unwrap() - 2_500.0).abs() < 100.0);
    assert!((facts.data["p95_7d_ms"].as_f64().unwrap() - 1_000.0).abs() < 40.0);
    assert!((facts.data["factor"].as_f64().unwrap() - 2.5).abs() < 0.2);
    assert_eq!((&facts.data["calls_24h"], &facts.data["calls_7d"]), (&json!(20), &json!(20)));
    assert!(latency_alerts(&of(1_800, 20), &of(1_000, 20)).is_empty());
    assert!(latency_alerts(&of(2_500, 19), &of(1_000, 20)).is_empty());
    assert!(latency_alerts(&of(2_500, 20), &of(1_000, 19)).is_empty());
    assert!(latency_alerts(&of(2_500, 20), &BTreeMap::new()).is_empty());
}

#[test]
fn an_intent_pattern_takes_a_share_of_two_hundred_calls() {
    let patterns = |code: u64, other: u64| {
        let all = [
            calls(Intent::Code, Tier::Simple, "a", code / 2),
            calls(Intent::Code, Tier::Complex, "b", code - code / 2),
            calls(Intent::Other, Tier::Simple, "a", other),
        ];
        intent_patterns(&all, &day())
    };
    let facts = patterns(60, 140).pop().unwrap();
    assert_eq!(facts.subject, "code");
    assert_eq!(facts.data["share_pct"], 30.0);
    assert_eq!(
        (&facts.data["intent_requests"], &facts.data["requests"]),
        (&json!(60), &json!(200))
    );
    assert!(patterns(60, 139).is_empty(), "too few");
    assert!(patterns(59, 141).is_empty(), "no share");
}

fn pattern(share: f64) -> InsightFacts {
    InsightFacts {
        kind: InsightKind::IntentPattern,
        subject: "code".to_owned(),
        data: members(json!({"intent": "code", "share_pct": share})),
        estimated_savings: Usd::ZERO,
    }
}

fn stored(facts: InsightFacts, status: InsightStatus) -> Insight {
    let (id, project) = (InsightId(3), ProjectId(1));
    Insight { id, project, facts, status, created_at: NOW.minus_micros(9) }
}

#[test]
fn an_insight_keeps_its_number_and_follows_its_facts() {
    use InsightStatus::{Active, Dismissed, Resolved};
    let after = |status: InsightStatus, share: Option<f64>| {
        let before = vec![stored(pattern(40.0), status)];
        let changes = insight_changes(before, share.map(pattern).into_iter().collect(), NOW);
        assert!(changes.new.is_empty());
        let changed = |(insight, was): (Insight, InsightStatus)| {
            assert_eq!((insight.id, was), (InsightId(3), status));
            let share = insight.facts.data["share_pct"].as_f64().unwrap();
            (insight.status, share, insight.created_at == NOW)
        };
        changes.changed.into_iter().map(changed).next()
    };
    assert_eq!(after(Active, Some(40.0)), None);
    assert_eq!(after(Active, Some(41.0)), Some((Active, 41.0, false)));
    assert_eq!(after(Active, None), Some((Resolved, 40.0, false)));
    assert_eq!(after(Resolved, None), None);
    assert_eq!(after(Resolved, Some(40.0)), Some((Active, 40.0, true)));
    assert_eq!(after(Dismissed, None), None);
    assert_eq!(after(Dismissed, Some(49.9)), None);
    assert_eq!(after(Dismissed, Some(50.0)), Some((Active, 50.0, true)));
    assert_eq!(after(Dismissed, Some(30.0)), Some((Active, 30.0, true)));
    let changes = insight_changes(Vec::new(), vec![pattern(40.0)], NOW);
    assert_eq!((changes.new, changes.changed), (vec![pattern(40.0)], Vec::new()));
}

#[test]
fn another_suggestion_or_other_savings_bring_a_migration_back() {
    let facts = |model: &str, savings: i64| InsightFacts {
        kind: InsightKind::MigrationAlert,
        subject: "code/dear".to_owned(),
        data: members(json!({"suggested_model": model, "savings_pct": 90.0, "price_ratio": 10.0})),
        estimated_savings: Usd(savings),
    };
    let returns = |after: InsightFacts| {
        let before = vec![stored(facts("cheap", 1_000), InsightStatus::Dismissed)];
        !insight_changes(before, vec![after], NOW).changed.is_empty()
    };
    assert!(!returns(facts("cheap", 1_249)));
    assert!(returns(facts("cheap", 1_250)));
    assert!(returns(facts("cheap", 750)));
    assert!(returns(facts("cheaper", 1_000)));
}

proptest! {
    /// The figures are those of a plain look at all calls.
    #[test]
    fn alerts_are_those_of_every_pair_of_models(
        all in proptest::collection::vec(
            (0..3usize, 0..3usize, 0..3usize, 1..150u64, 0..5_000u64, 0..900u64), 0..12),
        prices in proptest::collection::vec((0..40_000i64, 0..200_000i64, 0..8u8), 3),
        hours in 1..720u64,
    ) {
        let names = ["a", "b", "c"];
        let calls: Vec<Calls> = all
            .iter()
            .map(|&(intent, tier, model, steps, prompt, completion)| Calls {
                usage: Usage { prompt: prompt * steps, completion: completion * steps, ..Usage::default() },
                ..calls(Intent::ALL[intent], Tier::ALL[tier], names[model], steps)
            })
            .collect();
        let candidates: Vec<CandidateModel> = names
            .iter()
            .zip(&prices)
            .map(|(name, &(input, output, tiers))| CandidateModel {
                prices: super::tests::prices(input, output, None),
                tiers: Tier::ALL.iter().enumerate()
                    .filter(|(at, _)| tiers >> at & 1 == 1).map(|(_, tier)| *tier).collect(),
                ..candidate(name, 0, &[])
            })
            .collect();
        let found = migration_alerts(&calls, &candidates, &Sample { hours, ..Sample::default() });
        for &intent in &Intent::ALL[..3] {
            for from in &candidates {
                let best = candidates.iter().filter(|to| to.model != from.model).filter_map(|to| {
                    let own = calls.iter().filter(|calls| {
                        calls.intent == intent && calls.model == from.model && to.tiers.contains(&calls.tier)
                    });
                    let (steps, prompt, completion) = own.fold((0, 0, 0), |(s, p, c), calls| {
                        (s + calls.steps, p + calls.usage.prompt, c + calls.usage.completion)
                    });
                    let usage = Usage { prompt, completion, ..Usage::default() };
                    let (before, after) = (from.prices.cost(&usage), to.prices.cost(&usage));
                    let dear = before.0 > 0 && before.0 >= 5 * after.0;
                    (steps >= 100 && dear).then_some(before.0 - after.0)
                }).max();
                let subject = format!("{intent}/{}", from.model);
                let alert = found.iter().find(|facts| facts.subject == subject);
                prop_assert_eq!(alert.is_some(), best.is_some());
                if let (Some(alert), Some(saved)) = (alert, best) {
                    let expected = saved as f64 * 720.0 / hours as f64;
                    prop_assert!((alert.estimated_savings.0 as f64 - expected).abs() < 1.0);
                }
            }
        }
    }
}
