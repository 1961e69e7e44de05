//! Authentication and authorisation: every route is behind one of these guards, and receives the
//! caller that it authorised.

use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gateway::{Caller, Error, GateRefusal, Member, Origin, PerimeterReason, Spends, Standing};
use serde::Deserialize;

use crate::app::App;
use crate::http::client::origin;
use crate::http::cross_site;
use crate::http::error::{Failure, Result};
use crate::http::idempotency;
use crate::http::quota_headers;
use crate::http::session_cookies::SessionCookie;
use crate::http::trace_headers;

/// The header in which some vendors' clients send the key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The header in which Google's clients send the key.
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The beginning of the paths of the API.
const API: &str = "/api/v1/";
/// The beginnings of the paths below the vendors' roots.
const ROOTS: [&str; 3] = ["/openai/", "/anthropic/", "/gemini/"];

/// The beginning of service tokens.
const SERVICE_TOKEN: &str = "st_";

/// A signed-in member with the token of the session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The signed-in member.
    pub member: Member,
    /// The account behind it.
    pub account: gateway::Account,
    /// The cookie's value.
    pub token: String,
}

/// A key or a member.
#[derive(Clone, Debug)]
pub enum Either {
    /// An API key.
    Key(Box<Caller>),
    /// A signed-in user or a service token.
    Member(Box<Member>),
}

/// Admits keys that may call a model.
pub fn spending_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::Yes, KeyPlace::Headers, request, next)
}

/// Admits keys to calls that cost nothing.
pub fn key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::No, KeyPlace::Headers, request, next)
}

/// Admits keys below a vendor's root that may call a model.
pub fn root_spending_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::Yes, KeyPlace::HeadersOrQuery, request, next)
}

/// Admits keys below a vendor's root to calls that cost nothing.
pub fn root_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::NoAndAsks, KeyPlace::HeadersOrQuery, request, next)
}

/// Admits keys below a vendor's root to calls that cost nothing and call a provider.
pub fn root_provider_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_key(app, Spends::No, KeyPlace::HeadersOrQuery, request, next)
}

/// Admits keys below Gemini's root, where one route has all methods of a model: listing and counting
/// cost nothing.
pub fn gemini_key(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    let is_free =
        request.method() != Method::POST || request.uri().path().ends_with(":countTokens");
    let spends = if is_free { Spends::NoAndAsks } else { Spends::Yes };
    with_key(app, spends, KeyPlace::HeadersOrQuery, request, next)
}

/// The places of a request that may hold the key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyPlace {
    Headers,
    HeadersOrQuery,
}

/// The parameter in which some vendors' clients send the key.
#[derive(Deserialize)]
struct KeyQuery {
    key: String,
}

async fn with_key(
    app: App,
    spends: Spends,
    place: KeyPlace,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let caller = match admit(&app, &request, spends, place).await {
        Ok(caller) => caller,
        Err(GateRefusal { error, quota }) => {
            return Ok(quota_headers::add(quota, Failure::from(error).into_response()));
        }
    };
    let quota = caller.quota;
    let caller = match trace_headers::session_of(request.headers()) {
        Some(session) => caller.in_session(session),
        None => caller,
    };
    let caller = match trace_headers::attributes_of(request.headers()) {
        Some(attributes) => caller.with_attributes(attributes),
        None => caller,
    };
    let response = if spends == Spends::Yes && idempotency::is_asked_for(&request) {
        // Boxed: few requests have the header, and all would carry the future.
        let once = Box::pin(idempotency::once(app, caller, request, next)).await;
        once.unwrap_or_else(IntoResponse::into_response)
    } else {
        request.extensions_mut().insert(caller);
        next.run(request).await
    };
    Ok(quota_headers::add(quota, response))
}

/// Admits members: signed-in users and service tokens.
pub async fn member(State(app): State<App>, mut request: Request, next: Next) -> Result<Response> {
    if let Some(token) = service_token(request.headers()) {
        let member = by_token(&app, &request, token).await?;
        request.extensions_mut().insert(member);
    } else {
        let claim = claim(&app, &request);
        admit_session(&mut request, sign_in(&app, claim, Standing::Full).await?);
    }
    Ok(next.run(request).await)
}

