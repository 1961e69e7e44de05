//! Several endpoints under one identifier: who is called, with which credential, and who steps in.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, Setup, settings};

crate::on_every_backend!(
    shares_follow_the_weights,
    the_others_answer_for_a_dead_one,
    one_that_hangs_leaves_time_for_the_others,
    what_may_have_been_charged_has_its_own_money,
    a_fallback_has_its_own_money,
    a_refused_request_is_not_tried_elsewhere,
    another_model_comes_after_the_last_endpoint,
    regions_choose_among_endpoints,
    an_endpoint_is_in_its_own_region,
    credentials_are_kept_and_never_shown,
    a_credential_stays_with_its_address,
    the_models_own_credential_stays_at_its_address,
    endpoints_that_make_no_sense,
    the_doctor_visits_each,
);

const MODELS: &str = "/api/v1/projects/1/models";

/// Registers a private model with these endpoints.
async fn register(owner: &Caller, identifier: &str, endpoints: Value) -> Value {
    let fields = json!({
        "name": identifier, "identifier": identifier, "provider": "openai", "is_public": false,
        "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6,
        "additional_config": {"endpoints": endpoints},
    });
    let body = json!({"model_definition": fields});
    owner.post(MODELS, &body).await.ok(201)["model_definition"].clone()
}

/// Changes a model and gives its endpoints.
async fn change(owner: &Caller, model: &Value, fields: Value) -> Value {
    let path = format!("{MODELS}/{}", model["id"]);
    let body = json!({"model_definition": fields});
    let model = owner.patch(&path, &body).await.ok(200)["model_definition"].clone();
    model["additional_config"]["endpoints"].clone()
}

fn ask(trace: &str, model: &str) -> Value {
    json!({"trace_id": trace, "model": model, "input": "Hello."})
}

/// An address where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://127.0.0.1:{}/v1", listener.local_addr().unwrap().port())
}

async fn shares_follow_the_weights(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (mut mocks, mut endpoints) = (Vec::new(), Vec::new());
    for weight in [6.0, 3.0, 1.0] {
        let mock = Mock::always(Answer::text("Fine.")).await;
        let secret = format!("key-of-weight-{weight}");
        endpoints.push(json!({"base_url": mock.url(), "api_key": secret, "weight": weight}));
        mocks.push((mock, weight, secret));
    }
    register(&owner, "m", endpoints.into()).await;
    let trace = key.trace().await;
    for _ in 0..200 {
        key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    }
    assert_eq!(mocks.iter().map(|(mock, ..)| mock.begun()).sum::<usize>(), 200);
    for (mock, weight, secret) in mocks {
        // The choice is the same in each run: this is no bet.
        let (share, expected) = (mock.begun() as f64 / 200.0, weight / 10.0);
        assert!((share - expected).abs() < 0.08, "{share} instead of {expected}");
        let bearer = format!("Bearer {secret}");
        assert!(mock.requests().iter().all(|asked| asked.headers["authorization"] == bearer));
    }
}

async fn the_others_answer_for_a_dead_one(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let broken = Mock::always(Answer::json(500, &json!({}))).await;
    let busy = Mock::always(Answer::json(429, &json!({"error": {"message": "wait"}}))).await;
    let wrong = Mock::always(Answer::json(401, &json!({"error": {"message": "key"}}))).await;
    let cut = Mock::always(Answer::Truncated).await;
    let well = [0; 2].map(|_| Mock::always(Answer::text("Still here.")));
    let [one, other] = well;
    let (one, other) = (one.await, other.await);
    let mut endpoints = vec![json!({"base_url": nobody()})];
    endpoints
        .extend([&broken, &busy, &wrong, &cut, &one].map(|mock| json!({"base_url": mock.url()})));
    endpoints.push(json!({"base_url": other.url(), "weight": 3}));
    register(&owner, "m", endpoints.into()).await;
    let trace = key.trace().await;
    for _ in 0..50 {
        let done = key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
        assert_eq!(done["output"], "Still here.");
    }
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let streamed = json!({"trace_id": trace, "model": "m", "messages": messages, "stream": true});
    for _ in 0..10 {
        let chunks = key.post("/api/v1/chat/completions", &streamed).await.chunks();
        let said = |chunk: &Value| chunk["choices"][0]["delta"]["content"] == "Still here.";
        assert!(chunks.iter().any(said), "{chunks:?}");
    }
    for dead in [&broken, &busy] {
        assert_eq!(dead.begun(), 5, "its own circuit is open");
    }
    assert!(wrong.begun() > 5, "a wrong credential opens none");
    assert!(one.begun() > 5 && other.begun() > one.begun());
    assert_eq!(one.begun() + other.begun(), 60);
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 60);
    assert!(steps.iter().all(|step| step["status"] == "completed"), "{detail}");
}

