//! What raises an insight, and what it says.

use serde_json::{Value, json};

use super::support::{INSIGHTS, call, refreshed, register};
use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(
    a_cheaper_model_that_fits_the_tier_is_suggested,
    sensitive_requests_are_moved_to_private_models_that_were_chosen_for_them,
    an_intent_that_makes_up_much_of_the_traffic_is_a_pattern,
    other_models_than_those_for_text_are_not_suggested,
);

const SUMMARISE: &str = "Summarise this in one sentence: the train from Bern was late today.";

async fn a_cheaper_model_that_fits_the_tier_is_suggested(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    // Of 1,000 prompt tokens, 900 come from the cache.
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
        "prompt_tokens_details": {"cached_tokens": 900}});
    let answer = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "It was late."},
            "finish_reason": "stop"}], "usage": usage});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    let none = json!({});
    let cached = json!({"additional_config": {"cached_input_cost_per_1k": 0.001}});
    register(&mock, &owner, "dear", (0.01, 0.04), cached).await;
    register(&mock, &owner, "cheap", (0.001, 0.004), none.clone()).await;
    register(&mock, &owner, "nearly", (0.0005, 0.04), none).await;
    call(&key, "dear", SUMMARISE, 99).await;
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new());
    call(&key, "dear", SUMMARISE, 1).await;
    // The cache makes the dear model cheaper than its prices: 0.0059 a call, against 0.0014.
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new());
    let path = model_path(&owner, "cheap").await;
    let price =
        json!({"model_definition": {"input_cost_per_1k": 0.0005, "output_cost_per_1k": 0.002}});
    owner.patch(&path, &price).await.ok(200);

    let found = refreshed(&owner, "migration_alert").await;
    let [insight] = found.as_slice() else { panic!("{found:?}") };
    let names: Vec<&str> = insight.as_object().unwrap().keys().map(String::as_str).collect();
    let fields = ["id", "insight_type", "status", "data", "estimated_savings_usd", "created_at"];
    assert_eq!(names, fields);
    assert!(insight["id"].is_i64() && insight["status"] == "active", "{insight}");
    let data = &insight["data"];
    let expected = json!({
        "intent": "summarise", "current_model": "dear", "suggested_model": "cheap",
        "savings_pct": 88.14, "price_ratio": 8.43, "steps": 100, "tiers": {"simple": 100},
        "prompt_tokens": 100_000, "cached_tokens": 90_000, "cache_write_tokens": 0,
        "cache_write_1h_tokens": 0, "longest_call_tokens": 1_100,
        "completion_tokens": 10_000, "recorded_cost_usd": 0.59, "current_cost_usd": 0.59,
        "suggested_cost_usd": 0.07, "observed_hours": 1,
        "current_prices": {"input_cost_per_1k": 0.01, "output_cost_per_1k": 0.04,
            "cached_input_cost_per_1k": 0.001, "cache_write_cost_per_1k": 0.01,
            "cache_write_1h_cost_per_1k": 0.02},
        "suggested_prices": {"input_cost_per_1k": 0.0005, "output_cost_per_1k": 0.002,
            "cached_input_cost_per_1k": 0.0005, "cache_write_cost_per_1k": 0.0005,
            "cache_write_1h_cost_per_1k": 0.001},
    });
    assert_eq!(data, &expected);
    // What these calls would have saved: less than a day is projected to no more.
    let savings = insight["estimated_savings_usd"].as_f64().unwrap();
    assert!((savings - 0.52).abs() < 1e-9, "{savings}");
    assert_eq!(refreshed(&owner, "migration_alert").await, found, "a refresh changes nothing");

    // What is not cheap enough any more is taken off the list.
    let price =
        json!({"model_definition": {"input_cost_per_1k": 0.005, "output_cost_per_1k": 0.02}});
    owner.patch(&path, &price).await.ok(200);
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new());
}

