//! Pages of the gateway within a page of somebody else, who could have them clicked unseen.

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use gateway::{Error, PerimeterReason};

use crate::app::App;
use crate::http::client;
use crate::http::error::{Failure, Result};

const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// The values of that header for a page that is shown within another.
const FRAMES: [&[u8]; 6] = [b"iframe", b"frame", b"fencedframe", b"embed", b"object", b"portal"];

/// Refuses a page to a frame, with a row in the audit. A browser that does not say so obeys the headers of the
/// page. (The request itself must not be held over the wait: its body is not `Sync`.)
pub(crate) fn check<'a>(
    app: &'a App,
    request: &Request,
) -> impl Future<Output = Result<()>> + Send + use<'a> {
    let framed = is_framed(request.headers()).then(|| client::origin(app, request));
    async move {
        let Some(origin) = framed else { return Ok(()) };
        app.gateway.note_perimeter_block(&origin, PerimeterReason::FramedPage).await;
        Err(Error::Forbidden.into())
    }
}

/// The pages of `/docs` load their own files alone. Their library sets styles and pictures within the page.
const POLICY_OF_DOCS: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; script-src 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Keeps the pages of `/docs` to themselves, and out of frames.
pub(crate) async fn docs_guarded(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check(&app, &request).await {
        Ok(()) => next.run(request).await,
        Err(failure) => Failure::into_response(failure),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY_OF_DOCS));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

fn is_framed(headers: &HeaderMap) -> bool {
    let mut places = headers.get_all(&FETCH_DEST).iter().map(|value| value.as_bytes().trim_ascii());
    places.any(|place| FRAMES.iter().any(|frame| place.eq_ignore_ascii_case(frame)))
}
