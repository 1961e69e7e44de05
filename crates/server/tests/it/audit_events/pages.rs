//! Filters and pages.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Server, encode};
use crate::models::registry::project;
use crate::session::roles::user;

crate::on_every_backend!(
    events_are_filtered_and_paged,
    a_parameter_that_cannot_be_read_is_refused,
    only_admins_read_and_export,
);

const EVENTS: &str = "/api/v1/audit-events";

fn ids(events: &Value) -> Vec<i64> {
    events.as_array().unwrap().iter().map(|event| event["id"].as_i64().unwrap()).collect()
}

/// All pages from a path on, and how many they are.
async fn paged(owner: &Caller, path: &str) -> (Vec<i64>, usize) {
    let (mut all, mut pages, mut path) = (Vec::new(), 0, path.to_owned());
    loop {
        let page = owner.get(&path).await;
        all.extend(ids(&page.ok(200)));
        pages += 1;
        let Some(link) = page.headers.get("link") else { return (all, pages) };
        let link = link.to_str().unwrap();
        let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
        path = next.unwrap().into();
    }
}

async fn events_are_filtered_and_paged(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    for number in 0..30 {
        let change = project(json!({"description": number.to_string()}));
        let by = if number % 3 == 0 { &admin } else { &owner };
        by.patch("/api/v1/projects/1", &change).await.ok(200);
    }
    owner.post("/api/v1/keys", &json!({"name": "k", "project_id": 1})).await.ok(201);
    let all = owner.get(EVENTS).await;
    assert!(all.headers.get("link").is_none(), "there is one page");
    let all = all.ok(200);
    let model = |fits: &dyn Fn(&Value) -> bool| -> Vec<i64> {
        let fit = all.as_array().unwrap().iter().filter(|event| fits(event));
        fit.map(|event| event["id"].as_i64().unwrap()).collect()
    };
    let middle = &all[12]["occurred_at"].as_str().unwrap().to_owned();
    let at = |event: &Value| event["occurred_at"].as_str().unwrap().to_owned();
    let day = &middle[..10];
    let cases: [(String, Vec<i64>); 10] = [
        (
            "actor=ADMIN@example.org".to_owned(),
            model(&|event| event["actor"] == "admin@example.org"),
        ),
        ("actor=cli".to_owned(), model(&|event| event["actor"] == "cli")),
        ("event=key_created".to_owned(), model(&|event| event["event"] == "key_created")),
        ("target=project".to_owned(), model(&|event| event["target_type"] == "project")),
        (
            "target=project:1&actor=owner@localhost".to_owned(),
            model(&|event| {
                event["target_type"] == "project" && event["actor"] == "owner@localhost"
            }),
        ),
        ("target=project:2".to_owned(), vec![]),
        (format!("from={middle}"), model(&|event| at(event) >= *middle)),
        (format!("to={middle}"), model(&|event| at(event) < *middle)),
        (format!("from={day}&to={day}"), model(&|event| at(event).starts_with(day))),
        ("unknown=1".to_owned(), model(&|_| true)),
    ];
    for (query, expected) in cases {
        let path = format!("{EVENTS}?{query}");
        assert_eq!(ids(&owner.get(&path).await.ok(200)), expected, "{query}");
        let (found, pages) = paged(&owner, &format!("{path}&limit=4")).await;
        assert_eq!(found, expected, "{query}");
        assert_eq!(pages, expected.len().div_ceil(4).max(1), "{query}");
    }
    // Nobody can have such a text.
    for name in ["actor", "event", "target"] {
        assert_eq!(owner.get(&format!("{EVENTS}?{name}=a%00")).await.ok(200), json!([]));
    }
    // A link keeps what was given as it was.
    let odd = format!("{EVENTS}?limit=1&target=project&unknown={}", encode("<>;\u{e9}"));
    let (found, _) = paged(&owner, &odd).await;
    assert_eq!(found, model(&|event| event["target_type"] == "project"));
}

async fn a_parameter_that_cannot_be_read_is_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for (query, sentence) in [
        ("from=soon", "from must be an ISO 8601 date or time"),
        ("to=2026-13-01", "to must be an ISO 8601 date or time"),
        ("limit=1001", "limit must be a whole number from 1 to 1000"),
        ("before=last", "before must be the id of an audit event"),
        ("target=:1", "target must be a kind, as in project, or a kind and an id, as in project:1"),
    ] {
        let refused = owner.get(&format!("{EVENTS}?{query}")).await;
        refused.says(400, sentence);
        if !query.starts_with("limit") && !query.starts_with("before") {
            owner.get(&format!("{EVENTS}/export?{query}")).await.says(400, sentence);
        }
    }
    let exports = format!("{EVENTS}?event=audit_exported");
    assert_eq!(owner.get(&exports).await.ok(200), json!([]), "none of them is on record");
}

async fn only_admins_read_and_export(backend: Backend) {
    let server = Server::start(&backend).await;
    let admin = user(&server, "admin", &[]).await;
    for role in ["member", "viewer"] {
        let caller = user(&server, role, &["1"]).await;
        for path in [EVENTS.to_owned(), format!("{EVENTS}?limit=1"), format!("{EVENTS}/export")] {
            caller.get(&path).await.is(403, &json!({"error": "Forbidden"}));
        }
    }
    for path in [EVENTS.to_owned(), format!("{EVENTS}/export")] {
        assert_eq!(server.any.get(&path).await.status, 401);
        assert_eq!(server.key().get(&path).await.status, 401, "a key is no session");
    }
    let none = admin.get(&format!("{EVENTS}?event=audit_exported")).await.ok(200);
    assert_eq!(none, json!([]), "who may not export leaves no record of one");
    assert_eq!(admin.get(&format!("{EVENTS}/export")).await.status, 200);
}