async fn sensitive_requests_are_moved_to_private_models_that_were_chosen_for_them(
    backend: Backend,
) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let mock = Mock::always(Answer::text("Done.")).await;
    let none = json!({});
    register(&mock, &owner, "dear", (1.0, 4.0), none.clone()).await;
    register(&mock, &owner, "public", (0.01, 0.04), json!({"is_public": true})).await;
    register(&mock, &owner, "unchosen", (0.01, 0.04), none.clone()).await;
    register(&mock, &owner, "chosen", (0.1, 0.4), none).await;
    let tiers = |tiers: Value| json!({"project": {"settings": {"routing_tiers": tiers}}});
    owner.patch("/api/v1/projects/1", &tiers(json!({"secure": "dear"}))).await.ok(200);
    let trace = key.trace().await;
    for _ in 0..100 {
        key.execute(&trace, "Summarise: Ann Miller's e-mail is ann@example.org.").await.ok(200);
    }
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"][0]["model"], "dear", "{}", detail["steps"][0]);
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new());
    owner.patch("/api/v1/projects/1", &tiers(json!({"secure": "chosen"}))).await.ok(200);
    let found = refreshed(&owner, "migration_alert").await;
    assert_eq!(found[0]["data"]["suggested_model"], "chosen", "{found:?}");
    assert_eq!(found[0]["data"]["tiers"], json!({"secure": 100}));
}

async fn an_intent_that_makes_up_much_of_the_traffic_is_a_pattern(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let mock = Mock::always(Answer::text("Done.")).await;
    register(&mock, &owner, "m", (0.1, 0.1), json!({})).await;
    let translate = "Translate into French: the house is green.";
    call(&key, "m", SUMMARISE, 140).await;
    call(&key, "m", translate, 59).await;
    assert_eq!(refreshed(&owner, "intent_pattern").await, Vec::<Value>::new());
    call(&key, "m", translate, 1).await;
    let found = refreshed(&owner, "intent_pattern").await;
    let shares: Vec<Value> = found.iter().map(|insight| insight["data"].clone()).collect();
    let share = |intent: &str, share: f64, requests: u64| {
        json!({"intent": intent, "share_pct": share, "intent_requests": requests, "requests": 200,
            "observed_hours": 1})
    };
    assert_eq!(shares, [share("summarise", 70.0, 140), share("translate", 30.0, 60)]);
    assert!(found.iter().all(|insight| insight["estimated_savings_usd"] == 0.0), "{found:?}");
    call(&key, "m", SUMMARISE, 1).await;
    assert_eq!(refreshed(&owner, "intent_pattern").await.len(), 1, "60 of 201 are less than 30 %");
}

async fn other_models_than_those_for_text_are_not_suggested(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let mock = Mock::always(Answer::text("Done.")).await;
    let public = json!({"is_public": true});
    register(&mock, &owner, "dear", (1.0, 4.0), json!({})).await;
    register(&mock, &owner, "text-embedding-3-small", (0.00002, 0.0), public.clone()).await;
    register(&mock, &owner, "vectors", (0.00002, 0.0), public.clone()).await;
    let images = json!({"is_public": true, "additional_config": {"cost_per_image": 0.04}});
    register(&mock, &owner, "images", (0.0001, 0.0001), images).await;
    call(&key, "dear", SUMMARISE, 100).await;
    assert_eq!(refreshed(&owner, "migration_alert").await, Vec::<Value>::new());
    assert_eq!(owner.get(INSIGHTS).await.ok(200), json!([]));
}

async fn model_path(owner: &crate::harness::Caller, identifier: &str) -> String {
    let all = owner.get("/api/v1/projects/1/models").await.ok(200);
    let found = all.as_array().unwrap().iter().map(|wrapped| &wrapped["model_definition"]);
    let mut found = found.filter(|model| model["identifier"] == identifier);
    format!("/api/v1/projects/1/models/{}", found.next().unwrap()["id"])
}
