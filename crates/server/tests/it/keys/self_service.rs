//! Keys that members make for themselves.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Server, settings};
use crate::session::roles::user;

crate::on_every_backend!(
    a_member_makes_keys_within_the_bounds,
    requests_at_once_do_not_make_one_key_too_many,
    members_rotate_and_revoke_keys_of_their_own,
    members_see_the_usage_of_their_own_keys
);

const KEYS: &str = "/api/v1/keys";

fn forbidden() -> Value {
    json!({"error": "Forbidden"})
}

fn new(more: Value) -> Value {
    let mut new = json!({"name": "k", "project_id": 1});
    new.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    new
}

fn path(key: &Value) -> String {
    format!("{KEYS}/{}", key["id"].as_str().unwrap())
}

async fn allow(owner: &Caller, self_service: Value) {
    settings(owner, 1, json!({"self_service": self_service})).await;
}

async fn a_member_makes_keys_within_the_bounds(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &["1"]).await;
    let viewer = user(&server, "viewer", &["1"]).await;
    // Without self-service a cap is a decision of an admin's.
    member.post(KEYS, &new(json!({"hourly_limit": 1}))).await.is(403, &forbidden());
    let early = member.post(KEYS, &new(json!({}))).await.ok(201);
    assert_eq!((&early["hourly_limit"], &early["allowed_models"]), (&Value::Null, &Value::Null));
    assert_eq!(early["owner_id"], 2);
    allow(&owner, json!({"max_keys": 3, "max_hourly_limit": 2.5, "models": ["sandbox"]})).await;
    let plain = member.post(KEYS, &new(json!({}))).await.ok(201);
    assert_eq!(plain["hourly_limit"], 2.5);
    assert_eq!(plain["allowed_models"], json!(["sandbox"]));
    let narrow = json!({"hourly_limit": 1, "allowed_models": []});
    let narrow = member.post(KEYS, &new(narrow)).await.ok(201);
    assert_eq!((&narrow["hourly_limit"], &narrow["allowed_models"]), (&json!(1.0), &json!([])));
    for (more, error) in [
        (json!({"hourly_limit": 2.51}), "hourly_limit must be at most 2.5:"),
        (json!({"allowed_models": ["sandbox", "other"]}), "allowed_models names other,"),
        (json!({}), "You have 3 keys in this project"),
    ] {
        member.post(KEYS, &new(more)).await.says(422, error);
    }
    viewer.post(KEYS, &new(json!({}))).await.is(403, &forbidden());
    // Keys of others do not count, and no bound holds for admins.
    let free = owner.post(KEYS, &new(json!({"hourly_limit": 100}))).await.ok(201);
    assert_eq!((&free["allowed_models"], &free["owner_id"]), (&Value::Null, &json!(1)));
    // A key that is revoked now would make room for one with a fresh cap.
    member.delete(&path(&plain)).await.ok(204);
    member.post(KEYS, &new(json!({}))).await.says(422, "counts for an hour after it is revoked");
    allow(&owner, json!({"max_keys": 4})).await;
    member.post(KEYS, &new(json!({}))).await.ok(201);
    member.patch(&path(&narrow), &json!({"hourly_limit": null})).await.is(403, &forbidden());
    for (wrong, error) in [
        (
            json!({"max_keys": 0}),
            "settings.self_service.max_keys must be a whole number from 1 to 100",
        ),
        (
            json!({"max_hourly_limit": -1}),
            "settings.self_service.max_hourly_limit must be an amount",
        ),
        (json!({"keys": 1}), "settings.self_service.keys is not known"),
    ] {
        let body = json!({"project": {"settings": {"self_service": wrong}}});
        owner.patch("/api/v1/projects/1", &body).await.says(422, error);
    }
}

async fn requests_at_once_do_not_make_one_key_too_many(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &["1"]).await;
    allow(&owner, json!({"max_keys": 2})).await;
    let make = new(json!({}));
    let (a, b, c, d) = tokio::join!(
        member.post(KEYS, &make),
        member.post(KEYS, &make),
        member.post(KEYS, &make),
        member.post(KEYS, &make)
    );
    let mut statuses = [a.status, b.status, c.status, d.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 422, 422]);
}

