//! The answers of models, counted.

use domain::ids::StepId;
use domain::step::{ApiEndpoint, Call, Step, StepStatus};
use domain::time::SECOND;

use crate::support::{NOW, databases, project, run, trace, trace_id};

fn call(step: &mut Step) -> &mut Call {
    step.call.as_mut().unwrap()
}

#[tokio::test]
async fn answers_that_look_alike_are_counted_together() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let changes: &[fn(&mut Step)] = &[
            |_| {},
            |step| call(step).answer.as_mut().unwrap().characters = 19,
            |step| call(step).answer.as_mut().unwrap().characters = 20,
            |step| call(step).answer.as_mut().unwrap().characters = 40_000,
            |step| call(step).answer.as_mut().unwrap().language = "fr".into(),
            |step| call(step).answer.as_mut().unwrap().refuses = false,
            |step| step.started_at = NOW.minus_micros(61 * SECOND),
            |step| call(step).model = "other".to_owned(),
            // These are none.
            |step| call(step).answer = None,
            |step| call(step).shadow = true,
            |step| step.status = StepStatus::Failed,
            |step| step.api_endpoint = ApiEndpoint::Replay,
            |step| step.finished_at = NOW.minus_micros(-SECOND),
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut step = run(project, trace_id(1), StepId(100 + at as i64));
            change(&mut step);
            store.writer().step(step, None).await.unwrap();
        }
        let end = NOW.minus_micros(-SECOND);
        let found = store.answers(project, NOW, end, 100).await.unwrap();
        let rows: Vec<_> = found
            .iter()
            .map(|row| {
                (&*row.model, row.length, row.latency, &*row.language, row.refuses, row.answers)
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("m", 0, 0, "de", false, 1),
                ("m", 0, 0, "de", true, 2),
                ("m", 0, 0, "fr", true, 1),
                ("m", 0, 13, "de", true, 1),
                ("m", 1, 0, "de", true, 1),
                ("m", 13, 0, "de", true, 1),
                ("other", 0, 0, "de", true, 1),
            ],
            "{}",
            database.kind
        );
        assert_eq!(store.answers(project, end, end, 100).await.unwrap(), []);
        let latest = store.answers(project, NOW, end, 3).await.unwrap();
        assert!(latest.iter().map(|row| row.answers).sum::<i64>() <= 3);
        store.close().await;
    }
}
