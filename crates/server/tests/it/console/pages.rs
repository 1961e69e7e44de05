//! Pages and what they show.

use serde_json::json;

use super::{owner, send_form, shows, signed_in};
use crate::harness::{Backend, Caller, Server};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(
    every_page_is_shown_and_loads_its_files,
    a_page_is_compressed_unless_another_site_leads_to_it,
    texts_of_strangers_are_no_markup,
    a_key_is_made_reset_and_revoked,
    a_new_key_may_use_all_or_what_is_ticked,
    a_viewer_sees_no_button_that_would_be_refused,
    traces_are_filtered_and_paged,
    events_are_filtered_paged_and_exported
);

const PAGES: [&str; 16] = [
    "/",
    "/traces",
    "/models",
    "/keys",
    "/safety",
    "/safety/reviews",
    "/playground",
    "/models/new",
    "/routing",
    "/limits",
    "/jobs",
    "/settings",
    "/insights",
    "/people",
    "/audit",
    "/?window=720",
];

/// The value of an attribute behind a text of a page.
fn attribute<'p>(page: &'p str, before: &str) -> &'p str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("no {before}"));
    rest.split_once('"').unwrap().0
}

async fn every_page_is_shown_and_loads_its_files(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    for path in PAGES {
        let page = owner.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(page.text.ends_with("</html>") && page.text.contains("aria-current"), "{path}");
    }
    let page = owner.get("/").await.text;
    assert!(page.contains("Make the first call"));
    for (before, kind) in
        [("rel=\"stylesheet\" href=\"", "text/css"), ("<script src=\"", "text/javascript")]
    {
        let file = server.any.get(attribute(&page, before)).await;
        assert!(file.status == 200 && file.header("content-type").starts_with(kind));
        assert!(file.header("cache-control").contains("immutable"));
    }
    assert_eq!(server.any.get("/console/none.css").await.status, 404);
    for (path, status) in [
        ("/traces/none", 404),
        ("/?project=99", 404),
        ("/?window=x", 400),
        ("/traces?min_cost=x", 400),
        ("/usage.csv?by=nothing", 400),
        // Every text of an address is one of ours.
        ("/keys?done=%3Cscript%3E", 200),
    ] {
        let page = owner.get(path).await;
        assert_eq!(page.status, status, "{path}: {}", page.text);
        assert!(
            page.header("content-type").starts_with("text/html") && !page.text.contains("<script>")
        );
    }
}

async fn a_page_is_compressed_unless_another_site_leads_to_it(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    for (site, coding, packed) in [
        ("same-origin", "gzip, br", true),
        ("none", "gzip", true),
        ("cross-site", "gzip", false),
        ("same-site", "gzip", false),
        ("none", "br", false),
    ] {
        let caller = owner.with("sec-fetch-site", site).with("accept-encoding", coding);
        let request = caller.request("GET", "/").send().await.unwrap();
        assert_eq!(request.status(), 200);
        let is_packed =
            request.headers().get("content-encoding").is_some_and(|name| name == "gzip");
        let body = request.bytes().await.unwrap();
        assert_eq!(is_packed, packed, "{site} {coding}");
        assert_eq!(body.starts_with(&[0x1f, 0x8b]), packed, "{site} {coding}");
    }
}

