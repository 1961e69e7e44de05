//! The state that every handler can reach.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use domain::net::Cidr;
use gateway::{Gateway, LiveViews};
use tokio::sync::Semaphore;
use utoipa::openapi::OpenApi;

use crate::http::web_origin::WebOrigin;

/// The most files of lists at a time: each is held whole, and reads the database at length.
const MOST_LIST_FILES: usize = 4;

/// The parts of the server's configuration that the API uses.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Cidr>,
    /// The URL that browsers see, if one is configured. Only its scheme, host and port count.
    pub public_url: Option<String>,
    /// Whether the console is served.
    pub console: bool,
}

/// The state that every handler can reach.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// The contents of an [`App`]: one reference count to keep per request and layer.
pub(crate) struct Parts {
    pub(crate) gateway: Gateway,
    /// The pages of the console that are kept up to date.
    pub(crate) live_views: LiveViews,
    /// The files of lists that are made or sent at a time.
    pub(crate) list_files: Arc<Semaphore>,
    pub(crate) trusted_proxies: Vec<Cidr>,
    /// The origin of the URL that browsers see, if one is configured.
    pub(crate) public_origin: Option<WebOrigin>,
    pub(crate) is_https: bool,
    pub(crate) has_console: bool,
    /// Makes the description of the API.
    describe: fn() -> OpenApi,
    /// The description, once somebody has asked for it: it is large, and few ask.
    document: OnceLock<Arc<OpenApi>>,
}

impl Parts {
    /// The description of the API.
    pub(crate) fn document(&self) -> Arc<OpenApi> {
        self.document.get_or_init(|| Arc::new((self.describe)())).clone()
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub(crate) fn new(gateway: Gateway, settings: Settings, describe: fn() -> OpenApi) -> Self {
        let origin = settings.public_url.as_deref().and_then(WebOrigin::of_url);
        Self(Arc::new(Parts {
            live_views: LiveViews::new(gateway.clone()),
            list_files: Arc::new(Semaphore::new(MOST_LIST_FILES)),
            gateway,
            trusted_proxies: settings.trusted_proxies,
            is_https: origin.as_ref().is_some_and(WebOrigin::is_https),
            public_origin: origin,
            has_console: settings.console,
            describe,
            document: OnceLock::new(),
        }))
    }
}
