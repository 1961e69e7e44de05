//! The only place that opens a connection to a provider.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::conversation::{Prompt, Reply};
use domain::model::Model;
use domain::time::{Clock, Timestamp};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response};
use reqwest::{Body, Certificate, NoProxy, Proxy, Request};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::adapter::{self, Adapter, Call};
use crate::egress::{Egress, Resolver, Rules};
use crate::error::{Error, Said};
use crate::events::EventStream;
use crate::receive::{self, JSON};
use crate::sandbox;

const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long the head of an answer may take.
const HEAD_TIME: Duration = Duration::from_mins(1);
const PROBE_TIME: Duration = Duration::from_secs(10);
const IDLE_CONNECTIONS: usize = 1024;
const IDLE_TIME: Duration = Duration::from_mins(1);

/// Everything one attempt needs.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// What to ask it.
    pub prompt: &'a Prompt,
    /// The most completion tokens, already decided; `None` sends no bound.
    pub max_output_tokens: Option<u64>,
    /// Whether the answer is to be streamed: what [`Client::complete`] and [`Client::stream`]
    /// do is decided by which of them is called, and they set this accordingly.
    pub stream: bool,
    /// When the answer must be complete.
    pub deadline: Instant,
}

/// Calls providers. Cheap to clone; connections are shared by all clones.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// For public models: private places are out of reach. The two never share a connection.
    public: reqwest::Client,
    /// For private models.
    private: reqwest::Client,
    rules: Arc<Rules>,
    clock: Clock,
}

impl Client {
    /// Prepares the connection pools. Fails when the proxy's URL or the CA file cannot be used.
    pub fn new(egress: Egress) -> Result<Self, Error> {
        let rules = Arc::new(Rules::new(&egress.allow));
        let authorities = authorities(&egress)?;
        Ok(Self(Arc::new(Inner {
            public: connections(&egress, &rules, &authorities, false)?,
            private: connections(&egress, &rules, &authorities, true)?,
            rules,
            clock: Clock::system(),
        })))
    }

    /// Asks a model and waits for its whole answer.
    pub async fn complete(&self, attempt: Attempt<'_>) -> Result<Reply, Error> {
        let attempt = Attempt { stream: false, ..attempt };
        let answer = self.whole_answer(&attempt).await;
        answer.map_err(|error| error.sealed(attempt.model.api_key.as_ref()))
    }

    /// Asks a model for a streamed answer. Returns as soon as the provider has accepted: what
    /// fails before that may be tried elsewhere, what fails later comes through the stream.
    pub async fn stream(&self, attempt: Attempt<'_>) -> Result<EventStream, Error> {
        let attempt = Attempt { stream: true, ..attempt };
        let stream = self.streamed_answer(&attempt).await;
        stream.map_err(|error| error.sealed(attempt.model.api_key.as_ref()))
    }

    /// Whether the endpoint can be reached at all: any answer but a redirect will do, and no
    /// credential is sent.
    pub async fn probe(&self, model: &Model) -> Result<(), Error> {
        if model.is_sandbox() {
            return Ok(());
        }
        let probing = async {
            let url = adapter_of(model)?.endpoint(model, false)?;
            let request = Request::new(Method::GET, url);
            let response = self.send(model, request, Instant::now() + PROBE_TIME).await?;
            let status = response.status();
            if status.is_redirection() {
                return Err(Error::status(status.as_u16(), Said::default(), None));
            }
            Ok(())
        };
        probing.await.map_err(|error: Error| error.sealed(model.api_key.as_ref()))
    }

    async fn whole_answer(&self, attempt: &Attempt<'_>) -> Result<Reply, Error> {
        let adapter = adapter_of(attempt.model)?;
        let body = adapter.encode(attempt)?;
        if attempt.model.is_sandbox() {
            return adapter.decode(&sandbox::answer(&body, self.now()));
        }
        let response = self.call(attempt, adapter, body, JSON).await?;
        adapter.decode(&receive::whole(response, attempt.deadline).await?)
    }

    async fn streamed_answer(&self, attempt: &Attempt<'_>) -> Result<EventStream, Error> {
        let adapter = adapter_of(attempt.model)?;
        let body = adapter.encode(attempt)?;
        if attempt.model.is_sandbox() {
            let pieces: Vec<Bytes> = sandbox::stream(&body, self.now());
            return Ok(EventStream::local(pieces, adapter.decoder(), attempt));
        }
        let response = self.call(attempt, adapter, body, adapter.stream_type()).await?;
        Ok(EventStream::remote(response.into_body(), adapter.decoder(), attempt))
    }