async fn members_rotate_and_revoke_keys_of_their_own(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &["1"]).await;
    let own = member.post(KEYS, &new(json!({}))).await.ok(201);
    let foreign = owner.post(KEYS, &new(json!({}))).await.ok(201);
    let rotation = |key: &Value| format!("{}/rotate", path(key));
    // The secret of a key that somebody else has made stays theirs.
    member.post(&rotation(&foreign), &json!({})).await.is(403, &forbidden());
    let rotated = member.post(&rotation(&own), &json!({"overlap_seconds": 60})).await.ok(200);
    for raw in [&own["raw_key"], &rotated["raw_key"]] {
        server.with_key(raw.as_str().unwrap()).trace().await;
    }
    owner.post(&rotation(&own), &json!({})).await.ok(200);
    // Without self-service members revoke keys of their projects.
    let other = owner.post(KEYS, &new(json!({}))).await.ok(201);
    member.delete(&path(&other)).await.ok(204);
    allow(&owner, json!({})).await;
    member.delete(&path(&foreign)).await.is(403, &forbidden());
    member.delete(&path(&own)).await.ok(204);
    // One who only reads any longer rotates nothing.
    let kept = member.post(KEYS, &new(json!({}))).await.ok(201);
    owner.patch("/api/v1/users/2", &json!({"role": "viewer"})).await.ok(200);
    member.post(&rotation(&kept), &json!({})).await.is(403, &forbidden());
    member.delete(&path(&kept)).await.is(403, &forbidden());
}

async fn members_see_the_usage_of_their_own_keys(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &["1"]).await;
    let usage = async || member.get("/api/v1/usage/own").await.ok(200);
    assert_eq!(usage().await["keys"], json!([]));
    let own = member.post(KEYS, &new(json!({"name": "mine"}))).await.ok(201);
    let key = server.with_key(own["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    key.execute(&trace, "Hi").await.ok(200);
    key.execute(&trace, "Hello").await.ok(200);
    server.key().execute(&server.key().trace().await, "Hi").await.ok(200);
    let all = crate::harness::until("the usage is recorded", async || {
        let keys = usage().await["keys"].clone();
        (keys[0]["requests"] == 2).then_some(keys)
    })
    .await;
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    assert_eq!((&all[0]["value"], &all[0]["name"]), (&own["id"], &json!("mine")));
    assert_eq!(all[0]["project_id"], 1);
    // The cost of a key stays when it is revoked.
    let before = usage().await;
    member.delete(&path(&own)).await.ok(204);
    assert_eq!(usage().await["keys"], before["keys"]);
    assert_eq!(before["cost"], all[0]["cost"]);
    assert_eq!(owner.get("/api/v1/usage/own").await.ok(200)["keys"], json!([]));
    member.get("/api/v1/usage/own?window=x").await.ok(400);
    // Of one project, or of all that the member sees.
    let made = owner.post("/api/v1/projects", &json!({"project": {"name": "other"}})).await;
    let other = made.ok(201)["id"].as_i64().unwrap();
    let of = async |caller: &Caller, project: &str| {
        caller.get(&format!("/api/v1/usage/own?project_id={project}")).await
    };
    of(&member, &other.to_string()).await.ok(404);
    of(&member, "one").await.says(400, "project_id must be a whole number");
    let joined = json!({"projects": [1, other]});
    owner.patch("/api/v1/users/2", &joined).await.ok(200);
    assert_eq!(of(&member, &other.to_string()).await.ok(200)["keys"], json!([]));
    let sandbox = json!({
        "name": "Sandbox", "identifier": "sandbox", "provider": "internal", "is_public": false,
        "base_url": "sandbox:", "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6,
    });
    let models = format!("/api/v1/projects/{other}/models");
    owner.post(&models, &json!({"model_definition": sandbox})).await.ok(201);
    let second = member.post(KEYS, &json!({"name": "second", "project_id": other})).await.ok(201);
    let key = server.with_key(second["raw_key"].as_str().unwrap());
    key.execute(&key.trace().await, "Hi").await.ok(200);
    let both = crate::harness::until("its usage is recorded", async || {
        let usage = usage().await;
        (usage["keys"].as_array().unwrap().len() == 2).then_some(usage)
    })
    .await;
    assert_eq!(both["keys"][1]["project_id"], other);
    assert_eq!(both["partial"], false);
    let cost = |keys: &Value| keys[0]["cost"].as_f64().unwrap();
    for (project, keys) in [(1, json!([both["keys"][0]])), (other, json!([both["keys"][1]]))] {
        let usage = of(&member, &project.to_string()).await.ok(200);
        assert_eq!((&usage["keys"], usage["cost"].as_f64()), (&keys, Some(cost(&keys))));
    }
}
