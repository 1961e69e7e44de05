//! Connections to providers: direct or through the egress proxy, under the rules of a pool, with TLS if
//! the address asks for it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;
use url::Url;

use crate::error::Error;
use crate::net::egress::{Egress, Resolver};
use crate::net::tls;

/// Time limit for making a connection, the proxy and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Keep-alive interval and number of probes of idle connections, and time limit for unacknowledged data.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

/// The gateway's name towards providers and proxies.
pub(crate) const OUR_NAME: HeaderValue =
    HeaderValue::from_static(concat!("sluice/", env!("CARGO_PKG_VERSION")));

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// A connection was not made in time.
#[derive(Debug, thiserror::Error)]
#[error("the time to connect is over")]
pub(crate) struct TooSlow;

/// A connection to a provider, under TLS or not.
pub(crate) type Wire = MaybeHttpsStream<Line>;

impl Egress {
    /// Refuses a configuration that [`Client::new`](crate::Client::new) would refuse, and hosts that no
    /// URL can have. The error names the fault.
    pub fn check(&self) -> Result<(), Error> {
        self.check_hosts()?;
        if self.ca_file.is_none() && self.proxy.is_none() {
            return Ok(());
        }
        Proxy::new(self, tls::config(self)?).map(drop)
    }
}

/// Makes the connections of one pool.
#[derive(Clone)]
pub(crate) struct Connector(Arc<HttpsConnector<Dialler>>);

impl Connector {
    pub(crate) fn new(
        resolver: Resolver,
        proxy: Option<Arc<Proxy>>,
        tls: Arc<ClientConfig>,
    ) -> Self {
        let dialler = Dialler { straight: sockets(resolver), proxy };
        Self(Arc::new(HttpsConnector::from((dialler, tls))))
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = BoxError;
    type Future = Connecting<Wire>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let mut https = HttpsConnector::clone(&self.0);
        Box::pin(async move {
            timeout(CONNECT_TIMEOUT, https.call(to)).await.unwrap_or_else(|_| Err(TooSlow.into()))
        })
    }
}

fn sockets(resolver: Resolver) -> HttpConnector<Resolver> {
    let mut sockets = HttpConnector::new_with_resolver(resolver);
    sockets.enforce_http(false);
    sockets.set_nodelay(true);
    // The limit is shared out among the addresses of a name, so that a dead one leaves time for the
    // next.
    sockets.set_connect_timeout(Some(CONNECT_TIMEOUT));
    sockets.set_keepalive(Some(PROBE_INTERVAL));
    sockets.set_keepalive_interval(Some(PROBE_INTERVAL));
    sockets.set_keepalive_retries(Some(PROBES));
    #[cfg(target_os = "linux")]
    sockets.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
    sockets
}

/// Makes the connection below TLS.
#[derive(Clone)]
struct Dialler {
    straight: HttpConnector<Resolver>,
    proxy: Option<Arc<Proxy>>,
}

impl Service<Uri> for Dialler {
    type Response = Line;
    type Error = BoxError;
    type Future = Connecting<Line>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let mut dialler = self.clone();
        Box::pin(async move {
            if let Some(proxy) = dialler.proxy.filter(|proxy| proxy.serves(&to)) {
                return proxy.connect(to).await;
            }
            let io = MaybeHttpsStream::Http(dialler.straight.call(to).await?);
            Ok(Line { io, forwarded: false })
        })
    }
}

/// A connection to a provider below TLS: a socket, or a connection to the proxy, which may itself be
/// under TLS.
pub(crate) struct Line {
    io: MaybeHttpsStream<TokioIo<TcpStream>>,
    /// Whether the proxy reads the requests and forwards them.
    forwarded: bool,
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        // The addresses of the socket are left out: they would be copied into every answer.
        Connected::new().proxy(self.forwarded)
    }
}

impl Read for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

/// The egress proxy. An https address is reached through a tunnel, a plain one by forwarding.
pub(crate) struct Proxy {
    uri: Uri,
    authorization: Option<HeaderValue>,
    /// The addresses that it serves.
    matcher: Matcher,
    /// Makes connections to the proxy itself.
    connector: HttpsConnector<HttpConnector<Resolver>>,
}

impl Proxy {
    /// Creates the proxy that the operator named, if any. `tls` must not negotiate a protocol: proxies
    /// speak HTTP/1.1.
    pub(crate) fn new(egress: &Egress, tls: ClientConfig) -> Result<Option<Self>, Error> {
        let Some(text) = &egress.proxy else { return Ok(None) };
        let invalid = || Error::misconfigured("The egress proxy is not a valid URL");
        let url = proxy_url(text).ok_or_else(invalid)?;
        let matcher = |except: &str| Matcher::builder().all(url.as_str()).no(except).build();
        let probe = Uri::from_static("http://anywhere.invalid/");
        let target: Intercept = matcher("").intercept(&probe).ok_or_else(invalid)?;
        Ok(Some(Self {
            uri: target.uri().clone(),
            authorization: target.basic_auth().cloned(),
            matcher: matcher(egress.no_proxy.as_deref().unwrap_or_default()),
            connector: HttpsConnector::from((sockets(Resolver::open()), tls)),
        }))
    }

    fn serves(&self, to: &Uri) -> bool {
        self.matcher.intercept(to).is_some()
    }

    /// Returns the proxy credentials for a request that the proxy reads itself. Through a tunnel it
    /// reads none, and the provider must not see them.
    pub(crate) fn forwarding_authorization(&self, to: &Uri) -> Option<HeaderValue> {
        let forwarded = to.scheme() == Some(&Scheme::HTTP) && self.serves(to);
        self.authorization.clone().filter(|_| forwarded)
    }

    async fn connect(&self, to: Uri) -> Result<Line, BoxError> {
        let mut connector = self.connector.clone();
        if to.scheme() == Some(&Scheme::HTTP) {
            let io = connector.call(self.uri.clone()).await?;
            return Ok(Line { io, forwarded: true });
        }
        let mut tunnel = Tunnel::new(self.uri.clone(), connector)
            .with_headers(HeaderMap::from_iter([(USER_AGENT, OUR_NAME)]));
        if let Some(authorization) = &self.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        Ok(Line { io: tunnel.call(to).await?, forwarded: false })
    }
}

/// Parses a proxy's URL. A proxy without a scheme speaks plain HTTP.
fn proxy_url(text: &str) -> Option<Url> {
    let url =
        if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
    url.ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
