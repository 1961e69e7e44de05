//! Requests for backtests: what is refused, and who sees one.

use serde_json::{Value, json};

use super::{BACKTESTS, ask, body, ended};
use crate::harness::{Backend, Server, settings};

crate::on_every_backend!(
    what_is_wrong_is_named,
    a_draft_is_refused_as_a_change_is,
    a_backtest_belongs_to_its_project,
    an_archived_project_has_none,
);

async fn what_is_wrong_is_named(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let with = async |more: Value| {
        let mut body = body(&json!({}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        owner.post(BACKTESTS, &body).await
    };
    for (missing, name) in
        [(json!({"from": "2026-11-21"}), "settings"), (json!({"settings": {}}), "from")]
    {
        let fault = format!("Missing required parameter: {name}");
        owner.post(BACKTESTS, &missing).await.is(400, &json!({"error": fault}));
    }
    for wrong in [
        json!({"settings": null}),
        json!({"settings": []}),
        json!({"settings": "strict"}),
        json!({"from": 5}),
        json!({"to": {}}),
    ] {
        assert_eq!(with(wrong.clone()).await.status, 400, "{wrong}");
    }
    let old = "2020-01-01";
    for (more, fault) in [
        (json!({"from": "soon"}), "from must be an ISO 8601 time such as 2026-11-21T12:00:00Z"),
        (json!({"to": "soon"}), "to must be an ISO 8601 time such as 2026-11-21T12:00:00Z"),
        (json!({"from": "2990-01-01"}), "from must be before to, and not in the future"),
        (json!({"from": old, "to": old}), "from must be before to, and not in the future"),
        (json!({"from": old}), "from must be at most 31 days before to"),
        (
            json!({"settings": {"prices": {"nobody": {"input_cost_per_1k": 1}}}}),
            "settings.prices.nobody is not registered: a price is for a model",
        ),
        (json!({"settings": {"prices": []}}), "settings.prices must be an object"),
        (
            json!({"settings": {"prices": {"sandbox": 5}}}),
            "settings.prices.sandbox must be an object",
        ),
        (
            json!({"settings": {"prices": {"sandbox": {"input_cost_per_1k": -1}}}}),
            "settings.prices.sandbox.input_cost_per_1k must be an amount in USD that is not negative",
        ),
        (
            json!({"settings": {"limits": {"hourly_limit": -1}}}),
            "settings.limits.hourly_limit must be an amount in USD that is not negative, or null",
        ),
    ] {
        with(more).await.invalid(fault);
    }
    let unknown = with(json!({"settings": {"prices": {"sandbox": {"per_token": 1}}}})).await;
    unknown.says(422, "settings.prices.sandbox.per_token is not known");
    let large = "x".repeat(1 << 20);
    assert_eq!(with(json!({"settings": {"note": large}})).await.status, 413);
    let text = owner.send("POST", BACKTESTS, Some(b"{".to_vec())).await;
    assert_eq!(text.status, 400);
    server.any.post(BACKTESTS, &body(&json!({}))).await.ok(401);
    for unknown in ["nonsense", "0199a7a4-0000-4000-8000-000000000000"] {
        assert_eq!(owner.get(&format!("{BACKTESTS}/{unknown}")).await.status, 404);
    }
}

async fn a_draft_is_refused_as_a_change_is(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let before = owner.get("/api/v1/projects/1").await.ok(200);
    for draft in [
        json!({"safety": {"block_threshold": 2}}),
        json!({"safety": {"rules": [{"name": "r", "pattern": "("}]}}),
        json!({"safety": {"rules": [{"pattern": "a", "action": "shout"}]}}),
        json!({"safety": {"pii": {"entities": ["NOBODY"]}}}),
        json!({"safety": {"rules": [{"name": "slow", "pattern": "(a{1,50}){1,50}b"}]}}),
        json!({"routing": {"complexity_threshold": "high"}}),
        json!({"routing_tiers": {"simple": "nobody"}}),
        json!({"routing_tiers": {"other": "sandbox"}}),
        json!({"limits": {"requests_per_hour": -1}}),
        json!({"limits": {"loop_window_seconds": 86_401}}),
        json!({"monthly_budget": -5, "limits": []}),
        json!({"model_aliases": {"a": "nobody"}}),
        json!({"shadow_model": {"enabled": true}}),
        json!({"mcp": {"allowed_servers": ["nonsense"]}}),
    ] {
        let change = json!({"project": {"settings": draft}});
        let saved = owner.patch("/api/v1/projects/1", &change).await;
        let tried = owner.post(BACKTESTS, &body(&draft)).await;
        assert_eq!(saved.status, 422, "{draft}: {}", saved.text);
        assert_eq!((tried.status, &tried.text), (422, &saved.text), "{draft}");
    }
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200), before);
}

async fn a_backtest_belongs_to_its_project(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let job = ask(&owner, &json!({})).await;
    ended(&owner, &job).await;
    let made = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await.ok(201);
    let other = format!("/api/v1/projects/{}/backtests", made["id"]);
    assert_eq!(owner.get(&format!("{other}/{job}")).await.status, 404);
    assert_eq!(owner.post("/api/v1/projects/999/backtests", &body(&json!({}))).await.status, 404);
    for (role, project, may_read) in [("viewer", Some("1"), 200), ("member", None, 404)] {
        let address = format!("{role}@acme.org");
        let mut args = vec!["user", "create", &address, "--role", role];
        args.extend(project.iter().flat_map(|project| ["--project", project]));
        let made = server.cli(&args, &[("SLUICE_USER_PASSWORD", "password-1")]).await;
        assert!(made.status.success(), "{made:?}");
        let user = server.session(&address, "password-1").await;
        assert_eq!(user.get(&format!("{BACKTESTS}/{job}")).await.status, may_read, "{role}");
        let asked = user.post(BACKTESTS, &body(&json!({}))).await;
        assert_eq!(asked.status, if project.is_some() { 403 } else { 404 }, "{role}");
    }
}

async fn an_archived_project_has_none(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    settings(&owner, 1, json!({})).await;
    let archived = json!({"project": {"status": "archived"}});
    owner.patch("/api/v1/projects/1", &archived).await.ok(200);
    owner.post(BACKTESTS, &body(&json!({}))).await.invalid("Project is archived");
}
