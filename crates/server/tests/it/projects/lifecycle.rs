//! Projects: made, changed, archived, deleted; their settings and names.

use serde_json::{Value, json};

use crate::harness::{Backend, Server, settings};
use crate::models::registry::{MODELS, add_model, gone, model, project};

crate::on_every_backend!(
    projects,
    names_are_not_blank,
    settings_merge_at_every_depth,
    bad_settings_are_named,
    all_faults_are_told_at_once,
    a_list_is_no_object,
    tiers_name_models_that_may_serve_them,
    an_archived_project_is_for_reading,
    a_deleted_project_is_gone
);

async fn projects(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    let new = json!({"name": "  Küche 🍳 ", "description": "Where it is hot"});
    let made = owner.post("/api/v1/projects", &project(new)).await.ok(201);
    assert_eq!(made["name"], "Küche 🍳");
    assert_eq!(made["description"], "Where it is hot");
    assert_eq!(made["status"], "active");
    assert_eq!(made["total_monthly_spend"], 0.0);
    let shadow = json!({"enabled": false, "model": null, "sample_rate": 1.0});
    assert_eq!(made["settings"], json!({"routing_tiers": {}, "shadow_model": shadow}));
    let path = format!("/api/v1/projects/{}", made["id"]);
    assert_eq!(owner.get(&path).await.ok(200), made);
    let change = json!({"name": "Kitchen", "description": null});
    let changed = owner.patch(&path, &project(change)).await.ok(200);
    assert_eq!(changed["name"], "Kitchen");
    assert!(changed["description"].is_null());
    let list = owner.get("/api/v1/projects").await.ok(200);
    assert_eq!(list[0]["name"], "Default");
    assert_eq!(list[1], changed);
    owner.patch(&path, &project(json!({"status": "closed"}))).await.says(422, "archived");
    owner.patch(&path, &project(json!({"status": null}))).await.says(422, "archived");
    owner.patch(&path, &project(json!({"settings": made["settings"]}))).await.ok(200);
    server.restart().await;
    assert_eq!(owner.get(&path).await.ok(200), changed);
    let deleted = owner.delete(&path).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    for path in [&*path, "/api/v1/projects/999", "/api/v1/projects/x", "/api/v1/projects/-1"] {
        owner.get(path).await.is(404, &gone());
        owner.delete(path).await.is(404, &gone());
        owner.patch(path, &project(json!({"name": "x"}))).await.is(404, &gone());
    }
}

async fn names_are_not_blank(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for name in [json!({}), json!({"name": ""}), json!({"name": " \t\n"}), json!({"name": null})] {
        owner.post("/api/v1/projects", &project(name.clone())).await.invalid("Name can't be blank");
    }
    for name in ["", " \t\n"] {
        let key = json!({"name": name, "project_id": 1});
        owner.post("/api/v1/keys", &key).await.invalid("Name can't be blank");
    }
    owner
        .patch("/api/v1/projects/1", &project(json!({"name": null})))
        .await
        .invalid("Name can't be blank");
    let unnamed = owner.post("/api/v1/keys", &json!({"project_id": 1})).await.ok(201);
    assert_eq!(unnamed["name"], "API key");
    let blank = json!({"name": " "});
    owner.patch("/api/v1/projects/1", &project(blank.clone())).await.invalid("Name can't be blank");
    owner.post(MODELS, &model(blank)).await.invalid("Name can't be blank");
    owner.post("/api/v1/projects", &project(json!({"name": "a\0b"}))).await.says(422, "Name");
    owner
        .post("/api/v1/projects", &project(json!({"name": "x".repeat(300)})))
        .await
        .says(422, "Name");
    let missing = json!({"error": "Missing required parameter: project"});
    owner.post("/api/v1/projects", &json!({"name": "x"})).await.is(400, &missing);
    let missing = json!({"error": "Missing required parameter: model_definition"});
    owner.post(MODELS, &json!({"name": "x"})).await.is(400, &missing);
    let all = ["Name can't be blank", "Identifier can't be blank", "Provider can't be blank"];
    let bare = owner.post(MODELS, &json!({"model_definition": {}})).await;
    bare.is(422, &json!({"error": all[0], "errors": all}));
    let missing = json!({"error": "Missing required parameter: project_id"});
    owner.post("/api/v1/keys", &json!({"name": "x"})).await.is(400, &missing);
}

