//! A project's own recognizers, trying settings out, and the cause that a refusal names.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(
    recognizers_find_redact_and_route,
    a_recognizer_is_checked_when_it_is_saved,
    settings_are_tried_before_they_are_saved,
    a_trial_is_bounded,
    a_pattern_that_takes_too_long_is_not_saved,
    a_pattern_that_takes_too_long_is_reported_by_a_trial,
    a_refusal_names_its_cause,
    what_is_remembered_follows_the_settings,
);

const TRIAL: &str = "/api/v1/projects/1/safety/test";
const SECRET: &str = "Use AKIAQ3EGRVXT7ZLNB5PD for it";

/// Staff numbers, whose last digit is a check digit.
fn staff() -> Value {
    json!([{"name": "STAFF_ID", "pattern": "\\b[0-9]{8}\\b", "checksum": "luhn",
        "context": ["staff", "personnel"], "score": 0.5}])
}

async fn recognizers_find_redact_and_route(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let public = Mock::always(Answer::text("Done.")).await;
    let private = Mock::always(Answer::text("Done.")).await;
    public.register_with(&owner, "public", json!({"is_public": true})).await;
    private.register(&owner, "private").await;
    let tiers = json!({"simple": "public", "complex": "public", "secure": "private"});
    let safety = json!({"recognizers": staff()});
    settings(&owner, 1, json!({"routing_tiers": tiers, "safety": safety})).await;
    let trace = key.trace().await;
    let check = async |input: &str| {
        let ask = json!({"trace_id": trace, "input": input});
        key.post("/api/v1/checks", &ask).await.ok(200)["meta"].clone()
    };
    let found = check("Staff no. 12345674 is ill").await;
    let entity = json!([{"type": "STAFF_ID", "start": 10, "end": 18}]);
    assert_eq!((&found["pii_detected"], &found["pii_entities"]), (&json!(true), &entity));
    for other in ["Staff no. 12345675 is ill", "Order no. 12345674 is lost"] {
        assert_eq!(check(other).await["pii_detected"], false, "{other}");
    }
    // It decides the route as any personal data does, and is replaced where that is.
    let routed = key.execute(&trace, "Staff no. 12345674 is ill").await.ok(200);
    assert_eq!(routed["model"], "private");
    let chat = json!({"trace_id": trace, "model": "public",
        "messages": [{"role": "user", "content": "Staff no. 12345674 is ill"}]});
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    let sent = public.last()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(sent.starts_with("Staff no. [STAFF_ID_1_"), "{sent}");
    let steps = key.detail(&trace).await["steps"].clone();
    let finding = &steps.as_array().unwrap().last().unwrap()["security"]["findings"][0];
    assert_eq!((&finding["category"], &finding["type"]), (&json!("pii"), &json!("STAFF_ID")));
}

async fn a_recognizer_is_checked_when_it_is_saved(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let save = async |recognizers: Value| {
        let settings = json!({"safety": {"recognizers": recognizers}});
        let body = json!({"project": {"settings": settings}});
        owner.patch("/api/v1/projects/1", &body).await
    };
    let at = "settings.safety.recognizers[0]";
    for (fault, says) in [
        (json!({"pattern": "("}), ".pattern: unclosed group"),
        (json!({"pattern": "\\w{500}{50}x"}), ".pattern: the pattern is too large once compiled"),
        (json!({"checksum": "sum"}), ".checksum must be one of"),
    ] {
        let mut all = staff();
        all[0].as_object_mut().unwrap().extend(fault.as_object().unwrap().clone());
        save(all).await.says(422, &format!("{at}{says}"));
    }
    let many = vec![staff()[0].clone(); 101];
    save(many.into()).await.says(422, "settings.safety.recognizers holds more than 100");
    save(staff()).await.ok(200);
}

