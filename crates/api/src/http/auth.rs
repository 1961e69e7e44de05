//! Who asks: every route is behind one of these, and gets what it authorised.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use gateway::{Caller, Error, Member, Origin, Spends};

use crate::App;
use crate::http::cross_site;
use crate::http::error::{Failure, Result};

/// The session cookie.
pub const COOKIE_NAME: &str = "sluice_session";
/// Where some vendors' clients put the key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A signed-in member with the token of the session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who.
    pub member: Member,
    /// The account behind it.
    pub account: gateway::Account,
    /// The cookie's value.
    pub token: String,
}

/// Either of the two.
#[derive(Clone, Debug)]
pub enum Either {
    /// An API key.
    Key(Box<Caller>),
    /// A session.
    Session(Box<Session>),
}

/// Lets keys pass that may call a model.
pub fn spending_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::Yes, request, next)
}

/// Lets keys pass for calls that cost nothing.
pub fn key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::No, request, next)
}

async fn with_key(app: App, spends: Spends, mut request: Request, next: Next) -> Result<Response> {
    let caller = admit(&app, &request, spends).await?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Lets signed-in members pass.
pub async fn session(State(app): State<App>, mut request: Request, next: Next) -> Result<Response> {
    let claim = claim(&app, &request)?;
    let session = sign_in(&app, claim).await?;
    request.extensions_mut().insert(session);
    Ok(next.run(request).await)
}

/// The same for the session's own routes, which say no more than that there is none.
pub async fn own_session(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let claim = claim(&app, &request)?;
    let session = sign_in(&app, claim).await.map_err(Failure::of_session)?;
    request.extensions_mut().insert(session);
    Ok(next.run(request).await)
}

/// Lets keys and signed-in members pass.
pub async fn either(State(app): State<App>, mut request: Request, next: Next) -> Result<Response> {
    let who = if presents_key(request.headers()) {
        Either::Key(Box::new(admit(&app, &request, Spends::No).await?))
    } else {
        let claim = claim(&app, &request)?;
        Either::Session(Box::new(sign_in(&app, claim).await?))
    };
    request.extensions_mut().insert(who);
    Ok(next.run(request).await)
}

/// Asks the gate. (The request itself must not be held over the wait: its body is not `Sync`.)
fn admit<'a>(
    app: &'a App,
    request: &Request,
    spends: Spends,
) -> impl Future<Output = std::result::Result<Caller, Error>> + Send + use<'a> {
    let origin = origin(app, request);
    let key = presented(request.headers()).map(str::to_owned);
    async move { app.gateway.gate(key.as_deref(), &origin, spends).await }
}

/// What a request says about its session.
struct Claim {
    token: String,
    origin: Origin,
}

fn claim(app: &App, request: &Request) -> Result<Claim> {
    let token = cookie(request.headers()).ok_or(Error::Unauthorized)?;
    cross_site::check(app, request)?;
    Ok(Claim { token, origin: origin(app, request) })
}

async fn sign_in(app: &App, claim: Claim) -> Result<Session> {
    let (member, account) = app.gateway.session(&claim.token, &claim.origin).await?;
    Ok(Session { member, account, token: claim.token })
}

/// Where a request comes from: the peer, or the right-most hop that is not a trusted proxy.
pub fn origin(app: &App, request: &Request) -> Origin {
    let trusted = |address| is_trusted(app, address);
    let mut address = peer(request);
    if trusted(address) {
        let hops = request.headers().get_all(FORWARDED_FOR);
        // A line with a byte that is no text counts: what a proxy has added stands in it as well.
        let lines: Vec<_> =
            hops.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
            let Some(hop) = hop_address(hop) else { break };
            address = hop;
            if !trusted(hop) {
                break;
            }
        }
    }
    let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
    let user_agent = String::from_utf8_lossy(agent.unwrap_or_default()).into_owned();
    Origin { address: address.to_canonical(), user_agent }
}

/// Whether the peer is a proxy whose headers about the client are believed.
pub fn trusts_peer(app: &App, request: &Request) -> bool {
    is_trusted(app, peer(request))
}

fn is_trusted(app: &App, address: IpAddr) -> bool {
    app.trusted_proxies.iter().any(|range| range.contains(address))
}

fn peer(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip())
}

/// The address of a hop. Some proxies write the port behind it, or quote it.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim().trim_matches('"');
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    let with_port = || hop.parse::<SocketAddr>().ok().map(|hop| hop.ip());
    bare.parse().ok().or_else(with_port)
}

fn presents_key(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || headers.contains_key(API_KEY)
}

/// The key of a request: the bearer's; without that header, the vendors'.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return headers.get(API_KEY)?.to_str().ok().map(str::trim);
    };
    let value = value.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value.to_owned())
}

/// Takes what the route's guard has put there. Its absence is a defect of the route table, which a
/// test of every route would meet.
fn taken<T: Clone + Send + Sync + 'static>(parts: &Parts) -> Result<T> {
    parts
        .extensions
        .get::<T>()
        .cloned()
        .ok_or_else(|| Error::Internal("a route without its guard".to_owned()).into())
}

macro_rules! extracted {
    ($($name:ident => $take:ty),+) => {
        $(impl FromRequestParts<App> for $name {
            type Rejection = Failure;

            async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self> {
                taken::<$take>(parts).map(|taken| $name(taken))
            }
        })+
    };
}

/// The caller of a key route.
#[derive(Debug)]
pub struct ByKey(pub Caller);
/// The member of a session route.
#[derive(Debug)]
pub struct BySession(pub Session);
/// Whoever asks on a route for both.
#[derive(Debug)]
pub struct ByEither(pub Either);

extracted!(ByKey => Caller, BySession => Session, ByEither => Either);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_may_have_a_port_or_quotes() {
        for (hop, address) in [
            (" 203.0.113.5", Some("203.0.113.5")),
            ("203.0.113.5:1234", Some("203.0.113.5")),
            ("\"203.0.113.5\"", Some("203.0.113.5")),
            ("2001:db8::5", Some("2001:db8::5")),
            ("[2001:db8::5]", Some("2001:db8::5")),
            ("\"[2001:db8::5]:80\"", Some("2001:db8::5")),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(hop_address(hop), address.map(|text| text.parse().unwrap()), "{hop}");
        }
    }
}
