//! Lists of traces, compared with a plain look at every trace and step.

use std::sync::Arc;

use domain::attributes::{AttributeName, Attributes};
use domain::grade::{Assessment, Baselines, Grade, Grades};
use domain::ids::{KeyId, ProjectId, StepId, TraceId};
use domain::money::Usd;
use domain::step::{Step, StepStatus};
use domain::time::SECOND;
use domain::trace::{Trace, TraceStatus};
use serde_json::json;
use store::{AgentFigures, Completion, Order, Page, Store, Term, TraceFilter};

use crate::support::{Dice, NOW, databases, databases_with_dice, project, run, trace, trace_id};

/// A trace with its steps, as they were written.
struct Written {
    trace: Trace,
    steps: Vec<Step>,
}

const USERS: [&str; 3] = ["jane", "joe", "jürgen"];
const MODELS: [&str; 3] = ["small", "large", "model=odd"];
const GRADES: [Grade; 2] = [Grade::A, Grade::F];

impl Written {
    fn cost(&self) -> Usd {
        self.steps.iter().map(|step| step.call.as_ref().unwrap().cost).sum()
    }

    fn latency(&self) -> i64 {
        let end = self.steps.iter().map(|step| step.finished_at).max();
        end.map_or(0, |end| end.since(self.trace.created_at))
    }

    fn has(&self, attribute: impl Fn(&Attributes) -> bool) -> bool {
        self.steps.iter().any(|step| step.attributes.as_deref().is_some_and(&attribute))
    }
}

/// A trace of some steps, all by the dice.
fn thrown(dice: &mut Dice, project: ProjectId, number: u64) -> Written {
    let mut trace = trace(project, number.into());
    trace.created_at = NOW.minus_micros((1_000 - number as i64) * SECOND);
    trace.id = TraceId::first_at(trace.created_at);
    trace.key = Some(KeyId(dice.next(2)));
    let user = USERS[dice.next(3) as usize];
    trace.metadata = match dice.next(3) {
        0 => None,
        1 => Some(json!({"user": user, "n": dice.next(2), "live": true})),
        _ => Some(json!({"tags": {"team": user}, "n": dice.next(2).to_string()})),
    };
    let steps = (0..dice.next(4)).map(|at| {
        let mut step = run(project, trace.id, StepId((number * 10 + at) as i64));
        let call = step.call.as_mut().unwrap();
        MODELS[dice.next(3) as usize].clone_into(&mut call.model);
        call.shadow = dice.next(4) == 0;
        call.cost = Usd(dice.next(3) as i64 * 1_000);
        step.finished_at = trace.created_at.minus_micros(-(dice.next(5) as i64) * SECOND);
        step.status = [StepStatus::Completed, StepStatus::Failed][usize::from(dice.next(4) == 0)];
        step.security.pii = dice.next(3) == 0;
        let tag = ("team".to_owned(), USERS[dice.next(3) as usize].to_owned());
        step.attributes = (dice.next(2) == 0).then(|| {
            let user = Some(USERS[dice.next(3) as usize].to_owned());
            Arc::new(Attributes { user, session: None, tags: [tag].into() })
        });
        step
    });
    let steps = steps.collect();
    Written { trace, steps }
}

/// Writes a trace, and completes it sometimes.
async fn write(store: &Store, dice: &mut Dice, written: &mut Written) {
    store.writer().trace(written.trace.clone()).await.unwrap();
    for step in &written.steps {
        store.writer().step(step.clone(), None).await.unwrap();
    }
    if dice.next(2) == 0 {
        return;
    }
    let overall = GRADES[dice.next(2) as usize];
    let assessment = Assessment {
        grades: Grades { overall, waste: Grade::A, latency: Grade::A },
        total_cost: written.cost(),
        by_model: Vec::new(),
        by_infrastructure: Vec::new(),
        reasons: Vec::new(),
        baselines: Baselines::default(),
    };
    let latency = written.latency();
    let agent =
        AgentFigures { chain_depth: 0, stall_probability: 0.0, tool_fidelity: 1.0, latency };
    let mut tx = store.begin().await.unwrap();
    let done = tx.complete_trace(written.trace.id, NOW, &assessment, agent).await.unwrap();
    assert_eq!(done, Completion::First);
    tx.commit().await.unwrap();
    written.trace.status = TraceStatus::Completed;
    written.trace.assessment = Some(assessment);
}

/// A plain condition on a trace.
type Condition = Box<dyn Fn(&Written) -> bool>;

