//! Findings that wait for a person, the verdicts on them, and the advice that follows.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, PASSWORD, Server, settings};
use crate::session::roles;

crate::on_every_backend!(
    what_was_found_waits_with_its_text,
    a_verdict_is_given_and_changed,
    a_colleagues_verdict_is_not_replaced,
    findings_are_shown_where_they_are,
    members_judge_and_viewers_read,
    mostly_false_findings_give_advice,
);

const REVIEWS: &str = "/api/v1/projects/1/reviews";

/// Checks a text, and gives the number of the step.
async fn check(key: &Caller, trace: &str, input: &str) -> i64 {
    let body = json!({"trace_id": trace, "input": input});
    key.post("/api/v1/checks", &body).await.ok(200)["step_id"].as_i64().unwrap()
}

async fn waiting(who: &Caller, query: &str) -> Vec<i64> {
    let page = who.get(&format!("{REVIEWS}{query}")).await.ok(200);
    page.as_array().unwrap().iter().map(|item| item["step_id"].as_i64().unwrap()).collect()
}

async fn judge(who: &Caller, step: i64, body: Value) -> crate::harness::Reply {
    let body = Some(body.to_string().into_bytes());
    who.send("PUT", &format!("{REVIEWS}/{step}"), body).await
}

async fn what_was_found_waits_with_its_text(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    owner.get(REVIEWS).await.is(200, &json!([]));
    let trace = key.trace().await;
    let first = check(&key, &trace, "äöü, mail jane@example.com <script>").await;
    check(&key, &trace, "The weather is fine.").await;
    let second = check(&key, &trace, "mail bob@example.com").await;
    assert_eq!(waiting(&owner, "").await, [second, first]);
    let item = owner.get(REVIEWS).await.ok(200)[1].clone();
    assert_eq!(
        (&item["trace_id"], &item["type"], &item["endpoint"], &item["content"]),
        (&json!(trace), &json!("check"), &json!("checks"), &json!("stored"))
    );
    assert_eq!(item["findings"][0]["type"], "EMAIL");
    assert!(item["risk_score"].as_f64().unwrap() >= 0.2 && item["created_at"].is_string());
    let parts = json!([
        {"text": "äöü, mail "},
        {"text": "jane@example.com", "finding": "pii: EMAIL"},
        {"text": " <script>"},
    ]);
    assert_eq!(item["texts"], json!([{"name": "input", "parts": parts}]));
    // A conversation: the message with the finding, with what is around it.
    let long = format!("{} mail eve@example.com {}", "x ".repeat(500), "z ".repeat(500));
    let chat = json!({"model": "sandbox", "trace_id": trace, "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": long}]});
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    let item = owner.get(REVIEWS).await.ok(200)[0].clone();
    assert_eq!((&item["model"], &item["texts"][0]["name"]), (&json!("sandbox"), &json!("user")));
    let parts = item["texts"][0]["parts"].as_array().unwrap().clone();
    assert_eq!((parts.len(), &parts[1]["finding"]), (3, &json!("pii: EMAIL")));
    let placeholder = parts[1]["text"].as_str().unwrap();
    assert!(placeholder.starts_with("[EMAIL_1_"), "{placeholder}");
    let around = parts[0]["text"].as_str().unwrap();
    assert!(around.starts_with('…') && around.chars().count() == 201, "{around}");

    // Pages, from step to step.
    let page = owner.get(&format!("{REVIEWS}?limit=2")).await;
    let link = page.header("link").to_owned();
    let next = link.strip_prefix('<').and_then(|rest| rest.split_once('>')).unwrap();
    assert_eq!(next.1, "; rel=\"next\"");
    let rest = owner.get(next.0).await;
    assert_eq!((rest.ok(200)[0]["step_id"].as_i64(), rest.header("link")), (Some(first), ""));
    assert_eq!(waiting(&owner, "?before=999999999").await, [0_i64; 0]);
    for (query, fault) in [
        ("?before=x", "before must be the id of a step"),
        ("?limit=0", "limit must be a number from 1 to 50"),
        ("?limit=x", "limit must be a number from 1 to 50"),
    ] {
        owner.get(&format!("{REVIEWS}{query}")).await.is(400, &json!({"error": fault}));
    }
    // Without its content it is listed without its text.
    settings(&owner, 1, json!({"store_content": false})).await;
    let bare = check(&key, &trace, "mail zoe@example.com").await;
    let item = owner.get(REVIEWS).await.ok(200)[0].clone();
    assert_eq!(
        (&item["step_id"], &item["content"], &item["texts"]),
        (&json!(bare), &json!("none"), &json!([]))
    );
    assert_eq!(item["findings"][0]["type"], "EMAIL");
    if !server.on_sqlite() {
        // A damaged content hides no other step.
        let damage = "UPDATE step_contents SET sealed = 'x' WHERE step_id =";
        server.sql(&format!("{damage} {first}"));
        let listed = owner.get(REVIEWS).await.ok(200);
        let of = |step: i64| {
            let all = listed.as_array().unwrap();
            all.iter().find(|item| item["step_id"] == step).unwrap()["content"].clone()
        };
        assert_eq!((of(first), of(second)), (json!("damaged"), json!("stored")));
    }
}

