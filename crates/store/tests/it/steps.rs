//! Traces and steps through the writer and back.

use domain::grade::{Assessment, Baselines, Grade, Grades};
use domain::ids::StepId;
use domain::key::Key;
use domain::money::Usd;
use domain::step::{ApiEndpoint, Content, Step, StepStatus};
use domain::time::{DAY, HOUR};
use domain::trace::{AgentWork, Trace, TraceStatus};
use serde_json::json;
use store::{AgentFigures, Completion, Error, Order, Page, STEPS_AT_ONCE, TraceFilter};

use crate::support::{NOW, databases, project, run, trace, trace_id};

#[tokio::test]
async fn a_step_comes_back_as_it_was_and_its_content_is_sealed() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let id = store.step_id().await.unwrap();
        let step = run(project, trace_id(1), id);
        let content = Content {
            max_output_tokens: Some(64),
            untranslatable: None,
            omitted: vec!["service_tier".to_owned()],
            input: Some(json!("what nobody may read on disk \u{0} 🙂 مرحبا")),
            params: json!({"temperature": 0.5}).as_object().cloned(),
            output: Some(json!({"a": 1})),
            placeholders: None,
            passed: Some(json!({"request": {"a": 1.5}})),
            mcp: Some(json!([{"label": "a"}])),
        };
        let json = serde_json::to_vec(&content).unwrap();
        store.writer().step(step.clone(), Some((&json, &key))).await.unwrap();
        let stored = store.steps(trace_id(1)).await.unwrap();
        let mut expected = step;
        expected.error = Some("NUL \u{fffd} here".to_owned());
        assert_eq!(format!("{:?}", stored[0]), format!("{expected:?}"), "{}", database.kind);
        let alone = store.content(id, &key).await.unwrap();
        assert_eq!(alone.as_ref(), Some(&content));
        assert_eq!(store.step(id, trace_id(1)).await.unwrap().map(|step| step.id), Some(id));
        assert!(store.step(id, trace_id(2)).await.unwrap().is_none());
        let sealed = store.sealed_contents(&[id]).await.unwrap().remove(0);
        let sizes = store.content_sizes(trace_id(1)).await.unwrap();
        assert_eq!(sizes, [(sealed.step(), sealed.size())]);
        assert_eq!(sealed.open(&key).unwrap(), json, "the text as it was stored");
        let found = store.trace(project, trace_id(1)).await.unwrap().unwrap();
        assert_eq!(format!("{found:?}"), format!("{:?}", trace(project, 1)));
        store.close().await;
        if let store::Location::Sqlite(path) = &database.location {
            let raw = std::fs::read(path).unwrap();
            assert!(!raw.windows(14).any(|window| window == b"nobody may rea"));
        }
    }
}