async fn settings_merge_at_every_depth(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    let before = owner.get("/api/v1/projects/1").await.ok(200)["settings"].clone();
    assert_eq!(before["routing_tiers"]["simple"], "sandbox");
    settings(&owner, 1, json!({"own": {"a": {"b": 1, "list": [1, 2]}, "x": "y"}})).await;
    settings(&owner, 1, json!({"safety": {"block_threshold": 0.9}, "monthly_budget": 12.5})).await;
    let second =
        json!({"own": {"a": {"c": null, "list": [3]}}, "safety": {"pii": {"action": "flag"}}});
    let after = settings(&owner, 1, second).await["settings"].clone();
    assert_eq!(after["own"], json!({"a": {"b": 1, "list": [3], "c": null}, "x": "y"}));
    assert_eq!(after["safety"], json!({"block_threshold": 0.9, "pii": {"action": "flag"}}));
    assert_eq!(after["monthly_budget"], 12.5);
    assert_eq!(after["routing_tiers"], before["routing_tiers"]);
    server.restart().await;
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200)["settings"], after);
}

async fn bad_settings_are_named(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let before = owner.get("/api/v1/projects/1").await.ok(200);
    let rule = |pattern: &str| json!({"safety": {"rules": [{"name": "r", "pattern": pattern}]}});
    for (bad, key) in [
        (json!({"limits": {"requests_per_hour": "many"}}), "limits.requests_per_hour"),
        (json!({"limits": {"loop_requests": -1}}), "limits.loop_requests"),
        (json!({"limits": {"loop_window_seconds": 0}}), "limits.loop_window_seconds"),
        (json!({"limits": 5}), "limits"),
        (json!({"monthly_budget": -1}), "monthly_budget"),
        (json!({"monthly_budget": "1"}), "monthly_budget"),
        (json!({"safety": {"block_threshold": 1.5}}), "safety.block_threshold"),
        (json!({"safety": {"pii": {"action": "explode"}}}), "safety.pii.action"),
        (json!({"store_content": "no"}), "store_content"),
        (json!({"routing": {"complexity_threshold": 2}}), "routing.complexity_threshold"),
        (json!({"routing_tiers": {"medium": "sandbox"}}), "routing_tiers"),
        (json!({"routing_tiers": {"simple": 1}}), "routing_tiers.simple"),
        (json!({"perimeter": {"block": ["10.0.0.0/99"]}}), "perimeter.block"),
        (json!({"allowed_regions": "eu"}), "allowed_regions"),
        (json!({"shadow_model": {"sample_rate": 7}}), "shadow_model.sample_rate"),
        (json!({"limits": {"loop_window_seconds": 90_000}}), "limits.loop_window_seconds"),
        (json!({"safety": {"pii": {"entities": ["EMIAL"]}}}), "safety.pii.entities[0]"),
        (json!({"own": deep(40)}), "deep"),
        (rule("("), "pattern"),
        (rule(r"(a)\1"), "pattern"),
    ] {
        let reply = owner.patch("/api/v1/projects/1", &project(json!({"settings": bad}))).await;
        reply.says(422, key);
        assert!(!reply.json()["errors"].as_array().unwrap().is_empty());
    }
    let two = json!({"monthly_budget": -1, "store_content": 1, "own": {"kept": true}});
    let reply = owner.patch("/api/v1/projects/1", &project(json!({"settings": two.clone()}))).await;
    assert_eq!(reply.ok(422)["errors"].as_array().unwrap().len(), 2, "{}", reply.text);
    let three = json!({"name": "", "status": "closed", "settings": two});
    let reply = owner.patch("/api/v1/projects/1", &project(three)).await;
    assert_eq!(reply.ok(422)["errors"].as_array().unwrap().len(), 4, "{}", reply.text);
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200), before, "nothing was half done");
    let known = json!(["email_address", "IBAN", "badge"]);
    let badge = json!([{"name": "badge", "pattern": "B-[0-9]{6}"}]);
    settings(&owner, 1, json!({"safety": {"recognizers": badge, "pii": {"entities": known}}}))
        .await;
    let reply = owner.patch("/api/v1/projects/1", &project(json!({"settings": []}))).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
}

/// Objects in one another, so many.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"in": inner}))
}

async fn all_faults_are_told_at_once(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let faults = async |path: &str, body: Value| {
        let reply = owner.post(path, &body).await;
        reply.ok(422)["errors"].as_array().unwrap().len()
    };
    let bad = json!({"model_definition": {"name": "x".repeat(300), "identifier": " ",
        "provider": "mistral", "input_cost_per_1k": -1, "data_retention_days": 0,
        "region_restriction": "x".repeat(256), "api_key": "one\r\ntwo",
        "additional_config": {"infrastructure": "x".repeat(256), "own": deep(100)}}});
    assert_eq!(faults(MODELS, bad).await, 9);
    let bad = json!({"name": " ", "project_id": 1, "hourly_limit": -1, "expires_at": "soon"});
    assert_eq!(faults("/api/v1/keys", bad).await, 3);
    let never = json!({"name": "k", "project_id": 1, "expires_at": "9999-12-31T23:59:59Z"});
    let made = owner.post("/api/v1/keys", &never).await.ok(201);
    assert_eq!(made["expires_at"], "9999-12-31T23:59:59.000Z");
}