async fn a_verdict_is_given_and_changed(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let trace = key.trace().await;
    let step = check(&key, &trace, "mail jane@example.com").await;
    let plain = check(&key, &trace, "The weather is fine.").await;
    let long = "é".repeat(1_001);
    for (body, status, fault) in [
        (json!({"verdict": "perhaps"}), 422, "verdict must be confirmed or false_positive"),
        (json!({"verdict": "confirmed", "note": long}), 422, "note is longer than 1000 characters"),
        (json!({"note": "x"}), 400, "Missing required parameter: verdict"),
    ] {
        judge(&owner, step, body).await.says(status, fault);
    }
    assert_eq!(waiting(&owner, "").await, [step]);
    let wrong = json!({"verdict": "false_positive", "note": " our own address "});
    let judged = judge(&owner, step, wrong.clone()).await.ok(200);
    assert_eq!(
        (&judged["step_id"], &judged["verdict"], &judged["note"]),
        (&json!(step), &json!("false_positive"), &json!("our own address"))
    );
    assert_eq!(judged["findings"][0]["category"], "pii");
    assert_eq!(waiting(&owner, "").await, [0_i64; 0]);
    assert_eq!(judge(&owner, step, wrong).await.ok(200), judged, "the same again changes nothing");
    let right =
        judge(&owner, step, json!({"verdict": "confirmed", "note": "é".repeat(1_000)})).await;
    assert_eq!(right.ok(200)["verdict"], "confirmed");
    let kept = judge(&owner, step, json!({"verdict": "confirmed"})).await;
    assert_eq!(kept.ok(200), right.ok(200), "without a note the earlier one stays");
    let bare = judge(&owner, step, json!({"verdict": "confirmed", "note": null})).await.ok(200);
    assert_eq!(bare.get("note"), None);
    let audit = owner.get("/api/v1/audit-events?event=review_judged").await.ok(200);
    let audit = audit.as_array().unwrap();
    assert_eq!(audit.len(), 3, "{audit:?}");
    let oldest = &audit[2];
    assert_eq!(
        (&oldest["target_type"], &oldest["target_id"]),
        (&json!("step"), &json!(step.to_string()))
    );
    let metadata = json!({"project_id": 1, "trace_id": trace, "verdict": "false_positive"});
    assert_eq!(oldest["metadata"], metadata, "without the note");
    assert_eq!(audit[1]["metadata"]["earlier_verdict"], "false_positive");
    let gone = json!({"error": "Not found"});
    let made = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await.ok(201);
    let verdict = json!({"verdict": "confirmed"});
    for path in [
        format!("{REVIEWS}/{plain}"),
        format!("{REVIEWS}/999999"),
        format!("{REVIEWS}/x"),
        format!("/api/v1/projects/{}/reviews/{step}", made["id"]),
        format!("/api/v1/projects/999/reviews/{step}"),
    ] {
        let body = Some(verdict.to_string().into_bytes());
        owner.send("PUT", &path, body).await.is(404, &gone);
    }
    let others = format!("/api/v1/projects/{}/reviews", made["id"]);
    owner.get(&others).await.is(200, &json!([]));
    owner.get("/api/v1/projects/999/reviews").await.is(404, &gone);
}

async fn a_colleagues_verdict_is_not_replaced(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let step = check(&key, &key.trace().await, "mail jane@example.com").await;
    let member = roles::user(&server, "member", &["1"]).await;
    let first = json!({"verdict": "confirmed", "note": "ticket 12", "expects": "unjudged"});
    let stands = judge(&member, step, first.clone()).await.ok(200);
    let refused = json!({
        "error": "Nothing was changed: the step has another verdict than was expected",
        "stands": stands});
    let second = |expects: &Value| json!({"verdict": "false_positive", "expects": expects});
    judge(&owner, step, second(&json!("unjudged"))).await.is(409, &refused);
    judge(&owner, step, second(&json!("2026-01-01T00:00:00Z"))).await.is(409, &refused);
    assert_eq!(judge(&member, step, first).await.ok(200), stands, "a retry is no conflict");
    let fault = "expects must be unjudged or the created_at of a verdict";
    judge(&owner, step, second(&json!("x"))).await.says(422, fault);
    let changed = judge(&owner, step, second(&stands["created_at"])).await.ok(200);
    assert_eq!(
        (&changed["verdict"], &changed["note"]),
        (&json!("false_positive"), &json!("ticket 12"))
    );
}

