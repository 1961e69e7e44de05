//! Insights, and the sums that they are computed from.

use domain::ids::StepId;
use domain::insight::{InsightFacts, InsightKind, InsightStatus};
use domain::money::Usd;
use domain::sketch::Sketch;
use domain::step::{ApiEndpoint, Call, Step, StepKind, StepStatus};
use domain::tier::{Intent, Tier};
use domain::time::{DAY, MINUTE};
use serde_json::{Map, json};
use store::Store;

use crate::support::{NOW, databases, project, run, trace, trace_id};

fn facts(kind: InsightKind, subject: &str, savings: i64) -> InsightFacts {
    let data = Map::from_iter([("share_pct".to_owned(), json!(33.3))]);
    InsightFacts { kind, subject: subject.to_owned(), data, estimated_savings: Usd(savings) }
}

#[tokio::test]
async fn a_project_has_one_insight_of_a_kind_and_subject() {
    for database in databases().await {
        let store = database.open().await;
        let (first, _) = project(&store).await;
        let (second, _) = project(&store).await;
        let code = facts(InsightKind::IntentPattern, "code", 0);
        let dear = facts(InsightKind::MigrationAlert, "code", 7);
        for _ in 0..2 {
            let mut tx = store.begin().await.unwrap();
            tx.add_insight(first, &code, NOW).await.unwrap();
            tx.add_insight(first, &dear, NOW).await.unwrap();
            tx.add_insight(second, &code, NOW).await.unwrap();
            tx.commit().await.unwrap();
        }
        let all = store.insights(first).await.unwrap();
        let found: Vec<_> = all.iter().map(|insight| insight.facts.clone()).collect();
        assert_eq!(found, [code, dear], "{}", database.kind);
        assert!(all.iter().all(|insight| insight.status == InsightStatus::Active));
        assert!(all.iter().all(|insight| insight.created_at == NOW));
        assert_eq!(store.insights(second).await.unwrap().len(), 1);

        let mut insight = all[0].clone();
        insight.status = InsightStatus::Dismissed;
        insight.facts.estimated_savings = Usd(9);
        let mut tx = store.begin().await.unwrap();
        assert!(!tx.save_insight(&insight, InsightStatus::Resolved).await.unwrap());
        assert!(tx.save_insight(&insight, InsightStatus::Active).await.unwrap());
        assert!(!tx.save_insight(&insight, InsightStatus::Active).await.unwrap());
        assert_eq!(tx.insight(first, insight.id).await.unwrap(), Some(insight.clone()));
        assert_eq!(tx.insight(second, insight.id).await.unwrap(), None);
        tx.commit().await.unwrap();
        assert_eq!(store.insights(first).await.unwrap()[0], insight);

        let mut tx = store.begin().await.unwrap();
        assert!(tx.delete_project(first, NOW).await.unwrap());
        tx.commit().await.unwrap();
        while store.purge_deleted_projects().await.unwrap() > 0 {}
        assert_eq!(store.insights(first).await.unwrap(), []);
        assert_eq!(store.insights(second).await.unwrap().len(), 1);
        store.close().await;
    }
}

/// Steps of one trace, each changed by a function.
async fn write(store: &Store, project: domain::ids::ProjectId, changes: &[fn(&mut Step)]) {
    store.writer().trace(trace(project, 1)).await.unwrap();
    for (at, change) in changes.iter().enumerate() {
        let mut step = run(project, trace_id(1), StepId(100 + at as i64));
        change(&mut step);
        store.writer().step(step, None).await.unwrap();
    }
}

fn call(step: &mut Step) -> &mut Call {
    step.call.as_mut().unwrap()
}

#[tokio::test]
async fn calls_are_summed_by_intent_tier_and_model() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let changes: &[fn(&mut Step)] = &[
            |_| {},
            |step| call(step).usage.completion = 70,
            |step| call(step).model = "other".to_owned(),
            |step| step.routing.as_mut().unwrap().intent = Intent::Chat,
            // Sent to the secure tier, for a reason that is not in its words.
            |step| step.routing.as_mut().unwrap().tier = Some(Tier::Secure),
            |step| step.routing = None,
            |step| step.finished_at = NOW.minus_micros(2 * DAY),
            // These are no calls of an application that were answered.
            |step| step.status = StepStatus::Failed,
            |step| call(step).shadow = true,
            |step| step.api_endpoint = ApiEndpoint::Replay,
            |step| (step.kind, step.call) = (StepKind::Check, None),
        ];
        write(&store, project, changes).await;
        let since = NOW.minus_micros(DAY);
        let recent = store.recent_usage(project, since, 100).await.unwrap();
        let extent = async |most| store.recent_extent(project, since, most).await.unwrap();
        assert_eq!(extent(100).await, (10, Some(NOW)), "{}", database.kind);
        let first = async |since| store.first_end(project, since).await.unwrap();
        assert_eq!(first(since).await, Some(NOW));
        assert_eq!(first(NOW.minus_micros(9 * DAY)).await, Some(NOW.minus_micros(2 * DAY)));
        assert_eq!(first(NOW.minus_micros(-1)).await, None);
        let mut rows: Vec<_> =
            recent.iter().map(|row| (&*row.model, row.intent, row.tier, row.steps)).collect();
        rows.sort();
        assert_eq!(
            rows,
            [
                ("m", None, None, 1),
                ("m", Some(Intent::Code), Some(Tier::Simple), 2),
                ("m", Some(Intent::Code), Some(Tier::Secure), 1),
                ("m", Some(Intent::Chat), Some(Tier::Simple), 1),
                ("other", Some(Intent::Code), Some(Tier::Simple), 1),
            ]
        );
        let both = recent.iter().find(|row| row.steps == 2).unwrap();
        let usage = both.usage;
        assert_eq!((usage.prompt, usage.cached, usage.completion), (200, 20, 120));
        assert_eq!((usage.cache_write, usage.cache_write_1h), (10, 6));
        assert_eq!(both.longest, 170);
        assert_eq!(both.cost, run(project, trace_id(1), StepId(1)).cost().times(2));
        let latest = store.recent_usage(project, since, 3).await.unwrap();
        assert_eq!(extent(3).await.0, 3);
        assert!(latest.iter().map(|row| row.steps).sum::<u64>() <= 3);
        store.close().await;
    }
}

