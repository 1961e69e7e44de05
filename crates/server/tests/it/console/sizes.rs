//! Pages of an installation with many people, keys, models and projects: they stay small, and lead to all rows.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::owner;
use crate::harness::{Answer, Backend, Caller, Mock, Server};
use crate::replay::replay;

crate::on_every_backend!(pages_are_small_however_much_there_is, a_replay_is_paged);

/// The most bytes of a page over the wire.
const LARGEST: usize = 30 * 1024;

/// The bytes of a page as a browser receives it.
async fn size(owner: &Caller, path: &str) -> usize {
    let own = owner.with("sec-fetch-site", "same-origin").with("accept-encoding", "gzip");
    let reply = own.request("GET", path).send().await.unwrap();
    assert_eq!(reply.status(), 200, "{path}");
    assert_eq!(reply.headers()["content-encoding"], "gzip", "{path}");
    reply.bytes().await.unwrap().len()
}

/// The address of the next page, by the name of the list if a page has several.
fn next(page: &str, list: &str) -> Option<String> {
    let (_, pages) = page.split_once(&format!("<nav class=\"pages\" aria-label=\"{list}\">"))?;
    let (links, _) = pages.split_once("</nav>")?;
    let (before, _) = links.split_once("\" rel=\"next\"")?;
    let (_, address) = before.rsplit_once("href=\"")?;
    Some(address.replace("&#38;", "&"))
}

/// The text between two marks of a page.
fn between<'p>(page: &'p str, begin: &str, end: &str) -> Vec<&'p str> {
    page.split(begin).skip(1).filter_map(|part| Some(part.split_once(end)?.0)).collect()
}

/// Walks the pages of a list, each of which has to be small, and gives its rows.
async fn rows(owner: &Caller, path: &str, list: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let (mut rows, mut at) = (BTreeSet::new(), Some(path.to_owned()));
    while let Some(path) = at {
        let small = size(owner, &path).await;
        assert!(small < LARGEST, "{path}: {small}");
        let page = owner.get(&path).await.text;
        let shown = between(&page, begin, end);
        assert!(!shown.is_empty() && shown.len() <= 50, "{path}: {}", shown.len());
        for row in shown {
            assert!(rows.insert(row.to_owned()), "{path} has {row} again");
        }
        at = next(&page, list);
    }
    rows
}

