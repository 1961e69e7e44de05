//! Runs of replays: what they leave alone, wait for and refuse.

use domain::ids::JobId;
use domain::job::{Job, JobState};
use domain::model::Provider;
use domain::money::Usd;
use domain::step::Call;
use domain::time::{Clock, Timestamp};
use serde_json::Value;
use store::{AddedJob, NewJob, Start};

use super::*;
use crate::capacity::body_memory::json_bytes;
use crate::lock::lock;
use crate::replay::ask::ReplayJob;
use crate::replay::overrides::Overrides;
use crate::replay::result::{ReplayResult, Skip};
use crate::state::caller::HeaderAttributes;
use crate::testing::{Fresh, step, until};

/// A trace with one call.
async fn source(fresh: &Fresh, caller: &Caller) -> TraceId {
    let trace = fresh.trace().await;
    let model = caller.project.models.keys().next().unwrap().clone();
    fresh.gateway.run(caller, &trace, &model, "Hello.".to_owned(), None).await.unwrap();
    trace.parse().unwrap()
}

/// A replay that this test runs itself, on a gateway whose runners do not.
async fn claimed(fresh: &Fresh, source: TraceId) -> RunningJob {
    let gateway = fresh.gateway.clone();
    let now = Clock::system().now();
    let payload = Payload {
        trace_id: source,
        overrides: Overrides::default(),
        traces: vec![TraceId::first_at(now)],
        attributes: Attributes::default(),
    };
    let job = NewJob {
        id: JobId(uuid::Uuid::from_bytes(store::random::<16>().unwrap())),
        kind: JobKind::Replay,
        project: fresh.caller.project.id(),
        key: Some(fresh.caller.key.key.id),
        request: store::random::<32>().unwrap(),
        payload: queued::to_json(&payload).unwrap(),
        created_at: now,
    };
    assert!(matches!(gateway.store.add_job(job, 100).await.unwrap(), AddedJob::Job(_)));
    claim(gateway).await
}

/// Claims the job that waits.
async fn claim(gateway: Gateway) -> RunningJob {
    let now = Clock::system().now();
    let job = gateway.store.claim_job(JobKind::Replay, &[], now).await.unwrap();
    RunningJob::new(gateway, job.unwrap())
}

/// Asks for a replay and waits for its end.
async fn replayed(fresh: &Fresh, caller: &Caller, source: TraceId) -> ReplayJob {
    let gateway = &fresh.gateway;
    let none = Overrides::default();
    let id = gateway.replay(caller, &source.to_string(), none).await.unwrap().id.to_string();
    until("the replay is over", async || {
        let job = gateway.replay_job(caller, &id).await.unwrap();
        job.state.is_over().then_some(job)
    })
    .await
}

/// Writes the start of the call of a replay at a time, as an earlier run would have.
async fn begun(replay: &Replay<'_>, at: Timestamp) -> StepId {
    let (store, trace) = (replay.store(), replay.payload.traces[0]);
    replay.open(trace).await.unwrap();
    let step = store.step_id().await.unwrap();
    let start = Start {
        step,
        trace,
        project: replay.job.job.project,
        key: None,
        api_endpoint: ApiEndpoint::Replay,
        parent: None,
        source: Some(replay.steps[0].id),
        traceparent: None,
        attributes: None,
        model: "sandbox".to_owned(),
        provider: Provider::Internal,
        infrastructure: "private".to_owned(),
        is_public: false,
        tier: None,
        prompt_tokens: 1,
        prices: None,
        flat_cost: None,
        shadow: false,
        started_at: at.0,
    };
    store.writer().start(start).await.unwrap();
    step
}