#[tokio::test]
async fn the_steps_beside_a_step_are_those_of_its_trace() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        let mut steps = Vec::new();
        // Two begin at the same time, and one of another trace between them.
        for (number, began) in [(1, 0), (1, 5), (2, 5), (1, 5), (1, 9)] {
            let id = store.step_id().await.unwrap();
            let mut step = run(project, trace_id(number), id);
            step.started_at = NOW.minus_micros(-began);
            store.writer().step(step.clone(), Some((b"{}", &key))).await.unwrap();
            if number == 1 {
                steps.push(step);
            }
        }
        for (index, step) in steps.iter().enumerate() {
            let at = |index: usize| steps.get(index).map(|step| step.id);
            let expected = (index.checked_sub(1).and_then(at), at(index + 1));
            assert_eq!(store.steps_beside(step).await.unwrap(), expected, "{}", database.kind);
        }
        let first = store.first_steps(trace_id(1), project, 2).await.unwrap();
        assert_eq!(
            first.iter().map(|step| step.id).collect::<Vec<_>>(),
            [steps[0].id, steps[1].id]
        );
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_is_read_a_few_steps_at_a_time() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        for id in 1..=120 {
            // The later ones began first.
            let started_at = NOW.minus_micros(id / 2);
            let step = Step { started_at, ..run(project, trace_id(1), StepId(id)) };
            let content = format!("{{\"input\":\"{id}\"}}");
            let content = (id % 3 > 0).then_some((content.as_bytes(), &key));
            store.writer().step(step, content).await.unwrap();
        }
        let foreign = run(project, trace_id(2), StepId(500));
        store.writer().step(foreign, Some((b"{}", &key))).await.unwrap();
        let whole = store.steps(trace_id(1)).await.unwrap();
        let outlines = store.step_outlines(trace_id(1)).await.unwrap();
        let ids: Vec<StepId> = outlines.iter().map(|outline| outline.step.id).collect();
        assert_eq!(ids, whole.iter().map(|step| step.id).collect::<Vec<_>>(), "{}", database.kind);
        for (outline, step) in outlines.iter().zip(&whole) {
            let outlined = &outline.step;
            assert!(outlined.security.findings.is_none() && outlined.error.is_none());
            let findings = step.security.findings.as_ref().map(|found| found.to_string().len());
            let texts = [&step.reason, &step.error].into_iter().flatten().map(String::len);
            assert_eq!(outline.texts, findings.unwrap_or(0) + texts.sum::<usize>());
            assert_eq!((outlined.cost(), outlined.latency()), (step.cost(), step.latency()));
        }
        let sizes = store.content_sizes(trace_id(1)).await.unwrap();
        let with: Vec<StepId> = ids.iter().copied().filter(|id| id.0 % 3 > 0).collect();
        assert_eq!(sizes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), with);
        let some = &[StepId(7), StepId(9), StepId(500), StepId(1_000)];
        let mut steps = store.steps_by_id(trace_id(1), some).await.unwrap();
        steps.sort_by_key(|step| step.id);
        let expected: Vec<_> = whole.iter().filter(|step| some.contains(&step.id)).collect();
        assert_eq!(expected.len(), 2);
        assert_eq!(format!("{steps:?}").len(), format!("{expected:?}").len());
        let found = store.sealed_contents(some).await.unwrap();
        let mut found: Vec<StepId> = found.iter().map(store::SealedContent::step).collect();
        found.sort_unstable();
        assert_eq!(found, [StepId(7), StepId(500)]);
        let full: Vec<StepId> = ids.iter().copied().take(STEPS_AT_ONCE).collect();
        assert_eq!(store.steps_by_id(trace_id(1), &full).await.unwrap().len(), STEPS_AT_ONCE);
        store.close().await;
    }
}

