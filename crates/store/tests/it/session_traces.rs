//! Traces that the calls of a session share.

use domain::grade::{Assessment, Baselines, Grade, Grades};
use domain::ids::StepId;
use domain::time::{HOUR, Timestamp};
use domain::trace::TraceStatus;
use store::{AgentFigures, Error, IdleSession, Store};

use crate::support::{NOW, databases, project, run, trace, trace_id};

const ONE: [u8; 16] = [1; 16];
const OTHER: [u8; 16] = [255; 16];

async fn complete(store: &Store, number: u128) {
    let grades = Grades { overall: Grade::A, waste: Grade::A, latency: Grade::A };
    let assessment = Assessment {
        grades,
        total_cost: domain::money::Usd::ZERO,
        by_model: Vec::new(),
        by_infrastructure: Vec::new(),
        reasons: Vec::new(),
        baselines: Baselines::default(),
    };
    let agent =
        AgentFigures { chain_depth: 0, stall_probability: 0.0, tool_fidelity: 1.0, latency: 0 };
    let mut tx = store.begin().await.unwrap();
    tx.complete_trace(trace_id(number), NOW, &assessment, agent).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_session_has_one_trace_at_a_time() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let found = async |session| store.session_trace(project, session).await.unwrap();
        assert_eq!(found(ONE).await, None, "{}", database.kind);
        let writer = store.writer();
        writer.session_trace(trace(project, 1), ONE).await.unwrap();
        writer.session_trace(trace(project, 2), OTHER).await.unwrap();
        writer.trace(trace(project, 3)).await.unwrap();
        let second = writer.session_trace(trace(project, 4), ONE).await;
        assert!(matches!(second, Err(Error::Taken)), "{}: {second:?}", database.kind);
        assert_eq!(found(ONE).await, Some(trace_id(1)));
        assert_eq!(found(OTHER).await, Some(trace_id(2)));

        store.release_session_trace(trace_id(1)).await.unwrap();
        assert_eq!(found(ONE).await, None);
        writer.session_trace(trace(project, 5), ONE).await.unwrap();
        complete(&store, 5).await;
        assert_eq!(found(ONE).await, None, "a completed trace takes no calls");
        writer.session_trace(trace(project, 6), ONE).await.unwrap();
        assert_eq!(found(ONE).await, Some(trace_id(6)));
        store.close().await;
    }
}

#[tokio::test]
async fn idle_traces_of_sessions_are_found_by_their_last_activity() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        for number in 1..=4 {
            let session = [u8::try_from(number).unwrap(); 16];
            store.writer().session_trace(trace(project, number), session).await.unwrap();
        }
        store.writer().trace(trace(project, 5)).await.unwrap();
        store.release_session_trace(trace_id(2)).await.unwrap();
        let after = |hours: i64| NOW.minus_micros(-hours * HOUR);
        let mut late = run(project, trace_id(3), StepId(1));
        late.finished_at = after(2);
        store.writer().step(late, None).await.unwrap();
        let idle = async |since: Timestamp, most| -> Vec<IdleSession> {
            store.idle_session_traces(project, since, most).await.unwrap()
        };
        let of = |number, last| IdleSession { trace: trace_id(number), last };
        assert_eq!(idle(NOW, 100).await, [], "{}", database.kind);
        let mut found = idle(after(1), 100).await;
        found.sort_by_key(|idle| idle.trace);
        let all = [of(1, None), of(2, None), of(3, Some(after(2))), of(4, None)];
        assert_eq!(found, all, "one that takes no more calls too");
        assert_eq!(idle(after(1), 2).await.len(), 2);

        complete(&store, 4).await;
        let noted = [(trace_id(1), after(3)), (trace_id(3), after(2)), (trace_id(5), after(2))];
        store.note_session_activity(&noted).await.unwrap();
        store.note_session_activity(&[(trace_id(1), after(1))]).await.unwrap();
        assert_eq!(idle(after(2), 100).await, [of(2, None)], "an earlier activity changes nothing");
        let order: Vec<_> = idle(after(4), 100).await.iter().map(|idle| idle.trace).collect();
        assert_eq!(order, [2, 3, 1].map(trace_id), "the longest idle first");

        // They are completed, never failed.
        let failed = store.fail_idle_traces(project, after(4), 100).await.unwrap();
        assert_eq!(failed, [trace_id(5)]);
        let status = store.trace(project, trace_id(1)).await.unwrap().unwrap().status;
        assert_eq!(status, TraceStatus::Pending);
        store.close().await;
    }
}

#[tokio::test]
async fn an_idle_trace_is_claimed_by_one_node_and_not_under_a_call() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let after = |hours: i64| NOW.minus_micros(-hours * HOUR);
        for number in 1..=3 {
            let session = [u8::try_from(number).unwrap(); 16];
            store.writer().session_trace(trace(project, number), session).await.unwrap();
        }
        assert!(store.is_session_trace(trace_id(3)).await.unwrap());
        complete(&store, 3).await;
        assert!(!store.is_session_trace(trace_id(3)).await.unwrap());
        // A call begins in the second after it was found to be idle.
        assert!(store.note_session_call(trace_id(2), after(2)).await.unwrap());
        assert!(store.note_session_call(trace_id(2), after(1)).await.unwrap(), "a clock behind");
        let all = [1, 2, 3].map(trace_id);
        // Another node looks later, when the claim has become the last activity.
        for (traces, hours, claimed) in [(&all[..], 2, vec![trace_id(1)]), (&all[..1], 3, vec![])] {
            let claims = store.claim_session_traces(traces, after(hours), after(hours + 1)).await;
            assert_eq!(claims.unwrap(), claimed, "{}", database.kind);
        }
        assert!(!store.note_session_call(trace_id(1), after(3)).await.unwrap(), "it has ended");
        assert!(!store.note_session_call(trace_id(3), after(3)).await.unwrap());
        // A node that has gone leaves it to the next.
        assert_eq!(
            store.claim_session_traces(&all, after(4), after(5)).await.unwrap(),
            [1, 2].map(trace_id)
        );
        store.close().await;
    }
}
