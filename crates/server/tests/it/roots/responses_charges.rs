//! The money of requests of the Responses API that pass as they came: the vendor's own tools, and what a
//! request continues.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::passed_responses::{events, register, response, server_of, stream, with};
use super::{RESPONSES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    searches_are_paid_for,
    a_cap_holds_with_tools_of_the_vendor,
    tools_without_a_bound_or_a_price_are_refused_under_a_cap,
    what_is_continued_is_set_aside,
    tools_of_earlier_responses_are_set_aside_for,
);

/// A key with a cap, in USD.
async fn capped(server: &Server, owner: &Caller, cap: f64) -> Caller {
    let body = json!({"name": "capped", "project_id": 1, "hourly_limit": cap});
    let made = owner.post("/api/v1/keys", &body).await.ok(201);
    server.with_key(made["raw_key"].as_str().unwrap())
}

fn searches(price: f64) -> Value {
    json!({"prices": {"web_search_cost_per_1k": price}})
}

fn tools(kind: &str) -> Value {
    json!({"tools": [{"type": kind}]})
}

async fn cost(key: &Caller, body: &Value) -> Value {
    let trace = key.trace().await;
    let reply = key.with("x-trace-id", &trace).post(RESPONSES, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    key.detail(&trace).await["steps"][0]["cost"].clone()
}

async fn searches_are_paid_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = server_of("gpt").await;
    register(&mock, &owner, "gpt", searches(10.0)).await;
    for streams in [false, true] {
        let more = with(tools("web_search"), json!({"stream": streams}));
        // 1,000 tokens at 0.15 and 100 at 0.6 a thousand are 0.21; a search costs 0.01.
        assert_eq!(cost(&key, &ask(RESPONSES, "gpt", "Hello.", more)).await, 0.22);
    }
    let all = events("resp_gpt", "Fine.");
    let broken = Mock::always(stream(&all[..all.len() - 1])).await;
    register(&broken, &owner, "broken", searches(1000.0)).await;
    let body = ask(RESPONSES, "broken", "Hello.", json!({"stream": true}));
    let paid = cost(&key, &body).await.as_f64().unwrap();
    assert!(paid > 1.0 && paid < 1.2, "a search was seen before it broke: {paid}");
}

async fn a_cap_holds_with_tools_of_the_vendor(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = server_of("gpt").await;
    let cheap = json!({"is_public": false, "input_cost_per_1k": 0.000_000_001,
        "output_cost_per_1k": 0.000_000_001, "api_key": "sk-of-the-gateway",
        "additional_config": with(searches(10.0), json!({"responses": true}))});
    mock.register_with(&owner, "gpt", cheap).await;
    let key = capped(&server, &owner, 0.025).await;
    // Without a bound of its own, or with one that is too high: what the cap affords.
    for (given, expected) in [(json!({}), 2), (json!({"max_tool_calls": 8}), 1)] {
        let asked = ask(RESPONSES, "gpt", "Hello.", with(tools("web_search"), given));
        key.post(RESPONSES, &asked).await.ok(200);
        assert_eq!(mock.take().pop().unwrap().body["max_tool_calls"], expected);
    }
    let asked = ask(RESPONSES, "gpt", "Hello.", tools("web_search"));
    let last = key.post(RESPONSES, &asked).await;
    assert_eq!(last.status, 429, "{}", last.text);
    assert_eq!(mock.begun(), 2, "0.005 USD are left, and a search costs 0.01");
    server.key().post(RESPONSES, &asked).await.ok(200);
    assert_eq!(mock.last(), asked, "without a cap nothing is bounded");
}

