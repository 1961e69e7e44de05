//! The address under which a browser reaches this gateway.

use axum::http::HeaderMap;
use axum::http::header::HOST;

use crate::app::App;
use crate::http::web_origin::WebOrigin;

/// Shown where no address is known.
const UNKNOWN: &str = "http://localhost:8080";

/// The configured address, or that of the request.
pub(super) fn address(app: &App, headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    let own = || host.and_then(|host| WebOrigin::of_authority(false, host));
    app.public_origin.clone().or_else(own).map_or_else(|| UNKNOWN.to_owned(), |own| own.to_string())
}
