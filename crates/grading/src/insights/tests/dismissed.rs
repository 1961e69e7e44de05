//! The fate of stored insights, and above all of dismissed ones.

use domain::ids::{InsightId, ProjectId};
use domain::insight::{Insight, InsightStatus};
use domain::time::{MINUTE, Timestamp};

use super::*;

const NOW: Timestamp = Timestamp(1_795_000_000_000_000);

fn pattern(share: f64) -> InsightFacts {
    InsightFacts {
        kind: InsightKind::IntentPattern,
        subject: "code".to_owned(),
        data: members(json!({"intent": "code", "share_pct": share})),
        estimated_savings: Usd::ZERO,
    }
}

/// The findings of rules that hold for these.
fn raised(facts: impl IntoIterator<Item = InsightFacts>) -> Findings {
    Findings { raised: facts.into_iter().collect(), below: Vec::new() }
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
        let changes = insight_changes(before, raised(share.map(pattern)), NOW);
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
    let changes = insight_changes(Vec::new(), raised([pattern(40.0)]), NOW);
    assert_eq!((changes.new, changes.changed), (vec![pattern(40.0)], Vec::new()));
}

type Case<'a> = (&'a dyn Fn(u64) -> Findings, u64, &'a [(u64, InsightStatus)]);

#[test]
fn a_dismissed_insight_whose_figures_have_fallen_is_raised_again_later() {
    use InsightStatus::{Active, Dismissed, Resolved};
    let of = |latency: i64, calls| BTreeMap::from([("m".to_owned(), sketch(vec![latency; calls]))]);
    let latencies = |day: u64| latency_alerts(&of(day.cast_signed(), 20), &of(1_000, 20));
    let shares = |code: u64| code_share(code, all(24));
    let of_week = |code: u64| code_share(code, sample(7 * 24 * 60, 0));
    let of_hours = |code: u64| code_share(code, sample(12 * 60, 0));
    // Each is dismissed with its first figure; then a figure, and the state that it leads to.
    let cases: [Case<'_>; 7] = [
        // An incident ends, and another one comes.
        (&latencies, 2_500, &[(1_000, Resolved), (2_400, Active)]),
        // It nearly ends, again and again.
        (&latencies, 2_100, &[(1_900, Dismissed), (2_100, Dismissed), (1_800, Dismissed)]),
        (&shares, 400, &[(50, Resolved), (400, Active)]),
        (&shares, 310, &[(299, Dismissed), (300, Dismissed), (240, Dismissed)]),
        (&shares, 310, &[(0, Resolved), (299, Resolved), (300, Active)]),
        (&of_week, 400, &[(50, Resolved), (400, Active)]),
        // Half a day and half a night: a batch of every night is over each noon.
        (&of_hours, 800, &[(600, Dismissed), (0, Dismissed), (310, Dismissed), (990, Dismissed)]),
    ];
    for (found, first, then) in cases {
        let mut insight = stored(found(first).raised.pop().unwrap(), Dismissed);
        for &(figure, expected) in then {
            let changes = insight_changes(vec![insight.clone()], found(figure), NOW);
            assert_eq!(changes.new, []);
            if let Some((changed, was)) = changes.changed.into_iter().next() {
                assert_eq!(was, insight.status);
                insight = changed;
            }
            assert_eq!(insight.status, expected, "{first}, then {figure}");
        }
    }
    // Without enough calls nothing is known.
    let insight = stored(latencies(2_500).raised.pop().unwrap(), Dismissed);
    let unknown = latency_alerts(&of(9, 19), &of(1_000, 20));
    assert_eq!(insight_changes(vec![insight], unknown, NOW), InsightChanges::default());
}

/// The pattern of code that so many of 1,000 calls are.
fn code_share(code: u64, observed: Observed) -> Findings {
    let of = |intent, steps| calls(intent, Tier::Simple, "a", steps);
    intent_patterns(&[of(Intent::Code, code), of(Intent::Other, 1_000 - code)], observed)
}

