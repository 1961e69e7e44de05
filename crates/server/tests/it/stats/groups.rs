//! `GET /stats?group_by=...`: who spent it.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(each_group_has_its_share, what_is_no_dimension_is_refused);

/// The groups of an answer: value, requests, errors and cost.
fn shares(answer: &Value) -> Vec<(Value, i64, i64, f64)> {
    let groups = answer["groups"].as_array().unwrap().iter();
    let share = |it: &Value| {
        let count = |name: &str| it[name].as_i64().unwrap();
        (it["value"].clone(), count("requests"), count("errors"), it["cost"].as_f64().unwrap())
    };
    groups.map(share).collect()
}

async fn each_group_has_its_share(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    // 10 prompt and 5 completion tokens: 0.45 and 0.045 cents a call.
    for (name, price) in [("dear", 0.15), ("cheap", 0.015)] {
        let prices = json!({"is_public": false, "input_cost_per_1k": price, "output_cost_per_1k": 4.0 * price});
        Mock::always(Answer::text("Yes.")).await.register_with(&owner, name, prices).await;
    }
    Mock::always(Answer::json(400, &json!({}))).await.register(&owner, "failing").await;
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await.ok(201);
    let other = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    let run = |model: &str| json!({"trace_id": trace, "model": model, "input": "Hello."});
    let jane = key.with("x-sluice-user", "jane").with("x-sluice-tags", "team=red");
    let joe = key.with("x-sluice-user", "joe").with("x-sluice-tags", "team=red,stage=test");
    jane.post("/api/v1/runs", &run("dear")).await.ok(200);
    for _ in 0..3 {
        joe.post("/api/v1/runs", &run("cheap")).await.ok(200);
    }
    assert_eq!(joe.post("/api/v1/runs", &run("failing")).await.status, 502);
    other.post("/api/v1/runs", &run("cheap")).await.ok(200);
    key.post("/api/v1/checks", &json!({"trace_id": trace, "input": "Hello."})).await.ok(200);
    let by = async |name: &str| key.get(&format!("/api/v1/stats?group_by={name}")).await.ok(200);

    let (dear, cheap) = (0.0045, 0.00045);
    let users = by("user").await;
    assert_eq!(users["group_by"], "user");
    assert_eq!(
        shares(&users),
        [(json!("jane"), 1, 0, dear), (json!("joe"), 4, 1, 0.00135), (Value::Null, 1, 0, cheap)]
    );
    assert_eq!(users["rest"], Value::Null);
    let total = &users["total"];
    assert_eq!(
        (&total["requests"], &total["errors"], &total["blocked"]),
        (&json!(6), &json!(1), &json!(0))
    );
    assert_eq!((&total["cost"], &total["prompt_tokens"]), (&json!(0.0063), &json!(50)));
    let stats = key.get("/api/v1/stats").await.ok(200);
    assert_eq!(total["cost"], stats["cost"]["total"], "it is the same money");
    assert_eq!(
        shares(&by("tag:team").await),
        [(json!("red"), 5, 1, 0.00585), (Value::Null, 1, 0, cheap)]
    );
    assert_eq!(
        shares(&by("tag:stage").await),
        [(Value::Null, 2, 0, 0.00495), (json!("test"), 4, 1, 0.00135)]
    );
    let models = shares(&by("model").await);
    assert_eq!(models[0], (json!("dear"), 1, 0, dear));
    assert_eq!(models[2], (json!("failing"), 1, 1, 0.0));
    assert_eq!(shares(&by("endpoint").await), [(json!("runs"), 6, 1, 0.0063)]);
    assert_eq!(shares(&by("tier").await).iter().map(|it| it.1).sum::<i64>(), 6);
    let keys = owner.get("/api/v1/stats?group_by=key&project_id=1&window=1").await.ok(200);
    assert_eq!(keys["groups"][1]["value"], made["id"]);
    assert_eq!(keys["groups"][1]["name"], "other");
    assert_eq!(keys["groups"][1]["requests"], 1);
    // The period begins with an hour.
    let start = keys["period"]["start"].as_str().unwrap();
    assert!(start.ends_with(":00:00.000Z"), "{start}");
    let sessions = shares(&by("session").await);
    assert_eq!(sessions, [(Value::Null, 6, 1, 0.0063)]);
    let before = key.get("/api/v1/stats?group_by=user&end_date=2020-01-01").await.ok(200);
    assert_eq!((&before["groups"], &before["total"]["requests"]), (&json!([]), &json!(0)));
    // A key that is revoked keeps its name.
    let revoked = owner.delete(&format!("/api/v1/keys/{}", made["id"].as_str().unwrap())).await;
    assert_eq!(revoked.status, 204, "{}", revoked.text);
    let keys = owner.get("/api/v1/stats?group_by=key&project_id=1&window=1").await.ok(200);
    assert_eq!(keys["groups"][1]["value"], made["id"]);
    assert_eq!(keys["groups"][1]["name"], "other");
}

async fn what_is_no_dimension_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for name in ["", "team", "tag:", "tag:a%22b", "users"] {
        let reply = key.get(&format!("/api/v1/stats?group_by={name}")).await;
        reply.says(422, "group_by must be user, session, tag:NAME, model, key, tier or endpoint");
    }
    key.get("/api/v1/stats?group_by=user&project_id=99").await.says(404, "");
}