async fn one_that_hangs_leaves_time_for_the_others(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let hangs = Mock::start(Duration::from_mins(10), None, |_| Answer::text("Late.")).await;
    let well = Mock::always(Answer::text("Fine.")).await;
    // One is called before the other, as good as always.
    let endpoints = json!([{"base_url": hangs.url(), "weight": 1e9}, {"base_url": well.url()}]);
    let model = register(&owner, "m", endpoints.clone()).await;
    let config = json!({"endpoints": endpoints, "timeout_ms": 1000});
    change(&owner, &model, json!({"additional_config": config})).await;
    let trace = key.trace().await;
    for streams in [false, true] {
        let messages = json!([{"role": "user", "content": "Hello."}]);
        let ask = json!({"trace_id": trace, "model": "m", "messages": messages, "stream": streams});
        let reply = key.post("/api/v1/chat/completions", &ask).await;
        assert!(reply.status == 200 && reply.text.contains("Fine."), "{}", reply.text);
    }
    assert_eq!((hangs.begun(), well.begun()), (2, 2));
}

/// An attempt that broke off after it was sent may have been charged. If the call goes on to
/// another endpoint, there is money for both, and its cost includes what both may have cost.
async fn what_may_have_been_charged_has_its_own_money(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let cut = Mock::always(Answer::Truncated).await;
    let well = Mock::always(Answer::text("Fine.")).await;
    // One is called before the other, as good as always.
    let endpoints = json!([{"base_url": cut.url(), "weight": 1e9}, {"base_url": well.url()}]);
    register(&owner, "m", endpoints).await;
    let with_cap = async |cap: f64| {
        let key = json!({"name": "capped", "project_id": 1, "hourly_limit": cap});
        let made = owner.post("/api/v1/keys", &key).await.ok(201);
        server.with_key(made["raw_key"].as_str().unwrap())
    };
    // A completion of 1,000 tokens costs 0.6 USD.
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = async |key: &Caller| {
        let trace = key.trace().await;
        let ask = json!({"trace_id": trace, "model": "m", "messages": messages,
            "max_tokens": 1000});
        (key.post("/api/v1/chat/completions", &ask).await, trace)
    };
    let (poor, rich) = (with_cap(1.0).await, with_cap(2.0).await);
    let (reply, _) = ask(&poor).await;
    assert_eq!(reply.status, 502, "{}", reply.text);
    assert_eq!((cut.begun(), well.begun()), (1, 0), "there was money for one attempt");
    let (reply, trace) = ask(&rich).await;
    reply.ok(200);
    assert_eq!((cut.begun(), well.begun()), (2, 1));
    let step = only_step(&rich, &trace).await;
    assert_eq!((&step["status"], &step["cost_estimated"]), (&json!("completed"), &json!(true)));
    // 10 and 5 tokens, and the 10 of the prompt once more.
    assert_eq!(step["cost"], 0.006, "{step}");
    assert_eq!((&step["prompt_tokens"], &step["completion_tokens"]), (&json!(10), &json!(5)));
    // Nothing is set aside any more: as much fits as before, but for what was spent.
    ask(&rich).await.0.ok(200);
}