#[tokio::test]
async fn a_call_that_has_left_and_is_not_recorded_is_not_made_again() {
    let fresh = Fresh::idle(json!({})).await;
    let store = &fresh.gateway.store;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let Ok(mut replay) = Replay::read(&job).await else { panic!("it can be replayed") };
    begun(&replay, Timestamp(0)).await;
    assert!(replay.run_steps().await.is_ok());
    assert_eq!(replay.progress, Progress { done: 1, total: 1 });
    let Ok(result) = replay.compare().await else { panic!("it is too old to be waited for") };
    let compared = &result.replays[0].steps[0];
    assert_eq!(compared.error.as_deref(), Some("The end of this call is not recorded"));
    let steps = store.steps(replay.payload.traces[0]).await.unwrap();
    assert!(steps.is_empty(), "nothing was called");
}

#[tokio::test]
async fn a_call_that_goes_on_elsewhere_is_compared_once_it_is_recorded() {
    let fresh = Fresh::idle(json!({})).await;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let Ok(replay) = Replay::read(&job).await else { panic!("it can be replayed") };
    let id = begun(&replay, fresh.gateway.clock.now()).await;
    let run = Replays::run(&job);
    tokio::pin!(run);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut run).await;
    assert!(early.is_err(), "{early:?}");
    let cost = Usd(7_000);
    let call = Call { cost, ..Call::of("sandbox".to_owned(), Provider::Internal) };
    let record = Step {
        id,
        trace: replay.payload.traces[0],
        project: fresh.caller.project.id(),
        key: None,
        source: Some(replay.steps[0].id),
        api_endpoint: ApiEndpoint::Replay,
        ..step(domain::step::StepKind::Run, Some(call))
    };
    fresh.gateway.store.writer().step(record, None).await.unwrap();
    let JobOutcome::Completed(result) = run.await else { panic!("all is recorded") };
    let result: ReplayResult = serde_json::from_str(&result).unwrap();
    let compared = &result.replays[0].steps[0];
    assert_eq!((compared.step, compared.cost), (Some(id), Some(cost)));
}