/// The alert after some calls of code within some hours.
fn code_alert(model: &str, steps: u64, observed: Observed) -> InsightFacts {
    let models = [candidate("dear", 10_000, &[]), candidate(model, 1_000, ALL)];
    let calls = [calls(Intent::Code, Tier::Simple, "dear", steps)];
    migration_alerts(&calls, &models, observed).pop().unwrap()
}

/// An alert that was dismissed, once others are found.
fn dismissed(before: InsightFacts, after: InsightFacts) -> Insight {
    let before = stored(before, InsightStatus::Dismissed);
    let changes = insight_changes(vec![before.clone()], raised([after]), NOW);
    changes.changed.into_iter().next().map_or(before, |(after, _)| after)
}

/// Whether an alert that was dismissed comes back.
fn returns(before: InsightFacts, after: InsightFacts) -> bool {
    dismissed(before, after).status == InsightStatus::Active
}

#[test]
fn another_suggestion_or_more_calls_bring_a_migration_back() {
    for (before, after, expected) in [
        ((1_000, 48), (1_249, 48), false),
        ((1_000, 48), (1_250, 48), true),
        ((1_000, 48), (750, 48), false),
        // No call is made, and time goes by: the projection falls by more than a quarter.
        ((1_000, 24), (1_000, 33), false),
        ((1_000, 24), (1_000, 720), false),
        // Old calls leave the time, one in four of them.
        ((1_000, 480), (750, 720), false),
        // The first record of the time goes, and what is left is more for an hour.
        ((1_000, 720), (1_000, 480), false),
        ((1_000, 696), (999, 504), false),
        ((1_000, 696), (1_001, 504), false),
        // Calls go on as before, or less often.
        ((1_000, 48), (2_000, 96), false),
        ((1_000, 48), (1_100, 96), false),
        // A day is known: savings are known from then on.
        ((1_000, 23), (1_000, 24), false),
        // On the first day none are.
        ((1_000, 1), (9_000, 23), false),
        ((1_000, 1), (1_250, 24), false),
        ((100, 1), (2_400, 24), false),
        ((100, 1), (3_000, 24), true),
        // More of them in an hour.
        ((1_000, 48), (2_500, 96), true),
        ((1_000, 48), (990, 30), false),
    ] {
        let facts = |(steps, hours)| code_alert("cheap", steps, all(hours));
        assert_eq!(returns(facts(before), facts(after)), expected, "{before:?} {after:?}");
    }
    assert!(returns(code_alert("cheap", 1_000, all(48)), code_alert("cheaper", 1_000, all(48))));
}

/// The latest calls of more within some minutes, of a project of a month with so many requests in a week; 0 if
/// they are not known.
fn sample(minutes: i64, requests_7d: u64) -> Observed {
    let requests_7d = (requests_7d > 0).then_some(requests_7d);
    Observed::sample(30 * DAY, minutes * MINUTE, requests_7d)
}

#[test]
fn a_sample_of_more_calls_in_an_hour_brings_a_migration_back() {
    let facts = |steps, hours: i64| code_alert("cheap", steps, sample(hours * 60, 100_000));
    assert!(returns(facts(1_000, 480), facts(990, 300)));
    assert!(!returns(facts(1_000, 480), facts(990, 400)));
    // Other calls of the project take half of the sample.
    assert!(!returns(facts(1_000, 480), facts(500, 240)));
    // As many requests in a week: a part of one has more of these calls.
    assert!(!returns(facts(1_000, 480), facts(990, 100)));
    assert!(!returns(facts(1_000, 100), facts(990, 50)));
}

