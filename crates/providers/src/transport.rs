//! The only place that opens a connection to a provider.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::conversation::{Prompt, Reply};
use domain::model::Model;
use domain::time::{Clock, Timestamp};
use http::header::{ACCEPT, CONTENT_TYPE, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use crate::adapter::{self, Adapter, Call};
use crate::connect::{Connector, OUR_NAME, Proxy};
use crate::egress::{Egress, Resolver, Rules};
use crate::endpoint::{Endpoint, Endpoints};
use crate::error::{Error, Said};
use crate::events::EventStream;
use crate::pool::{Body, Pool};
use crate::receive::{self, JSON};
use crate::{sandbox, tls};

/// How long the head of an answer may take.
const HEAD_TIME: Duration = Duration::from_mins(1);
const PROBE_TIME: Duration = Duration::from_secs(10);

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
    public: Pool,
    /// For private models.
    private: Pool,
    rules: Arc<Rules>,
    proxy: Option<Arc<Proxy>>,
    endpoints: Endpoints,
    clock: Clock,
}

impl Client {
    /// Prepares the connection pools. Fails when the proxy's URL or the CA file cannot be used.
    pub fn new(egress: Egress) -> Result<Self, Error> {
        let rules = Arc::new(Rules::new(&egress.allow));
        let mut tls = tls::config(&egress)?;
        let proxy = Proxy::new(&egress, tls.clone())?.map(Arc::new);
        tls.alpn_protocols = vec!["h2".into(), "http/1.1".into()];
        let tls = Arc::new(tls);
        let pool = |private| {
            let resolver = Resolver::guarded(Arc::clone(&rules), private);
            Pool::new(Connector::new(resolver, proxy.clone(), Arc::clone(&tls)))
        };
        Ok(Self(Arc::new(Inner {
            public: pool(false),
            private: pool(true),
            rules,
            proxy,
            endpoints: Endpoints::default(),
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
            let endpoint = self.endpoint(adapter_of(model)?, model, false)?;
            let call = Call {
                uri: endpoint.uri.clone(),
                headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]),
                body: Vec::new(),
            };
            let deadline = Instant::now() + PROBE_TIME;
            let response = self.send(model, &endpoint, Method::GET, call, deadline).await?;
            let status = response.status();
            if status.is_redirection() {
                return Err(Error::status(status.as_u16(), Said::default(), None));
            }
            Ok(())
        };
        probing.await.map_err(|error: Error| error.sealed(model.api_key.as_ref()))
    }

    /// Closes connections that nobody has used for a while.
    pub fn close_unused(&self) {
        self.0.public.sweep();
        self.0.private.sweep();
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
        let endpoint = self.endpoint(adapter, model, attempt.stream)?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(ACCEPT, HeaderValue::from_static(expected));
        let mut call = Call { uri: endpoint.uri.clone(), headers, body };
        adapter.authenticate(model, &mut call, self.now())?;
        let response = self.send(model, &endpoint, Method::POST, call, attempt.deadline).await?;
        receive::accept(response, expected, attempt.deadline, self.now()).await
    }

    /// Where a model is called, if the rules have nothing against it as it is written.
    fn endpoint(
        &self,
        adapter: &dyn Adapter,
        model: &Model,
        stream: bool,
    ) -> Result<Arc<Endpoint>, Error> {
        let Inner { endpoints, rules, proxy, .. } = &*self.0;
        let text = adapter.endpoint(model, stream)?;
        let endpoint = endpoints.find(&text, rules, proxy.as_deref())?;
        endpoint.check(model.is_private())?;
        Ok(endpoint)
    }

    async fn send(
        &self,
        model: &Model,
        endpoint: &Endpoint,
        method: Method,
        call: Call,
        deadline: Instant,
    ) -> Result<Response<Body>, Error> {
        let mut request = Request::new(Full::from(call.body));
        *request.method_mut() = method;
        *request.uri_mut() = call.uri;
        *request.headers_mut() = call.headers;
        request.headers_mut().insert(USER_AGENT, OUR_NAME);
        if let Some(authorization) = &endpoint.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let connections = if model.is_private() { &self.0.private } else { &self.0.public };
        let limit = deadline.min(Instant::now() + HEAD_TIME);
        match timeout_at(limit, Box::pin(connections.send(request))).await {
            Err(_) => Err(Error::fault("The provider did not begin to answer in time")),
            Ok(sent) => sent.map_err(|error| Error::sending(&error)),
        }
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

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