async fn pages_are_small_however_much_there_is(backend: Backend) {
    const MANY: usize = 120;
    let server = Server::unlimited(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let mock = Mock::always(Answer::text("Hello.")).await;
    for number in 0..MANY {
        let project = json!({"project": {"name": format!("A project of team {number}")}});
        api.post("/api/v1/projects", &project).await.ok(201);
        let key = json!({"name": format!("An application of team {number}"), "project_id": 1});
        api.post("/api/v1/keys", &key).await.ok(201);
        mock.register(&api, &format!("a-model-of-team-{number}")).await;
        let invited = json!({"email": format!("person.{number}@example.org"), "role": "member",
            "projects": [1]});
        api.post("/api/v1/invitations", &invited).await.ok(200);
    }
    let trace = server.key().trace().await;
    server.key().execute(&trace, "Hi.").await.ok(200);
    if !server.on_sqlite() {
        server.sql(
            "INSERT INTO users (id, email, name, password_hash, created_at)
             SELECT 1000 + n, 'member.' || n || '@example.org', 'Member number ' || n, 'x', 0
             FROM generate_series(1, 120) n;
             INSERT INTO memberships (org_id, user_id, role)
             SELECT 1, 1000 + n, 'member' FROM generate_series(1, 120) n;
             INSERT INTO project_members (project_id, user_id)
             SELECT 1, 1000 + n FROM generate_series(1, 120) n;
             INSERT INTO service_tokens (id, org_id, name, secret_hash, masked, role, projects, created_at)
             SELECT n, 1, 'Script number ' || n, decode(repeat('00', 32), 'hex'), 'sst_...', 'viewer', '[1]', n / 2
             FROM generate_series(1, 120) n",
        );
        let tokens =
            rows(&owner, "/people/tokens", "Service tokens", "action=\"/people/tokens/", "/revoke");
        assert_eq!(tokens.await.len(), 120);
        let people = rows(&owner, "/people", "People", "action=\"/people/", "/remove").await;
        assert_eq!(people.len(), 121, "{people:?}");
    }
    let invitations = rows(&owner, "/people", "Invitations", "/people/invitations/", "/withdraw");
    assert_eq!(invitations.await.len(), MANY);
    let keys = rows(&owner, "/keys", "Keys", "action=\"/keys/", "/revoke").await;
    assert_eq!(keys.len(), MANY + 1, "{keys:?}");
    let limits = rows(
        &owner,
        "/limits",
        "Table of the keys&#39; limits",
        "class=\"name\"><a href=\"",
        "\">",
    );
    assert_eq!(limits.await.len(), MANY + 1);
    let models = rows(&owner, "/models", "Models", "class=\"name\"><a href=\"", "\">").await;
    assert_eq!(models.len(), MANY + 1, "{models:?}");
    let model = models.first().unwrap().replace("&#38;", "&");
    for path in [
        "/",
        "/traces",
        "/playground",
        "/routing",
        "/settings",
        "/safety",
        "/jobs",
        "/insights",
        "/audit",
        "/account",
        "/people/tokens",
        &format!("/traces/{trace}"),
        &model,
    ] {
        let small = size(&owner, path).await;
        assert!(small < LARGEST, "{path}: {small}");
    }
    // An entry that the address names can be chosen, however many there are.
    let last = format!("a-model-of-team-{}", MANY - 1);
    let page = owner.get(&format!("/playground?model={last}")).await.text;
    let named = format!("list=\"models-1\" autocomplete=\"off\" value=\"{last}\"");
    assert!(page.contains(&named), "{page}");
    assert!(page.contains("list=\"models-2\" autocomplete=\"off\" value=\"\""), "{page}");
    let page = owner.get(&format!("/traces/{trace}?model={last}&model=sandbox")).await.text;
    for model in [&*last, "sandbox"] {
        assert!(page.contains(&format!("value=\"{model}\" checked>")), "{model}: {page}");
    }
    assert!(page.contains("<input name=\"model\""), "any model can be named: {page}");
    replays_with_any_model(&owner, &trace, &page, &last).await;
    let page = owner.get("/settings").await.text;
    assert!(page.contains("list=\"models-simple\""), "any model can be named: {page}");
    let projects = api.get("/api/v1/projects").await.ok(200);
    let last = projects.as_array().unwrap().iter().filter_map(|one| one["id"].as_i64()).max();
    let last = last.unwrap();
    let page = owner.get(&format!("/traces?project={last}")).await.text;
    assert!(page.contains(&format!("<option value=\"{last}\" selected>")), "{page}");
    forms_lead_back_to_their_page(&owner).await;
    for path in [
        "/people?after=x",
        "/people?invited_after=1.zz",
        "/keys?after=x",
        "/jobs?after=1",
        "/models?after=-",
    ] {
        assert_eq!(owner.get(path).await.status, 400, "{path}");
    }
}

/// Replays a trace with a model that is typed on its page.
async fn replays_with_any_model(owner: &Caller, trace: &str, page: &str, model: &str) {
    let key = between(page, "<option value=\"ak_", "\"")[0];
    let form = [("project", "1"), ("key", &format!("ak_{key}")), ("model", ""), ("model", model)];
    let made = super::send_form(owner, &format!("/traces/{trace}/replay"), &form).await;
    assert!(made.header("location").starts_with("/replays/"), "{}", made.text);
}

/// Revokes a key of the second page of keys and withdraws an invitation of a later page.
async fn forms_lead_back_to_their_page(owner: &Caller) {
    let first = owner.get("/keys").await.text;
    let second = owner.get(&next(&first, "Keys").unwrap()).await.text;
    let revoke = between(&second, "action=\"", "\"");
    let revoke = revoke.iter().find(|action| action.contains("/revoke")).unwrap();
    let reply = super::send_form(owner, &revoke.replace("&#38;", "&"), &[]).await;
    assert!(reply.header("location").starts_with("/keys?after="), "{}", reply.header("location"));
    super::shows(&owner.get(reply.header("location")).await, 200, "The key is revoked");
    // Both lists of a page stay where they are.
    let first = owner.get("/people?after=0").await.text;
    let second = owner.get(&next(&first, "Invitations").unwrap()).await.text;
    let withdraw = between(&second, "action=\"", "\"");
    let withdraw = withdraw.iter().find(|action| action.contains("/withdraw")).unwrap();
    let reply = super::send_form(owner, &withdraw.replace("&#38;", "&"), &[]).await;
    let location = reply.header("location");
    assert!(location.starts_with("/people?after=0&invited_after="), "{location}");
    super::shows(&owner.get(location).await, 200, "The invitation is withdrawn");
}

async fn a_replay_is_paged(backend: Backend) {
    const MODELS: usize = 20;
    const CALLS: usize = 50;
    let server = Server::unlimited(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let long = "a reason that is told at length ".repeat(50);
    let fault = json!({"error": {"message": long}});
    let mock = Mock::start(Duration::ZERO, None, move |_| Answer::json(400, &fault)).await;
    let models: Vec<String> = (0..MODELS).map(|number| format!("model-{number}")).collect();
    for model in &models {
        mock.register(&api, model).await;
    }
    let trace = server.key().trace().await;
    for number in 0..CALLS {
        let body =
            json!({"trace_id": trace, "model": "sandbox", "input": format!("Say {number}.")});
        server.key().post("/api/v1/runs", &body).await.ok(200);
    }
    let job = replay(&server.key(), &trace, &json!({"compare_models": models})).await;
    let id = job["job_id"].as_str().unwrap();
    let mut at = Some(format!("/replays/{id}"));
    let mut calls = BTreeSet::new();
    while let Some(path) = at {
        let small = size(&owner, &path).await;
        assert!(small < LARGEST, "{path}: {small}");
        let page = owner.get(&path).await.text;
        let shown = between(&page, "<section class=\"card\" aria-label=\"", "\"");
        assert!(!shown.is_empty() && shown.len() * (MODELS + 1) <= 100, "{path}");
        assert_eq!(page.matches("<p class=\"reason\">").count(), shown.len() * MODELS, "{path}");
        assert!(!page.contains(&long), "reasons are shortened");
        for call in shown {
            assert!(calls.insert(call.to_owned()), "{path} has {call} again");
        }
        at = next(&page, "Pages of calls");
    }
    assert_eq!(calls.len(), CALLS);
    for call in ["0", "51", "x"] {
        assert_eq!(owner.get(&format!("/replays/{id}?call={call}")).await.status, 404, "{call}");
    }
}
