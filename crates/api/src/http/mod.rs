//! HTTP around every handler: authentication, bodies, errors, headers, the request log and the
//! description.

pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod cookie;
pub(crate) mod cross_site;
pub(crate) mod dialect;
pub(crate) mod drain_body;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod framing;
pub(crate) mod health;
pub(crate) mod idempotency;
pub(crate) mod json_text;
pub(crate) mod openapi;
pub(crate) mod own_path;
pub(crate) mod query;
pub(crate) mod quota_headers;
pub(crate) mod request_log;
pub(crate) mod session_cookies;
pub(crate) mod trace_context;
pub(crate) mod trace_headers;
pub(crate) mod trace_metadata;
pub(crate) mod vendor_errors;
pub(crate) mod web_origin;