async fn a_list_is_no_object(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let trace = key.trace().await;
    for (by, method, path, body) in [
        (&owner, "POST", "/api/v1/projects", json!({"project": ["Sneaky", "desc"]})),
        (&owner, "PATCH", "/api/v1/projects/1", json!({"project": ["Renamed"]})),
        (&owner, "POST", MODELS, json!({"model_definition": ["n", "arr", "openai"]})),
        (&owner, "POST", MODELS, json!({"model_definition": null})),
        (
            &key,
            "POST",
            "/api/v1/executions",
            json!({"trace_id": trace, "input": "Hello.",
            "tool_results": [["a", "b"]]}),
        ),
        (
            &key,
            "POST",
            "/api/v1/chat/completions",
            json!({"trace_id": trace,
            "messages": [{"role": "user", "content": "Hello."}], "stream_options": [true]}),
        ),
    ] {
        by.send(method, path, Some(body.to_string().into_bytes()))
            .await
            .says(400, "expected an object");
    }
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200)["name"], "Default");
}

async fn tiers_name_models_that_may_serve_them(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let tier =
        |tier: &str, model: &str| project(json!({"settings": {"routing_tiers": {tier: model}}}));
    let path = "/api/v1/projects/1";
    let ghost = "Model not authorized or found: ghost";
    owner.patch(path, &tier("simple", "ghost")).await.invalid(ghost);
    let new = json!({"name": "x", "settings": {"routing_tiers": {"complex": "ghost"}}});
    owner.post("/api/v1/projects", &project(new)).await.invalid(ghost);
    assert_eq!(owner.get("/api/v1/projects").await.ok(200).as_array().unwrap().len(), 1);
    add_model(&owner, json!({"identifier": "public"})).await;
    add_model(&owner, json!({"identifier": "private", "is_public": false})).await;
    owner.patch(path, &tier("simple", "public")).await.ok(200);
    owner.patch(path, &tier("secure", "public")).await.says(422, "public");
    owner.patch(path, &tier("secure", "private")).await.ok(200);
}

async fn an_archived_project_is_for_reading(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let trace = key.trace().await;
    key.execute(&trace, "Hello.").await.ok(200);
    let status = async |status: &str| {
        owner.patch("/api/v1/projects/1", &project(json!({"status": status}))).await.ok(200)
    };
    assert_eq!(status("archived").await["status"], "archived");
    let messages = json!([{"role": "user", "content": "x"}]);
    for (path, body) in [
        ("traces", json!({})),
        ("executions", json!({"trace_id": trace, "input": "x"})),
        ("executions/stream", json!({"trace_id": trace, "input": "x"})),
        ("runs", json!({"trace_id": trace, "input": "x", "model": "sandbox"})),
        ("chat/completions", json!({"trace_id": trace, "messages": messages})),
        ("checks", json!({"trace_id": trace, "input": "x"})),
        ("logs", json!({"trace_id": trace, "output": {}})),
    ] {
        let reply = key.post(&format!("/api/v1/{path}"), &body).await;
        reply.invalid("Project is archived");
    }
    let path = format!("/api/v1/traces/{trace}/complete");
    key.send("PATCH", &path, None).await.invalid("Project is archived");
    assert_eq!(key.detail(&trace).await["steps"].as_array().unwrap().len(), 1);
    key.get("/api/v1/traces").await.ok(200);
    key.get("/api/v1/stats").await.ok(200);
    key.get("/api/v1/sdk/config").await.ok(200);
    assert_eq!(status("active").await["status"], "active");
    key.execute(&trace, "Hello again.").await.ok(200);
}

async fn a_deleted_project_is_gone(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = owner.post("/api/v1/projects", &project(json!({"name": "Short"}))).await.ok(201);
    let new = json!({"name": "k", "project_id": made["id"]});
    let raw = owner.post("/api/v1/keys", &new).await.ok(201);
    let key = server.with_key(raw["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    let path = format!("/api/v1/projects/{}", made["id"]);
    owner.delete(&path).await.ok(204);
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        owner.get(&path).await.is(404, &gone());
        owner.get(&format!("{path}/models")).await.is(404, &gone());
        owner.get(&format!("/api/v1/stats?project_id={}", made["id"])).await.is(404, &gone());
        key.get("/api/v1/traces").await.is(401, &json!({"error": "Unauthorized"}));
        let id = raw["id"].as_str().unwrap();
        assert!(!owner.get("/api/v1/keys").await.text.contains(id));
        owner.delete(&format!("/api/v1/keys/{id}")).await.is(404, &gone());
        server.key().get(&format!("/api/v1/traces/{trace}")).await.is(404, &gone());
    }
}
