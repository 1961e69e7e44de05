//! The console: pages, forms, and what keeps them to their users.

mod account;
mod calls;
mod figures;
mod files;
mod live;
mod manage;
mod mcp_tokens;
mod old_forms;
mod organization;
mod overview;
mod pages;
mod people;
mod reviews;
mod sent_again;
mod sign_in;
mod sizes;
mod trace;

use crate::harness::{Caller, Reply, Server};

/// Somebody whose browser follows no redirect by itself.
fn browser(server: &Server) -> Caller {
    let policy = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().redirect(policy).no_proxy().build().unwrap();
    Caller::new(client, server.any.base.clone())
}

/// Sends a form from a page of the console.
async fn send_form(caller: &Caller, path: &str, fields: &[(&str, &str)]) -> Reply {
    let own = caller.base.clone();
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let request = caller.with("origin", &own).request("POST", path);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
    Caller::try_send(request).await.unwrap()
}

/// A page with this status has this text.
#[track_caller]
fn shows(page: &Reply, status: u16, text: &str) {
    assert_eq!(page.status, status, "{}", page.text);
    assert!(page.text.contains(text), "no {text} in {}", page.text);
}

/// The owner in a browser.
pub async fn owner(server: &Server) -> Caller {
    signed_in(server, crate::harness::OWNER, crate::harness::PASSWORD).await
}

async fn signed_in(server: &Server, email: &str, password: &str) -> Caller {
    let browser = browser(server);
    let fields = [("email", email), ("password", password), ("next", "/keys")];
    let reply = send_form(&browser, "/sign-in", &fields).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/keys"), "{}", reply.text);
    let cookie = reply.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    browser.with("cookie", cookie.split(';').next().unwrap())
}
