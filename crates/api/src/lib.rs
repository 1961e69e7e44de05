//! The API: JSON and server-sent events over HTTP, and nothing that decides.
//!
//! A handler extracts, calls a use case, and presents its result. Every route is behind the guard
//! of its group (`router.rs`), and one table maps errors to responses (`error.rs`).

mod app;
mod console;
mod control;
mod evidence;
mod http;
mod inference;
mod roots;
mod router;

pub use crate::app::Settings;
pub use crate::http::request_log::bare_refusal;
pub use crate::http::web_origin::WebOrigin;
pub use crate::router::{document, router};
