//! The gateway as a client of an issuer, and the state that a browser keeps while its user is there.

use domain::secret::Secret;

/// The gateway as a client of an issuer.
#[derive(Clone, Debug)]
pub struct Client {
    /// The issuer, as it names itself.
    pub issuer: String,
    /// Our id there.
    pub id: String,
    /// Our secret there; `None` for a public client.
    pub secret: Option<Secret>,
    /// The scopes that are asked for beside `openid`.
    pub scopes: Vec<String>,
    /// The address that the issuer leads back to.
    pub redirect_url: String,
}

/// The secrets of one sign-on. Its browser keeps them, sealed.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Comes back with the code.
    pub state: Secret,
    /// Comes back in the token.
    pub nonce: Secret,
    /// Proves to the issuer that the code is used by whoever has asked for it (PKCE).
    pub verifier: Secret,
}

/// A sign-on that has begun.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The address at the issuer that the browser goes to.
    pub location: String,
    /// The secrets that come back, or go with the code.
    pub flow: Flow,
}