/// A filter by the dice, and the same as a plain condition.
fn filter(dice: &mut Dice) -> (TraceFilter, Vec<Condition>) {
    let mut filter = TraceFilter::default();
    let mut plain: Vec<Condition> = Vec::new();
    let (user, model) = (USERS[dice.next(3) as usize], MODELS[dice.next(3) as usize]);
    for _ in 0..=dice.next(5) {
        match dice.next(12) {
            0 => {
                filter.status = Some(TraceStatus::Completed);
                plain.push(Box::new(|it| it.trace.status == TraceStatus::Completed));
            }
            1 => {
                let (from, to) = (NOW.minus_micros(985 * SECOND), NOW.minus_micros(975 * SECOND));
                (filter.from, filter.to) = (Some(from), Some(to));
                plain.push(Box::new(move |it| (from..to).contains(&it.trace.created_at)));
            }
            2 => {
                filter.grade = Some(Grade::F);
                plain.push(Box::new(|it| {
                    let grades = it.trace.assessment.as_ref().map(|it| it.grades.overall);
                    grades == Some(Grade::F)
                }));
            }
            3 => {
                filter.key = Some(KeyId(1));
                plain.push(Box::new(|it| it.trace.key == Some(KeyId(1))));
            }
            4 => {
                filter.min_cost = Some(Usd(2_000));
                plain.push(Box::new(|it| it.cost() >= Usd(2_000)));
            }
            5 => {
                filter.min_latency = Some(3 * SECOND);
                plain.push(Box::new(|it| it.latency() >= 3 * SECOND));
            }
            6 => {
                filter.terms.push(Term::attribute(&AttributeName::User, user));
                plain.push(Box::new(move |it| {
                    it.trace.metadata.as_ref().is_some_and(|it| it["user"] == user)
                        || it.has(|it| it.user.as_deref() == Some(user))
                }));
            }
            7 => {
                let team = AttributeName::Tag("team".to_owned());
                filter.terms.push(Term::attribute(&team, user));
                plain.push(Box::new(move |it| {
                    it.trace.metadata.as_ref().is_some_and(|it| it["tags"]["team"] == user)
                        || it.has(|it| it.tags["team"] == user)
                }));
            }
            8 => {
                filter.terms.push(Term::model(model));
                plain.push(Box::new(move |it| {
                    let calls = || it.steps.iter().map(|step| step.call.as_ref().unwrap());
                    calls().any(|call| call.model == model && !call.shadow)
                }));
            }
            9 => {
                filter.terms.push(Term::pii());
                plain.push(Box::new(|it| it.steps.iter().any(|step| step.security.pii)));
            }
            10 => {
                let wanted = dice.next(2) == 0;
                let list = if wanted { &mut filter.terms } else { &mut filter.without };
                list.push(Term::error());
                plain.push(Box::new(move |it| {
                    let fails =
                        |step: &Step| step.status == StepStatus::Failed && !step.is_shadow();
                    it.steps.iter().any(fails) == wanted
                }));
            }
            _ => {
                // A number and its text are the same.
                filter.terms.extend(Term::metadata("n", "1"));
                plain.push(Box::new(|it| {
                    let member = it.trace.metadata.as_ref().map(|it| it["n"].clone());
                    member == Some(json!(1)) || member == Some(json!("1"))
                }));
            }
        }
    }
    (filter, plain)
}

#[tokio::test]
async fn a_filter_finds_what_fits_page_by_page() {
    for (database, mut dice) in databases_with_dice().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut all = Vec::new();
        for number in 0..40 {
            let mut written = thrown(&mut dice, project, number);
            write(&store, &mut dice, &mut written).await;
            all.push(written);
        }
        let mut found_some = 0;
        for round in 0..150 {
            let (filter, plain) = filter(&mut dice);
            let fits = |it: &&Written| plain.iter().all(|fits| fits(it));
            let mut expected: Vec<_> = all.iter().filter(fits).map(|it| it.trace.id).collect();
            let order = if dice.next(2) == 0 { Order::Newest } else { Order::Oldest };
            if order == Order::Newest {
                expected.reverse();
            }
            let (mut found, mut beyond) = (Vec::new(), None);
            loop {
                let page = Page { order, beyond, offset: 0, limit: 3 };
                let traces = store.traces(project, &filter, page).await.unwrap();
                found.extend(traces.iter().map(|trace| trace.id));
                beyond = found.last().copied();
                if traces.len() < 3 {
                    break;
                }
            }
            assert_eq!(found, expected, "{} {round}: {filter:?}", database.kind);
            let count = store.count_traces(project, &filter).await.unwrap();
            assert_eq!(count, Some(expected.len() as i64), "{} {round}: {filter:?}", database.kind);
            let page = Page { order, beyond: None, offset: 2, limit: 2 };
            let third: Vec<_> = store.traces(project, &filter, page).await.unwrap();
            let third: Vec<_> = third.iter().map(|trace| trace.id).collect();
            let rest = expected.get(2..expected.len().min(4)).unwrap_or_default();
            assert_eq!(third, rest, "{} {round}", database.kind);
            found_some += usize::from(!expected.is_empty());
        }
        assert!((50..=150).contains(&found_some), "{found_some}");
        store.close().await;
    }
}