async fn findings_are_shown_where_they_are(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    settings(&owner, 1, json!({"safety": {"pii": {"action": "flag"}}})).await;
    let trace = key.trace().await;
    let marked = async || {
        let item = owner.get(REVIEWS).await.ok(200)[0].clone();
        let texts = item["texts"].as_array().unwrap().iter();
        let found = texts.flat_map(|text| {
            let parts = text["parts"].as_array().unwrap().clone();
            let name = text["name"].as_str().unwrap().to_owned();
            let found = parts.into_iter().filter(|part| part.get("finding").is_some());
            found.map(move |part| format!("{name}: {}", part["text"].as_str().unwrap()))
        });
        (found.collect::<Vec<_>>(), item["findings_elsewhere"].as_u64().unwrap())
    };
    let content = json!([
        {"type": "text", "text": "The weather is fine."},
        {"type": "text", "text": "mail jane@example.com"}]);
    let mut chat = json!({"model": "sandbox", "trace_id": trace,
        "messages": [{"role": "user", "content": content}]});
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    // Contents are stored with placeholders.
    let (found, elsewhere) = marked().await;
    assert!(matches!(&found[..], [one] if one.starts_with("user: [EMAIL_1_")), "{found:?}");
    assert_eq!(elsewhere, 0);
    // A finding in no text of the conversation is counted, and no other text is shown for it.
    chat["messages"] = json!([{"role": "user", "content": "The weather is fine."}]);
    chat["tools"] = json!([{"type": "function", "function": {
        "name": "mail", "description": "Mails bob@example.com", "parameters": {"type": "object"}}}]);
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    assert_eq!(marked().await, (vec![], 1));
    let item = owner.get(REVIEWS).await.ok(200)[0].clone();
    assert_eq!((&item["content"], &item["texts"]), (&json!("stored"), &json!([])));
}

async fn members_judge_and_viewers_read(backend: Backend) {
    let server = Server::start(&backend).await;
    let key = server.key();
    let step = check(&key, &key.trace().await, "mail jane@example.com").await;
    let viewer = roles::user(&server, "viewer", &["1"]).await;
    let member = roles::user(&server, "member", &["1"]).await;
    let stranger = roles::user(&server, "admin", &[]).await;
    let verdict = json!({"verdict": "confirmed"});
    assert_eq!(waiting(&viewer, "").await, [step]);
    judge(&viewer, step, verdict.clone()).await.is(403, &json!({"error": "Forbidden"}));
    for who in [&member, &stranger] {
        let judged = judge(who, step, verdict.clone()).await.ok(200);
        let id = who.get("/api/v1/session").await.ok(200)["user"]["id"].clone();
        assert_eq!((&judged["user_id"], &judged["service_token_id"]), (&id, &Value::Null));
    }
    // A program is named as the audit names it.
    let new = json!({"password": PASSWORD, "name": "t", "role": "member", "projects": [1]});
    let token = server.owner().await.post("/api/v1/service-tokens", &new).await.ok(201);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let program = server.any.with("authorization", &bearer);
    let judged = judge(&program, step, verdict.clone()).await.ok(200);
    assert_eq!((&judged["user_id"], &judged["service_token_id"]), (&Value::Null, &token["id"]));
    assert_eq!(judge(&program, step, verdict.clone()).await.ok(200), judged, "it is read again");
    for who in [&key, &server.any] {
        let unauthorized = json!({"error": "Unauthorized"});
        who.get(REVIEWS).await.is(401, &unauthorized);
        judge(who, step, verdict.clone()).await.is(401, &unauthorized);
    }
}

async fn mostly_false_findings_give_advice(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let trace = key.trace().await;
    let doctor = async || {
        let run = server.cli(&["doctor"], &[]).await;
        assert!(run.status.success(), "{run:?}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    for number in 0..10 {
        if number == 9 {
            assert!(!doctor().await.contains("verdicts on"), "nine are too few");
        }
        let step = check(&key, &trace, &format!("mail jane{number}@example.com")).await;
        judge(&owner, step, json!({"verdict": "false_positive"})).await.ok(200);
    }
    let told = doctor().await;
    let advice = "note project 1 (Default): 10 of 10 verdicts on `pii` findings in 30 days are false positives \
                  (100 %). Leave EMAIL out of settings.safety.pii.entities";
    assert!(told.contains(advice) && told.contains("Everything is well"), "{told}");
    settings(&owner, 1, json!({"safety": {"pii": {"entities": ["IBAN"]}}})).await;
    assert!(!doctor().await.contains("verdicts on"), "it was followed");
}