async fn texts_of_strangers_are_no_markup(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let markup = "<script>alert(1)</script>\"'><img src=x>";
    let key = server.key().with("x-sluice-user", "<i>user</i>");
    let new = json!({"metadata": {"name": markup}});
    let trace = key.post("/api/v1/traces", &new).await.ok(201);
    let trace = trace["id"].as_str().unwrap();
    let long = "é".repeat(600_000);
    let call = |text: &str| {
        json!({"model": "sandbox", "trace_id": trace,
            "messages": [{"role": "system", "content": markup}, {"role": "user", "content": text}]})
    };
    key.post("/api/v1/chat/completions", &call(markup)).await.ok(200);
    key.post("/api/v1/chat/completions", &call(&long)).await.ok(200);
    let name = [("name", markup), ("project", "1")];
    assert_eq!(send_form(&owner, "/keys", &name).await.status, 201);
    let of_trace = format!("/traces/{trace}");
    for path in
        [&*of_trace, "/", "/traces", "/keys", "/audit", "/traces?user=%3Ci%3Euser%3C%2Fi%3E"]
    {
        let page = owner.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        for part in ["<script>alert", "<img src=x", "<i>user"] {
            assert!(!page.text.contains(part), "{path} has {part}");
        }
    }
    let page = owner.get(&of_trace).await.text;
    assert!(page.contains("&#60;script&#62;alert(1)"), "it is shown as text");
    assert!(page.contains("The beginning of 1.1 MiB") && page.len() < 400_000);
    assert!(page.ends_with("</html>") && page.matches("class=\"card step\"").count() == 2);
    // Findings are marked in the step, in characters of the text.
    let told = "äöü, mail jane@example.com <b>";
    key.post("/api/v1/chat/completions", &call(told)).await.ok(200);
    key.execute(trace, "call jane@example.com").await.ok(200);
    let page = owner.get(&of_trace).await.text;
    for marked in [
        // The provider was sent a placeholder, which is what is stored.
        "äöü, mail <mark title=\"pii: EMAIL\">[EMAIL_1_",
        "]</mark> &#60;b&#62;",
        "call <mark title=\"pii: EMAIL\">jane@example.com</mark>",
    ] {
        assert!(page.contains(marked), "no {marked} in {page}");
    }
    // Safety tries it, and marks what it finds in place.
    let text = "my mail is jane@example.com <b>";
    let tried = send_form(&owner, "/safety", &[("text", text), ("project", "1")]).await;
    shows(&tried, 200, ">jane@example.com</mark> &#60;b&#62;");
    let csv = owner.get("/usage.csv?by=user").await;
    shows(&csv, 200, "<i>user</i>,4,");
    assert!(csv.header("content-disposition").contains("attachment"));
}

