//! JSON requests to a gateway like this one, for commands that call its API.

use std::time::Duration;

use bytes::Bytes;
use domain::secret::Secret;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
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

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The address or the key cannot be used.
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

/// Requests to one gateway, with one key.
pub struct ApiClient {
    client: Client,
    base: String,
    key: Secret,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiClient({})", self.base)
    }
}

impl ApiClient {
    /// Requests to the gateway at an address, which may be a private one.
    pub fn new(client: Client, base: &str, key: Secret) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), key }
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
        let json = const { HeaderValue::from_static("application/json") };
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.key.expose()));
        let mut bearer = bearer.map_err(|_| ApiError::Malformed)?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, json.clone());
        headers.insert(CONTENT_TYPE, json);
        let outgoing = Outgoing { url: format!("{}{path}", self.base), body };
        let answer = exchange(&self.client, method, outgoing, headers, ANSWER_TIMEOUT).await?;
        let body = serde_json::from_slice(&answer.body).map_err(|_| ApiError::Unreachable)?;
        Ok(ApiAnswer { status: answer.status, body, retry_after: answer.retry_after })
    }
}

/// An answer with its body as it came.
pub(crate) struct PlainAnswer {
    pub(crate) status: u16,
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
    let body = receive::whole(response, deadline, MOST_BYTES).await;
    let body = body.map_err(|_| ApiError::Unreachable)?;
    Ok(PlainAnswer { status, body, retry_after })
}