#[test]
fn a_sample_of_less_than_a_week_counts_with_the_requests_of_one() {
    let facts = |minutes, requests| code_alert("cheap", 1_000, sample(minutes, requests));
    let (day, rush) = (facts(24 * 60, 350_000), facts(144, 3_500_000));
    assert!(returns(day.clone(), rush.clone()), "ten times as many calls");
    assert_eq!(rush.estimated_savings, day.estimated_savings, "there may be no further ones");
    assert_eq!([&rush.data["sampled_seconds"], &rush.data["observed_hours"]], [8_640, 24]);
    assert_eq!(rush.data["requests_7d"], 3_500_000);
    assert!(!returns(day.clone(), facts(144, 350_000)), "a rush, and a week like that before");
    assert!(!returns(day, facts(24 * 60, 3_500_000)), "it is other calls that are more");
    assert!(returns(facts(144, 1_000_000), facts(60, 1_250_000)));
    assert!(!returns(facts(144, 1_000_000), facts(60, 1_249_999)));
    // Each call saves more.
    let longer = |facts: InsightFacts, times: f64| {
        let mut data = facts.data.clone();
        for name in ["current_cost_usd", "suggested_cost_usd"] {
            data[name] = json!(data[name].as_f64().unwrap() * times);
        }
        InsightFacts { data, ..facts }
    };
    assert!(returns(facts(144, 1_000_000), longer(facts(144, 1_000_000), 1.25)));
    assert!(!returns(facts(144, 1_000_000), longer(facts(144, 1_000_000), 1.24)));
}

#[test]
fn the_hour_of_the_day_is_no_growth() {
    // 100,000 calls a day, as each of these takes them: one in fifty is an alert's, and those of a batch all are.
    let usual = |hour: i64| if (8..20).contains(&hour) { (7_000, 140_u64) } else { (1_333, 26) };
    let batch = |hour: i64| if hour == 2 { (31_000, 28_060_u64) } else { (3_000, 60) };
    let curves: [&dyn Fn(i64) -> (i64, u64); 2] = [&usual, &batch];
    for curve in curves {
        let alert = |now: i64| {
            let (mut all, mut own, mut hours) = (0, 0, 0);
            while all < 50_000 {
                let (calls, of_alert) = curve((now - hours).rem_euclid(24));
                (all, own, hours) = (all + calls, own + of_alert, hours + 1);
            }
            code_alert("cheap", own, sample(hours * 60, 700_000))
        };
        for (then, later) in (0..24).flat_map(|then| (1..=24).map(move |later| (then, later))) {
            assert!(!returns(alert(then), alert(then + later)), "at {then}, {later} hours later");
        }
    }
}

#[test]
fn growth_counts_from_the_first_sample_on() {
    let facts =
        |steps, hours: i64, requests: u64| code_alert("cheap", steps, sample(hours * 60, requests));
    let young = code_alert("cheap", 1_000, sample(12 * 60, 0));
    for (before, first, later) in [
        // All calls of a month were known before. Now they are the latest of more.
        (code_alert("cheap", 1_000, all(720)), facts(990, 500, 70_000), facts(990, 400, 70_000)),
        // The project has grown tenfold, and the alert fivefold: the sum of the sample is less.
        (
            code_alert("cheap", 3_000, all(720)),
            facts(2_500, 120, 70_000),
            facts(3_200, 120, 90_000),
        ),
        // It shrinks to what is known whole, and grows.
        (
            facts(2_500, 120, 70_000),
            code_alert("cheap", 3_000, all(720)),
            code_alert("cheap", 3_800, all(720)),
        ),
        // The first week is over.
        (young.clone(), facts(1_000, 6, 700_000), facts(1_000, 4, 900_000)),
    ] {
        let insight = dismissed(before.clone(), first.clone());
        assert_eq!((insight.status, &insight.facts), (InsightStatus::Dismissed, &first));
        assert!(!returns(insight.facts.clone(), first), "nothing has changed since");
        assert!(!returns(before, later.clone()), "it could not be told apart");
        assert!(returns(insight.facts, later));
    }
    let next = code_alert("cheap", 1_000, sample(60, 0));
    assert_eq!(dismissed(young.clone(), next).facts, young, "the first week goes on");
}

