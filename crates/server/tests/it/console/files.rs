//! Lists as files: all rows that fit, to whoever sees the page.

use serde_json::json;

use super::{browser, owner, shows, signed_in};
use crate::harness::{Backend, Caller, Server};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(a_list_of_several_pages_is_one_file, a_file_is_for_those_who_see_its_page);

/// The lines of a file, without its head.
async fn lines(caller: &Caller, path: &str, head: &str) -> Vec<String> {
    let file = caller.get(path).await;
    assert_eq!(file.status, 200, "{path}: {}", file.text);
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
    assert!(file.header("content-disposition").starts_with("attachment"), "{path}");
    let mut lines = file.text.lines().map(str::to_owned);
    let first = lines.next().unwrap();
    assert!(first.starts_with(head), "{path}: {first}");
    lines.collect()
}

async fn a_list_of_several_pages_is_one_file(backend: Backend) {
    const MANY: usize = 130;
    let server = Server::unlimited(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    for number in 0..MANY {
        let key = json!({"name": format!("=application {number}"), "project_id": 1});
        api.post("/api/v1/keys", &key).await.ok(201);
        let new = json!({"metadata": {"user": format!("u{}", number % 2)}});
        server.key().post("/api/v1/traces", &new).await.ok(201);
        let invited = json!({"email": format!("person.{number}@example.org"), "role": "member"});
        api.post("/api/v1/invitations", &invited).await.ok(200);
    }
    let keys = lines(&owner, "/keys.csv", "key,name,masked,").await;
    assert_eq!(keys.len(), MANY + 1);
    assert!(keys.last().unwrap().contains(",\"'=application 129\","), "no cell is a formula");
    let limits = lines(&owner, "/limits.csv", "key,name,status,").await;
    assert_eq!(limits.len(), MANY + 1);
    let models = lines(&owner, "/models.csv", "model,name,provider,").await;
    assert!(models[0].starts_with("sandbox,") && models[0].contains(",simple complex secure,"));
    let invitations = lines(&owner, "/people/invitations.csv", "email,role,").await;
    assert_eq!(invitations.len(), MANY);
    let people = lines(&owner, "/people.csv", "user,email,name,role,").await;
    assert!(people.len() == 1 && people[0].contains(",owner,"), "{people:?}");
    assert_eq!(lines(&owner, "/people/tokens.csv", "name,token,role,").await.len(), 0);
    assert_eq!(lines(&owner, "/jobs.csv", "job,kind,state,").await.len(), 0);

    // The filters of the page, and not its place.
    let made = lines(&owner, "/audit.csv?event=key_created&limit=10", "time,event,actor,").await;
    assert_eq!(made.len(), MANY);
    let exports = api.get("/api/v1/audit-events?event=audit_exported").await.ok(200);
    assert_eq!(exports[0]["metadata"], json!({"event": "key_created"}), "an export is an event");
    let traces = lines(&owner, "/traces.csv", "trace,opened,status,").await;
    assert_eq!(traces.len(), MANY);
    let last = &traces[MANY - 1][..36];
    let of_user = format!("/traces.csv?user=u1&before={last}");
    assert_eq!(lines(&owner, &of_user, "trace,").await.len(), MANY / 2);
    let oldest = lines(&owner, "/traces.csv?order=oldest", "trace,").await;
    assert_eq!(oldest.iter().rev().collect::<Vec<_>>(), traces.iter().collect::<Vec<_>>());
    assert_eq!(owner.get("/traces.csv?min_cost=x").await.status, 400);
    let page = owner.get("/traces?user=u1&order=oldest").await;
    let link = "<a href=\"/traces.csv?user=u1&#38;order=oldest&#38;project=1\" aria-label=\"CSV: Traces\">CSV</a>";
    shows(&page, 200, link);
}

async fn a_file_is_for_those_who_see_its_page(backend: Backend) {
    let server = Server::start(&backend).await;
    let other = json!({"project": {"name": "Other"}});
    let other = server.owner().await.post("/api/v1/projects", &other).await.ok(201);
    roles::user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    for path in ["/audit", "/people", "/people/tokens"] {
        assert_eq!(viewer.get(path).await.status, 403, "{path}");
        assert_eq!(viewer.get(&format!("{path}.csv")).await.status, 403, "{path}");
    }
    assert_eq!(viewer.get("/people/invitations.csv").await.status, 403);
    for list in ["traces", "keys", "limits", "models", "jobs"] {
        lines(&viewer, &format!("/{list}.csv?project=1"), "").await;
        let hidden = format!("/{list}.csv?project={}", other["id"]);
        assert_eq!(viewer.get(&hidden).await.status, 404, "{hidden}");
        let stranger = browser(&server).get(&format!("/{list}.csv")).await;
        let sign_in = format!("/sign-in?next=%2F{list}.csv");
        assert_eq!((stranger.status, stranger.header("location")), (303, &*sign_in));
    }
}