async fn a_key_is_made_reset_and_revoked(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let fields = [("name", "App"), ("hourly_limit", "0.5"), ("project", "1")];
    let page = send_form(&owner, "/keys", &fields).await;
    assert_eq!(page.status, 201, "{}", page.text);
    let secret = attribute(&page.text, "id=\"secret\">");
    let secret = secret.split('<').next().unwrap();
    let keys = server.owner().await.get("/api/v1/keys").await.ok(200);
    let made = keys.as_array().unwrap().iter().find(|key| key["name"] == "App").unwrap();
    assert_eq!(made["hourly_limit"], 0.5);
    server.with_key(secret).get("/api/v1/traces").await.ok(200);
    let again = owner.get("/keys").await.text;
    assert!(again.contains("App") && !again.contains(secret), "it is shown once");
    for shown in ["you</td>", "Reserved</th>", "<td class=\"allowed\">all</td>"] {
        assert!(again.contains(shown), "no {shown} in {again}");
    }
    let held = [
        ("name", "Held"),
        ("project", "1"),
        ("allowed_model", "sandbox"),
        ("allowed_endpoint", "chat"),
        ("allowed_endpoint", "executions"),
    ];
    assert_eq!(send_form(&owner, "/keys", &held).await.status, 201);
    let keys = server.owner().await.get("/api/v1/keys").await.ok(200);
    let held = keys.as_array().unwrap().iter().find(|key| key["name"] == "Held").unwrap();
    assert_eq!(held["allowed_models"], json!(["sandbox"]));
    assert_eq!(held["allowed_endpoints"], json!(["chat", "executions"]));
    shows(&owner.get("/keys").await, 200, "sandbox, by chat, executions</td>");
    let wrong = [("name", "Wrong"), ("hourly_limit", "much"), ("project", "1")];
    shows(&send_form(&owner, "/keys", &wrong).await, 422, "The cap must be a number of dollars");
    let id = made["id"].as_str().unwrap();
    let reply = send_form(&owner, &format!("/keys/{id}/revoke?project=1"), &[]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/keys?project=1&done=key_revoked"));
    shows(&owner.get(reply.header("location")).await, 200, "The key is revoked");
    assert_eq!(server.with_key(secret).get("/api/v1/traces").await.status, 401);
}

async fn a_new_key_may_use_all_or_what_is_ticked(backend: Backend) {
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    for (name, fields, models, endpoints) in [
        ("All", [("models", "all"), ("endpoints", "all")], json!(null), json!(null)),
        ("Nothing", [("models", "these"), ("endpoints", "all")], json!([]), json!(null)),
        ("Nowhere", [("models", "all"), ("endpoints", "these")], json!(null), json!([])),
    ] {
        let form = [&[("project", "1"), ("name", name)][..], &fields].concat();
        let made = send_form(&owner, "/keys", &form).await;
        assert_eq!(made.status, 201, "{name}: {}", made.text);
        let keys = api.get("/api/v1/keys").await.ok(200);
        let key = keys.as_array().unwrap().iter().find(|key| key["name"] == name).unwrap();
        assert_eq!((&key["allowed_models"], &key["allowed_endpoints"]), (&models, &endpoints));
    }
    let page = owner.get("/keys").await;
    shows(&page, 200, "<td class=\"allowed\">none</td>");
    shows(&page, 200, "<td class=\"allowed\">all, by none</td>");
    // Ticks that would not count are no way to hold a key to something.
    for (choice, field, value, fault) in [
        ("models", "allowed_model", "sandbox", "Models are ticked, and all may be used"),
        ("endpoints", "allowed_endpoint", "chat", "Endpoints are ticked, and all may be used"),
    ] {
        let form = [("project", "1"), ("name", "Torn"), (choice, "all"), (field, value)];
        let refused = send_form(&owner, "/keys", &form).await;
        shows(&refused, 422, &format!("<p class=\"fault\" id=\"{field}-fault\">{fault}"));
        shows(&refused, 422, &format!("name=\"{field}\" value=\"{value}\" checked"));
    }
    // A choice that is not known allows nothing.
    for (choice, field) in [("models", "allowed_model"), ("endpoints", "allowed_endpoint")] {
        let form = [("project", "1"), ("name", "Torn"), (choice, "bogus")];
        let refused = send_form(&owner, "/keys", &form).await;
        shows(&refused, 422, &format!("<p class=\"fault\" id=\"{field}-fault\">"));
    }
    assert!(!owner.get("/keys").await.text.contains("Torn"));
}

async fn a_viewer_sees_no_button_that_would_be_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    roles::user(&server, "viewer", &["1"]).await;
    roles::user(&server, "member", &["1"]).await;
    let forms = async |who: &Caller| {
        let mut forms = Vec::new();
        for path in ["/keys", "/safety", "/safety/reviews", "/insights"] {
            let page = who.get(path).await.text;
            let main = page.split_once("<main").unwrap().1.to_owned();
            forms.extend(main.match_indices("method=\"post\" action=\"").map(|(at, start)| {
                let rest = &main[at + start.len()..];
                let action = rest.split_once('"').unwrap().0;
                action.split('?').next().unwrap().to_owned()
            }));
        }
        forms
    };
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    assert_eq!(forms(&viewer).await, Vec::<String>::new());
    assert_eq!(viewer.get("/audit").await.status, 403);
    assert!(!viewer.get("/").await.text.contains("/audit"));
    for path in ["/keys", "/safety"] {
        let fields = [("name", "x"), ("text", "x"), ("project", "1")];
        assert_eq!(send_form(&viewer, path, &fields).await.status, 403, "{path}");
    }
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let shown = forms(&member).await;
    assert!(shown.contains(&"/keys".to_owned()) && shown.contains(&"/safety".to_owned()));
    assert!(!member.get("/keys").await.text.contains("hourly_limit"), "a cap is for admins");
    // Nor a sentence that says to do what would be refused.
    let api = server.owner().await;
    for key in api.get("/api/v1/keys").await.ok(200).as_array().unwrap() {
        api.delete(&format!("/api/v1/keys/{}", key["id"].as_str().unwrap())).await.ok(204);
    }
    for (path, for_both, for_members) in [
        ("/models/1", "Its traces", "Call it in the playground"),
        ("/limits", "No key yet.", "Make one under"),
        ("/safety/reviews", "No finding waits.", "try a text or a draft"),
    ] {
        for (who, may) in [(&member, true), (&viewer, false)] {
            let page = who.get(path).await;
            shows(&page, 200, for_both);
            assert_eq!(page.text.contains(for_members), may, "{path}: {}", page.text);
        }
    }
}