/// Money for a model that may have charged stays set aside while its fallback is called, whether its
/// answer was cut off or is of no use.
async fn a_fallback_has_its_own_money(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let well = Mock::always(Answer::text("Fine.")).await;
    well.register(&owner, "well").await;
    let useless = Answer::Body(200, "application/json", "{}".to_owned());
    let page = Answer::Body(200, "text/html", "<html>Welcome</html>".to_owned());
    for (name, answer, poor) in
        [("cut", Answer::Truncated, 429), ("useless", useless, 429), ("page", page, 200)]
    {
        let bad = Mock::always(answer).await;
        let config = json!({"fallback_identifier": "well"});
        let fallback = json!({"is_public": false, "additional_config": config});
        bad.register_with(&owner, name, fallback).await;
        // A completion of 1,000 tokens costs 0.6 USD.
        for (cap, status) in [(1.0, poor), (2.0, 200)] {
            let key = json!({"name": "capped", "project_id": 1, "hourly_limit": cap});
            let made = owner.post("/api/v1/keys", &key).await.ok(201);
            let key = server.with_key(made["raw_key"].as_str().unwrap());
            let mut ask = json!({"trace_id": key.trace().await, "model": name, "max_tokens": 1000,
                "messages": [{"role": "user", "content": "Hello."}]});
            let reply = key.post("/api/v1/chat/completions", &ask).await;
            assert_eq!(reply.status, status, "{name} {cap}: {}", reply.text);
            // Nothing stays set aside.
            ask["model"] = "well".into();
            key.post("/api/v1/chat/completions", &ask).await.ok(200);
        }
    }
}

/// The one step of a trace.
async fn only_step(key: &Caller, trace: &str) -> Value {
    let detail = key.detail(trace).await;
    assert_eq!(detail["steps"].as_array().unwrap().len(), 1, "{detail}");
    detail["steps"][0].clone()
}

async fn a_refused_request_is_not_tried_elsewhere(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let refusal = json!({"error": {"message": "Your prompt is odd."}});
    let strict = Mock::always(Answer::json(400, &refusal)).await;
    let lenient = Mock::always(Answer::text("Fine.")).await;
    let endpoints = [&strict, &lenient].map(|mock| json!({"base_url": mock.url()}));
    register(&owner, "m", json!(endpoints)).await;
    let trace = key.trace().await;
    let mut refused = 0;
    for _ in 0..20 {
        let reply = key.post("/api/v1/runs", &ask(&trace, "m")).await;
        if reply.status != 200 {
            reply.says(502, "Your prompt is odd.");
            refused += 1;
        }
    }
    assert_eq!(strict.begun(), refused, "and it opens no circuit");
    assert!(refused > 5 && strict.begun() + lenient.begun() == 20, "{refused}");
}

