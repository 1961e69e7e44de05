//! Tokens that are not what they should be, and the addresses of an issuer.

use serde_json::{Value, json};

use super::issuer::{Issuer, Signature};
use super::{PROVIDERS, fields, person, refused, server, sign_on, signed_on, with_provider};
use crate::harness::{Backend, Setup};

crate::on_every_backend!(
    a_token_that_is_not_for_us_signs_nobody_in,
    keys_are_fetched_anew_once_a_minute,
    what_the_token_lacks_is_asked_for,
    an_issuer_is_called_under_the_egress_rules
);

async fn a_token_that_is_not_for_us_signs_nobody_in(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let hour = 3600;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = now.as_secs();
    for (claims, reason) in [
        (json!({"iss": "https://other.example"}), "token_issuer"),
        (json!({"iss": format!("{}/", issuer.url())}), "token_issuer"),
        (json!({"aud": "other"}), "token_audience"),
        (json!({"aud": ["sluice-client", "other"]}), "token_audience"),
        (json!({"azp": "other"}), "token_audience"),
        (json!({"exp": now - hour, "iat": now - 2 * hour}), "token_time"),
        (json!({"exp": now - 61}), "token_time"),
        (json!({"iat": now + 2 * hour, "exp": now + 3 * hour}), "token_time"),
        (json!({"nonce": "changed"}), "token_nonce"),
        (json!({"nonce": null}), "token_nonce"),
        (json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}), "token_signature"),
        (json!({"sub": ""}), "token_malformed"),
    ] {
        let mut whole = person("user-1", "ann@example.org", &["eng"]);
        whole.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        issuer.says(&whole);
        refused(&server, &sign_on(&server, &issuer).await, "issuer", reason).await;
    }
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    for (signature, reason) in [
        (Signature::None, "token_algorithm"),
        (Signature::PublicKeyAsSecret, "token_algorithm"),
        (Signature::ClientSecret, "token_algorithm"),
        (Signature::Forged, "token_signature"),
        (Signature::Unpublished, "token_key"),
    ] {
        issuer.script(|script| script.signature = signature);
        refused(&server, &sign_on(&server, &issuer).await, "issuer", reason).await;
    }
    // Nobody was made by any of them, and the honest token still is one.
    let people = server.owner().await.get("/api/v1/users").await.ok(200);
    assert_eq!(people.as_array().unwrap().len(), 1);
    issuer.script(|script| script.signature = Signature::Own);
    issuer.says(&json!({"email": "ann@example.org", "groups": "eng", "aud": ["sluice-client"],
        "azp": "sluice-client", "exp": now + 30}));
    signed_on(&server, &issuer).await;
}

async fn keys_are_fetched_anew_once_a_minute(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    signed_on(&server, &issuer).await;
    let before = issuer.key_requests();
    issuer.script(|script| "k2".clone_into(&mut script.kid));
    signed_on(&server, &issuer).await;
    assert_eq!(issuer.key_requests(), before + 1, "the issuer has replaced its key");
    issuer.script(|script| script.signature = Signature::Unpublished);
    for _ in 0..3 {
        refused(&server, &sign_on(&server, &issuer).await, "issuer", "token_key").await;
    }
    assert_eq!(issuer.key_requests(), before + 1, "unknown keys cause no flood");
}

async fn what_the_token_lacks_is_asked_for(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&json!({"sub": "user-1", "groups": ["eng"]}));
    let about = person("user-1", "ann@example.org", &["ops"]);
    issuer.script(|script| script.user_info.clone_from(about.as_object().unwrap()));
    let who = signed_on(&server, &issuer).await.get("/api/v1/session").await.ok(200);
    assert_eq!(who["user"]["email"], "ann@example.org");
    assert_eq!(who["user"]["role"], "member", "the token's own claims come first");
    issuer.script(|script| {
        script.user_info.insert("sub".to_owned(), json!("user-2"));
    });
    refused(&server, &sign_on(&server, &issuer).await, "issuer", "user_info").await;
}

async fn an_issuer_is_called_under_the_egress_rules(backend: Backend) {
    let issuer = Issuer::start().await;
    let closed = Setup::new(&backend).env("SLUICE_PUBLIC_URL", "http://127.0.0.1:1").start().await;
    let owner = closed.owner().await;
    let with = |name: &str, value: Value| {
        let mut fields = fields(&issuer);
        fields[name] = value;
        fields
    };
    owner.post(PROVIDERS, &fields(&issuer)).await.says(422, "Issuer is not allowed");
    let metadata = with("issuer", json!("https://169.254.169.254"));
    owner.post(PROVIDERS, &metadata).await.says(422, "Issuer is not allowed");
    let plain = with("issuer", json!("http://login.example"));
    owner.post(PROVIDERS, &plain).await.says(422, "Issuer must begin with https://");
    drop(closed);
    let server = server(&backend).await;
    let owner = server.owner().await;
    for (name, address, fault) in [
        ("jwks_uri", "http://169.254.169.254/keys", "must not be called"),
        ("jwks_uri", "https://10.0.0.1/keys", "must not be called"),
        ("jwks_uri", "http://login.example/keys", "must not be called"),
        ("authorization_endpoint", "http://login.example/authorize", "must not be called"),
        ("end_session_endpoint", "javascript:alert(1)", "must not be called"),
        ("issuer", "https://other.example", "names another issuer"),
    ] {
        issuer.script(|script| {
            script.metadata.clear();
            script.metadata.insert(name.to_owned(), json!(address));
        });
        owner.post(PROVIDERS, &fields(&issuer)).await.says(422, fault);
    }
    issuer.script(|script| {
        script.metadata.clear();
        script.redirects = true;
    });
    owner.post(PROVIDERS, &fields(&issuer)).await.says(422, "an error or a redirect");
    issuer.script(|script| script.redirects = false);
    // The address of the token is looked at when it is called.
    for (slug, address) in
        [("stub", "http://169.254.169.254/token"), ("s2", "https://10.0.0.1/token")]
    {
        issuer.script(|script| {
            script.metadata.insert("token_endpoint".to_owned(), json!(address));
        });
        owner.post(PROVIDERS, &with("slug", json!(slug))).await.ok(200);
        refused(&server, &sign_on(&server, &issuer).await, "issuer", "issuer_forbidden").await;
    }
    issuer.script(|script| script.metadata.clear());
    let nothing = with("issuer", json!("http://127.0.0.1:1"));
    owner.post(PROVIDERS, &nothing).await.says(422, "does not answer");
}
