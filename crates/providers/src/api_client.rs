//! JSON requests to a gateway like this one, for commands that call its API.

use std::time::Duration;

use bytes::Bytes;
use domain::secret::Secret;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::adapter::request::{Call, Outgoing};
use crate::client::Client;
use crate::error::ErrorKind;
use crate::net::pool::Resend;
use crate::net::receive;

/// The longest time for a whole answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of an answer.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The path of the session.
const SESSION_PATH: &str = "/api/v1/session";

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The address or the credential cannot be used.
    #[error("the address or the key is malformed")]
    Malformed,
    /// The egress rules forbid the address.
    #[error("the egress rules forbid the address")]
    Forbidden,
    /// There is no answer, or none that is JSON.
    #[error("the gateway does not answer")]
    Unreachable,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct ApiAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Value,
    /// The wait that it asks for.
    pub retry_after: Option<Duration>,
}

/// The outcome of a sign-in.
#[derive(Debug)]
pub enum SignIn {
    /// Sends requests in the session.
    Complete(ApiClient),
    /// The password is right, and a second factor is asked for.
    AwaitsFactor,
    /// The gateway refuses.
    Refused(ApiAnswer),
}

/// Requests to one gateway, with a key or a service token, or as a signed-in user.
pub struct ApiClient {
    client: Client,
    base: String,
    credential: Option<(HeaderName, Secret)>,
    /// Further headers of each request.
    headers: HeaderMap,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiClient({})", self.base)
    }
}

impl ApiClient {
    /// Requests with a key or a service token to the gateway at an address, which may be a private one.
    pub fn new(client: Client, base: &str, key: Secret) -> Self {
        let bearer = Secret::new(format!("Bearer {}", key.expose()));
        Self { credential: Some((AUTHORIZATION, bearer)), ..Self::open(client, base) }
    }

    /// Signs a user in.
    pub async fn sign_in(
        client: Client,
        base: &str,
        email: &str,
        password: &Secret,
    ) -> Result<SignIn, ApiError> {
        let mut open = Self::open(client, base);
        let body = json!({"email": email, "password": password.expose()});
        let (answer, cookie) =
            open.exchange(Method::POST, SESSION_PATH, body.to_string().into_bytes()).await?;
        let Some(cookie) = cookie.filter(|_| answer.status == 200) else {
            return Ok(SignIn::Refused(answer));
        };
        open.credential = Some((COOKIE, cookie));
        if answer.body["mfa_required"] == true {
            // Its session waits for the factor and is good for nothing else; in ten minutes it goes by itself.
            let _ = open.sign_out().await;
            return Ok(SignIn::AwaitsFactor);
        }
        Ok(SignIn::Complete(open))
    }

    /// Ends the session.
    pub async fn sign_out(&self) -> Result<(), ApiError> {
        self.exchange(Method::DELETE, SESSION_PATH, Vec::new()).await.map(drop)
    }

    fn open(client: Client, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        Self { client, base, credential: None, headers: HeaderMap::new() }
    }

    /// Sends a header with each request from now on. Fails if the value cannot be one.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, ApiError> {
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| ApiError::Malformed)?;
        self.headers.insert(HeaderName::from_static(name), value);
        Ok(self)
    }

    /// Reads a path.
    pub async fn get(&self, path: &str) -> Result<ApiAnswer, ApiError> {
        self.send(Method::GET, path, Vec::new()).await
    }

    /// Posts a body to a path.
    pub async fn post(&self, path: &str, body: &Value) -> Result<ApiAnswer, ApiError> {
        self.send(Method::POST, path, body.to_string().into_bytes()).await
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> Result<ApiAnswer, ApiError> {
        self.exchange(method, path, body).await.map(|(answer, _)| answer)
    }

    /// Sends a request; returns its answer, and the cookie that it sets.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(ApiAnswer, Option<Secret>), ApiError> {
        let json = const { HeaderValue::from_static("application/json") };
        let mut headers = self.headers.clone();
        if let Some((name, secret)) = &self.credential {
            let value = HeaderValue::from_str(secret.expose());
            let mut value = value.map_err(|_| ApiError::Malformed)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.insert(ACCEPT, json.clone());
        headers.insert(CONTENT_TYPE, json);
        let outgoing = Outgoing { url: format!("{}{path}", self.base), body };
        let answer = exchange(&self.client, method, outgoing, headers, ANSWER_TIMEOUT).await?;
        let cookie = answer.headers.get(SET_COOKIE).and_then(|value| value.to_str().ok());
        // Its attributes are for browsers.
        let cookie = cookie.and_then(|cookie| cookie.split(';').next());
        let cookie = cookie.map(|cookie| Secret::new(cookie.to_owned()));
        let body = match answer.status {
            204 => Value::Null,
            _ => serde_json::from_slice(&answer.body).map_err(|_| ApiError::Unreachable)?,
        };
        let (status, retry_after) = (answer.status, answer.retry_after);
        Ok((ApiAnswer { status, body, retry_after }, cookie))
    }
}

/// An answer with its body as it came.
pub(crate) struct PlainAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<Duration>,
}

/// Sends a request to an address of the operator's own, which may be a private one, and reads the whole
/// answer.
pub(crate) async fn exchange(
    client: &Client,
    method: Method,
    outgoing: Outgoing,
    headers: HeaderMap,
    limit: Duration,
) -> Result<PlainAnswer, ApiError> {
    let endpoint = client.find(&outgoing.url).map_err(|_| ApiError::Malformed)?;
    endpoint.check(true).map_err(|_| ApiError::Forbidden)?;
    let call = Call { uri: endpoint.uri.clone(), headers, body: outgoing.body };
    let deadline = Instant::now() + limit;
    let sent = client.send(true, &endpoint, method, call, deadline, Resend::Allowed).await;
    let response = sent.map_err(|error| match error.kind {
        ErrorKind::Forbidden => ApiError::Forbidden,
        _ => ApiError::Unreachable,
    })?;
    let status = response.status().as_u16();
    let retry_after = receive::retry_after(response.headers(), client.now());
    let headers = response.headers().clone();
    let body = receive::whole(response, deadline, MOST_BYTES).await;
    let body = body.map_err(|_| ApiError::Unreachable)?;
    Ok(PlainAnswer { status, headers, body, retry_after })
}
