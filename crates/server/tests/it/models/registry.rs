//! The model registry: what may be registered, and what is never shown or called.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, Setup, settings};

crate::on_every_backend!(
    models,
    list_prices_hold_those_of_the_cache,
    two_changes_at_once,
    models_that_make_no_sense,
    addresses_that_are_never_called,
    a_provider_key_is_never_shown,
    a_new_address_drops_the_provider_key,
    a_model_that_settings_name_keeps_its_name_and_can_go,
);

pub fn gone() -> Value {
    json!({"error": "Not found"})
}

pub fn project(fields: Value) -> Value {
    json!({"project": fields})
}

pub fn model(fields: Value) -> Value {
    let mut all = json!({"name": "M", "identifier": "m", "provider": "openai"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"model_definition": all})
}

pub const MODELS: &str = "/api/v1/projects/1/models";

pub async fn add_model(owner: &Caller, fields: Value) -> Value {
    owner.post(MODELS, &model(fields)).await.ok(201)["model_definition"].clone()
}

async fn models(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = owner.post(MODELS, &model(json!({}))).await.ok(201);
    assert_eq!(made.as_object().unwrap().len(), 1, "wrapped: {made}");
    let fields = &made["model_definition"];
    for (field, value) in [
        ("data_retention_days", json!(30)),
        ("region_restriction", json!("global")),
        ("currency", json!("CAD")),
        ("is_public", json!(true)),
        ("has_api_key", json!(false)),
        ("fallback_identifier", json!(null)),
        ("additional_config", json!({})),
    ] {
        assert_eq!(fields[field], value, "{field}");
    }
    let path = format!("{MODELS}/{}", fields["id"]);
    assert_eq!(owner.get(&path).await.ok(200), made);
    let config = json!({"fallback_identifier": "sandbox", "infrastructure": "vpc", "own": [1]});
    let change = json!({"model_definition": {"name": "New", "input_cost_per_1k": 0.000_15,
        "output_cost_per_1k": 1.25, "data_retention_days": 7, "currency": "USD",
        "region_restriction": "eu", "is_public": false, "additional_config": config}});
    let changed = owner.patch(&path, &change).await.ok(200);
    for (field, value) in change["model_definition"].as_object().unwrap() {
        assert_eq!(&changed["model_definition"][field], value, "{field}");
    }
    assert_eq!(changed["model_definition"]["fallback_identifier"], "sandbox");
    assert_eq!(changed["model_definition"]["identifier"], "m");
    let list = owner.get(MODELS).await.ok(200);
    assert_eq!(list[1], changed);
    for (alias, name) in
        [("google", "gemini"), ("azure_openai", "azure"), ("aws_bedrock", "bedrock")]
    {
        let url = "https://models.example.com";
        let fields = json!({"identifier": alias, "provider": alias, "base_url": url});
        assert_eq!(add_model(&owner, fields).await["provider"], name);
    }
    server.restart().await;
    assert_eq!(owner.get(&path).await.ok(200), changed);
    assert_eq!(owner.delete(&path).await.ok(204), Value::Null);
    owner.get(&path).await.is(404, &gone());
    owner.patch(&path, &change).await.is(404, &gone());
    owner.get(&format!("{MODELS}/x")).await.is(404, &gone());
    let key = server.key();
    let ask = json!({"trace_id": key.trace().await, "model": "m", "input": "x"});
    key.post("/api/v1/runs", &ask).await.invalid("Model not authorized or found: m");
    add_model(&owner, json!({})).await;
}