async fn tools_without_a_bound_or_a_price_are_refused_under_a_cap(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (free, owner) = (server.key(), server.owner().await);
    let mock = server_of("gpt").await;
    register(&mock, &owner, "gpt", json!({})).await;
    register(&mock, &owner, "bounded", json!({"context_window": 1000})).await;
    let key = capped(&server, &owner, 1000.0).await;
    let code = ask(RESPONSES, "gpt", "Hello.", tools("code_interpreter"));
    key.post(RESPONSES, &code).await.tells(422, "puts no bound on what this tool costs");
    let code = ask(RESPONSES, "bounded", "Hello.", tools("code_interpreter"));
    key.post(RESPONSES, &code).await.ok(200);
    assert_eq!(mock.last()["max_tool_calls"], 5);
    let images = ask(RESPONSES, "bounded", "Hello.", tools("image_generation"));
    let reply = key.post(RESPONSES, &images).await;
    reply.ok(200);
    assert_eq!(reply.header("x-sluice-mode"), "passthrough");
    assert_eq!(reply.header("x-sluice-dropped-params"), "tools[0] (image_generation)");
    assert_eq!(mock.last()["tools"], json!([]));
    let demanded = with(images.clone(), json!({"tool_choice": {"type": "image_generation"}}));
    key.post(RESPONSES, &demanded).await.tells(422, "tools[0]");
    settings(&owner, 1, json!({"passthrough": {"vendor_tools": ["image_generation"]}})).await;
    free.post(RESPONSES, &images).await.ok(200);
    assert_eq!(mock.last(), images);
    key.post(RESPONSES, &images).await.tells(422, "the price of this tool is not known");
    // Tools that an item adds are tools.
    let question = json!({"role": "user", "content": "Hello."});
    for kind in ["additional_tools", "tool_search_output"] {
        let added = |tool: &str| {
            let item = json!({"type": kind, "role": "developer", "tools": [{"type": tool}]});
            ask(RESPONSES, "gpt", "", json!({"input": [item, question]}))
        };
        let reply = key.post(RESPONSES, &added("code_interpreter")).await;
        reply.tells(422, "input[0].tools[0] ('code_interpreter')");
        key.post(RESPONSES, &added("web_search")).await.ok(200);
        assert_eq!(mock.last()["max_tool_calls"], 5);
        key.post(RESPONSES, &added("file_search")).await.tells(422, "input[0].tools[0]");
    }
    let agents =
        with(ask(RESPONSES, "gpt", "Hello.", json!({})), json!({"multi_agent": {"enabled": true}}));
    key.post(RESPONSES, &agents).await.tells(422, "multi_agent");
    free.post(RESPONSES, &agents).await.ok(200);
}

async fn what_is_continued_is_set_aside(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (free, owner) = (server.key(), server.owner().await);
    let mock = server_of("gpt").await;
    let definition = |config: Value| {
        json!({"is_public": false, "input_cost_per_1k": 1.0, "output_cost_per_1k": 1.0,
            "api_key": "sk-of-the-gateway",
            "additional_config": with(config, json!({"responses": true}))})
    };
    mock.register_with(&owner, "gpt", definition(json!({}))).await;
    mock.register_with(&owner, "twin", definition(json!({"context_window": 5000}))).await;
    free.post(RESPONSES, &ask(RESPONSES, "gpt", "Hello.", json!({}))).await.ok(200);
    let small = json!({"max_output_tokens": 10});
    let again = with(small.clone(), json!({"previous_response_id": "resp_gpt"}));
    // The answers report 1,100 tokens, a thousandth of a dollar each.
    for (model, cap, more, fits) in [
        ("gpt", 0.5, &small, true),
        ("gpt", 0.5, &again, false),
        ("gpt", 1.5, &again, true),
        // No one has counted them for this model: they fill its window.
        ("twin", 1.5, &again, false),
        ("twin", 5.5, &again, true),
    ] {
        let key = capped(&server, &owner, cap).await;
        let reply = key.post(RESPONSES, &ask(RESPONSES, model, "Go on.", more.clone())).await;
        let expected = if fits { 200 } else { 429 };
        assert_eq!(reply.status, expected, "{model} {cap} {more}: {}", reply.text);
    }
    // An item has the tokens of its answer alone, once for each time that it is referred to.
    let item = json!({"type": "item_reference", "id": "msg_resp_gpt"});
    for (times, fits) in [(1, true), (6, false)] {
        let key = capped(&server, &owner, 0.5).await;
        let more = with(small.clone(), json!({"input": vec![item.clone(); times]}));
        let reply = key.post(RESPONSES, &ask(RESPONSES, "gpt", "", more)).await;
        assert_eq!(reply.status, if fits { 200 } else { 429 }, "{times}: {}", reply.text);
    }
    // A response whose tokens were not reported fills the window, too.
    let mut silent = response("resp_silent", "Fine.");
    silent["usage"] = Value::Null;
    let silent = Mock::always(Answer::json(200, &silent)).await;
    silent.register_with(&owner, "silent", definition(json!({"context_window": 5000}))).await;
    free.post(RESPONSES, &ask(RESPONSES, "silent", "Hello.", json!({}))).await.ok(200);
    let again = with(small, json!({"previous_response_id": "resp_silent"}));
    for (cap, expected) in [(1.5, 429), (5.5, 200)] {
        let key = capped(&server, &owner, cap).await;
        let reply = key.post(RESPONSES, &ask(RESPONSES, "silent", "Go on.", again.clone())).await;
        assert_eq!(reply.status, expected, "{cap}: {}", reply.text);
    }
}

