//! An issuer of OpenID Connect on loopback, as honest or not as a test wants it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use aws_lc_rs::{digest, hmac};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::harness::encode;

pub const CLIENT: &str = "sluice-client";
pub const SECRET: &str = "a-canary-of-a-client-secret";

/// The signature of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// By the key of the issuer.
    Own,
    /// By another key, under the name of the issuer's.
    Forged,
    /// By a key that the issuer does not publish.
    Unpublished,
    /// None at all.
    None,
    /// With the public key as a shared secret.
    PublicKeyAsSecret,
    /// With the client's secret.
    ClientSecret,
}

/// The behaviour of the issuer.
pub struct Script {
    /// Claims of the next tokens; null leaves one out.
    pub claims: Map<String, Value>,
    /// The claims about a user beside the token.
    pub user_info: Map<String, Value>,
    pub signature: Signature,
    /// Fields of the metadata; null leaves one out.
    pub metadata: Map<String, Value>,
    /// Whether the metadata is somewhere else.
    pub redirects: bool,
    /// The name of the key that is published.
    pub kid: String,
    /// Holds the next exchange of a code.
    pub hold: Option<Hold>,
    /// Whether no exchange of a code is answered.
    pub is_silent: bool,
    /// The error with which every exchange of a code is refused.
    pub error: Option<&'static str>,
}

/// An exchange that has come, and goes on when the test says so.
#[derive(Clone, Default)]
pub struct Hold {
    pub came: Arc<Notify>,
    pub goes_on: Arc<Notify>,
}

struct Shared {
    base: String,
    key: EcdsaKeyPair,
    other_key: EcdsaKeyPair,
    script: Mutex<Script>,
    /// The codes that were given out, with their nonce and challenge.
    codes: Mutex<HashMap<String, (String, String)>>,
    used: Mutex<HashSet<String>>,
    key_requests: Mutex<usize>,
    token_requests: Mutex<usize>,
}

#[derive(Clone)]
pub struct Issuer(Arc<Shared>);

