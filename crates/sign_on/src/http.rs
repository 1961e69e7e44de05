//! The caller's HTTP, as the library uses it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Request, Response};
use openidconnect::AsyncHttpClient;

use crate::error::SignOnError;

/// Requests to issuers. Every implementation bounds the time and the bytes of an answer, follows no redirect,
/// and checks each address.
pub trait Http: Send + Sync + 'static {
    /// Sends a request and reads the whole answer.
    fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> BoxFuture<'_, Result<Response<Vec<u8>>, SignOnError>>;

    /// Whether the browser of a user may be sent to an address.
    fn may_lead_to(&self, address: &str) -> bool;
}

/// The caller's HTTP. (A closure over a reference would not do: the library's futures have to be `Send` for
/// every lifetime.)
#[derive(Clone)]
pub(crate) struct LibraryHttp(pub(crate) Arc<dyn Http>);

impl<'a> AsyncHttpClient<'a> for LibraryHttp {
    type Error = SignOnError;
    type Future = BoxFuture<'a, Result<Response<Vec<u8>>, SignOnError>>;

    fn call(&'a self, request: Request<Vec<u8>>) -> Self::Future {
        self.0.send(request)
    }
}
