//! Deletion when the retention is over, and the data that is kept.

use domain::grade::{Assessment, Baselines, Grade, Grades};
use domain::ids::{ProjectId, StepId};
use domain::money::Usd;
use domain::step::{Security, Step, StepKind};
use domain::time::{DAY, HOUR, Timestamp};
use domain::trace::Purged;
use store::{AgentFigures, Completion, ModelRow, Store};

use crate::registry::model;
use crate::support::{NOW, databases, project, run, trace, trace_id};

/// The time `days` days later.
pub fn in_days(days: i64) -> Timestamp {
    NOW.minus_micros(-days * DAY)
}

/// Registers models, each with the days that its steps are kept.
pub async fn rules(store: &Store, project: ProjectId, rules: &[(&str, i64)]) -> Vec<ModelRow> {
    let mut rows = Vec::new();
    let mut tx = store.begin().await.unwrap();
    for &(identifier, days) in rules {
        let mut row = ModelRow { data_retention_days: days, ..model(project, identifier) };
        row.id = tx.add_model(&row).await.unwrap();
        rows.push(row);
    }
    tx.commit().await.unwrap();
    rows
}

/// A step of a model that ends after `day` days.
pub fn of_model(project: ProjectId, trace: u128, id: i64, model: &str, day: i64) -> Step {
    let mut step = run(project, trace_id(trace), StepId(id));
    step.parent = None;
    step.finished_at = in_days(day);
    model.clone_into(&mut step.call.as_mut().unwrap().model);
    step
}

/// A note that ends after `day` days.
pub fn note(project: ProjectId, trace: u128, id: i64, parent: Option<i64>, day: i64) -> Step {
    let step = of_model(project, trace, id, "", day);
    let (kind, parent) = (StepKind::Log, parent.map(StepId));
    Step { kind, parent, call: None, routing: None, security: Security::default(), ..step }
}

/// Sums all that is over, and deletes what is due. Returns the number of deleted steps.
pub async fn purge(store: &Store, now: Timestamp) -> u64 {
    while store.group_next_hour(ProjectId(1), now).await.unwrap() {}
    while store.sum_next_quarter(ProjectId(1), now).await.unwrap() {}
    let mut deleted = 0;
    loop {
        match store.purge_steps(now).await.unwrap() {
            0 => return deleted,
            some => deleted += some,
        }
    }
}

/// Purges all that is due, and gives the steps that are left of a trace.
async fn left(store: &Store, trace: u128, now: Timestamp) -> Vec<i64> {
    purge(store, now).await;
    let steps = store.steps(trace_id(trace)).await.unwrap();
    let mut ids: Vec<i64> = steps.iter().map(|step| step.id.0).collect();
    ids.sort_unstable();
    ids
}

/// A grade of a trace.
pub fn assessment(overall: Grade, total_cost: Usd) -> Assessment {
    Assessment {
        grades: Grades { overall, waste: Grade::A, latency: Grade::A },
        total_cost,
        by_model: vec![],
        by_infrastructure: vec![],
        reasons: vec![],
        baselines: Baselines::default(),
    }
}