#[tokio::test]
async fn turns_are_the_completed_answers_of_assistants() {
    for database in databases().await {
        let mut store = database.open().await;
        let (project, _) = project(&store).await;
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        for (id, trace, api_endpoint, status, turn) in [
            (10, 1, ApiEndpoint::Assistants, StepStatus::Completed, Some(1)),
            (11, 1, ApiEndpoint::Assistants, StepStatus::Failed, None),
            (12, 1, ApiEndpoint::Assistants, StepStatus::Cancelled, None),
            (13, 1, ApiEndpoint::Chat, StepStatus::Completed, None),
            (14, 2, ApiEndpoint::Assistants, StepStatus::Completed, Some(1)),
            (15, 1, ApiEndpoint::Assistants, StepStatus::Completed, Some(2)),
            (16, 3, ApiEndpoint::Assistants, StepStatus::Completed, None),
        ] {
            let step = Step { api_endpoint, status, ..run(project, trace_id(trace), StepId(id)) };
            assert_eq!(store.writer().step(step, None).await.unwrap(), turn, "step {id}");
        }
        // The counts outlive the process.
        store.close().await;
        store = database.open().await;
        let turn = |id| Step {
            api_endpoint: ApiEndpoint::Assistants,
            ..run(project, trace_id(1), StepId(id))
        };
        assert_eq!(store.writer().step(turn(17), None).await.unwrap(), Some(3));
        // Turns that share a commit, and one that fails it.
        let together = (17..27).map(|id| store.writer().step(turn(id), None));
        let mut numbers: Vec<u64> = futures_util::future::join_all(together)
            .await
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (4..13).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_bad_row_fails_alone() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let taken = run(project, trace_id(1), StepId(5));
        store.writer().step(taken.clone(), None).await.unwrap();
        let good: Vec<_> = (10..60)
            .map(|id| store.writer().step(run(project, trace_id(1), StepId(id)), None))
            .collect();
        let bad = store.writer().step(taken, None);
        // A value that PostgreSQL's index of the ledger has no room for.
        let mut long = run(project, trace_id(1), StepId(70));
        let letters = (0..20_000_u32).map(|n| char::from(b'!' + (n * n % 8191 % 90) as u8));
        long.call.as_mut().unwrap().infrastructure = letters.collect();
        let long = store.writer().step(long, None);
        let (good, bad, long) = tokio::join!(futures_util::future::join_all(good), bad, long);
        assert!(good.iter().all(Result::is_ok), "{}", database.kind);
        assert!(matches!(bad, Err(Error::Taken)), "{}: {bad:?}", database.kind);
        let stored = usize::from(long.is_ok());
        assert_eq!(stored == 1, database.kind == "sqlite", "{}: {long:?}", database.kind);
        assert_eq!(store.steps(trace_id(1)).await.unwrap().len(), 51 + stored);
        // The refused row is in no sum either.
        let minute = NOW.minute();
        let usage = store.usage(project, minute, minute + 1).await.unwrap();
        let requests: i64 = usage.iter().map(|row| row.requests).sum();
        assert_eq!(requests, 51 + i64::try_from(stored).unwrap(), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn the_ledger_agrees_with_the_steps() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        // The second has no steps.
        for number in [1, 2] {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        let mut spent = Usd::ZERO;
        for round in 0..3 {
            let steps = (0..40).map(|n| run(project, trace_id(1), StepId(round * 100 + n)));
            let writes: Vec<_> = steps
                .map(|step| {
                    spent += step.cost();
                    store.writer().step(step, None)
                })
                .collect();
            futures_util::future::join_all(writes).await;
            database.clock.set(NOW.minus_micros(-(round + 1) * 61_000_000));
        }
        let sum = store.spend_by_project(NOW).await.unwrap();
        assert_eq!(sum, [(project, spent)], "{}", database.kind);
        let (from, to) = (NOW.minute(), NOW.minute() + 10);
        let usage = store.usage(project, from, to).await.unwrap();
        assert_eq!(usage.iter().map(|row| row.requests).sum::<i64>(), 120);
        let latencies = store.latencies(project, from, to).await.unwrap();
        assert_eq!(latencies.count(), 120);
        assert!((latencies.percentile(50.0).unwrap() - 2.0).abs() < 0.1);
        let counts = store.security_counts(project, NOW.minus_micros(1), NOW.minus_micros(-1));
        let counts = counts.await.unwrap();
        assert_eq!((counts.traces, counts.pii, counts.secret), (2, 1, 0));
        store.close().await;
    }
}

#[tokio::test]
async fn no_sum_is_too_large_to_be_told() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        let capped = Key { hourly_limit: Some(Usd::MOST), ..crate::registry::key(project) };
        tx.add_key(&capped).await.unwrap();
        tx.commit().await.unwrap();
        for number in 1..4 {
            let rich = Trace { revenue: Some(Usd::MOST), ..trace(project, number as u128) };
            store.writer().trace(rich).await.unwrap();
            let mut dear = run(project, trace_id(1), StepId(number));
            let call = dear.call.as_mut().unwrap();
            call.cost = Usd::MOST;
            call.usage.prompt = u64::MAX;
            call.infrastructure = format!("place {number}");
            // Once in the same row of the ledger, once in another.
            store.writer().step(dear.clone(), None).await.unwrap();
            store.writer().step(Step { id: StepId(10 + number), ..dear }, None).await.unwrap();
        }
        let spent = store.spend_by_project(NOW).await.unwrap();
        assert_eq!(spent, [(project, Usd::MOST)], "{}", database.kind);
        let usage = store.usage(project, NOW.minute(), NOW.minute() + 1).await.unwrap();
        assert_eq!(usage.iter().map(|row| row.cost).collect::<Vec<_>>(), [Usd::MOST; 3]);
        let seconds = store.spent_seconds(NOW.minus_micros(HOUR)).await.unwrap();
        assert_eq!(seconds[0].cost, Usd::MOST);
        let day = (NOW.minus_micros(DAY), NOW.minus_micros(-DAY));
        assert_eq!(store.revenue(project, day.0, day.1).await.unwrap(), Usd::MOST);
        store.close().await;
        database.open().await.close().await;
    }
}

