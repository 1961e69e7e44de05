//! The client of providers: sends requests over the connections of `net`, and reads whole and streamed
//! answers.

pub(crate) mod event_stream;
pub(crate) mod stored_responses;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::conversation::Reply;
use domain::model::Model;
use domain::time::{Clock, Timestamp};
use domain::trace_context::CallerTrace;
use domain::usage::{MOST_TOKENS, Usage};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use crate::adapter::Adapter;
use crate::adapter::embeddings::{Embedded, Embedder, EmbeddingRequest};
use crate::adapter::images::{GeneratedImages, ImageRequest};
use crate::adapter::request::{Attempt, Call, Encoded, Outgoing};
use crate::chat_form::answer::MOST_CALLS;
use crate::client::event_stream::EventStream;
use crate::credentials::Credentials;
use crate::error::codes::FaultCode;
use crate::error::{Error, ErrorDetails, sum};
use crate::net::connect::{Connector, OUR_NAME, Proxy};
use crate::net::egress::{Egress, Resolver, Rules};
use crate::net::endpoint::{Endpoint, Endpoints};
use crate::net::pool::{Body, Pool, Resend};
use crate::net::receive::{self, JSON};
use crate::net::tls;
use crate::{sandbox, vendors};

/// Time limit for the head of an answer, and for the first byte of a stream.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit for the head of an answer with images: nothing is sent before they are made.
const IMAGE_HEAD_TIMEOUT: Duration = Duration::from_mins(10);
/// Most bytes of a whole answer, and of all answers with the images of one call.
const MOST_BYTES: usize = 32 * 1024 * 1024;
const MOST_IMAGE_BYTES: usize = 64 * 1024 * 1024;
/// The code of a request with thoughts that another account has encrypted, and their name.
const ENCRYPTED_ELSEWHERE: &str = "invalid_encrypted_content";
const ENCRYPTED_THOUGHTS: &str = "input.encrypted_content";
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds on the time and size of an answer.
#[derive(Clone, Copy)]
struct Bounds {
    /// Time by which its head, and the first byte of a stream, must have come.
    head: Instant,
    /// Time by which it must be complete.
    end: Instant,
    /// Most bytes, if it is read as a whole.
    bytes: usize,
}

impl Bounds {
    fn of(deadline: Instant) -> Self {
        let head = deadline.min(Instant::now() + HEAD_TIMEOUT);
        Self { head, end: deadline, bytes: MOST_BYTES }
    }

    /// Returns the bounds of a further answer with images, after `before` bytes of earlier ones.
    fn of_images(deadline: Instant, before: usize) -> Self {
        let head = deadline.min(Instant::now() + IMAGE_HEAD_TIMEOUT);
        Self { head, end: deadline, bytes: MOST_IMAGE_BYTES.saturating_sub(before) }
    }
}

/// Client for providers. Cheap to clone; connections are shared by all clones.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// Connections for public models, which reach no private address. The two pools never share a
    /// connection.
    public: Pool,
    /// Connections for private models.
    private: Pool,
    rules: Arc<Rules>,
    proxy: Option<Arc<Proxy>>,
    endpoints: Endpoints,
    clock: Clock,
}

