//! The API: JSON and server-sent events over HTTP, and nothing that decides.
//!
//! A handler extracts, calls a use case, and presents what it says. Every route is behind the
//! guard of its group (`router.rs`), and one table turns errors into responses (`error.rs`).

mod control;
mod evidence;
mod http;
mod inference;
mod router;

use std::ops::Deref;
use std::sync::Arc;

use domain::net::Cidr;
use gateway::Gateway;
use utoipa::openapi::OpenApi;

pub use crate::http::cross_site::WebOrigin;
pub use crate::http::request_log::bare_refusal;
pub use crate::router::{document, router};

/// What the server tells the API.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Cidr>,
    /// The URL that browsers see, if it is known. Only its scheme, host and port count.
    pub public_url: Option<String>,
}

/// What every handler can reach.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// What an [`App`] is made of: one count to keep per request and layer.
pub(crate) struct Parts {
    gateway: Gateway,
    trusted_proxies: Vec<Cidr>,
    /// The origin of the URL that browsers see, if it is known.
    public_origin: Option<WebOrigin>,
    is_https: bool,
    document: Arc<OpenApi>,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    fn new(gateway: Gateway, settings: Settings, document: Arc<OpenApi>) -> Self {
        let origin = settings.public_url.as_deref().and_then(WebOrigin::of_url);
        Self(Arc::new(Parts {
            gateway,
            trusted_proxies: settings.trusted_proxies,
            is_https: origin.as_ref().is_some_and(WebOrigin::is_https),
            public_origin: origin,
            document,
        }))
    }
}
