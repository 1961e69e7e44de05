use domain::conversation::Prompt;
use domain::ids::TraceId;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::*;
use crate::pipeline::attributes::NamedInBody;
use crate::pipeline::auto_trace::AutoTracing;
use crate::testing::Fresh;

/// The context of a conversation on a vendor root.
async fn context(fresh: &Fresh, caller: &Caller, question: &str) -> RequestContext {
    let prompt = Prompt::question(question.to_owned());
    let (endpoint, by_session) = (ApiEndpoint::Chat, AutoTracing::BySession);
    fresh
        .gateway
        .traced_context(caller, None, endpoint, by_session, NamedInBody::of(&prompt))
        .await
        .unwrap()
}

async fn trace(fresh: &Fresh, caller: &Caller, question: &str) -> TraceId {
    context(fresh, caller, question).await.trace.id()
}

async fn metadata(fresh: &Fresh, trace: TraceId) -> Option<Value> {
    let project = fresh.caller.project.id();
    fresh.gateway.store.trace(project, trace).await.unwrap().unwrap().metadata
}

#[tokio::test]
async fn calls_that_come_at_once_share_one_trace() {
    let fresh = Fresh::with(json!({})).await;
    let all = join_all((0..20).map(|_| trace(&fresh, &fresh.caller, "Hello."))).await;
    assert!(all.iter().all(|trace| *trace == all[0]), "{all:?}");
    let project = fresh.caller.project.id();
    let any = store::TraceFilter::default();
    assert_eq!(fresh.gateway.store.count_traces(project, &any).await.unwrap(), Some(1));
    assert_ne!(trace(&fresh, &fresh.caller, "Good evening.").await, all[0]);
}

#[tokio::test]
async fn a_trace_shows_the_name_of_its_session() {
    let fresh = Fresh::with(json!({})).await;
    let named = fresh.caller.clone().in_session("s-1");
    let of_name = trace(&fresh, &named, "Hello.").await;
    assert_eq!(trace(&fresh, &named, "Good evening.").await, of_name);
    assert_eq!(metadata(&fresh, of_name).await, Some(json!({"session": "s-1"})));
    let of_conversation = trace(&fresh, &fresh.caller, "Hello.").await;
    assert_ne!(of_conversation, of_name);
    assert_eq!(metadata(&fresh, of_conversation).await, None);

    // The session of a call is the same whether it names the trace or not.
    let nameless = &fresh.caller;
    let id = of_name.to_string();
    let on_it = fresh.gateway.request_context(nameless, &id, None, ApiEndpoint::Chat).await;
    let prompt = Prompt::question("Hello.".to_owned());
    let session = context(&fresh, &named, "Hello.").await.session(&prompt);
    assert_eq!(on_it.unwrap().session(&prompt), session);
    let other = context(&fresh, nameless, "Hello.").await.session(&prompt);
    assert_ne!(other, session);
}

#[tokio::test]
async fn a_completed_trace_takes_no_more_calls() {
    let fresh = Fresh::with(json!({})).await;
    let first = trace(&fresh, &fresh.caller, "Hello.").await;
    fresh.gateway.complete_trace(&fresh.caller, &first.to_string()).await.unwrap();
    let second = trace(&fresh, &fresh.caller, "Hello.").await;
    assert_ne!(second, first);
    // As while it is being completed: the database has it still as the trace of its session.
    fresh.gateway.traces.set(second, TraceStatus::Completed);
    let third = trace(&fresh, &fresh.caller, "Hello.").await;
    assert_ne!(third, second);
    assert_eq!(trace(&fresh, &fresh.caller, "Hello.").await, third);
}

#[tokio::test]
async fn a_trace_without_end_is_followed_by_another() {
    let fresh = Fresh::with(json!({})).await;
    let context = context(&fresh, &fresh.caller, "Hello.").await;
    let (first, session) = (context.trace.id(), context.session(&Prompt::default()));
    let now = fresh.gateway.clock.now();
    while fresh.gateway.session_traces.get(session, now).is_some() {
        drop(fresh.gateway.session_traces.enter(session, first, now));
    }
    let second = trace(&fresh, &fresh.caller, "Hello.").await;
    assert_ne!(second, first);
    assert_eq!(trace(&fresh, &fresh.caller, "Hello.").await, second);
}

#[tokio::test]
async fn a_call_without_conversation_or_name_has_a_trace_of_its_own() {
    let fresh = Fresh::with(json!({})).await;
    let named = fresh.caller.clone().in_session("s-1");
    let context = async |caller: &Caller| {
        let (endpoint, by_session) = (ApiEndpoint::Embeddings, AutoTracing::BySession);
        fresh
            .gateway
            .traced_context(caller, None, endpoint, by_session, NamedInBody::default())
            .await
            .unwrap()
    };
    let (one, other) = (context(&fresh.caller).await, context(&fresh.caller).await);
    assert_ne!(one.trace.id(), other.trace.id());
    assert!(matches!(one.opened, Some(OpenedTrace::Own(_))));
    let (one, other) = (context(&named).await, context(&named).await);
    assert_eq!(one.trace.id(), other.trace.id());
}

#[tokio::test]
async fn a_trace_that_another_node_has_ended_takes_no_more_calls() {
    let noon = domain::time::Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let fresh = Fresh::at(noon, json!({"sessions": {"idle_minutes": 8}})).await;
    let first = trace(&fresh, &fresh.caller, "Hello.").await;
    let store = &fresh.gateway.store;
    let at = |minutes: u64| noon.plus(Duration::from_mins(minutes));
    // A call after a while is noted before it is let in, so that its trace is not ended under it.
    fresh.gateway.clock.set(at(7));
    assert_eq!(trace(&fresh, &fresh.caller, "Hello.").await, first);
    assert_eq!(store.claim_session_traces(&[first], at(6), at(6)).await.unwrap(), []);
    // The other node was faster.
    fresh.gateway.clock.set(at(16));
    assert_eq!(store.claim_session_traces(&[first], at(8), at(8)).await.unwrap(), [first]);
    let second = trace(&fresh, &fresh.caller, "Hello.").await;
    assert_ne!(second, first);
    assert_eq!(trace(&fresh, &fresh.caller, "Hello.").await, second);
}