/// Admits signed-in users alone, and refuses service tokens that are good.
pub async fn person(State(app): State<App>, mut request: Request, next: Next) -> Result<Response> {
    if let Some(token) = service_token(request.headers()) {
        by_token(&app, &request, token).await?.check_person()?;
    }
    let claim = claim(&app, &request);
    admit_session(&mut request, sign_in(&app, claim, Standing::Full).await?);
    Ok(next.run(request).await)
}

fn admit_session(request: &mut Request, session: Session) {
    request.extensions_mut().insert(session.member.clone());
    request.extensions_mut().insert(session);
}

/// Admits a session to its own routes, which report only that there is none.
pub fn own_session(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_own_session(app, Standing::Enrols, request, next)
}

/// Admits a session to its own routes, also if its second factor is still to come.
pub fn awaiting_session(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> impl Future<Output = Result<Response>> + Send {
    with_own_session(app, Standing::AwaitsFactor, request, next)
}

async fn with_own_session(
    app: App,
    least: Standing,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let session = own_session_of(&app, &request, least).await?;
    admit_session(&mut request, session);
    Ok(next.run(request).await)
}

/// The session of a request, for which any reason that there is none is the same. (The request itself must
/// not be held over the wait: its body is not `Sync`.)
pub fn own_session_of<'a>(
    app: &'a App,
    request: &Request,
    least: Standing,
) -> impl Future<Output = Result<Session>> + Send + use<'a> {
    let claim = claim(app, request);
    async move { sign_in(app, claim, least).await.map_err(Failure::of_session) }
}

/// The session of a request that an open page makes by itself: it is no use of the session.
pub fn idle_session_of<'a>(
    app: &'a App,
    request: &Request,
) -> impl Future<Output = Result<Session>> + Send + use<'a> {
    let claim = claim(app, request);
    async move {
        let (token, origin) = claim.checked(app).await?;
        let found = app.gateway.idle_session(&token, &origin, Standing::Full).await;
        let (member, account) = found.map_err(|error| Failure::of_session(error.into()))?;
        Ok(Session { member, account, token })
    }
}

/// Admits keys and members.
pub async fn either(State(app): State<App>, mut request: Request, next: Next) -> Result<Response> {
    let mut quota = None;
    let who = if let Some(token) = service_token(request.headers()) {
        Either::Member(Box::new(by_token(&app, &request, token).await?))
    } else if presents_key(request.headers()) {
        match admit(&app, &request, Spends::No, KeyPlace::Headers).await {
            Ok(caller) => {
                quota = caller.quota;
                Either::Key(Box::new(caller))
            }
            Err(GateRefusal { error, quota }) => {
                return Ok(quota_headers::add(quota, Failure::from(error).into_response()));
            }
        }
    } else {
        let claim = claim(&app, &request);
        Either::Member(Box::new(sign_in(&app, claim, Standing::Full).await?.member))
    };
    request.extensions_mut().insert(who);
    Ok(quota_headers::add(quota, next.run(request).await))
}

/// Consults the gate. (The request itself must not be held over the wait: its body is not `Sync`.)
fn admit<'a>(
    app: &'a App,
    request: &Request,
    spends: Spends,
    place: KeyPlace,
) -> impl Future<Output = std::result::Result<Caller, GateRefusal>> + Send + use<'a> {
    let (origin, key) = (origin(app, request), key_of(request, place));
    async move { app.gateway.gate(key.as_deref(), &origin, spends).await }
}

/// Adds the requests that are left to the answer to a request for no endpoint, if it has a key and its path is beside
/// those of endpoints for keys: elsewhere no credential is looked at. (The request itself must not be held over the
/// wait: its body is not `Sync`.)
pub fn with_quota_left<'a>(
    app: &'a App,
    request: &Request,
    response: Response,
) -> impl Future<Output = Response> + Send + use<'a> {
    let path = request.uri().path();
    let place = if ROOTS.iter().any(|root| path.starts_with(root)) {
        Some(KeyPlace::HeadersOrQuery)
    } else {
        path.starts_with(API).then_some(KeyPlace::Headers)
    };
    let (origin, key) = (origin(app, request), place.and_then(|place| key_of(request, place)));
    // A service token has no requests that are limited.
    let key = key.filter(|key| !key.starts_with(SERVICE_TOKEN));
    async move {
        let quota = match key {
            Some(key) => app.gateway.quota_left(&key, &origin).await,
            None => None,
        };
        quota_headers::add(quota, response)
    }
}