#[tokio::test]
async fn steps_go_when_their_retention_is_over_and_the_ledger_stays() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        let step = run(project, trace_id(1), StepId(1));
        store.writer().step(step, Some((b"{}", &key))).await.unwrap();
        assert_eq!(purge(&store, NOW.minus_micros(-29 * DAY)).await, 0);
        assert_eq!(purge(&store, NOW.minus_micros(-31 * DAY)).await, 1);
        assert!(store.steps(trace_id(1)).await.unwrap().is_empty());
        assert!(store.sealed_contents(&[StepId(1)]).await.unwrap().is_empty());
        let spent = store.spend_by_project(NOW).await.unwrap();
        assert!(spent[0].1 > Usd::ZERO);
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_keeps_its_grades_its_cost_and_its_findings_when_its_steps_go() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        rules(&store, project, &[("short", 1), ("long", 9)]).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let short = of_model(project, 1, 1, "short", 0);
        let long = Step {
            security: Security { secret: true, ..Security::default() },
            ..of_model(project, 1, 2, "long", 0)
        };
        let (first, both) = (short.cost(), short.cost() + long.cost());
        for step in [short, long] {
            store.writer().step(step, None).await.unwrap();
        }
        let agent =
            AgentFigures { chain_depth: 1, stall_probability: 0.0, tool_fidelity: 1.0, latency: 0 };
        let grade = async |overall, cost| {
            let mut tx = store.begin().await.unwrap();
            let assessment = assessment(overall, cost);
            let done = tx.complete_trace(trace_id(1), NOW, &assessment, agent).await.unwrap();
            tx.commit().await.unwrap();
            done
        };
        let found = async || store.trace(project, trace_id(1)).await.unwrap().unwrap();
        assert_eq!(grade(Grade::B, both).await, Completion::First);
        let again = grade(Grade::F, both).await;
        assert_eq!(again, Completion::Again, "{}: all steps are there", database.kind);
        assert_eq!(found().await.purged, None);
        assert_eq!(left(&store, 1, in_days(2)).await, [2], "{}", database.kind);
        let gone = Purged { cost: first, pii: true, ..Purged::default() };
        assert_eq!(found().await.purged, Some(gone), "{}", database.kind);
        let late = grade(Grade::A, Usd(0)).await;
        assert_eq!(late, Completion::Unwritten, "{}: a step is gone", database.kind);
        assert!(left(&store, 1, in_days(10)).await.is_empty());
        let gone = Purged { cost: both, secret: true, ..gone };
        let after = found().await;
        assert_eq!(after.purged, Some(gone), "{}", database.kind);
        assert_eq!(after.assessment, Some(assessment(Grade::F, both)));
        let (from, to) = (NOW.minus_micros(HOUR), NOW.minus_micros(-HOUR));
        let counts = store.security_counts(project, from, to).await.unwrap();
        let counts = (counts.traces, counts.pii, counts.injection, counts.secret);
        assert_eq!(counts, (1, 1, 0, 1), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_counts_once_where_only_some_of_its_steps_are_gone() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        rules(&store, project, &[("short", 1), ("long", 9)]).await;
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        for step in [of_model(project, 1, 1, "short", 0), note(project, 2, 2, None, 0)] {
            store.writer().step(step, None).await.unwrap();
        }
        let clean = Security::default();
        let step = Step { security: clean, ..of_model(project, 1, 3, "long", 0) };
        store.writer().step(step, None).await.unwrap();
        for day in [0, 2] {
            left(&store, 1, in_days(day)).await;
            let (from, to) = (NOW.minus_micros(HOUR), NOW.minus_micros(-HOUR));
            let counts = store.security_counts(project, from, to).await.unwrap();
            assert_eq!((counts.traces, counts.pii), (2, 1), "{} on day {day}", database.kind);
        }
        store.close().await;
    }
}

#[tokio::test]
async fn what_has_no_model_stays_no_longer_than_what_it_belongs_to() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        rules(&store, project, &[("short", 2), ("long", 90)]).await;
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        for step in [
            // Notes that come later than the one call of a trace.
            of_model(project, 1, 10, "short", 0),
            note(project, 1, 11, Some(10), 1),
            note(project, 1, 12, None, 1),
            note(project, 1, 13, None, 20),
            // Calls of two models: a note follows its parent, one without follows the longer.
            of_model(project, 2, 20, "short", 0),
            of_model(project, 2, 21, "long", 0),
            note(project, 2, 22, Some(20), 1),
            note(project, 2, 23, Some(21), 1),
            note(project, 2, 24, None, 1),
        ] {
            store.writer().step(step, None).await.unwrap();
        }
        for (hours, expected) in [
            (47, vec![10, 11, 12, 13]),
            (49, vec![11, 12, 13]),
            (73, vec![13]),
            (21 * 24, vec![13]),
            (22 * 24 + 1, vec![]),
        ] {
            let now = NOW.minus_micros(-hours * HOUR);
            assert_eq!(left(&store, 1, now).await, expected, "{} {hours} h", database.kind);
        }
        for (day, expected) in [(90, vec![21, 23, 24]), (91, vec![24]), (92, vec![])] {
            let now = in_days(day).minus_micros(HOUR);
            assert_eq!(left(&store, 2, now).await, expected, "{} day {day}", database.kind);
        }
        store.close().await;
    }
}

#[tokio::test]
async fn an_identifier_keeps_the_last_rule_it_had() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut row = rules(&store, project, &[("a", 90)]).await.remove(0);
        for (id, name) in [(1, "a"), (2, "b")] {
            store.writer().step(of_model(project, 1, id, name, 0), None).await.unwrap();
        }
        // The model is called otherwise and has another rule from then on, and then as before.
        for (renamed, identifier, days, day, expected) in [
            (1, "b", 60, 59, vec![1, 2]),
            (1, "b", 60, 61, vec![1]),
            (2, "a", 100, 91, vec![1]),
            (2, "a", 100, 101, vec![]),
        ] {
            identifier.clone_into(&mut row.identifier);
            row.data_retention_days = days;
            let mut tx = store.begin().await.unwrap();
            tx.save_model(&row, in_days(renamed)).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(left(&store, 1, in_days(day)).await, expected, "{} {day}", database.kind);
        }
        let living = store.models().await.unwrap();
        assert_eq!(living.len(), 1, "{}", database.kind);
        store.close().await;
    }
}
