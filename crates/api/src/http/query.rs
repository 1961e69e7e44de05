//! Values of a query that is read by hand.

use axum::extract::Request;

/// A value of the query of a request; of several with a name the first.
pub(crate) fn query_value(request: &Request, name: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}