async fn settings_are_tried_before_they_are_saved(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let before = owner.get("/api/v1/projects/1").await.ok(200);
    let text = "é: staff 12345674, jo@a.example";
    let plain = owner.post(TRIAL, &json!({"text": text})).await.ok(200);
    assert_eq!(plain["allowed"], true);
    let risk = plain["risk_score"].as_f64().unwrap();
    assert!((0.5..0.7).contains(&risk), "{plain}");
    assert_eq!(plain["findings"].as_array().unwrap().len(), 1, "{plain}");

    let tried = json!({"recognizers": staff(), "pii": {"action": "block"}});
    let ask = json!({"text": text, "settings": tried});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    assert_eq!((&verdict["allowed"], &verdict["cause"]), (&json!(false), &json!(0)));
    assert!(verdict["reason"].as_str().unwrap().contains("personal data (STAFF_ID)"));
    let finding = json!({"category": "pii", "type": "STAFF_ID", "start": 9, "end": 17,
        "score": 0.5, "part": 0, "message": 0, "role": "user", "field": "content"});
    assert_eq!(verdict["findings"][0], finding);
    let redacted = verdict["redacted"].as_str().unwrap();
    assert!(redacted.starts_with("é: staff [STAFF_ID_1_") && !redacted.contains("jo@"));
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200), before, "nothing is saved");

    let tool = json!({"role": "tool", "tool_call_id": "a", "content": SECRET});
    let ask = json!({"messages": [{"role": "user", "content": "Look."}, tool]});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    let cause = &verdict["findings"][verdict["cause"].as_u64().unwrap() as usize];
    assert_eq!((&cause["category"], &cause["message"]), (&json!("secret"), &json!(1)));
    assert_eq!((&cause["role"], &cause["start"]), (&json!("tool"), &json!(4)));
    assert_eq!(verdict["redacted"], ask["messages"], "what is blocked is not replaced");

    let mut ask = json!({"text": SECRET, "direction": "output"});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    assert_eq!((&verdict["allowed"], &verdict["redacted"]), (&json!(true), &json!(SECRET)));
    ask["settings"] = json!({"output": {"secrets": {"action": "redact"}}});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    assert!(!verdict["redacted"].as_str().unwrap().contains("AKIA"), "{verdict}");
    ask["settings"] = json!({"output": {"secrets": {"action": "block"}}});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    assert_eq!((&verdict["allowed"], &verdict["cause"]), (&json!(false), &json!(0)));
}

/// Takes thousands of steps for a byte.
const HOSTILE: &str = "(a{1,50}){1,50}b";

async fn a_pattern_that_takes_too_long_is_not_saved(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let before = owner.get("/api/v1/projects/1").await.ok(200);
    let save = async |safety: Value| {
        let body = json!({"project": {"settings": {"safety": safety}}});
        owner.patch("/api/v1/projects/1", &body).await
    };
    let rule = |pattern: &str| json!({"name": "own", "pattern": pattern, "action": "flag"});
    let says = "pattern: the pattern takes more than 1,000 ns for a byte of a text of ";
    let bad = json!({"rules": [rule("falcon"), rule(HOSTILE)]});
    save(bad).await.says(422, &format!("settings.safety.rules[1].{says}"));
    let bad = json!({"recognizers": [{"name": "OWN", "pattern": HOSTILE}]});
    save(bad.clone()).await.says(422, &format!("settings.safety.recognizers[0].{says}"));
    let made = json!({"project": {"name": "New", "settings": {"safety": bad}}});
    owner.post("/api/v1/projects", &made).await.says(422, "settings.safety.recognizers[0].");
    assert_eq!(owner.get("/api/v1/projects/1").await.ok(200), before);
    let words: Vec<String> = (0..200).map(|n| format!("w{n}")).collect();
    let words = format!("(?i)\\b(?:{})\\b", words.join("|"));
    let ordinary =
        [r"\b[A-Z]{2}\d{6}\b", "(?i)project falcon", r"https?://\S+\.example/\S*", &words];
    save(json!({"rules": ordinary.map(rule)})).await.ok(200);
}

