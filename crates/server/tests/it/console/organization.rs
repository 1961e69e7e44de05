//! The organization's fields on the page of settings.

use super::manage::based;
use super::{owner, send_form, shows, signed_in};
use crate::harness::{Backend, Server};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(owners_alone_disable_passwords);

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