async fn traces_are_filtered_and_paged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = owner(&server).await;
    shows(&owner.get("/traces").await, 200, "No trace yet");
    for number in 0..60 {
        let new = json!({"metadata": {"user": format!("u{}", number % 2)}});
        server.key().post("/api/v1/traces", &new).await.ok(201);
    }
    let ids = |page: &str| {
        let parts = page.split("href=\"/traces/").skip(1);
        parts.map(|part| part[..36].to_owned()).collect::<Vec<_>>()
    };
    let first = owner.get("/traces?status=&user=").await.text;
    assert_eq!(ids(&first).len(), 50);
    let next = attribute(&first, "<nav class=\"pages\" aria-label=\"Pages\"> <a href=\"");
    let second = owner.get(&next.replace("&#38;", "&")).await.text;
    assert_eq!(ids(&second).len(), 10);
    assert!(ids(&second).iter().all(|id| !ids(&first).contains(id)));
    let of_user = owner.get("/traces?user=u1").await.text;
    assert!(ids(&of_user).len() == 30 && of_user.contains("value=\"u1\""));
    shows(&owner.get("/traces?user=nobody").await, 200, "No trace fits");
    // Tags, metadata and keys have fields of their own.
    let of_team = server.key().with("x-sluice-tags", "team=search");
    let tagged = of_team.trace().await;
    of_team.execute(&tagged, "Hi.").await.ok(200);
    let keys = server.owner().await.get("/api/v1/keys").await.ok(200);
    let key = keys[0]["id"].as_str().unwrap();
    for (filter, count, field) in [
        ("tag=team%3Dsearch", 1, "value=\"team=search\""),
        ("tag[team]=search", 1, "name=\"tag[team]\" value=\"search\""),
        ("metadata=user%3Du1", 30, "value=\"user=u1\""),
        ("metadata=user%3Dnobody", 0, "No trace fits"),
        (&*format!("key={key}&tag=team%3Dsearch"), 1, "\" selected>"),
    ] {
        let page = owner.get(&format!("/traces?{filter}")).await;
        shows(&page, 200, field);
        assert_eq!(ids(&page.text).len(), count, "{filter}");
    }
    assert_eq!(ids(&owner.get("/traces?tag=team%3Dsearch").await.text), [tagged]);
    assert_eq!(owner.get("/traces?tag=team").await.status, 400, "a tag has a value");
}

async fn events_are_filtered_paged_and_exported(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let api = server.owner().await;
    for number in 0..60 {
        let change = json!({"project": {"description": number.to_string()}});
        api.patch("/api/v1/projects/1", &change).await.ok(200);
    }
    let rows = |page: &str| page.matches("<th scope=\"row\">project_updated</th>").count();
    let first = owner.get("/audit?event=project_updated&actor=&target=project%3A1").await.text;
    assert_eq!(rows(&first), 50);
    assert!(first.contains("name=\"target\" value=\"project:1\""), "{first}");
    let next = attribute(&first, "<nav class=\"pages\" aria-label=\"Pages\"> <a href=\"");
    let second = owner.get(&next.replace("&#38;", "&")).await.text;
    assert_eq!(rows(&second), 10);
    assert!(second.contains("First page") && !second.contains("Next page"));
    shows(&owner.get("/audit?event=none").await, 200, "No event fits");
    let file = attribute(&first, "<p class=\"note\"><a href=\"").replace("&#38;", "&");
    let file = owner.get(&file).await;
    assert_eq!((file.status, file.text.lines().count()), (200, 60), "{}", file.text);
    assert_eq!(owner.get("/audit?limit=0").await.status, 400);
}