async fn another_model_comes_after_the_last_endpoint(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let down = Mock::always(Answer::json(503, &json!({}))).await;
    let down_too = Mock::always(Answer::json(503, &json!({}))).await;
    let well = Mock::always(Answer::text("I stepped in.")).await;
    well.register(&owner, "second").await;
    let endpoints = [&down, &down_too].map(|mock| json!({"base_url": mock.url()}));
    let first = register(&owner, "first", json!(endpoints)).await;
    let config = json!({"endpoints": endpoints, "fallback_identifier": "second"});
    change(&owner, &first, json!({"additional_config": config})).await;
    let tiers = json!({"simple": "first", "complex": "first", "secure": "first"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let trace = key.trace().await;
    assert_eq!(key.execute(&trace, "Hello.").await.ok(200)["model"], "second");
    assert_eq!((down.begun(), down_too.begun()), (1, 1), "each once");
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "one step a model: {detail}");
    assert_eq!((&steps[0]["model"], &steps[0]["status"]), (&json!("first"), &json!("failed")));
    // The time of a call is for all its endpoints together.
    let slow = Mock::start(Duration::from_mins(10), None, |_| Answer::text("Late.")).await;
    let slow = [&slow, &slow].map(|mock| json!({"base_url": mock.url()}));
    let config = json!({"endpoints": slow, "fallback_identifier": "second", "timeout_ms": 300});
    change(&owner, &first, json!({"additional_config": config})).await;
    assert_eq!(key.execute(&trace, "Hello again.").await.ok(200)["model"], "second");
}

/// A signature for a region is of use in no other.
async fn an_endpoint_is_in_its_own_region(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let [eu, own] = [0; 2].map(|_| Mock::always(Answer::text("Of another format.")));
    let (eu, own) = (eu.await, own.await);
    let fields = json!({
        "name": "m", "identifier": "m", "provider": "bedrock", "is_public": false,
        "api_key": "AKIAEXAMPLE0000001:secret",
        "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6,
        "additional_config": {"region": "us-east-1", "endpoints": [
            {"base_url": eu.url(), "api_key": "AKIAEXAMPLE0000002:secret", "region": "eu-west-1"},
            {"base_url": own.url(), "api_key": "AKIAEXAMPLE0000003:secret", "region": "here"},
        ]},
    });
    owner.post(MODELS, &json!({"model_definition": fields})).await.ok(201);
    let trace = key.trace().await;
    for (allowed, mock, region) in [("eu-west-1", &eu, "eu-west-1"), ("here", &own, "us-east-1")] {
        settings(&owner, 1, json!({"allowed_regions": [allowed]})).await;
        assert_eq!(key.post("/api/v1/runs", &ask(&trace, "m")).await.status, 502);
        let signed = mock.requests()[0].headers["authorization"].clone();
        assert!(signed.contains(&format!("/{region}/bedrock/")), "{signed}");
    }
}

async fn regions_choose_among_endpoints(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let [eu, us, own] = [0; 3].map(|_| Mock::always(Answer::text("Fine.")));
    let (eu, us, own) = (eu.await, us.await, own.await);
    let endpoints = json!([
        {"base_url": eu.url(), "region": "eu"},
        {"base_url": us.url(), "region": "us", "weight": 50},
        {"base_url": own.url(), "weight": 50},
    ]);
    let model = register(&owner, "m", endpoints).await;
    change(&owner, &model, json!({"region_restriction": "ca"})).await;
    let trace = key.trace().await;
    settings(&owner, 1, json!({"allowed_regions": ["eu"]})).await;
    for _ in 0..10 {
        key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    }
    assert_eq!((eu.begun(), us.begun(), own.begun()), (10, 0, 0));
    settings(&owner, 1, json!({"allowed_regions": ["ca"]})).await;
    key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    assert_eq!(own.begun(), 1, "an endpoint without a region has the model's");
    settings(&owner, 1, json!({"allowed_regions": ["au"]})).await;
    key.post("/api/v1/runs", &ask(&trace, "m")).await.says(422, "region is not allowed");
    settings(&owner, 1, json!({"allowed_regions": null})).await;
    for _ in 0..10 {
        key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    }
    assert!(us.begun() > 0);
}

/// How many of the stored bytes are a credential's.
fn canaries(server: &Server) -> usize {
    server.stored().windows(10).filter(|bytes| bytes == b"key-canary").count()
}

async fn credentials_are_kept_and_never_shown(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let mut server = setup.env("SLUICE_LOG", "debug").start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let broken = Mock::always(Answer::json(500, &json!({"error": {"message": "key-canary-one"}})));
    let (broken, well) = (broken.await, Mock::always(Answer::text("Fine.")).await);
    let endpoints = json!([
        {"base_url": broken.url(), "api_key": "key-canary-one"},
        {"base_url": well.url(), "api_key": "key-canary-two", "weight": 2, "region": "eu"},
        {"base_url": well.url(), "api_key": "key-canary-three"},
        {"base_url": well.url()},
    ]);
    let made = register(&owner, "m", endpoints).await;
    let shown = json!([
        {"base_url": broken.url(), "has_api_key": true},
        {"base_url": well.url(), "has_api_key": true, "weight": 2, "region": "eu"},
        {"base_url": well.url(), "has_api_key": true},
        {"base_url": well.url(), "has_api_key": false},
    ]);
    assert_eq!(made["additional_config"]["endpoints"], shown);
    assert_eq!(made["has_api_key"], false);
    // Endpoints can be sent back as shown: each keeps its own.
    let back = json!({"additional_config": {"endpoints": shown}});
    assert_eq!(change(&owner, &made, back).await, shown);
    assert_eq!(change(&owner, &made, json!({"name": "Renamed"})).await, shown);
    server.restart().await;
    let owner = server.owner().await;
    let trace = key.trace().await;
    for _ in 0..30 {
        key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    }
    let sent = |mock: &Mock| {
        let asked = mock.requests();
        let mut sent: Vec<_> =
            asked.iter().map(|asked| asked.headers.get("authorization").cloned()).collect();
        sent.sort();
        sent.dedup();
        sent
    };
    let bearer = |key: &str| Some(format!("Bearer {key}"));
    assert_eq!(sent(&broken), [bearer("key-canary-one")]);
    assert_eq!(sent(&well), [None, bearer("key-canary-three"), bearer("key-canary-two")]);
    for reply in [
        owner.get(MODELS).await,
        owner.get(&format!("{MODELS}/{}", made["id"])).await,
        owner.get("/api/v1/audit-events").await,
        key.get("/api/v1/models").await,
        key.get(&format!("/api/v1/traces/{trace}")).await,
    ] {
        reply.ok(200);
        assert!(!reply.text.contains("canary"), "{}", reply.text);
    }
    let events = owner.get("/api/v1/audit-events?event=model_created").await.ok(200);
    assert!(events[0]["metadata"].to_string().contains("has_api_key"), "{}", events[0]);
    let doctor = server.cli(&["doctor"], &[]).await;
    let said = [doctor.stdout, doctor.stderr].concat();
    assert!(!String::from_utf8_lossy(&said).contains("canary"));
    assert!(!server.log().contains("canary"));
    assert_eq!(canaries(&server), 0, "they are stored as they are");
}

async fn a_credential_stays_with_its_address(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let at = |host: &str| json!({"base_url": format!("https://{host}.example/v1")});
    let keyed = |host: &str| {
        let mut endpoint = at(host);
        endpoint["api_key"] = json!("secret");
        endpoint
    };
    let model = register(&owner, "m", json!([keyed("a"), keyed("b")])).await;
    let change = async |fields: Value| {
        let shown = change(&owner, &model, fields).await;
        let all = shown.as_array().unwrap();
        all.iter().map(|endpoint| endpoint["has_api_key"] == true).collect::<Vec<_>>()
    };
    let list = |endpoints: Value| json!({"additional_config": {"endpoints": endpoints}});
    assert_eq!(change(list(json!([at("b"), at("new"), at("a")]))).await, [true, false, true]);
    assert_eq!(change(list(json!([at("b"), at("b"), at("a")]))).await, [true, false, true]);
    let gone = json!({"base_url": "https://b.example/v1", "api_key": null});
    assert_eq!(change(list(json!([gone, at("a")]))).await, [false, true]);
    assert_eq!(change(list(json!([at("elsewhere")]))).await, [false]);
    assert_eq!(change(list(json!([at("a")]))).await, [false], "what was forgotten is gone");
    assert_eq!(change(list(json!([keyed("a")]))).await, [true]);
    assert_eq!(change(json!({"provider": "anthropic"})).await, [false], "so it is elsewhere");
    // An endpoint without an address is where the model is, and moves with it.
    assert_eq!(change(list(json!([{"api_key": "secret"}, keyed("a")]))).await, [true, true]);
    assert_eq!(change(json!({"base_url": "https://evil.example"})).await, [false, true]);
    let path = format!("{MODELS}/{}", model["id"]);
    let none = json!({"model_definition": {"additional_config": {}}});
    owner.patch(&path, &none).await.ok(200);
    assert_eq!(change(list(json!([at("a")]))).await, [false]);
}

async fn the_models_own_credential_stays_at_its_address(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let home = Mock::always(Answer::text("Fine.")).await;
    let away = Mock::always(Answer::text("Fine.")).await;
    let endpoints = json!([{"region": "eu"}, {"base_url": away.url(), "region": "us"}]);
    let more = json!({"is_public": false, "api_key": "home-key",
        "additional_config": {"endpoints": endpoints}});
    home.register_with(&owner, "m", more).await;
    let trace = key.trace().await;
    for region in ["eu", "us"] {
        settings(&owner, 1, json!({"allowed_regions": [region]})).await;
        key.post("/api/v1/runs", &ask(&trace, "m")).await.ok(200);
    }
    assert_eq!(home.requests()[0].headers["authorization"], "Bearer home-key");
    assert_eq!(away.requests()[0].headers.get("authorization"), None);
}

async fn endpoints_that_make_no_sense(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let one = |more: Value| {
        let mut endpoint = json!({"base_url": "https://a.example/v1"});
        endpoint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{"base_url": "https://a.example/v1"}, endpoint])
    };
    let many: Vec<Value> = (0..33).map(|_| json!({})).collect();
    for (endpoints, part) in [
        (json!("https://a.example/v1"), "endpoints must be a list"),
        (json!(["https://a.example/v1"]), "endpoints[0] must be an object"),
        (many.into(), "endpoints must not hold more than 32"),
        (one(json!({"weight": 0})), "endpoints[1] weight must be a number above 0"),
        (one(json!({"weight": -1})), "endpoints[1] weight"),
        (one(json!({"weight": "3"})), "endpoints[1] weight"),
        (one(json!({"api_key": 3})), "endpoints[1] api_key must be a text"),
        (one(json!({"apikey": "sk-1"})), "endpoints[1] has no 'apikey'"),
        (one(json!({"region": 3})), "endpoints[1] region must be a text"),
        (one(json!({"base_url": "nonsense"})), "endpoints[1] is wrong: Base url"),
        (one(json!({"base_url": "http://a.example/v1"})), "https for a public model"),
        (one(json!({"base_url": "https://me:pw@a.example/v1"})), "password"),
        (one(json!({"base_url": "https://169.254.169.254/v1"})), "Base url is not allowed"),
        (one(json!({"base_url": "https://10.1.2.3/v1"})), "Base url is not allowed"),
        (one(json!({"base_url": "sandbox:"})), "endpoints[1] must not be the sandbox"),
    ] {
        let fields = json!({"name": "m", "identifier": "m", "provider": "openai",
            "additional_config": {"endpoints": endpoints}});
        let reply = owner.post(MODELS, &json!({"model_definition": fields})).await;
        reply.says(422, part);
        assert!(!reply.text.contains("sk-1"));
    }
    // If each endpoint has an address, the model needs none.
    let azure = |endpoints: Value| {
        let fields = json!({"name": "m", "identifier": "m", "provider": "azure",
            "additional_config": {"endpoints": endpoints}});
        json!({"model_definition": fields})
    };
    owner.post(MODELS, &azure(json!([{}]))).await.says(422, "Base url can't be blank");
    let here = json!([{"base_url": "https://a.example"}, {"base_url": "https://b.example"}]);
    owner.post(MODELS, &azure(here)).await.ok(201);
}

async fn the_doctor_visits_each(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let well = Mock::always(Answer::text("Fine.")).await;
    register(&owner, "m", json!([{"base_url": well.url()}, {"base_url": nobody()}])).await;
    let doctor = server.cli(&["doctor"], &[]).await;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("endpoints[0] of model m can be reached"), "{said}");
    assert!(said.contains("endpoints[1] of model m cannot be reached"), "{said}");
    assert!(!doctor.status.success());
}