async fn a_pattern_that_takes_too_long_is_reported_by_a_trial(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let rules = json!([
        {"name": "slow", "pattern": HOSTILE, "action": "block"},
        {"name": "quick", "pattern": "falcon", "action": "flag", "weight": 0.1},
    ]);
    let text = format!("{} falcon", "a".repeat(2000));
    let ask = json!({"text": text, "settings": {"rules": rules}});
    let verdict = owner.post(TRIAL, &ask).await.ok(200);
    assert_eq!(verdict["allowed"], true, "{verdict}");
    assert_eq!(verdict["findings"][0]["type"], "quick", "{verdict}");
    let slow = json!([{"list": "rules", "index": 0, "name": "slow",
        "reason": "took more than 4 µs for a byte of the text"}]);
    assert_eq!(verdict["slow_rules"], slow);
    let short = json!({"text": "aab", "settings": {"rules": rules}});
    let verdict = owner.post(TRIAL, &short).await.ok(200);
    assert_eq!((&verdict["allowed"], &verdict["slow_rules"]), (&json!(false), &json!([])));

    let most = 64 * 1024;
    for (text, fits) in
        [("x".repeat(most), true), ("x".repeat(most + 1), false), ("é".repeat(most / 2 + 1), false)]
    {
        let said = [("user", &text[..2]), ("user", &text[2..])];
        let messages = said.map(|(role, text)| json!({"role": role, "content": text}));
        for ask in [json!({"text": text}), json!({"messages": messages})] {
            let reply = owner.post(TRIAL, &ask).await;
            if fits {
                reply.ok(200);
            } else {
                reply.says(422, "The text is too long to be tried (maximum is 65536 bytes)");
            }
        }
    }
}