#[tokio::test]
async fn a_call_that_was_withdrawn_is_made_by_another_run() {
    let fresh = Fresh::idle(json!({})).await;
    let store = &fresh.gateway.store;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let Ok(replay) = Replay::read(&job).await else { panic!("it can be replayed") };
    let step = begun(&replay, fresh.gateway.clock.now()).await;
    let run = Replays::run(&job);
    tokio::pin!(run);
    let early = tokio::time::timeout(Duration::from_millis(500), &mut run).await;
    assert!(early.is_err(), "{early:?}");
    store.writer().withdraw(step).await.unwrap();
    assert!(matches!(run.await, JobOutcome::Interrupted));
    store.release_job(&job.job).await.unwrap();
    let again = claim(fresh.gateway.clone()).await;
    assert!(matches!(Replays::run(&again).await, JobOutcome::Completed(_)));
    assert_eq!(store.steps(replay.payload.traces[0]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_that_was_lost_while_a_call_was_prepared_does_not_make_it() {
    let fresh = Fresh::idle(json!({})).await;
    let store = &fresh.gateway.store;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let Ok(replay) = Replay::read(&job).await else { panic!("it can be replayed") };
    let trace = replay.open(replay.payload.traces[0]).await.unwrap();
    let call = RepeatedCall {
        source: &replay.steps[0],
        model: replay.model(0, None, None).unwrap().unwrap(),
        trace,
        parent: None,
        max_cost: None,
        attributes: None,
        progress: replay.progress,
    };
    store.release_job(&job.job).await.unwrap();
    let made = call.run(&job, &fresh.caller).await;
    assert!(matches!(made, Err(ReplayError::Interrupted)), "{made:?}");
    assert!(store.steps(replay.payload.traces[0]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_source_that_is_gone_fails_the_job() {
    let fresh = Fresh::idle(json!({})).await;
    let job = claimed(&fresh, TraceId::first_at(Timestamp(0))).await;
    let JobOutcome::Failed { error, result: None } = Replays::run(&job).await else {
        panic!("there is nothing to replay")
    };
    assert_eq!(error, "Trace not found or not owned by this customer");
}

#[tokio::test]
async fn a_source_whose_retention_is_over_fails_the_job() {
    let fresh = Fresh::idle(json!({})).await;
    let source = source(&fresh, &fresh.caller).await;
    let later = fresh.gateway.clock.now().minus_micros(-31 * 24 * HOUR);
    assert_eq!(fresh.purge(later).await, 1);
    // A later call is not compared with a source that lacks its first one.
    let trace = source.to_string();
    let model = fresh.caller.project.models.keys().next().unwrap().clone();
    let again = fresh.gateway.run(&fresh.caller, &trace, &model, "Hello.".to_owned(), None);
    again.await.unwrap();
    let job = claimed(&fresh, source).await;
    let JobOutcome::Failed { error, result: None } = Replays::run(&job).await else {
        panic!("its first call is gone")
    };
    assert_eq!(error, NOT_STORED);
}

#[tokio::test]
async fn a_run_without_a_database_or_memory_waits_for_another() {
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let fresh = Fresh::idle_at(noon, json!({})).await;
    let mut job = claimed(&fresh, TraceId::first_at(Timestamp(0))).await;
    // No run pauses any more.
    fresh.gateway.wind_down();
    let away = || ReplayError::Failed(Error::Unavailable("refused".to_owned()));
    let busy = || ReplayError::Failed(Error::Busy { why: "No memory", retry_after: 1 });
    let fault = Error::invalid(NOT_STORED).into();
    assert!(matches!(ended(&job, fault).await, JobOutcome::Failed { .. }));
    // However old it is, and however often it was stopped.
    let began = Some(noon.minus_micros(9 * LONGEST_WAIT));
    job.job = Job { runs: 1_000, started_at: began, ..job.job.clone() };
    assert!(matches!(ended(&job, away()).await, JobOutcome::Interrupted));
    fresh.gateway.clock.set(Timestamp(noon.0 + LONGEST_WAIT - 1));
    assert!(matches!(ended(&job, busy()).await, JobOutcome::Interrupted));
    // A run that had come further, and one that waits again.
    job.job.progress.done += 1;
    fresh.gateway.clock.set(Timestamp(noon.0 + LONGEST_WAIT));
    assert!(matches!(ended(&job, away()).await, JobOutcome::Interrupted));
    fresh.gateway.clock.set(Timestamp(noon.0 + 2 * LONGEST_WAIT));
    assert!(matches!(ended(&job, away()).await, JobOutcome::Failed { .. }), "not for ever");
}

#[tokio::test]
async fn a_replay_needs_the_attributes_that_calls_need_and_keeps_them() {
    let required = json!(["user", "session", "tag:team"]);
    let fresh = Fresh::with(json!({"attributes": {"required": required}})).await;
    let (user, tags) = (Some("jane".to_owned()), Some("team=red".to_owned()));
    let named = HeaderAttributes { user: user.clone(), tags };
    let named = fresh.caller.clone().in_session("s-1").with_attributes(named);
    let source = source(&fresh, &named).await;
    let id = source.to_string();
    let refused = fresh.gateway.replay(&fresh.caller, &id, Overrides::default()).await;
    let missing = "Missing required attributes: user, session, tag:team";
    assert_eq!(refused.unwrap_err().to_string(), missing);
    assert!(fresh.gateway.newest_jobs(fresh.caller.project.id(), 50).await.unwrap().is_empty());

    let job = replayed(&fresh, &named, source).await;
    assert_eq!(job.state, JobState::Completed, "{job:?}");
    let steps = fresh.gateway.store.steps(job.traces[0]).await.unwrap();
    let tags = [("team".to_owned(), "red".to_owned())].into();
    let expected = Attributes { user, session: Some("s-1".to_owned()), tags };
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].attributes.as_deref(), Some(&expected));
}

/// Records a call with its output, and returns its step.
async fn record(fresh: &Fresh, trace: TraceId, endpoint: ApiEndpoint, output: Value) -> StepId {
    let store = &fresh.gateway.store;
    let project = &fresh.caller.project;
    let id = store.step_id().await.unwrap();
    let call = Call::of("vectors".to_owned(), Provider::Openai);
    let step = Step {
        id,
        trace,
        project: project.id(),
        key: None,
        api_endpoint: endpoint,
        ..step(domain::step::StepKind::Run, Some(call))
    };
    let content = json!({"output": output, "omitted": ["service_tier"]}).to_string();
    store.writer().step(step, Some((content.as_bytes(), &project.sealing))).await.unwrap();
    id
}

#[tokio::test]
async fn calls_that_no_replay_repeats_say_so() {
    let fresh = Fresh::with(json!({})).await;
    let source = source(&fresh, &fresh.caller).await;
    let vectors = record(&fresh, source, ApiEndpoint::Embeddings, Value::Null).await;
    let job = replayed(&fresh, &fresh.caller, source).await;
    let result = job.result.unwrap();
    let steps = &result.replays[0].steps;
    let left_out = steps.iter().find(|step| step.source == vectors.0).unwrap();
    assert_eq!((left_out.skipped, left_out.model.as_str()), (Some(Skip::NotRepeatable), "vectors"));
    assert_eq!((left_out.step, left_out.cost), (None, None));
    let other = steps.iter().find(|step| step.source != vectors.0).unwrap();
    assert_eq!((steps.len(), other.skipped, other.similarity), (2, None, Some(1.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_waits_for_money_that_other_calls_hold() {
    let fresh = Fresh::idle(json!({"monthly_budget": 1.0})).await;
    let source = source(&fresh, &fresh.caller).await;
    let month = &fresh.caller.project.month;
    let held = Usd(1_000_000_000);
    lock(month).set_aside.add(held);
    let job = claimed(&fresh, source).await;
    let run = Replays::run(&job);
    tokio::pin!(run);
    // A call waits for a second itself.
    let early = tokio::time::timeout(Duration::from_millis(1_500), &mut run).await;
    assert!(early.is_err(), "{early:?}");
    lock(month).set_aside.give_back(held);
    assert!(matches!(run.await, JobOutcome::Completed(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_are_weighed_before_they_are_unpacked() {
    let fresh = Fresh::idle(json!({})).await;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let project = &fresh.caller.project;
    let output = |bytes: usize| Value::from("word ".repeat(bytes / 5));
    let mut alike = Vec::new();
    for bytes in [100_000, 12 << 20] {
        let one = record(&fresh, source, ApiEndpoint::Chat, output(bytes)).await;
        let other = record(&fresh, source, ApiEndpoint::Chat, output(bytes)).await;
        let compared = answers::compared(&job, project, [one, other]).await;
        alike.push(compared.unwrap().similarity);
    }
    assert_eq!(alike, [Some(1.0), None], "more than the memory of requests is not held");
}

#[tokio::test(flavor = "multi_thread")]
async fn dense_answers_that_would_take_all_memory_as_trees_are_not_compared() {
    let fresh = Fresh::idle(json!({})).await;
    let source = source(&fresh, &fresh.caller).await;
    let job = claimed(&fresh, source).await;
    let output = |length: usize| Value::from(vec!["w".repeat(length); (2 << 20) / (length + 3)]);
    // Short texts that fit as text, and one of two answers as a tree.
    let is_dense = |output: &Value| {
        let content = json!({"output": output}).to_string();
        json_bytes(content.as_bytes(), true).is_ok_and(|weight| weight > 33 << 20)
    };
    let output = (1..100).step_by(3).map(output).find(is_dense).unwrap();
    let one = record(&fresh, source, ApiEndpoint::Chat, output.clone()).await;
    let other = record(&fresh, source, ApiEndpoint::Chat, output).await;
    let compared = answers::compared(&job, &fresh.caller.project, [one, other]).await.unwrap();
    assert_eq!(compared.similarity, None);
    assert_eq!(compared.left_out, ["service_tier"], "it is small, whatever the answers are");
}