#[tokio::test]
async fn pages_are_newest_first_and_counted() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        for number in 0..25 {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        let of = |status| TraceFilter { status, ..TraceFilter::default() };
        let (all, failed) = (of(None), of(Some(TraceStatus::Failed)));
        let page = |beyond, offset| Page { order: Order::Newest, beyond, offset, limit: 10 };
        let ids = |traces: Vec<domain::trace::Trace>| {
            traces.iter().map(|trace| trace.id).collect::<Vec<_>>()
        };
        let second = store.traces(project, &all, page(None, 10)).await.unwrap();
        let expected: Vec<_> = (5..15).rev().map(trace_id).collect();
        assert_eq!(ids(second), expected, "{}", database.kind);
        let before = store.traces(project, &all, page(Some(trace_id(3)), 0)).await.unwrap();
        assert_eq!(ids(before), [trace_id(2), trace_id(1), trace_id(0)]);
        let none = store.traces(project, &failed, page(None, 0)).await.unwrap();
        assert!(none.is_empty());
        assert_eq!(store.count_traces(project, &all).await.unwrap(), Some(25));
        let pending = store.count_traces(project, &of(Some(TraceStatus::Pending))).await.unwrap();
        assert_eq!(pending, Some(25));
        store.close().await;
    }
}

#[tokio::test]
async fn a_completed_trace_keeps_its_assessment_and_counts_in_agent_figures() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let assessment = Assessment {
            grades: Grades { overall: Grade::B, waste: Grade::A, latency: Grade::B },
            total_cost: Usd(12),
            by_model: vec![("m".to_owned(), Usd(12))],
            by_infrastructure: vec![],
            reasons: vec![],
            baselines: Baselines::default(),
        };
        let agent =
            AgentFigures { chain_depth: 7, stall_probability: 0.8, tool_fidelity: 0.5, latency: 0 };
        let open = store.trace(project, trace_id(1)).await.unwrap().unwrap();
        assert_eq!(open.work, None);
        let mut tx = store.begin().await.unwrap();
        let done = tx.complete_trace(trace_id(1), NOW, &assessment, agent).await.unwrap();
        assert_eq!(done, Completion::First);
        tx.commit().await.unwrap();
        let found = store.trace(project, trace_id(1)).await.unwrap().unwrap();
        assert_eq!(found.status, TraceStatus::Completed);
        assert_eq!(found.assessment, Some(assessment));
        let work = AgentWork { stall_probability: 0.8, tool_fidelity: 0.5 };
        assert_eq!(found.work, Some(work));
        let (from, to) = (NOW.minus_micros(HOUR), NOW.minus_micros(-HOUR));
        let counts = store.agent_counts(project, from, to, 5).await.unwrap();
        assert_eq!((counts.depth_max, counts.deep, counts.alerts), (Some(7), 1, 1));
        assert_eq!(store.revenue(project, from, to).await.unwrap(), Usd(5));
        store.close().await;
    }
}

