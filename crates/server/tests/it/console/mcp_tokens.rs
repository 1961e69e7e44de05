//! Tokens of MCP servers in the settings of a project.

use serde_json::json;

use super::{owner, send_form, shows, signed_in};
use crate::harness::{Backend, Server, settings};
use crate::session::roles::{self, USER_PASSWORD};

crate::on_every_backend!(a_token_of_an_mcp_server_is_stored_and_never_shown);

async fn a_token_of_an_mcp_server_is_stored_and_never_shown(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let api = server.owner().await;
    shows(&owner.get("/settings").await, 200, "No MCP server is allowed");
    let address = "https://mcp.example/mcp";
    settings(&api, 1, json!({"mcp": {"allowed_servers": [address]}})).await;
    shows(&owner.get("/settings").await, 200, &format!("Token for <code>{address}</code></label>"));
    let send = async |fields: &[(&str, &str)]| {
        let fields = [&[("project", "1"), ("server", address)], fields].concat();
        send_form(&owner, "/settings/mcp-tokens", &fields).await
    };
    let stored = async || {
        let project = api.get("/api/v1/projects/1").await.ok(200);
        project["settings"]["mcp"]["credentials"].clone()
    };
    let refused = send(&[("token", "two words")]).await;
    shows(&refused, 422, "id=\"mcp-0-fault\">settings.mcp.credentials");
    assert!(!refused.text.contains("two words"), "it is not sent back");
    let saved = send(&[("token", "secret-one")]).await;
    assert!(saved.header("location").contains("done=mcp_token_saved"), "{}", saved.text);
    assert_eq!(stored().await, json!({address: true}));
    let page = owner.get("/settings").await;
    shows(&page, 200, "(set: leave empty to keep it)");
    assert!(!page.text.contains("secret-one"));
    for nothing in ["", "  "] {
        let kept = send(&[("token", nothing)]).await;
        assert!(kept.header("location").contains("done=mcp_token_kept"), "{}", kept.text);
        assert_eq!(stored().await, json!({address: true}));
    }
    assert!(send(&[("remove", "1")]).await.header("location").contains("mcp_token_removed"));
    assert_eq!(stored().await, json!({}));
    shows(&send(&[("token", " ")]).await, 422, "id=\"mcp-0-fault\">There is no token to store");
    // A patch would be sent back: it takes none.
    let patch = json!({"mcp": {"credentials": {address: "secret-two"}}, "monthly_budget": 5});
    let patch = patch.to_string();
    let fields = [("project", "1"), ("subject", "project"), ("patch", &*patch)];
    for path in ["/settings/preview", "/settings"] {
        let refused = send_form(&owner, path, &fields).await;
        shows(&refused, 422, "A patch holds no tokens of MCP servers");
        shows(&refused, 422, "monthly_budget");
        assert!(!refused.text.contains("secret-two"), "{}", refused.text);
    }
    // Neither does one go back that is no JSON, has a misspelt key, or a key twice.
    for patch in [
        r#"{"monthly_budget": 5, "mcp": {"credentials": {"https://h": "secret-two"}},}"#,
        r#"{"monthly_budget": 5, "mcp": {"credential": {"https://h": "secret-two"}}}"#,
        r#"{"monthly_budget": "x", "mcp": {"credentials": {"a": "secret-two"}}, "mcp": {}}"#,
        r#"{"monthly_budget": "x", "MCP": {"credentials": {"a": "secret-two"}}}"#,
        r#"{"monthly_budget": "x", "mcp": "secret-two"}"#,
    ] {
        let fields = [("project", "1"), ("subject", "project"), ("patch", patch)];
        for path in ["/settings/preview", "/settings"] {
            let refused = send_form(&owner, path, &fields).await;
            shows(&refused, 422, "id=\"patch-fault\">What may hold a token");
            assert!(!refused.text.contains("secret-two"), "{patch}: {}", refused.text);
        }
    }
    roles::user(&server, "member", &["1"]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    for token in ["theirs", ""] {
        let fields = [("project", "1"), ("server", address), ("token", token)];
        assert_eq!(send_form(&member, "/settings/mcp-tokens", &fields).await.status, 403);
    }
}
