//! JSON requests to a gateway like this one, for commands that call its API.

use std::time::Duration;

use domain::secret::Secret;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::Instant;

use crate::adapter::request::Call;
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
        let endpoint = self.client.find(&format!("{}{path}", self.base));
        let endpoint = endpoint.map_err(|_| ApiError::Malformed)?;
        endpoint.check(true).map_err(|_| ApiError::Forbidden)?;
        let json = const { HeaderValue::from_static("application/json") };
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.key.expose()));
        let mut bearer = bearer.map_err(|_| ApiError::Malformed)?;
        bearer.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, json.clone());
        headers.insert(CONTENT_TYPE, json);
        let call = Call { uri: endpoint.uri.clone(), headers, body };
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let sent = self.client.send(true, &endpoint, method, call, deadline, Resend::Allowed).await;
        let response = sent.map_err(|error| match error.kind {
            ErrorKind::Forbidden => ApiError::Forbidden,
            _ => ApiError::Unreachable,
        })?;
        let status = response.status().as_u16();
        let seconds = response.headers().get(RETRY_AFTER);
        let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        let body = receive::whole(response, deadline, MOST_BYTES).await;
        let body = serde_json::from_slice(&body.map_err(|_| ApiError::Unreachable)?);
        let body = body.map_err(|_| ApiError::Unreachable)?;
        Ok(ApiAnswer { status, body, retry_after })
    }
}
