//! Requests that meet the first one while it runs, callers who hang up, and crashes.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{CHAT, GEMINI, HEADER, WAIT, calls, is_again, is_refused, priced};
use crate::harness::{Answer, Backend, Caller, Mock, Server, first_step, until};

crate::on_every_backend!(
    requests_at_the_same_time_call_once,
    whoever_waits_too_long_is_told_so,
    a_caller_who_has_hung_up_gets_the_answer_later,
    a_call_that_a_crash_has_cut_off_is_not_made_again,
    a_stop_ends_calls_that_nobody_waits_for,
);

fn ask() -> Value {
    json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]})
}

async fn requests_at_the_same_time_call_once(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    for streams in [false, true] {
        let key = key.with(HEADER, &format!("streams: {streams}"));
        let mut body = ask();
        body["stream"] = json!(streams);
        let before = mock.begun();
        mock.hold();
        let mut asking = JoinSet::new();
        for _ in 0..12 {
            let (key, body) = (key.clone(), body.clone());
            asking.spawn(async move { key.post(CHAT, &body).await });
        }
        until("one calls", async || (mock.begun() > before).then_some(())).await;
        let mut other = body.clone();
        other["n"] = json!(2);
        // Nobody has to wait to be told this.
        let refused = key.post(CHAT, &other).await;
        is_refused(&refused, CHAT, 422, "idempotency_key_reused");
        mock.release();
        let replies = asking.join_all().await;
        let (first, again): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.header("idempotency-replayed").is_empty());
        assert_eq!((first.len(), again.len(), mock.begun()), (1, 11, before + 1));
        assert!(first[0].text.contains("Once."), "{}", first[0].text);
        for again in &again {
            is_again(again, first[0]);
        }
    }
}

async fn whoever_waits_too_long_is_told_so(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("At last.")).await;
    mock.hold();
    let (mut first, mut late) = (JoinSet::new(), JoinSet::new());
    let all = calls(&key, false).await;
    let key = key.with("x-trace-id", &key.trace().await).with(HEADER, "one");
    for (path, body) in all.clone() {
        let key = key.clone();
        first.spawn(async move { (path, key.post(path, &body).await) });
    }
    until("all call", async || (mock.begun() == all.len()).then_some(())).await;
    for (path, body) in all.clone() {
        let key = key.clone();
        late.spawn(async move {
            let asked = Instant::now();
            (path, key.post(path, &body).await, asked.elapsed())
        });
    }
    for (path, reply, waited) in late.join_all().await {
        assert!(WAIT.contains(&waited), "{path}: {waited:?}");
        let said = is_refused(&reply, path, 409, "idempotency_key_in_use");
        assert!(said.contains("still running"), "{path}: {said}");
        assert_eq!(reply.header("x-should-retry"), "false", "{path}");
    }
    mock.release();
    for (path, reply) in first.join_all().await {
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let (_, body) = all.iter().find(|(known, _)| *known == path).unwrap();
        is_again(&key.post(path, body).await, &reply);
    }
    assert_eq!(mock.begun(), all.len());
}

async fn a_caller_who_has_hung_up_gets_the_answer_later(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let pieces = ["One ", "after ", "the other."].map(str::to_owned).to_vec();
    let (key, mock) = priced(&server, Answer::Pieces(pieces)).await;
    let trace = key.trace().await;
    for (number, streams) in [false, true].into_iter().enumerate() {
        let key = key.with("x-trace-id", &trace).with(HEADER, &number.to_string());
        let mut body = ask();
        body["stream"] = json!(streams);
        mock.hold();
        let asking = tokio::spawn({
            let (key, body) = (key.clone(), body.clone());
            async move { key.post(CHAT, &body).await }
        });
        until("the call is made", async || (mock.begun() > number).then_some(())).await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        mock.release();
        let reply = key.post(CHAT, &body).await;
        assert!(reply.status == 200 && reply.text.contains("the other."), "{}", reply.text);
        assert_eq!(reply.header("idempotency-replayed"), "true");
        assert_eq!(mock.begun(), number + 1);
        let steps = key.detail(&trace).await["steps"].as_array().unwrap().clone();
        assert_eq!(steps.len(), number + 1);
        assert_eq!(steps[number]["status"], "completed", "{}", steps[number]);
    }
}

/// Has a call made that is not answered, for a caller who may go.
async fn held(server: &Server, path: &'static str, body: &Value) -> (Caller, Mock) {
    let (key, mock) = priced(server, Answer::text("Too late.")).await;
    let key = key.with("x-trace-id", &key.trace().await).with(HEADER, "one");
    mock.hold();
    let asks = (key.clone(), body.clone());
    tokio::spawn(async move {
        // There is no answer.
        let request = asks.0.request("POST", path).header("content-type", "application/json");
        let _ = Caller::try_send(request.body(asks.1.to_string())).await;
    });
    until("the call is made", async || (mock.begun() == 1).then_some(())).await;
    (key, mock)
}

async fn a_call_that_a_crash_has_cut_off_is_not_made_again(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]});
    let (key, mock) = held(&server, GEMINI, &body).await;
    server.kill().await;
    mock.release();
    server.up().await;
    for _ in 0..2 {
        let reply = key.post(GEMINI, &body).await;
        let said = is_refused(&reply, GEMINI, 409, "");
        assert!(said.contains("may have been called") && said.contains("another key"), "{said}");
        assert_eq!(reply.header("x-should-retry"), "false");
    }
    assert_eq!(mock.begun(), 1);
    // Its start was on disk before it left.
    let step = first_step(&key, &trace_of(&key)).await;
    assert_eq!(
        (&step["status"], &step["cost_estimated"]),
        (&json!("failed"), &json!(true)),
        "{step}"
    );
    key.with(HEADER, "two").post(GEMINI, &body).await.ok(200);
    assert_eq!(mock.begun(), 2);
}

/// The trace that a caller names.
fn trace_of(key: &Caller) -> String {
    key.header("x-trace-id").unwrap().to_owned()
}

async fn a_stop_ends_calls_that_nobody_waits_for(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Too late.")).await;
    let key = key.with("x-trace-id", &key.trace().await).with(HEADER, "one");
    mock.hold();
    let asks = key.clone();
    let asking = tokio::spawn(async move { asks.post(CHAT, &ask()).await });
    until("the call is made", async || (mock.begun() == 1).then_some(())).await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    // Nobody waits, so neither does the stop.
    server.stop().await;
    mock.release();
    server.up().await;
    let reply = key.post(CHAT, &ask()).await;
    is_refused(&reply, CHAT, 409, "idempotency_outcome_unknown");
    let step = first_step(&key, &trace_of(&key)).await;
    assert_ne!(step["status"], "completed", "{step}");
    assert_eq!(mock.begun(), 1);
}
