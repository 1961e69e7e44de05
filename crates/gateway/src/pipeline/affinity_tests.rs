use domain::conversation::{Message, Prompt};
use domain::model::Endpoint;
use providers::Breakers;
use serde_json::{Value, json};

use super::*;
use crate::pipeline::endpoint_attempts::EndpointAttempts;
use crate::testing::Fresh;

const CONVERSATIONS: usize = 1000;
const TURNS: usize = 10;

fn usage(prompt: u64, cached: u64, cache_write: u64) -> Usage {
    Usage { cached, cache_write, ..Usage::of_prompt(prompt) }
}

#[test]
fn a_provider_keeps_what_it_reports_or_the_whole_prompt() {
    use Provider::{Anthropic, Bedrock, Gemini, Openai};
    for (provider, usage, expected) in [
        (Anthropic, usage(5000, 3000, 1500), 4500),
        (Anthropic, usage(5000, 0, 0), 0),
        (Bedrock, usage(5000, 0, 2000), 2000),
        (Openai, usage(5000, 0, 0), 5000),
        (Openai, usage(1023, 0, 0), 0),
        (Gemini, usage(1024, 0, 0), 1024),
    ] {
        assert_eq!(cached(provider, &usage), expected, "{provider} {usage:?}");
    }
}

#[test]
fn what_is_written_for_an_hour_is_warm_for_an_hour() {
    let now = Timestamp(1_790_000_000_000_000);
    let minutes = |usage: &Usage| warm_until(now, usage).since(now) / (60 * 1_000_000);
    assert_eq!(minutes(&usage(5000, 0, 2000)), 5);
    assert_eq!(minutes(&Usage { cache_write_1h: 1, ..usage(5000, 0, 2000) }), 60);
}

fn message(role: &str, text: &str) -> Message {
    Message::read(json!({"role": role, "content": text})).unwrap()
}

/// The prompts of many conversations with one application, which differ in their first question.
fn conversations() -> Vec<Prompt> {
    let tools = json!([{"type": "function", "function": {"name": "search"}}]);
    let begin = |number: usize| {
        let question = format!("Question {number}: how warm is it?");
        let mut prompt = Prompt::question(question);
        prompt.messages.insert(0, message("system", "Be brief."));
        prompt.params.insert("tools".to_owned(), Value::clone(&tools));
        prompt
    };
    (0..CONVERSATIONS).map(begin).collect()
}

/// A model with three endpoints.
fn of_three_endpoints(model: &Model) -> Arc<Model> {
    let mut model = model.clone();
    let endpoint = |index| {
        let base_url = Some(format!("https://{index}.example/v1"));
        Endpoint { index, weight: 1.0, model: Arc::new(Model { base_url, ..model.clone() }) }
    };
    model.config.endpoints = (0..3).map(endpoint).collect();
    Arc::new(model)
}

#[tokio::test]
async fn conversations_keep_their_endpoint() {
    let fresh = Fresh::with(json!({})).await;
    let (gateway, caller) = (&fresh.gateway, &fresh.caller);
    let trace = fresh.trace().await;
    let model = of_three_endpoints(caller.project.models.values().next().unwrap());
    let (breakers, now) = (Breakers::default(), gateway.clock.now());
    let home = async |prompt: &Prompt| {
        let context = gateway.request_context(caller, &trace, None, ApiEndpoint::Chat).await;
        let session = context.unwrap().session(prompt);
        let order = || Order::Session(session.bytes());
        let places = EndpointAttempts::of(&model, order, None, |_| true, &breakers, now).unwrap();
        places.here().base_url.clone().unwrap()
    };
    let mut prompts = conversations();
    let mut homes: Vec<String> = Vec::new();
    for prompt in &prompts {
        homes.push(home(prompt).await);
    }
    let mut kept = 0;
    for turn in 1..TURNS {
        for (prompt, before) in prompts.iter_mut().zip(&homes) {
            prompt.messages.push(message("assistant", "Mild."));
            prompt.messages.push(message("user", &format!("And on day {turn}?")));
            kept += usize::from(home(prompt).await == *before);
        }
    }
    assert!(kept * 100 >= CONVERSATIONS * (TURNS - 1) * 99, "{kept} turns");
    for endpoint in &model.config.endpoints {
        let came = homes.iter().filter(|home| Some(*home) == endpoint.model.base_url.as_ref());
        assert!((250..420).contains(&came.count()), "each has its share");
    }

    // One goes.
    let gone = &homes[0];
    let index =
        model.config.endpoints.iter().position(|one| one.model.base_url.as_ref() == Some(gone));
    let breaker = breakers.get(model.id, index.unwrap());
    while !breaker.is_open(now) {
        breaker.allow(now).unwrap().fault(providers::Fault::Failed, now);
    }
    for (prompt, before) in prompts.iter().zip(&homes) {
        let after = home(prompt).await;
        assert!(if before == gone { after != *gone } else { after == *before }, "{before} {after}");
    }
}