    /// Sends the request, and returns the answer once its head is there and fits.
    async fn call(
        &self,
        attempt: &Attempt<'_>,
        adapter: &dyn Adapter,
        body: Vec<u8>,
        expected: &'static str,
    ) -> Result<Response<Body>, Error> {
        let model = attempt.model;
        let url = adapter.endpoint(model, attempt.stream)?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(ACCEPT, HeaderValue::from_static(expected));
        let mut call = Call { url, headers, body };
        adapter.authenticate(model, &mut call, self.now())?;
        let mut request = Request::new(Method::POST, call.url);
        *request.headers_mut() = call.headers;
        *request.body_mut() = Some(call.body.into());
        let response = self.send(model, request, attempt.deadline).await?;
        receive::accept(response, expected, attempt.deadline, self.now()).await
    }

    async fn send(
        &self,
        model: &Model,
        request: Request,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        let private = model.is_private();
        self.check(request.url(), private)?;
        let client = if private { &self.0.private } else { &self.0.public };
        let limit = deadline.min(Instant::now() + HEAD_TIME);
        match timeout_at(limit, client.execute(request)).await {
            Err(_) => Err(Error::fault("The provider did not begin to answer in time")),
            Ok(Err(error)) => Err(Error::sending(&error)),
            Ok(Ok(response)) => Ok(response.into()),
        }
    }

    /// The rules on the host as it is written: a literal address never reaches the resolver.
    fn check(&self, url: &Url, private: bool) -> Result<(), Error> {
        let host = url.host().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or_else(|| Error::unsupported("The model's base url is not http"))?;
        self.0.rules.check(&host, private).map_err(Error::forbidden)
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }
}

fn adapter_of(model: &Model) -> Result<&'static dyn Adapter, Error> {
    adapter::adapter(model.provider).ok_or_else(|| {
        let name = model.provider.as_str();
        Error::unsupported(format!("Provider {name} cannot be called by this version"))
    })
}

fn authorities(egress: &Egress) -> Result<Vec<Certificate>, Error> {
    let Some(path) = &egress.ca_file else { return Ok(Vec::new()) };
    let unusable = |cause: &dyn std::fmt::Display| {
        Error::unsupported(format!("The CA file {} cannot be used: {cause}", path.display()))
    };
    let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| unusable(&error))?;
    if found.is_empty() { Err(unusable(&"it holds no certificate")) } else { Ok(found) }
}

/// A connection pool under one of the two policies.
fn connections(
    egress: &Egress,
    rules: &Arc<Rules>,
    authorities: &[Certificate],
    private: bool,
) -> Result<reqwest::Client, Error> {
    let unusable = |error: reqwest::Error| {
        Error::unsupported(format!("The HTTP client cannot be made: {error}"))
    };
    let builder = || -> Result<reqwest::ClientBuilder, Error> {
        // `no_proxy` keeps reqwest from reading the environment.
        let mut builder = reqwest::Client::builder().no_proxy();
        let mut proxy_host = None;
        if let Some(text) = &egress.proxy {
            let exceptions = egress.no_proxy.as_deref().and_then(NoProxy::from_string);
            let proxy = Proxy::all(text)
                .map_err(|_| Error::unsupported("The egress proxy is not a valid URL"))?;
            builder = builder.proxy(proxy.no_proxy(exceptions));
            proxy_host = Url::parse(text).ok().and_then(|url| Some(url.host_str()?.to_owned()));
        }
        let rules = Arc::clone(rules);
        Ok(builder
            .dns_resolver(Resolver { rules, private, proxy: proxy_host })
            .redirect(reqwest::redirect::Policy::none())
            // A repeated call may be charged twice; hyper itself still repeats what it could not
            // send because a kept connection was closed.
            .retry(reqwest::retry::never())
            .user_agent(concat!("sluice/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIME)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .http2_keep_alive_timeout(Duration::from_secs(10))
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_TIME))
    };
    match builder()?.tls_certs_merge(authorities.iter().cloned()).build() {
        Ok(client) => Ok(client),
        Err(error) if !authorities.is_empty() => Err(unusable(error)),
        // An image without certificates can still serve the sandbox and plain private servers.
        Err(error) => {
            tracing::warn!(%error, "no certificate authorities: https providers cannot be called");
            builder()?.tls_certs_only([]).build().map_err(unusable)
        }
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