impl Client {
    /// Creates the connection pools. Fails when the proxy's URL or the CA file cannot be used.
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
        let key = attempt.model.api_key.as_ref();
        let mut reply = self.whole_answer(&attempt).await.map_err(|error| error.sealed(key))?;
        if let Some(credentials) = Credentials::of(key) {
            credentials.clean_reply(&mut reply);
        }
        Ok(reply)
    }

    /// Asks a model for a streamed answer. Returns when its first word has come, or when the provider
    /// has sent any bytes and the model thinks: a call that fails before that may be tried elsewhere, a
    /// later failure comes through the stream.
    pub async fn stream(&self, attempt: Attempt<'_>) -> Result<EventStream, Error> {
        let attempt = Attempt { stream: true, ..attempt };
        let stream = self.streamed_answer(&attempt).await;
        stream.map_err(|error| error.sealed(attempt.model.api_key.as_ref()))
    }

    /// Checks that the endpoint can be reached at all: any answer but a redirect will do, and no
    /// credential is sent.
    pub async fn probe(&self, model: &Model) -> Result<(), Error> {
        if model.is_sandbox() {
            return Ok(());
        }
        let probing = async {
            let endpoint =
                self.endpoint(model, &vendors::adapter(model.provider).endpoint(model, false)?)?;
            let call = Call {
                uri: endpoint.uri.clone(),
                headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("*/*"))]),
                body: Vec::new(),
            };
            let (deadline, resend) = (Instant::now() + PROBE_TIMEOUT, Resend::Allowed);
            let response = self
                .send(model.is_private(), &endpoint, Method::GET, call, deadline, resend)
                .await?;
            let status = response.status();
            if status.is_redirection() {
                return Err(Error::status(status.as_u16(), ErrorDetails::default(), None));
            }
            Ok(())
        };
        probing.await.map_err(|error: Error| error.sealed(model.api_key.as_ref()))
    }

    /// Closes connections that were not used for a while.
    pub fn close_unused(&self) {
        self.0.public.sweep();
        self.0.private.sweep();
    }

    /// Makes embeddings.
    pub async fn embed(
        &self,
        ask: EmbeddingRequest<'_>,
        deadline: Instant,
    ) -> Result<Embedded, Error> {
        let model = ask.model;
        let embedding = async {
            let embedder = vendors::embedder(model)?;
            let mut all = Embedded::default();
            for outgoing in embedder.requests(&ask)? {
                let part = self.embed_part(&ask, embedder, outgoing, deadline).await;
                // Texts embedded before the failure are paid for.
                let part = match part {
                    Err(error) if !all.vectors.is_empty() => {
                        return Err(error.after(all.tokens.map(Usage::of_prompt)));
                    }
                    part => part?,
                };
                all.vectors.extend(part.vectors);
                all.upstream_model = part.upstream_model.or(all.upstream_model);
                all.is_part |= part.tokens.is_none();
                all.tokens = sum(all.tokens, part.tokens);
            }
            if all.vectors.len() != ask.inputs.len() {
                let error = Error::malformed("it has not one vector for each text");
                return Err(error.having_used(all.tokens.map(Usage::of_prompt)));
            }
            if let (Some(name), Some(credentials)) =
                (&mut all.upstream_model, Credentials::of(model.api_key.as_ref()))
            {
                credentials.clean(name);
            }
            Ok(all)
        };
        embedding.await.map_err(|error: Error| error.sealed(model.api_key.as_ref()))
    }

    /// Makes images: as many as were asked for, or those that were made before the provider failed.
    pub async fn generate_images(
        &self,
        ask: ImageRequest<'_>,
        deadline: Instant,
    ) -> Result<GeneratedImages, Error> {
        let model = ask.model;
        let generating = async {
            let image_generator = vendors::image_generator(model)?;
            let (mut all, mut used) = (GeneratedImages::default(), Vec::new());
            for outgoing in image_generator.requests(&ask)? {
                let bounds = Bounds::of_images(deadline, all.urls.iter().map(String::len).sum());
                let part = match self.exchange(model, ask.trace, outgoing, bounds).await {
                    Ok((_, body)) => image_generator.read(&body),
                    Err(error) => Err(error),
                };
                let part = match part {
                    // Images made before the failure are paid for.
                    Err(error) if !all.urls.is_empty() => {
                        used.extend(error.usage().map(Some));
                        break;
                    }
                    part => part?,
                };
                all.urls.extend(part.urls);
                all.upstream_model = part.upstream_model.or(all.upstream_model);
                used.push(part.usage);
            }
            all.usage = Usage::total(used);
            if let Some(credentials) = Credentials::of(model.api_key.as_ref()) {
                let urls = all.urls.iter_mut();
                for text in urls.chain(&mut all.upstream_model) {
                    credentials.clean(text);
                }
            }
            Ok(all)
        };
        generating.await.map_err(|error: Error| error.sealed(model.api_key.as_ref()))
    }

    async fn embed_part(
        &self,
        ask: &EmbeddingRequest<'_>,
        embedder: &dyn Embedder,
        outgoing: Outgoing,
        deadline: Instant,
    ) -> Result<Embedded, Error> {
        let model = ask.model;
        if model.is_sandbox() {
            return embedder.read(&HeaderMap::new(), &sandbox::embed(&outgoing.body));
        }
        let bounds = Bounds::of(deadline);
        let (headers, body) = self.exchange(model, ask.trace, outgoing, bounds).await?;
        let part = embedder.read(&headers, &body)?;
        Ok(Embedded { tokens: part.tokens.filter(|tokens| *tokens <= MOST_TOKENS), ..part })
    }

    async fn whole_answer(&self, attempt: &Attempt<'_>) -> Result<Reply, Error> {
        let model = attempt.model;
        let (adapter, Encoded { body, mut dropped }, passes) = encode(attempt)?;
        let read = |body: &[u8]| {
            if passes { adapter.passing_decode(model, body) } else { adapter.decode(model, body) }
        };
        let reply = if model.is_sandbox() {
            let body = sandbox::answer(&body, self.now());
            let reply = read(&body)?;
            Reply { passes, source: source(passes, body), ..reply }
        } else {
            let url = adapter.endpoint(model, false)?;
            let bounds = Bounds::of(attempt.deadline);
            let outgoing = Outgoing { url, body };
            let sent = self.call_for(attempt, adapter, passes, outgoing, JSON, bounds).await?;
            let (response, left_out) = sent;
            dropped.extend(left_out);
            let body = receive::whole(response, bounds.end, bounds.bytes).await?;
            let reply = read(&body)?;
            Reply { passes, source: source(passes, body.into()), ..reply }
        };
        check_calls(&reply)?;
        Ok(Reply { dropped, ..reply })
    }

    async fn streamed_answer(&self, attempt: &Attempt<'_>) -> Result<EventStream, Error> {
        let model = attempt.model;
        let (adapter, Encoded { body, mut dropped }, passes) = encode(attempt)?;
        let decoder = if passes { adapter.passing_decoder(model) } else { adapter.decoder(model) };
        let stream = if model.is_sandbox() {
            let pieces: Vec<Bytes> = sandbox::stream(&body, self.now());
            EventStream::local(pieces, decoder, attempt).passing(passes)
        } else {
            let url = adapter.endpoint(model, true)?;
            let (outgoing, expected) = (Outgoing { url, body }, adapter.stream_type());
            let bounds = Bounds::of(attempt.deadline);
            let sent = self.call_for(attempt, adapter, passes, outgoing, expected, bounds).await?;
            let (response, left_out) = sent;
            dropped.extend(left_out);
            let stream = EventStream::remote(response.into_body(), decoder, attempt);
            stream.passing(passes).begin(bounds.head).await?
        };
        Ok(stream.without(dropped))
    }

    /// Sends the request of an attempt. If it passes with thoughts that another account has encrypted, it is
    /// sent once more without them, and their name is returned too.
    async fn call_for(
        &self,
        attempt: &Attempt<'_>,
        adapter: &dyn Adapter,
        passes: bool,
        outgoing: Outgoing,
        expected: &'static str,
        bounds: Bounds,
    ) -> Result<(Response<Body>, Option<String>), Error> {
        let (model, with) = (attempt.model, Accompanying::of(attempt, passes));
        let url = outgoing.url.clone();
        let error = match self.call(model, adapter, with, outgoing, expected, bounds).await {
            Ok(response) => return Ok((response, None)),
            Err(error) => error,
        };
        let code = error.provider_code().and_then(FaultCode::name);
        if !passes || code != Some(ENCRYPTED_ELSEWHERE) {
            return Err(error);
        }
        // Written once more: hardly any request needs a second copy.
        let (_, Encoded { body, .. }, _) = encode(attempt)?;
        let Some(body) = adapter.without_encrypted_thoughts(&body) else { return Err(error) };
        let outgoing = Outgoing { url, body };
        // Boxed: it is rare, and every call would carry it.
        let again = Box::pin(self.call(model, adapter, with, outgoing, expected, bounds));
        Ok((again.await?, Some(ENCRYPTED_THOUGHTS.to_owned())))
    }

    /// Sends a request and waits for the whole answer.
    async fn exchange(
        &self,
        model: &Model,
        trace: Option<&CallerTrace>,
        outgoing: Outgoing,
        bounds: Bounds,
    ) -> Result<(HeaderMap, Bytes), Error> {
        let adapter = vendors::adapter(model.provider);
        let with = Accompanying { trace, headers: &[] };
        let response = self.call(model, adapter, with, outgoing, JSON, bounds).await?;
        let headers = response.headers().clone();
        Ok((headers, receive::whole(response, bounds.end, bounds.bytes).await?))
    }

    /// Sends a request, and returns the answer once its head has come and is accepted.
    async fn call(
        &self,
        model: &Model,
        adapter: &dyn Adapter,
        with: Accompanying<'_>,
        outgoing: Outgoing,
        expected: &'static str,
        bounds: Bounds,
    ) -> Result<Response<Body>, Error> {
        let endpoint = self.endpoint(model, &outgoing.url)?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        headers.insert(ACCEPT, HeaderValue::from_static(expected));
        for (name, value) in with.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(*name, value);
            }
        }
        let mut call = Call { uri: endpoint.uri.clone(), headers, body: outgoing.body };
        adapter.authenticate(model, &mut call, self.now())?;
        if let Some(trace) = with.trace {
            call.set_trace(trace);
        }
        let (private, resend) = (model.is_private(), Resend::Allowed);
        let response =
            self.send(private, &endpoint, Method::POST, call, bounds.head, resend).await?;
        receive::accept(response, expected, bounds.end, self.now()).await
    }

    /// Returns the endpoint of a model, if the rules allow its host as it is written.
    fn endpoint(&self, model: &Model, url: &str) -> Result<Arc<Endpoint>, Error> {
        let endpoint = self.find(url)?;
        endpoint.check(model.is_private())?;
        Ok(endpoint)
    }

    /// Returns an endpoint that is not checked yet.
    pub(crate) fn find(&self, url: &str) -> Result<Arc<Endpoint>, Error> {
        let Inner { endpoints, rules, proxy, .. } = &*self.0;
        endpoints.find(url, rules, proxy.as_deref())
    }

    /// Sends a request over the connections to private addresses, or over the others. The head of the
    /// answer must come by `head`.
    pub(crate) async fn send(
        &self,
        private: bool,
        endpoint: &Endpoint,
        method: Method,
        call: Call,
        head: Instant,
        resend: Resend,
    ) -> Result<Response<Body>, Error> {
        let mut request = Request::new(Full::from(call.body));
        *request.method_mut() = method;
        *request.uri_mut() = call.uri;
        *request.headers_mut() = call.headers;
        request.headers_mut().insert(USER_AGENT, OUR_NAME);
        // Some servers compress if the header is missing.
        let plain = const { HeaderValue::from_static("identity") };
        request.headers_mut().insert(ACCEPT_ENCODING, plain);
        if let Some(authorization) = &endpoint.proxy_authorization {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization.clone());
        }
        let connections = if private { &self.0.private } else { &self.0.public };
        match timeout_at(head, Box::pin(connections.send(request, resend))).await {
            Err(_) => Err(Error::late()),
            Ok(sent) => sent.map_err(Error::from),
        }
    }

    /// The egress rules.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0.rules
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }
}