async fn tools_of_earlier_responses_are_set_aside_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (free, owner) = (server.key(), server.owner().await);
    // Each answer has an id of its own; one that is asked to finds a tool by itself.
    let answers = AtomicUsize::new(0);
    let mock = Mock::start(Duration::ZERO, None, move |body| {
        let id = format!("resp_{}", answers.fetch_add(1, Ordering::Relaxed));
        let mut answer = response(&id, "Fine.");
        if body["input"] == "Find a tool." {
            let found = json!({"type": "tool_search_output", "id": format!("tso_{id}"),
                "tools": [{"type": "web_search"}]});
            answer["output"].as_array_mut().unwrap().push(found);
        }
        Answer::json(200, &answer)
    });
    let mock = mock.await;
    register(&mock, &owner, "gpt", json!({})).await;
    let capped = capped(&server, &owner, 1000.0).await;
    let loading = |tool: &str| {
        let item =
            json!({"type": "additional_tools", "role": "developer", "tools": [{"type": tool}]});
        let question = json!({"role": "user", "content": "Hello."});
        ask(RESPONSES, "gpt", "", json!({"input": [item, question]}))
    };
    let item = |id: &str| json!({"input": [{"type": "item_reference", "id": id}]});
    let after = |id: &str| json!({"previous_response_id": id});
    let plain = || ask(RESPONSES, "gpt", "Hello.", json!({}));

    let first = async |body: Value| free.post(RESPONSES, &body).await.ok(200)["id"].clone();
    let then = async |more: Value| {
        let reply = capped.post(RESPONSES, &ask(RESPONSES, "gpt", "Go on.", more)).await;
        (reply.ok(200)["id"].clone(), mock.last()["max_tool_calls"].clone())
    };
    assert_eq!(first(plain()).await, "resp_0");
    assert_eq!(then(after("resp_0")).await, (json!("resp_1"), Value::Null), "no tool was loaded");
    assert_eq!(first(loading("web_search")).await, "resp_2");
    assert_eq!(then(after("resp_2")).await, (json!("resp_3"), json!(5)), "searches are bounded");
    assert_eq!(then(after("resp_3")).await, (json!("resp_4"), json!(5)), "however long ago");
    assert_eq!(then(item("msg_resp_2")).await, (json!("resp_5"), Value::Null), "words load none");
    assert_eq!(first(ask(RESPONSES, "gpt", "Find a tool.", json!({}))).await, "resp_6");
    assert_eq!(then(after("resp_6")).await, (json!("resp_7"), json!(5)), "the vendor loaded it");
    assert_eq!(then(item("msg_resp_6")).await.1, Value::Null, "words beside it load none");
    assert_eq!(then(item("tso_resp_6")).await, (json!("resp_9"), json!(5)), "an item loads it");
    assert_eq!(first(loading("code_interpreter")).await, "resp_10");
    let endless = ask(RESPONSES, "gpt", "Go on.", after("resp_10"));
    let refused = capped.post(RESPONSES, &endless).await;
    refused.tells(422, "previous_response_id ('code_interpreter'): its vendor puts no bound on");
}