/// Each change leaves alone what it does not name, whatever another one does meanwhile.
async fn list_prices_hold_those_of_the_cache(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let fields = |more: Value| {
        let mut all = json!({"identifier": "claude-sonnet-4-5", "provider": "anthropic"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let shown = |model: &Value| {
        ["input", "cached_input", "cache_write", "cache_write_1h"]
            .map(|price| model[format!("{price}_cost_per_1k")].clone())
    };
    let listed = add_model(&owner, fields(json!({}))).await;
    assert_eq!(json!(shown(&listed)), json!([0.003, 0.0003, 0.00375, 0.006]));
    assert_eq!(listed["additional_config"], json!({}));
    let path = format!("{MODELS}/{}", listed["id"]);
    for (change, prices) in [
        (json!({"input_cost_per_1k": 1.0}), [1.0, 1.0, 1.0, 2.0]),
        (json!({"additional_config": {"cache_write_cost_per_1k": 2.0}}), [1.0, 1.0, 2.0, 3.2]),
        (json!({"additional_config": {"cache_write_1h_cost_per_1k": 5.0}}), [1.0, 1.0, 1.0, 5.0]),
    ] {
        let changed = owner.patch(&path, &json!({"model_definition": change})).await.ok(200);
        assert_eq!(json!(shown(&changed["model_definition"])), json!(prices), "{change}");
    }
}

async fn two_changes_at_once(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = add_model(&owner, json!({})).await;
    let path = format!("{MODELS}/{}", made["id"]);
    for days in 1..=20 {
        let region = format!("region-{days}");
        let one = json!({"model_definition": {"data_retention_days": days}});
        let other = json!({"model_definition": {"region_restriction": region}});
        let (one, other) = tokio::join!(owner.patch(&path, &one), owner.patch(&path, &other));
        one.ok(200);
        other.ok(200);
        let model = owner.get(&path).await.ok(200)["model_definition"].clone();
        assert_eq!(model["data_retention_days"], days);
        assert_eq!(model["region_restriction"], region);
    }
}

async fn models_that_make_no_sense(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for (fields, part) in [
        (json!({"provider": "acme"}), "openai, anthropic, gemini, bedrock, azure, internal"),
        (json!({"provider": "OpenAI"}), "openai, anthropic, gemini, bedrock, azure, internal"),
        (json!({"provider": "internal"}), "ase"),
        (json!({"provider": "azure"}), "ase"),
        (json!({"identifier": " "}), "Identifier"),
        (json!({"input_cost_per_1k": -0.1}), "input_cost_per_1k"),
        (json!({"output_cost_per_1k": -1}), "output_cost_per_1k"),
        (json!({"data_retention_days": 0}), "data_retention_days"),
        (json!({"currency": "EURO"}), "urrency"),
        (json!({"base_url": "ftp://example.com"}), "http"),
        (json!({"base_url": "nonsense"}), "URL"),
        (json!({"base_url": "https://user:pw@example.com/v1"}), "password"),
        (json!({"additional_config": {"timeout_ms": "long"}}), "timeout_ms"),
        (json!({"additional_config": {"timeout_ms": 1e10}}), "from 1 to 100,000,000"),
        (
            json!({"provider": "bedrock", "additional_config": {"region": ""}}),
            "additional_config.region",
        ),
        (
            json!({"provider": "azure", "additional_config": {"api_version": 5}}),
            "additional_config.api_version",
        ),
        (
            json!({"provider": "azure", "additional_config": {"deployment": "a/b"}}),
            "additional_config.deployment",
        ),
        (
            json!({"additional_config": {"cached_input_cost_per_1k": -1}}),
            "cached_input_cost_per_1k",
        ),
        (
            json!({"additional_config": {"cache_write_1h_cost_per_1k": "2"}}),
            "cache_write_1h_cost_per_1k",
        ),
    ] {
        owner.post(MODELS, &model(fields)).await.says(422, part);
    }
    add_model(&owner, json!({})).await;
    let taken = "Identifier has already been taken";
    owner.post(MODELS, &model(json!({"name": "Other"}))).await.invalid(taken);
    let other = add_model(&owner, json!({"identifier": "other"})).await;
    let rename = json!({"model_definition": {"identifier": "m"}});
    owner.patch(&format!("{MODELS}/{}", other["id"]), &rename).await.invalid(taken);
    let made = owner.post("/api/v1/projects", &project(json!({"name": "x"}))).await.ok(201);
    let elsewhere = format!("/api/v1/projects/{}/models", made["id"]);
    owner.post(&elsewhere, &model(json!({}))).await.ok(201);
    owner.get(&format!("{elsewhere}/{}", other["id"])).await.is(404, &gone());
    assert_eq!(owner.get(MODELS).await.ok(200).as_array().unwrap().len(), 3);
}

async fn addresses_that_are_never_called(backend: Backend) {
    let allow = "169.254.169.254,metadata.google.internal,127.0.0.2";
    let server = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", allow).start().await;
    let owner = server.owner().await;
    for host in [
        "169.254.169.254",
        "169.254.1.1",
        "2852039166",
        "0xa9fea9fe",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "METADATA.google.internal.",
    ] {
        for is_public in [false, true] {
            let url = format!("http://{host}/v1");
            let fields = json!({"base_url": url, "is_public": is_public});
            let reply = owner.post(MODELS, &model(fields)).await;
            reply.says(422, "Base url is not allowed");
        }
    }
    for host in ["127.0.0.1", "10.1.2.3", "192.168.0.1", "[::1]", "0.0.0.0"] {
        let fields = json!({"base_url": format!("https://{host}/v1")});
        owner.post(MODELS, &model(fields)).await.says(422, "Base url is not allowed");
    }
    add_model(&owner, json!({"identifier": "a", "base_url": "http://127.0.0.2:1/v1"})).await;
    let private = json!({"identifier": "b", "base_url": "http://10.1.2.3/v1", "is_public": false});
    let id = add_model(&owner, private).await["id"].clone();
    let public = json!({"model_definition": {"is_public": true}});
    owner.patch(&format!("{MODELS}/{id}"), &public).await.says(422, "Base url is not allowed");
    // A name is judged by the address it turns out to have, before anything is sent to it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    owner.post(MODELS, &model(json!({"identifier": "name", "base_url": url}))).await;
    let key = server.key();
    let ask = json!({"trace_id": key.trace().await, "model": "name", "input": "Hello."});
    assert_ne!(key.post("/api/v1/runs", &ask).await.status, 200);
    assert!(listener.accept().is_err(), "it was called");
}

pub const CANARY: &str = "sk-canary-0123456789abcdef0123456789abcdef";

async fn a_provider_key_is_never_shown(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let server = setup.env("SLUICE_LOG", "debug").start().await;
    let owner = server.owner().await;
    let mock = Mock::always(Answer::text("Fine.")).await;
    let with_key = json!({"api_key": CANARY, "is_public": false});
    let made = mock.register_with(&owner, "keyed", with_key).await;
    assert_eq!(made["has_api_key"], true);
    assert!(made.get("api_key").is_none());
    let path = format!("{MODELS}/{}", made["id"]);
    let rename = json!({"model_definition": {"name": "Renamed"}});
    let key = server.key();
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": "keyed", "input": "Hello."});
    key.post("/api/v1/runs", &ask).await.ok(200);
    assert_eq!(mock.requests()[0].headers["authorization"], format!("Bearer {CANARY}"));
    for reply in [
        owner.patch(&path, &rename).await,
        owner.get(&path).await,
        owner.get(MODELS).await,
        owner.get("/api/v1/audit-events").await,
        key.get(&format!("/api/v1/traces/{trace}")).await,
    ] {
        reply.ok(200);
        assert!(!reply.text.contains("canary"), "{}", reply.text);
    }
    assert_eq!(owner.get(&path).await.ok(200)["model_definition"]["has_api_key"], true);
    let doctor = server.cli(&["doctor"], &[]).await;
    let said = [doctor.stdout, doctor.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains("canary"));
    assert!(!server.log().contains("canary"));
    let stored = server.stored();
    assert!(!stored.windows(9).any(|bytes| bytes == b"sk-canary"), "it is stored as it is");
    assert!(!stored.windows(6).any(|bytes| bytes == b"Hello."), "so is a prompt");
}

async fn a_new_address_drops_the_provider_key(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let id = add_model(&owner, json!({"api_key": CANARY})).await["id"].clone();
    let path = format!("{MODELS}/{id}");
    let change = async |fields: Value| {
        let body = json!({"model_definition": fields});
        owner.patch(&path, &body).await.ok(200)["model_definition"]["has_api_key"].clone()
    };
    assert_eq!(change(json!({"name": "Same place"})).await, true);
    assert_eq!(change(json!({"base_url": "https://elsewhere.example/v1"})).await, false);
    let events = owner.get("/api/v1/audit-events?event=model_updated").await.ok(200);
    assert!(events[0]["metadata"].to_string().contains("api_key"), "{}", events[0]);
    let both = json!({"base_url": "https://third.example/v1", "api_key": CANARY});
    assert_eq!(change(both).await, true);
    // One credential in the place of another is a change, though both are set.
    let endpoints = json!([{"base_url": "https://fourth.example/v1", "api_key": CANARY}]);
    let endpoints = json!({"additional_config": {"endpoints": endpoints}});
    change(endpoints.clone()).await;
    for fields in [json!({"api_key": "sk-another"}), endpoints] {
        change(fields).await;
        let events = owner.get("/api/v1/audit-events?event=model_updated").await.ok(200);
        let changes = events[0]["metadata"]["changes"].as_object().unwrap().clone();
        let (field, told) = changes.iter().next().unwrap();
        assert!(field.ends_with("api_key") && changes.len() == 1, "{changes:?}");
        assert_eq!(*told, json!({"old": "set", "new": "set"}));
    }
    assert_eq!(change(json!({"base_url": "https://third.example/v1"})).await, true);
    assert_eq!(change(json!({"provider": "anthropic"})).await, false);
    assert_eq!(change(json!({"api_key": CANARY})).await, true);
    assert_eq!(change(json!({"api_key": null})).await, false);
}

async fn a_model_that_settings_name_keeps_its_name_and_can_go(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let id = add_model(&owner, json!({})).await["id"].clone();
    add_model(&owner, json!({"identifier": "other"})).await;
    let path = format!("{MODELS}/{id}");
    let rename = json!({"model_definition": {"identifier": "renamed"}});
    let used =
        |places: &str| format!("Identifier m is named by {places}: name another model there first");
    let named = json!({"routing_tiers": {"simple": "m", "complex": "m"},
        "shadow_model": {"enabled": false, "model": "m"}});
    settings(&owner, 1, named).await;
    let all = used(
        "settings.routing_tiers.simple, settings.routing_tiers.complex, settings.shadow_model.model",
    );
    owner.patch(&path, &rename).await.invalid(&all);
    let same = json!({"model_definition": {"identifier": "m", "name": "Same identifier"}});
    owner.patch(&path, &same).await.ok(200);
    settings(&owner, 1, json!({"routing_tiers": {"simple": "other"}, "shadow_model": null})).await;
    owner.patch(&path, &rename).await.invalid(&used("settings.routing_tiers.complex"));
    owner.delete(&path).await.ok(204);
    let events = owner.get("/api/v1/audit-events?event=model_deleted").await.ok(200);
    assert_eq!(events[0]["metadata"]["named_by"], json!(["settings.routing_tiers.complex"]));
    // The other settings can still be set, and the tier can be mended.
    settings(&owner, 1, json!({"monthly_budget": 5})).await;
    settings(&owner, 1, json!({"routing_tiers": {"complex": "other"}})).await;
}
