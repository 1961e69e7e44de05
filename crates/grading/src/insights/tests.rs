mod dismissed;

use proptest::prelude::*;

use domain::money::CachePrices;

use super::*;

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

const ALL: &[Tier] = Tier::ALL;

/// All calls of so many hours.
fn all(hours: u64) -> Observed {
    Observed { hours, sampled_seconds: None, requests_7d: None }
}

/// The alert of simple summaries on `dear`, among these models.
fn alert(steps: u64, candidates: &[CandidateModel]) -> Option<InsightFacts> {
    let calls = [calls(Intent::Summarise, Tier::Simple, "dear", steps)];
    migration_alerts(&calls, candidates, all(24)).pop()
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
    let facts = migration_alerts(&mixed, &candidates, all(24)).pop().unwrap();
    assert_eq!(facts.data["steps"], 150);
    assert_eq!(facts.data["tiers"], json!({"simple": 150}));
    let few = [
        calls(Intent::Code, Tier::Simple, "dear", 99),
        calls(Intent::Code, Tier::Secure, "dear", 1_000),
        calls(Intent::Answer, Tier::Simple, "dear", 99),
    ];
    assert!(migration_alerts(&few, &candidates, all(24)).is_empty());
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
        migration_alerts(std::slice::from_ref(&calls), &[dear.clone(), without], all(24))
            .is_empty()
    );
    let with = CandidateModel { prices: prices(1_000, 0, Some(100)), ..candidate("cheap", 0, ALL) };
    let facts = migration_alerts(&[calls], &[dear, with], all(24)).pop().unwrap();
    assert_eq!(facts.data["current_cost_usd"], 0.00019);
    assert_eq!(facts.data["suggested_cost_usd"], 0.000_019);
    assert_eq!(facts.data["cached_tokens"], 90_000);
}

#[test]
fn savings_are_projected_from_the_time_of_the_calls_and_from_a_day_on() {
    let calls = [calls(Intent::Summarise, Tier::Simple, "dear", 100)];
    let candidates = [candidate("dear", 10_000, &[]), candidate("cheap", 1_000, ALL)];
    let saved = |hours| {
        let alert = migration_alerts(&calls, &candidates, all(hours)).pop().unwrap();
        let time = [&alert.data["observed_hours"], &alert.data["sampled"]];
        assert_eq!(time, [&json!(hours), &json!(false)]);
        alert.estimated_savings
    };
    let observed = Usd(1_260_000);
    assert_eq!([saved(1), saved(23)], [Usd::ZERO; 2], "less than a day is no measure");
    assert_eq!([saved(24), saved(30)], [observed.times(30), observed.times(24)]);
    assert_eq!([saved(720), saved(721)], [observed, Usd(1_258_252)]);
}

#[test]
fn a_time_is_rounded_so_that_no_saving_is_made_up() {
    // In half hours.
    let time = |halves: i64| halves * HOUR / 2;
    for (halves, expected) in [(0, 1), (1, 1), (3, 1), (47, 23), (48, 24), (49, 25), (1_440, 720)] {
        assert_eq!(Observed::all(time(halves), None), all(expected), "{halves}");
    }
    let sample = |known, looked_at| {
        let observed = Observed::sample(time(known), time(looked_at), None);
        (observed.hours, observed.sampled_seconds.unwrap())
    };
    let own = "the calls that are looked at are those of their own time";
    assert_eq!(sample(100, 61), (31, 109_800), "{own}");
    let more = "there were more on that day, and how many is not known";
    assert_eq!(sample(100, 5), (24, 9_000), "{more}");
    assert_eq!(sample(40, 5), (20, 9_000));
    assert_eq!(sample(100, 0), (24, 1));
}

#[test]
fn an_alert_has_every_number_that_it_was_computed_from() {
    let usage = Usage {
        prompt: 100,
        cache_write: 50,
        cache_write_1h: 20,
        completion: 9,
        ..Usage::default()
    };
    let of = |tier, longest| Calls { usage, longest, ..calls(Intent::Code, tier, "dear", 60) };
    let calls = [of(Tier::Simple, 700), of(Tier::Complex, 900), of(Tier::Secure, 990)];
    let cheap = CandidateModel {
        context_window: Some(1_000),
        ..candidate("cheap", 1_000_000, &[Tier::Simple, Tier::Complex])
    };
    let dear = CandidateModel { context_window: Some(7), ..candidate("dear", 10_000_000, &[]) };
    let data = migration_alerts(&calls, &[dear, cheap], all(24)).pop().unwrap().data;
    // Twice what each has: the secure calls are left out.
    assert_eq!(
        [&data["cache_write_tokens"], &data["cache_write_1h_tokens"], &data["steps"]],
        [&json!(100), &json!(40), &json!(120)]
    );
    assert_eq!(data["longest_call_tokens"], 900);
    assert_eq!(data["suggested_context_window"], 1_000);
    let prices = |input: f64, output: f64, hour: f64| {
        json!({"input_cost_per_1k": input, "output_cost_per_1k": output,
            "cached_input_cost_per_1k": input, "cache_write_cost_per_1k": input,
            "cache_write_1h_cost_per_1k": hour})
    };
    assert_eq!(data["current_prices"], prices(0.01, 0.04, 0.02));
    assert_eq!(data["suggested_prices"], prices(0.001, 0.004, 0.002));
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
    let raised = |day, week| latency_alerts(&day, &week).raised;
    let facts = raised(of(2_500, 20), of(1_000, 20)).pop().unwrap();
    assert_eq!((facts.subject.as_str(), facts.estimated_savings), ("m", Usd::ZERO));
    assert!((facts.data["p95_24h_ms"].as_f64().unwrap() - 2_500.0).abs() < 100.0);
    assert!((facts.data["p95_7d_ms"].as_f64().unwrap() - 1_000.0).abs() < 40.0);
    assert!((facts.data["factor"].as_f64().unwrap() - 2.5).abs() < 0.2);
    assert_eq!((&facts.data["calls_24h"], &facts.data["calls_7d"]), (&json!(20), &json!(20)));
    assert!(raised(of(1_800, 20), of(1_000, 20)).is_empty());
    assert!(raised(of(2_500, 19), of(1_000, 20)).is_empty());
    assert!(raised(of(2_500, 20), of(1_000, 19)).is_empty());
    assert!(raised(of(2_500, 20), BTreeMap::new()).is_empty());
}

#[test]
fn an_intent_pattern_takes_a_share_of_two_hundred_calls() {
    let patterns = |code: u64, other: u64| {
        let calls = [
            calls(Intent::Code, Tier::Simple, "a", code / 2),
            calls(Intent::Code, Tier::Complex, "b", code - code / 2),
            calls(Intent::Other, Tier::Simple, "a", other),
        ];
        intent_patterns(&calls, all(24)).raised
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
        let found = migration_alerts(&calls, &candidates, super::tests::all(hours));
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
                    let factor = if hours < 24 { 0.0 } else { 720.0 / hours as f64 };
                    let expected = saved as f64 * factor;
                    prop_assert!((alert.estimated_savings.0 as f64 - expected).abs() < 1.0);
                }
            }
        }
    }
}