#[tokio::test]
async fn idle_traces_fail_and_busy_ones_do_not() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        // More than one transaction fails.
        for number in 1..=70 {
            store.writer().trace(trace(project, number)).await.unwrap();
        }
        let mut late = run(project, trace_id(2), StepId(1));
        late.finished_at = NOW.minus_micros(-HOUR);
        store.writer().step(late, None).await.unwrap();
        let idle_since = NOW.minus_micros(-HOUR / 2);
        let failed = store.fail_idle_traces(project, idle_since, 100).await.unwrap();
        let others: Vec<_> = (1..=70).filter(|&number| number != 2).map(trace_id).collect();
        assert_eq!(failed, others, "{}", database.kind);
        assert_eq!(store.fail_idle_traces(project, idle_since, 100).await.unwrap(), []);
        store.close().await;
    }
}

#[tokio::test]
async fn baselines_are_the_95th_percentile() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        for n in 1..=100 {
            let mut step = run(project, trace_id(1), StepId(n));
            step.started_at = NOW.minus_micros(n * 1000);
            store.writer().step(step, None).await.unwrap();
        }
        let since = NOW.minus_micros(DAY);
        let gap = store.typical_gap(project, since).await.unwrap();
        assert!(gap.is_some_and(|gap| gap >= 0.0), "{}: {gap:?}", database.kind);
        let baselines = store.latency_baselines(project, &["m", "other"], since).await.unwrap();
        assert_eq!((baselines[0].p95_ms, baselines[0].samples), (95.0, 100), "{}", database.kind);
        assert_eq!(baselines[1].samples, 0);
        store.close().await;
    }
}

#[tokio::test]
async fn an_observer_receives_what_is_on_disk() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        let (send, mut observed) = tokio::sync::mpsc::unbounded_channel();
        store.writer().observe(Box::new(move |observed| {
            assert!(!observed.is_lost);
            send.send((observed.step.id, observed.content)).unwrap();
        }));
        store.writer().trace(trace(project, 1)).await.unwrap();
        let (one, other) = (store.step_id().await.unwrap(), store.step_id().await.unwrap());
        let step = run(project, trace_id(1), one);
        store.writer().step(step.clone(), Some((b"{}", &key))).await.unwrap();
        // It is there already, and is not stored a second time.
        assert!(store.writer().step(step, None).await.is_err());
        store.writer().step(run(project, trace_id(1), other), None).await.unwrap();
        let (id, content) = observed.recv().await.unwrap();
        assert_eq!((id, content.unwrap().open(&key).unwrap()), (one, b"{}".to_vec()));
        let (id, content) = observed.recv().await.unwrap();
        assert!(id == other && content.is_none());
        store.close().await;
        assert!(observed.recv().await.is_none());
    }
}

#[tokio::test]
async fn ids_that_were_taken_long_ago_are_given_up() {
    for database in databases().await {
        let store = database.open().await;
        let first = store.step_id().await.unwrap().0;
        assert_eq!(store.step_id().await.unwrap().0, first + 1, "{}", database.kind);
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_mins(31)).await;
        tokio::time::resume();
        let next = store.step_id().await.unwrap().0;
        assert!(next >= first + 1_000, "{}: {next}", database.kind);
        assert_eq!(store.step_id().await.unwrap().0, next + 1, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn ids_that_were_taken_long_ago_are_used_where_no_others_can_be_had() {
    const AWAY: &str = "UPDATE counters SET name = 'away' WHERE name = 'step'";
    const BACK: &str = "UPDATE counters SET name = 'step' WHERE name = 'away'";
    let later = async |minutes| {
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_mins(minutes)).await;
        tokio::time::resume();
    };
    for database in databases().await {
        let store = database.open().await;
        let first = store.step_id().await.unwrap().0;
        database.execute(AWAY).await;
        later(31).await;
        for more in 1..=3 {
            assert_eq!(store.step_id().await.unwrap().0, first + more, "{}", database.kind);
        }
        database.execute(BACK).await;
        later(2).await;
        let next = store.step_id().await.unwrap().0;
        assert!(next >= first + 1_000, "{}: {next}", database.kind);
        store.close().await;
    }
}