async fn a_trial_is_bounded(backend: Backend) {
    let server = Server::start(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let ask = json!({"text": "Hello."});
    owner.post("/api/v1/projects/99/safety/test", &ask).await.says(404, "Not found");
    key.post(TRIAL, &ask).await.says(401, "Unauthorized");
    owner.post(TRIAL, &json!({})).await.says(400, "Missing required parameter: text");
    let both = json!({"text": "x", "messages": []});
    owner.post(TRIAL, &both).await.says(400, "text and messages exclude each other");
    let sideways = json!({"text": "x", "direction": "sideways"});
    owner.post(TRIAL, &sideways).await.invalid("direction must be input or output");
    let bad = json!({"text": "x", "settings": {"pii": {"action": "erase"}}});
    owner.post(TRIAL, &bad).await.says(422, "settings.safety.pii.action must be one of");
    let bad = json!({"text": "x", "settings": {"rules": [{"name": "a", "pattern": "("}]}});
    owner.post(TRIAL, &bad).await.says(422, "settings.safety.rules[0].pattern: unclosed group");
    let large = json!({"text": "x", "settings": {"note": "x".repeat(300 * 1024)}});
    owner.post(TRIAL, &large).await.says(422, "settings are larger than");
    let long = json!({"text": "x".repeat(1 << 20)});
    owner.post(TRIAL, &long).await.says(413, "larger than 1048576 bytes");
}

async fn a_refusal_names_its_cause(backend: Backend) {
    let server = Server::start(&backend).await;
    let (key, trace) = (server.key(), server.key().trace().await);
    let is_secret = |cause: &Value, message: Value, role: Value, field: Value| {
        let place = (&cause["message"], &cause["role"], &cause["field"]);
        assert_eq!(place, (&message, &role, &field), "{cause}");
        let found = (&cause["category"], &cause["start"], &cause["end"]);
        assert_eq!(found, (&json!("secret"), &json!(4), &json!(24)), "{cause}");
        assert!(!cause.to_string().contains("AKIA"));
    };
    let checked = key.post("/api/v1/checks", &json!({"trace_id": trace, "input": SECRET})).await;
    is_secret(&checked.ok(200)["cause"], json!(null), json!(null), json!(null));
    let blocked = key.execute(&trace, SECRET).await.ok(200);
    is_secret(&blocked["cause"], json!(0), json!("user"), json!("content"));
    let tool = json!({"name": "look", "description": SECRET, "parameters": {}});
    let ask = json!({"trace_id": trace, "input": "Hello.", "tools": [tool]});
    let blocked = key.post("/api/v1/executions", &ask).await.ok(200);
    is_secret(&blocked["cause"], json!(null), json!(null), json!("tools"));
    let streamed = json!({"trace_id": trace, "input": SECRET});
    let chunks = key.post("/api/v1/executions/stream", &streamed).await.chunks();
    is_secret(&chunks[0]["cause"], json!(0), json!("user"), json!("content"));

    let mut ask = json!({"trace_id": trace, "model": "sandbox", "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": SECRET}, {"role": "user", "content": "Go on."}]});
    let blocked = key.post("/api/v1/chat/completions", &ask).await.ok(200);
    is_secret(&blocked["cause"], json!(2), json!("assistant"), json!("content"));
    let steps = key.detail(&trace).await["steps"].clone();
    let step = steps.as_array().unwrap().last().unwrap().clone();
    is_secret(&step["security"]["findings"][0], json!(2), json!("assistant"), json!("content"));
    ask["stream"] = json!(true);
    let chunks = key.post("/api/v1/chat/completions", &ask).await.chunks();
    is_secret(&chunks.last().unwrap()["cause"], json!(2), json!("assistant"), json!("content"));

    // By the caller's own lists, which the application's instructions are not part of.
    let mut ask = json!({"trace_id": trace, "model": "sandbox", "max_tokens": 9,
        "system": "Be brief.", "messages": [{"role": "user", "content": "Hello."},
        {"role": "assistant", "content": SECRET}, {"role": "user", "content": "Go on."}]});
    let blocked = key.post("/api/v1/messages", &ask).await.ok(200);
    is_secret(&blocked["cause"], json!(1), json!("assistant"), json!("content"));
    ask["stream"] = json!(true);
    let events = key.post("/api/v1/messages", &ask).await.named_events();
    let cause = &events[0]["message"]["cause"];
    is_secret(cause, json!(1), json!("assistant"), json!("content"));
    let mut ask = json!({"trace_id": trace, "model": "sandbox", "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hello."},
        {"role": "assistant", "content": SECRET}, {"role": "user", "content": "Go on."}]});
    let blocked = key.post("/api/v1/responses", &ask).await.ok(200);
    is_secret(&blocked["cause"], json!(1), json!("assistant"), json!("content"));
    ask["stream"] = json!(true);
    let events = key.post("/api/v1/responses", &ask).await.named_events();
    let cause = &events.last().unwrap()["response"]["cause"];
    is_secret(cause, json!(1), json!("assistant"), json!("content"));
    let ask =
        json!({"trace_id": trace, "model": "sandbox", "instructions": SECRET, "input": "Hi."});
    let blocked = key.post("/api/v1/responses", &ask).await.ok(200);
    is_secret(&blocked["cause"], json!(null), json!("system"), json!("content"));
}

/// A conversation is sent whole with every turn; what was found of it before counts as long as the
/// settings stay.
async fn what_is_remembered_follows_the_settings(backend: Backend) {
    let server = Server::start(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let long = |text: &str| format!("{text} {}", "The harbour was quiet. ".repeat(20));
    let ask = json!({"trace_id": key.trace().await, "model": "sandbox", "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": long("Project Falcon begins in May.")},
        {"role": "user", "content": "Go on."}]});
    let rule = json!([{"name": "falcon", "pattern": "(?i)falcon"}]);
    for (rules, blocks) in [(json!([]), false), (rule, true), (json!([]), false)] {
        settings(&owner, 1, json!({"safety": {"rules": rules}})).await;
        for _ in 0..2 {
            let answer = key.post("/api/v1/chat/completions", &ask).await.ok(200);
            let cause = &answer["cause"];
            let place = if blocks { json!([1, 8, 14]) } else { json!([null, null, null]) };
            assert_eq!(json!([cause["message"], cause["start"], cause["end"]]), place, "{answer}");
        }
    }
}