#[test]
fn the_jump_that_makes_a_sample_of_all_calls_is_told() {
    // 45,000 steps in a month, one in fifty an alert's. After the jump the latest 50,000 are looked at.
    let all = |hours: i64, requests| Observed::all(hours * 60 * MINUTE, Some(requests));
    let month = code_alert("cheap", 900, all(720, 10_500));
    assert_eq!(month.data["requests_7d"], 10_500);
    // 40,000 more in an hour: the others are those of 6 days.
    let jump = code_alert("cheap", 1_000, sample(6 * 24 * 60, 50_500));
    assert!(returns(month.clone(), jump.clone()));
    // As many requests as ever: other calls are fewer, or the others of a week ago are left out.
    assert!(!returns(month.clone(), code_alert("cheap", 1_000, sample(6 * 24 * 60, 10_500))));
    assert!(!returns(month.clone(), code_alert("cheap", 1_000, sample(29 * 24 * 60, 10_600))));
    // The requests have jumped, and those of the alert have not.
    assert!(!returns(month.clone(), code_alert("cheap", 180, sample(6 * 24 * 60, 50_500))));
    // Half a day, and that the busy one, has as many calls as ever; other calls have grown.
    let alert = code_alert("cheap", 9_000, all(720, 10_500));
    assert!(!returns(alert, code_alert("cheap", 300, sample(12 * 60, 700_000))));
    // An alert of before a week was known, or of an earlier version, learns of it first.
    let early = code_alert("cheap", 900, Observed::all(720 * 60 * MINUTE, None));
    let learned = dismissed(early.clone(), code_alert("cheap", 950, all(720, 10_500)));
    assert_eq!(learned.status, InsightStatus::Dismissed);
    assert_eq!(learned.facts.data["requests_7d"], 10_500);
    assert_eq!(learned.facts.data["steps"], 900, "it could creep on otherwise");
    assert!(returns(learned.facts, jump.clone()));
    // No week before the jump is known: the jump is where the comparison begins.
    let young = code_alert("cheap", 900, Observed::all(720 * 60 * MINUTE, None));
    assert_eq!(dismissed(young, jump.clone()).facts, jump);
    // A sample that is over, and a project that has grown.
    assert!(!returns(jump.clone(), month.clone()));
    assert!(returns(month, code_alert("cheap", 4_000, all(720, 45_000))));
}

#[test]
fn what_does_not_depend_on_a_sample_creeps_no_further_with_one() {
    let with = |mut facts: InsightFacts, name: &str, figure: f64| {
        facts.data.insert(name.to_owned(), json!(figure));
        facts
    };
    let of = |observed, ratio| with(code_alert("cheap", 1_000, observed), "price_ratio", ratio);
    let week = sample(8 * 24 * 60, 70_000);
    // Each is less than a quarter more than the last one.
    let insight = dismissed(of(all(720), 10.0), of(week, 12.0));
    assert_eq!(insight.status, InsightStatus::Dismissed);
    assert_eq!(insight.facts.data["price_ratio"], 10.0);
    assert_eq!(insight.facts.data["sampled"], true);
    assert!(returns(insight.facts, of(all(720), 14.0)));

    let share = |code, observed| code_share(code, observed).raised.pop().unwrap();
    let insight = dismissed(share(310, all(720)), share(380, week));
    assert_eq!(insight.facts, share(310, all(720)));
    assert!(returns(insight.facts, share(390, all(720))));
}

#[test]
fn samples_of_earlier_versions_are_samples() {
    let earlier = |steps, hours: i64| {
        let mut facts = code_alert("cheap", steps, sample(hours * 60, 0));
        facts.data.remove("sampled_seconds").unwrap();
        facts
    };
    let later = |hours: i64| code_alert("cheap", 1_000, sample(hours * 60, 70_000));
    assert!(returns(earlier(1_000, 400), later(300)));
    assert_eq!(dismissed(earlier(1_000, 400), later(390)).facts, earlier(1_000, 400));
    // Nothing that can be compared is known of a short one.
    assert_eq!(dismissed(earlier(1_000, 40), later(20)).facts, later(20));
}
