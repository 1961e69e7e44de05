//! The API: JSON and server-sent events over HTTP, and nothing that decides.
//!
//! A handler extracts, calls a use case, and presents what it says. Every route is behind the
//! guard of its group (`router.rs`), and one table turns errors into responses (`error.rs`).

mod app;
mod control;
mod evidence;
mod http;
mod inference;
mod router;

pub use crate::app::Settings;
pub use crate::http::request_log::bare_refusal;
pub use crate::http::web_origin::WebOrigin;
pub use crate::router::{document, router};