/// The rest of a request beside its body and its credential.
#[derive(Clone, Copy)]
struct Accompanying<'a> {
    trace: Option<&'a CallerTrace>,
    /// The caller's own headers that go on with a request as it came.
    headers: &'a [(&'static str, String)],
}

impl<'a> Accompanying<'a> {
    fn of(attempt: &Attempt<'a>, passes: bool) -> Self {
        let original = attempt.prompt.original.as_deref().filter(|_| passes);
        Self { trace: attempt.trace, headers: original.map_or(&[], |original| &original.headers) }
    }
}

/// The answer as it came, if the request went to its provider as it came.
fn source(passes: bool, body: Vec<u8>) -> Option<String> {
    passes.then(|| String::from_utf8(body).ok()).flatten()
}

/// Writes the body of a request: as it came, if the model's server has its format, else from its
/// canonical form. Returns the adapter that has written it as well; the flag is whether it passes as it
/// came.
fn encode(attempt: &Attempt<'_>) -> Result<(&'static dyn Adapter, Encoded, bool), Error> {
    let adapter = vendors::adapter(attempt.model.provider);
    if let Some(original) = &attempt.prompt.original {
        let speaks = adapter.beside(attempt.model, original.format).unwrap_or(adapter);
        if let Some(body) = speaks.pass(attempt, original)? {
            return Ok((speaks, Encoded { body, dropped: original.left_out.clone() }, true));
        }
        if let Some(what) = &original.untranslatable {
            return Err(Error::unsupported(what.clone()));
        }
    }
    adapter.encode(attempt).map(|encoded| (adapter, encoded, false))
}

/// Refuses an answer with more than [`MOST_CALLS`] calls of tools.
fn check_calls(reply: &Reply) -> Result<(), Error> {
    let choices = reply.native.as_ref().and_then(|native| native.get("choices")?.as_array());
    let calls = choices
        .into_iter()
        .flatten()
        .filter_map(|choice| choice.get("message")?.get("tool_calls")?.as_array().map(Vec::len));
    if calls.sum::<usize>() <= MOST_CALLS {
        return Ok(());
    }
    let error = Error::malformed(format_args!("it calls tools more than {MOST_CALLS} times"));
    Err(error.having_used(reply.usage))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