/// The key that a request presents.
fn key_of(request: &Request, place: KeyPlace) -> Option<String> {
    let key = presented(request.headers()).map(str::to_owned);
    if key.is_some() || place == KeyPlace::Headers {
        return key;
    }
    let query = || Query::<KeyQuery>::try_from_uri(request.uri()).ok();
    let header = request.headers().get(GOOGLE_KEY).and_then(|value| value.to_str().ok());
    header.map(|key| key.trim().to_owned()).or_else(|| query().map(|Query(KeyQuery { key })| key))
}

/// The session that a request claims.
struct Claim {
    cookie: SessionCookie,
    /// Whether a page of another site has had a browser send the request.
    is_foreign: bool,
    origin: Origin,
}

fn claim(app: &App, request: &Request) -> Claim {
    Claim {
        cookie: SessionCookie::of(app, request),
        is_foreign: cross_site::is_foreign(app, request),
        origin: origin(app, request),
    }
}

impl Claim {
    /// The token, and where the request comes from. Browsers send no cookie with most requests of other sites'
    /// pages: those are noted too.
    async fn checked(self, app: &App) -> std::result::Result<(String, Origin), Error> {
        let Self { cookie, is_foreign, origin } = self;
        let (reason, error) = match cookie {
            SessionCookie::One(token) if !is_foreign => return Ok((token, origin)),
            SessionCookie::None if !is_foreign => return Err(Error::Unauthorized),
            SessionCookie::None => (PerimeterReason::ForeignPage, Error::Unauthorized),
            SessionCookie::One(_) | SessionCookie::Planted | SessionCookie::Several
                if is_foreign =>
            {
                (PerimeterReason::ForeignPage, Error::Forbidden)
            }
            SessionCookie::Planted => {
                tracing::info!(
                    "a browser's session without its second cookie was refused: another host has set it, or a proxy \
                     drops or changes cookies that begin with __Host-"
                );
                (PerimeterReason::UnknownSession, Error::InvalidToken)
            }
            SessionCookie::One(_) | SessionCookie::Several => {
                (PerimeterReason::SeveralSessions, Error::InvalidToken)
            }
        };
        app.gateway.note_perimeter_block(&origin, reason).await;
        Err(error)
    }
}

async fn sign_in(app: &App, claim: Claim, least: Standing) -> Result<Session> {
    let (token, origin) = claim.checked(app).await?;
    let (member, account) = app.gateway.session(&token, &origin, least).await?;
    Ok(Session { member, account, token })
}

/// The member that a service token stands for. (The request itself must not be held over the wait: its body is
/// not `Sync`.)
fn by_token<'a>(
    app: &'a App,
    request: &Request,
    token: String,
) -> impl Future<Output = std::result::Result<Member, Error>> + Send + use<'a> {
    let origin = origin(app, request);
    async move { app.gateway.service_token_member(&token, &origin).await }
}

/// The service token of a request. No page of another site can send one, so no cookie counts beside it.
fn service_token(headers: &HeaderMap) -> Option<String> {
    let bearer = headers.contains_key(AUTHORIZATION).then(|| presented(headers)).flatten();
    bearer.filter(|token| token.starts_with(SERVICE_TOKEN)).map(str::to_owned)
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

/// Takes the value that the route's guard has inserted. Its absence is a defect of the route table,
/// which a test of every route would find.
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
/// The session of a route for signed-in users alone.
#[derive(Debug)]
pub struct BySession(pub Session);
/// The member of a route that admits service tokens too.
#[derive(Debug)]
pub struct ByMember(pub Member);
/// The caller of a route that admits both.
#[derive(Debug)]
pub struct ByEither(pub Either);

extracted!(ByKey => Caller, BySession => Session, ByMember => Member, ByEither => Either);
