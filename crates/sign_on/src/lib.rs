//! Single sign-on: the conversation with an issuer of OpenID Connect, by the crate `openidconnect`, over
//! HTTP that the caller provides.
//!
//! An issuer is somebody else's program, and a sign-on begins without a credential: discovery and keys are
//! remembered, faults for a moment too, so that strangers cause few requests. The bounds on bytes and time
//! of a request, and the egress rules, are the caller's.
//!
//! The library is generic, and brings cryptography of its own, which verifies tokens with public keys and
//! nothing else. It is compiled here alone, so all futures that leave are boxed.

mod client;
mod error;
mod http;
mod identity;
mod issuer;
mod issuers;

pub use crate::client::{Begun, Client, Flow};
pub use crate::error::SignOnError;
pub use crate::http::Http;
pub use crate::identity::Identity;
pub use crate::issuers::Issuers;