#[tokio::test]
async fn latencies_are_those_of_each_model() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let changes: &[fn(&mut Step)] = &[
            |_| {},
            |step| step.started_at = NOW.minus_micros(8_000_000),
            |step| call(step).model = "other".to_owned(),
            |step| (step.kind, step.call) = (StepKind::Blocked, None),
        ];
        write(&store, project, changes).await;
        let minute = NOW.minute();
        let all = store.latencies_by_model(project, minute, minute + 1, 10).await.unwrap();
        assert_eq!((all.from_minute, all.is_cut), (minute, false));
        let all = all.by_model;
        let counts: Vec<_> = all.iter().map(|(model, one)| (&**model, one.count())).collect();
        assert_eq!(counts, [("m", 2), ("other", 1)], "{}", database.kind);
        assert!(all["m"].percentile(95.0).unwrap() > 7_000.0);
        let before = store.latencies_by_model(project, minute - 9, minute, 10).await.unwrap();
        assert!(before.by_model.is_empty());
        assert!(NOW.0 / MINUTE == minute);
        store.close().await;
    }
}

/// Pages are whole minutes, as far as one has no more rows than a page.
#[tokio::test]
async fn latencies_are_read_by_whole_minutes() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        // A step counts when it is written, and the minute of the counts never goes back: not one write
        // may be made before the clock stands a minute back.
        database.clock.set(NOW.minus_micros(MINUTE));
        store.writer().trace(trace(project, 1)).await.unwrap();
        // The minute of now has two rows, that before it one.
        for (id, before, model) in [(100, MINUTE, "m"), (101, 0, "m"), (102, 0, "other")] {
            database.clock.set(NOW.minus_micros(before));
            let mut step = run(project, trace_id(1), StepId(id));
            call(&mut step).model = model.to_owned();
            store.writer().step(step, None).await.unwrap();
        }
        let (from, to) = (NOW.minute() - 9, NOW.minute() + 1);
        for (most, read, from_minute, is_cut) in [
            (10, 3, from, false),
            (4, 3, from, false),
            (3, 2, NOW.minute(), false),
            (2, 2, NOW.minute(), true),
            (1, 1, NOW.minute(), true),
        ] {
            let page = store.latencies_by_model(project, from, to, most).await.unwrap();
            let count: u64 = page.by_model.values().map(Sketch::count).sum();
            let found = (count, page.from_minute, page.is_cut);
            assert_eq!(found, (read, from_minute, is_cut), "{most} on {}", database.kind);
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_shadow_score_is_the_mean_of_the_shadow_calls_of_a_period() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let (other, _) = self::project(&store).await;
        let changes: &[fn(&mut Step)] = &[
            |step| call(step).similarity = Some(0.25),
            |step| call(step).similarity = Some(0.75),
            |step| call(step).similarity = None,
            |step| {
                call(step).similarity = Some(1.0);
                step.finished_at = NOW.minus_micros(DAY);
            },
        ];
        write(&store, project, changes).await;
        let latest = async |project, from, to, most| {
            store.shadow_score(project, from, to, most).await.unwrap()
        };
        let score = async |project, from, to| latest(project, from, to, 100).await;
        let (day, end) = (NOW.minus_micros(DAY), NOW.minus_micros(-1));
        assert_eq!(score(project, NOW, end).await, Some(0.5), "{}", database.kind);
        assert_eq!(score(project, day, NOW).await, Some(1.0));
        assert_eq!(score(project, day, end).await, Some(2.0 / 3.0));
        assert_eq!(latest(project, day, end, 2).await, Some(0.5), "the latest two");
        assert_eq!(score(project, end, NOW.minus_micros(-DAY)).await, None);
        assert_eq!(score(other, day, end).await, None);
        store.close().await;
    }
}
