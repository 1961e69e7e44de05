//! The steps of a period in the order in which they ended.

use domain::ids::StepId;
use domain::time::SECOND;
use serde_json::json;
use store::{STEPS_AT_ONCE, StepCursor};

use crate::support::{NOW, databases, project, run, trace, trace_id};

#[tokio::test]
async fn pages_have_every_step_of_a_period_once() {
    for database in databases().await {
        let store = database.open().await;
        let (project, sealing) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let mut secure = trace(project, 2);
        secure.metadata = Some(json!({"sensitivity": "secure", "n": 1}));
        store.writer().trace(secure).await.unwrap();
        let mut expected = Vec::new();
        // Many end at the same time, the ids of some go back, and the last ones end with the period.
        for number in 0..3 * STEPS_AT_ONCE as i64 {
            let mut step =
                run(project, trace_id(1 + u128::from(number == 0)), StepId(1_000 - number));
            step.finished_at = NOW.minus_micros(-(number / 70) * SECOND);
            let content = (number % 2 == 0).then_some((&b"{\"input\": \"Hello.\"}"[..], &sealing));
            expected.push((step.finished_at, step.id));
            store.writer().step(step, content).await.unwrap();
        }
        let end = NOW.minus_micros(-2 * SECOND);
        expected.retain(|(at, _)| *at < end);
        expected.sort_unstable();
        assert_eq!(store.count_ended_steps(project, NOW, end, 1_000).await.unwrap(), 140);
        assert_eq!(store.count_ended_steps(project, NOW, end, 99).await.unwrap(), 100);
        let (mut found, mut last) = (Vec::new(), StepCursor::at(NOW));
        loop {
            let page = store.next_ended_steps(project, last, end).await.unwrap();
            let Some(step) = page.last() else { break };
            last = StepCursor::after(step);
            found.extend(page.iter().map(|step| (step.finished_at, step.id)));
        }
        assert_eq!(found, expected, "{}", database.kind);
        let sizes = store.sealed_sizes(&[StepId(1_000), StepId(999)]).await.unwrap();
        assert!(sizes.len() == 1 && sizes[&StepId(1_000)] > 0, "{sizes:?}");
        let asked = store.sensitivities(&[trace_id(1), trace_id(2)]).await.unwrap();
        assert_eq!(asked.into_iter().collect::<Vec<_>>(), [(trace_id(2), json!("secure"))]);
    }
}
