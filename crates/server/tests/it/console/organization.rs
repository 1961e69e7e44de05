//! The organization's fields on the page of settings, and the console without a project.

use super::manage::based;
use super::{owner, send_form, shows, signed_in};
use crate::harness::{Backend, Server};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    owners_alone_disable_passwords,
    somebody_without_a_project_finds_a_way_on,
    the_organization_has_settings_without_a_project
);

async fn owners_alone_disable_passwords(backend: Backend) {
    const BOX: &str = "name=\"disable_password_login\"";
    const PATH: &str = "security.disable_password_login";
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "admin", &[]).await;
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    let fields = [("project", "1"), ("subject", "organization"), ("form", "fields")];
    let ticked = [&fields[..], &[("disable_password_login", "1")]].concat();
    let page = owner.get("/settings").await.text;
    let organization = page.split_once("id=\"of-organization\"").unwrap().1;
    assert!(organization.contains(BOX), "{organization}");
    let shown = send_form(&owner, "/settings/preview", &based(&ticked, organization)).await;
    shows(&shown, 200, PATH);
    // Whether people could still sign in is judged when it is saved.
    let patch = r#"{"security": {"disable_password_login": true}}"#;
    let save = [("project", "1"), ("subject", "organization"), ("patch", patch)];
    let refused = send_form(&owner, "/settings", &based(&save, &shown.text)).await;
    shows(&refused, 422, "a provider of single sign-on, and none is configured");
    // A box that is left as it is, is no part of the change.
    let plain = send_form(&owner, "/settings/preview", &based(&fields, organization)).await;
    let main = plain.text.split_once("id=\"proposed\"").unwrap().1;
    assert!(!main.split_once("of-project").unwrap().0.contains(PATH), "{main}");
    // Admins have no box, and a form with one changes nothing of it.
    let page = admin.get("/settings").await.text;
    assert!(!page.contains(BOX), "{page}");
    let organization = page.split_once("id=\"of-organization\"").unwrap().1;
    let shown = send_form(&admin, "/settings/preview", &based(&ticked, organization)).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let main = shown.text.split_once("id=\"proposed\"").unwrap().1;
    assert!(!main.split_once("of-project").unwrap().0.contains(PATH), "{main}");
    assert_eq!(send_form(&admin, "/settings", &based(&save, &shown.text)).await.status, 403);
}

async fn somebody_without_a_project_finds_a_way_on(backend: Backend) {
    let server = Server::start(&backend).await;
    user(&server, "member", &[]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let framed = |page: &str| {
        let leads = ["action=\"/sign-out\"", "href=\"/account\"", "href=\"/jobs\""];
        leads.iter().all(|lead| page.contains(lead))
    };
    for path in [
        "/",
        "/traces",
        "/playground",
        "/models",
        "/routing",
        "/keys",
        "/limits",
        "/safety",
        "/insights",
        "/jobs",
    ] {
        let page = member.get(path).await;
        shows(&page, 200, "You are a member of no project: an admin or owner can change that.");
        let current = format!("<a href=\"{path}\" aria-current=\"page\">");
        assert!(framed(&page.text) && page.text.contains(&current), "{path}: {}", page.text);
    }
    for path in ["/traces/none", "/traces.csv", "/safety/reviews", "/live/traces"] {
        let page = member.get(path).await;
        shows(&page, 404, "You are a member of no project");
        assert!(framed(&page.text), "{path}: {}", page.text);
    }
    // Links and forms of a page from before may name one.
    let page = member.get("/?project=1").await;
    shows(&page, 200, "You are a member of no project");
    assert!(framed(&page.text), "{}", page.text);
    assert_eq!(member.get("/account?project=1").await.status, 200);
    for path in ["/keys", "/models"] {
        let page = send_form(&member, path, &[("project", "1"), ("name", "x")]).await;
        shows(&page, 404, "You are a member of no project");
        assert!(framed(&page.text), "{path}: {}", page.text);
    }
}

async fn the_organization_has_settings_without_a_project(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    server.owner().await.delete("/api/v1/projects/1").await.ok(204);
    let way_on = "make one by <code>POST /api/v1/projects</code> of the API.";
    shows(&owner.get("/").await, 200, way_on);
    for path in ["/", "/settings"] {
        shows(&owner.get(&format!("{path}?project=1")).await, 200, way_on);
    }
    for path in ["/account", "/people", "/audit"] {
        assert_eq!(owner.get(&format!("{path}?project=1")).await.status, 200, "{path}");
    }
    let page = owner.get("/settings").await;
    shows(&page, 200, way_on);
    assert!(!page.text.contains("id=\"of-project\""), "{}", page.text);
    // A project that is not there has none.
    let budget = [("subject", "project"), ("patch", r#"{"monthly_budget": 5}"#)];
    for path in ["/settings/preview", "/settings"] {
        assert_eq!(send_form(&owner, path, &budget).await.status, 404, "{path}");
    }
    let fields = [("subject", "organization"), ("form", "fields"), ("require_mfa", "1")];
    let shown = send_form(&owner, "/settings/preview", &based(&fields, &page.text)).await;
    shows(&shown, 200, "<code>security.require_mfa</code>");
    let patch = r#"{"security": {"require_mfa": true}}"#;
    let save = [("subject", "organization"), ("patch", patch)];
    let saved = send_form(&owner, "/settings", &based(&save, &shown.text)).await;
    let back = "/settings?done=settings_saved";
    assert_eq!((saved.status, saved.header("location")), (303, back), "{}", saved.text);
}