#[tokio::test]
async fn costs_of_traces_that_are_not_over_are_found_however_many_there_are() {
    for database in databases().await {
        let store = database.open().await;
        // An index leads to few of them; all are looked through if there are many.
        for others in [2, 5_100] {
            let (project, _) = project(&store).await;
            let first = u128::from(project.0.unsigned_abs()) << 32;
            let traces = (0..others).map(|number| {
                let mut trace = trace(project, first + number);
                // A replay that runs has no figures either.
                trace.status =
                    [TraceStatus::Pending, TraceStatus::Replay][usize::from(number == 1)];
                store.writer().trace(trace)
            });
            for written in futures_util::future::join_all(traces).await {
                written.unwrap();
            }
            for number in [0, 1] {
                let id = (first >> 8) as i64 + number;
                let mut step = run(project, trace_id(first + number as u128), StepId(id));
                step.call.as_mut().unwrap().cost = Usd(7_000);
                store.writer().step(step, None).await.unwrap();
            }
            for (least, expected) in [(7_000, 2), (7_001, 0)] {
                let filter = TraceFilter { min_cost: Some(Usd(least)), ..TraceFilter::default() };
                let page = Page { order: Order::Newest, beyond: None, offset: 0, limit: 3 };
                let found = store.traces(project, &filter, page).await.unwrap();
                assert_eq!(found.len(), expected, "{} {others} {least}", database.kind);
                let count = store.count_traces(project, &filter).await.unwrap();
                assert_eq!(count, Some(expected as i64), "{} {others} {least}", database.kind);
            }
        }
        store.close().await;
    }
}

#[tokio::test]
async fn pages_far_behind_are_found_among_many_that_fit() {
    // More than a condition may have that leads by itself.
    const MANY: u128 = 6_000;
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let first = u128::from(project.0.unsigned_abs()) << 32;
        let traces = (0..MANY).map(|number| {
            let mut trace = trace(project, first + number);
            trace.key = Some(KeyId(u64::from(number % 10 != 3)));
            let user = if number % 7 == 0 { "joe" } else { "jane" };
            trace.metadata = Some(json!({"user": user, "tags": {"team": "red"}}));
            store.writer().trace(trace)
        });
        for written in futures_util::future::join_all(traces).await {
            written.unwrap();
        }
        let status = Some(TraceStatus::Pending);
        let user = |name| vec![Term::attribute(&AttributeName::User, name)];
        let team = || Term::attribute(&AttributeName::Tag("team".to_owned()), "red");
        let of = |key, terms| TraceFilter { status, key, terms, ..TraceFilter::default() };
        let (frequent, rare) = (Some(KeyId(1)), Some(KeyId(0)));
        for (what, filter) in [
            ("two figures", of(frequent, Vec::new())),
            ("a rare figure", of(rare, Vec::new())),
            ("a term and figures", of(frequent, user("jane"))),
            ("a rare term", of(frequent, user("joe"))),
            (
                "two terms",
                TraceFilter {
                    terms: [user("jane"), vec![team()]].concat(),
                    ..TraceFilter::default()
                },
            ),
            ("two terms, one rare", of(frequent, [vec![team()], user("joe")].concat())),
            ("without a term", TraceFilter { without: user("joe"), ..of(frequent, Vec::new()) }),
        ] {
            let fits = |number: &u128| {
                let is_joe = number.is_multiple_of(7);
                filter.key.is_none_or(|key| key == KeyId(u64::from(number % 10 != 3)))
                    && !filter.terms.contains(&user(if is_joe { "jane" } else { "joe" })[0])
                    && (filter.without.is_empty() || !is_joe)
            };
            for (order, behind) in [(Order::Newest, 400), (Order::Oldest, MANY - 400)] {
                let mut expected: Vec<u128> = match order {
                    Order::Newest => (0..behind).rev().filter(fits).collect(),
                    Order::Oldest => (behind + 1..MANY).filter(fits).collect(),
                };
                expected.truncate(5);
                let page =
                    Page { order, beyond: Some(trace_id(first + behind)), offset: 0, limit: 5 };
                let found = store.traces(project, &filter, page).await.unwrap();
                let found: Vec<_> = found.iter().map(|trace| trace.id).collect();
                let expected: Vec<_> =
                    expected.into_iter().map(|number| trace_id(first + number)).collect();
                assert_eq!(found, expected, "{} {what}, {order:?}", database.kind);
            }
        }
        store.close().await;
    }
}

#[tokio::test]
async fn another_project_has_none_of_them() {
    for database in databases().await {
        let store = database.open().await;
        let (first, _) = project(&store).await;
        store.writer().trace(trace(first, 1)).await.unwrap();
        store.writer().step(run(first, trace_id(1), StepId(100)), None).await.unwrap();
        let filter = TraceFilter { terms: vec![Term::model("m")], ..TraceFilter::default() };
        assert_eq!(store.count_traces(first, &filter).await.unwrap(), Some(1));
        assert_eq!(store.count_traces(ProjectId(first.0 + 1), &filter).await.unwrap(), Some(0));
        store.close().await;
    }
}
