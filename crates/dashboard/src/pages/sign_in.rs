//! Signing in.

use askama::Template;

/// The form for the second factor.
#[derive(Debug, Template)]
#[template(path = "factor.html")]
pub struct FactorPage {
    /// The path to go to afterwards; of this console.
    pub next: String,
    /// Whether passkeys can be asked for.
    pub has_passkeys: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// The form for signing in.
#[derive(Debug, Template)]
#[template(path = "sign_in.html")]
pub struct SignInPage {
    /// The address as it was given.
    pub email: String,
    /// The path to go to afterwards; of this console.
    pub next: String,
    /// Whether letters can be sent to somebody who has forgotten their password.
    pub has_mail: bool,
    /// Whether passkeys can be asked for.
    pub has_passkeys: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}
