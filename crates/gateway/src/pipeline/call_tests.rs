use domain::conversation::StreamEvent;
use domain::model::Model;
use domain::step::ApiEndpoint;
use domain::time::SECOND;
use serde_json::json;

use super::*;
use crate::testing::Fresh;
use domain::conversation::Prompt;

/// A call that is routed to the sandbox.
async fn routed(fresh: &Fresh, input: String) -> Routed {
    let trace = fresh.trace().await;
    let context = fresh
        .gateway
        .request_context(&fresh.caller, &trace, None, ApiEndpoint::Executions)
        .await
        .unwrap();
    match fresh.gateway.route(context, Prompt::question(input)).await.unwrap() {
        Ok(routed) => *routed,
        Err(refusal) => panic!("blocked: {}", refusal.reason),
    }
}

/// Lets the circuit of a model open half a minute ago: the next call is its probe.
fn open_circuit(fresh: &Fresh, model: &Model) -> Arc<providers::Breaker> {
    let breaker = fresh.gateway.upstream.breakers.get(model.id, 0);
    let past = fresh.gateway.clock.now().minus_micros(31 * SECOND);
    for _ in 0..5 {
        breaker.allow(past).unwrap().fault(providers::Fault::Failed, past);
    }
    assert!(breaker.is_open(past));
    breaker
}

#[tokio::test]
async fn a_call_that_is_refused_for_money_leaves_the_probe_to_the_next() {
    let fresh = Fresh::with(json!({"monthly_budget": 0.0001})).await;
    let routed = routed(&fresh, "word ".repeat(5000)).await;
    let breaker = open_circuit(&fresh, &routed.models()[0]);
    let error = fresh.gateway.call(routed).await.unwrap_err();
    assert!(matches!(error, Error::BudgetExceeded { .. }), "{error}");
    assert!(!breaker.is_open(fresh.gateway.clock.now()));
}

#[tokio::test]
async fn a_stream_that_begins_closes_the_circuit() {
    let fresh = Fresh::with(json!({})).await;
    let asked = routed(&fresh, "Say hello.".to_owned()).await;
    let breaker = open_circuit(&fresh, &asked.models()[0]);
    let (_flight, mut stream) = fresh.gateway.call_stream(asked).await.unwrap();
    let is_word = |event: &StreamEvent| matches!(event, StreamEvent::Text(_));
    while !stream.next().await.unwrap().unwrap().iter().any(is_word) {
        assert!(breaker.is_open(fresh.gateway.clock.now()), "until its first word");
    }
    let both = [(); 2].map(|()| breaker.allow(fresh.gateway.clock.now()));
    assert!(both.iter().all(Option::is_some), "nobody waits for its end");
    drop(stream);
}