impl Issuer {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let key = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let script = Script {
            claims: Map::new(),
            user_info: Map::new(),
            signature: Signature::Own,
            metadata: Map::new(),
            redirects: false,
            kid: "k1".to_owned(),
            hold: None,
            is_silent: false,
            error: None,
        };
        let issuer = Self(Arc::new(Shared {
            base,
            key: key(),
            other_key: key(),
            script: Mutex::new(script),
            codes: Mutex::default(),
            used: Mutex::default(),
            key_requests: Mutex::default(),
            token_requests: Mutex::default(),
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/user", get(user))
            .route("/elsewhere", get(metadata))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        issuer
    }

    pub fn url(&self) -> &str {
        &self.0.base
    }

    /// Changes what it does.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.script.lock().unwrap());
    }

    /// The claims of the next tokens.
    pub fn says(&self, claims: &Value) {
        self.script(|script| script.claims.clone_from(claims.as_object().unwrap()));
    }

    /// How often its keys were asked for.
    pub fn key_requests(&self) -> usize {
        *self.0.key_requests.lock().unwrap()
    }

    /// How often a code was exchanged, or tried to be.
    pub fn token_requests(&self) -> usize {
        *self.0.token_requests.lock().unwrap()
    }

    /// The user agrees: the query with which their browser is led back.
    pub fn agree(&self, location: &str) -> HashMap<String, String> {
        let query = query_of(location);
        assert!(location.starts_with(&format!("{}/authorize?", self.0.base)), "{location}");
        assert_eq!(query["code_challenge_method"], "S256");
        assert_eq!((&*query["response_type"], &*query["client_id"]), ("code", CLIENT));
        let code = format!("code-{}", self.0.codes.lock().unwrap().len());
        let kept = (query["nonce"].clone(), query["code_challenge"].clone());
        self.0.codes.lock().unwrap().insert(code.clone(), kept);
        let state = query["state"].clone();
        HashMap::from([("code".to_owned(), code), ("state".to_owned(), state)])
    }

    fn token(&self, nonce: &str) -> String {
        let script = self.0.script.lock().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut claims = json!({
            "iss": self.0.base, "sub": "user-1", "aud": CLIENT, "nonce": nonce,
            "exp": now.as_secs() + 300, "iat": now.as_secs(), "auth_time": now.as_secs(),
        });
        merge(claims.as_object_mut().unwrap(), &script.claims);
        let (alg, kid) = match script.signature {
            Signature::Own | Signature::Forged => ("ES256", script.kid.as_str()),
            Signature::Unpublished => ("ES256", "unpublished"),
            Signature::None => ("none", script.kid.as_str()),
            Signature::PublicKeyAsSecret | Signature::ClientSecret => {
                ("HS256", script.kid.as_str())
            }
        };
        let head = json!({"alg": alg, "kid": kid, "typ": "JWT"});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let by = |key: &EcdsaKeyPair| {
            let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
            signature.as_ref().to_vec()
        };
        let with = |secret: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes())
                .as_ref()
                .to_vec()
        };
        let signature = match script.signature {
            Signature::Own => by(&self.0.key),
            Signature::Forged | Signature::Unpublished => by(&self.0.other_key),
            Signature::None => Vec::new(),
            Signature::PublicKeyAsSecret => with(self.0.key.public_key().as_ref()),
            Signature::ClientSecret => with(SECRET.as_bytes()),
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The parameters of an address.
pub fn query_of(location: &str) -> HashMap<String, String> {
    let query = location.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// A query of these parameters.
pub fn query(parameters: &HashMap<String, String>) -> String {
    let pairs: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
    pairs.join("&")
}

fn merge(into: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, value) in changes {
        if value.is_null() {
            into.remove(name);
        } else {
            into.insert(name.clone(), value.clone());
        }
    }
}

fn answer(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

async fn metadata(State(issuer): State<Issuer>, uri: Uri) -> Response {
    let base = &issuer.0.base;
    let script = issuer.0.script.lock().unwrap();
    if script.redirects && uri.path() != "/elsewhere" {
        return Redirect::to(&format!("{base}/elsewhere")).into_response();
    }
    let mut metadata = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "userinfo_endpoint": format!("{base}/user"),
        "end_session_endpoint": format!("{base}/end"),
        "jwks_uri": format!("{base}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    });
    merge(metadata.as_object_mut().unwrap(), &script.metadata);
    answer(&metadata)
}

async fn keys(State(issuer): State<Issuer>) -> Response {
    *issuer.0.key_requests.lock().unwrap() += 1;
    let point = issuer.0.key.public_key().as_ref();
    let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let kid = issuer.0.script.lock().unwrap().kid.clone();
    answer(&json!({"keys": [{
        "kty": "EC", "crv": "P-256", "use": "sig", "kid": kid,
        "x": part(&point[1..33]), "y": part(&point[33..65]),
    }]}))
}

async fn token(State(issuer): State<Issuer>, headers: HeaderMap, body: String) -> Response {
    *issuer.0.token_requests.lock().unwrap() += 1;
    if issuer.0.script.lock().unwrap().is_silent {
        std::future::pending::<()>().await;
    }
    let hold = issuer.0.script.lock().unwrap().hold.take();
    if let Some(hold) = hold {
        hold.came.notify_one();
        hold.goes_on.notified().await;
    }
    let error = issuer.0.script.lock().unwrap().error;
    let refused = || {
        let error = answer(&json!({"error": error.unwrap_or("invalid_grant")}));
        (StatusCode::BAD_REQUEST, error).into_response()
    };
    let form: HashMap<String, String> =
        form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let credential = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{SECRET}")));
    if headers["authorization"] != credential.as_str() {
        let error = answer(&json!({"error": "invalid_client"}));
        return (StatusCode::UNAUTHORIZED, error).into_response();
    }
    if error.is_some() {
        return refused();
    }
    let code = &form["code"];
    let Some((nonce, challenge)) = issuer.0.codes.lock().unwrap().get(code).cloned() else {
        return refused();
    };
    let hash = digest::digest(&digest::SHA256, form["code_verifier"].as_bytes());
    let is_asker = URL_SAFE_NO_PAD.encode(hash) == challenge;
    if !is_asker || !issuer.0.used.lock().unwrap().insert(code.clone()) {
        return refused();
    }
    answer(&json!({
        "access_token": "access", "token_type": "Bearer", "expires_in": 300,
        "id_token": issuer.token(&nonce),
    }))
}

async fn user(State(issuer): State<Issuer>, headers: HeaderMap) -> Response {
    if headers["authorization"] != "Bearer access" {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let script = issuer.0.script.lock().unwrap();
    let subject = script.claims.get("sub").cloned().unwrap_or_else(|| json!("user-1"));
    let mut about = json!({"sub": subject});
    merge(about.as_object_mut().unwrap(), &script.user_info);
    answer(&about)
}
