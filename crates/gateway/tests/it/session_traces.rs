//! Traces of sessions over a restart.

use std::time::Duration;

use domain::conversation::Prompt;
use domain::ids::TraceId;
use domain::step::ApiEndpoint;
use domain::time::{Clock, Timestamp};
use domain::trace::TraceStatus;
use gateway::{AutoTracing, ChatAnswer, ChatRequest, Gateway};
use store::Store;

use crate::support::{Database, FIRST, gate};

/// The trace of a conversation's next turn.
async fn turn(gateway: &Gateway, database: &Database) -> TraceId {
    let caller = gate(gateway, &database.key).await.unwrap();
    let request = ChatRequest {
        api_endpoint: ApiEndpoint::Chat,
        trace_id: None,
        model: None,
        prompt: Prompt::question("Hello.".to_owned()),
        metadata: None,
    };
    match gateway.chat(&caller, request, AutoTracing::BySession).await.unwrap() {
        ChatAnswer::Reply(reply) => reply.trace,
        ChatAnswer::Blocked(refusal) => unreachable!("blocked: {}", refusal.reason),
    }
}

async fn is_completed(store: &Store, trace: TraceId) -> bool {
    let found = store.trace(FIRST, trace).await.unwrap().unwrap();
    found.status == TraceStatus::Completed && found.assessment.is_some()
}

#[tokio::test]
async fn a_session_finds_its_trace_after_a_restart_until_it_is_idle() {
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let at = |minutes| Clock::fixed(noon.plus(Duration::from_mins(minutes)));
    let database = Database::new().await;

    let gateway = database.serve_on(at(0)).await;
    let beside = database.visit().await;
    let first = turn(&gateway, &database).await;
    gateway.close().await;

    let gateway = database.serve_on(at(29)).await;
    assert_eq!(turn(&gateway, &database).await, first);
    gateway.close().await;

    // The job runs with every start. The call half an hour ago counts.
    let gateway = database.serve_on(at(58)).await;
    assert_eq!(turn(&gateway, &database).await, first);
    gateway.close().await;
    assert!(!is_completed(&beside, first).await);

    let gateway = database.serve_on(at(89)).await;
    let done = async {
        while !is_completed(&beside, first).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), done).await.expect("it is completed");
    assert_ne!(turn(&gateway, &database).await, first);
    gateway.close().await;
    beside.close().await;
}
