//! Signing in.

use askama::Template;
use domain::secret::Secret;

use crate::markup;
use crate::texts::Texts;

/// The form for the second factor.
#[derive(Debug, Template)]
#[template(path = "factor.html")]
pub struct FactorPage {
    /// The texts.
    pub t: &'static Texts,
    /// The path to go to afterwards; of this console.
    pub next: String,
    /// Whether passkeys can be asked for.
    pub has_passkeys: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// A link that begins a sign-on.
#[derive(Clone, Debug)]
pub struct SignOnLink {
    /// Its address.
    pub href: String,
    /// The name of the provider.
    pub name: String,
}

/// The page after signing out, which leads to the provider to sign out there too.
#[derive(Debug, Template)]
#[template(path = "signed_out.html")]
pub struct SignedOutPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address at the provider, which may have a token.
    pub address: Secret,
}

/// How far somebody is with linking an account.
#[derive(Debug)]
pub enum LinkState {
    /// No sign-on waits to be linked.
    None,
    /// They have to sign in to the account first.
    SignInFirst,
    /// They are signed in to another account.
    OtherAccount(String),
    /// They may confirm; with the password, if the account has one.
    Confirm,
}

/// The page that links an account to a user of a provider.
#[derive(Debug, Template)]
#[template(path = "link.html")]
pub struct LinkPage {
    /// The texts.
    pub t: &'static Texts,
    /// How far they are.
    pub state: LinkState,
    /// The name of the provider.
    pub provider: String,
    /// The address that the account and the user of the provider share.
    pub email: String,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// The form for signing in.
#[derive(Debug, Template)]
#[template(path = "sign_in.html")]
pub struct SignInPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address as it was given.
    pub email: String,
    /// The path to go to afterwards; of this console.
    pub next: String,
    /// Whether letters can be sent to somebody who has forgotten their password.
    pub has_mail: bool,
    /// Whether passkeys can be asked for.
    pub has_passkeys: bool,
    /// The providers of single sign-on.
    pub providers: Vec<SignOnLink>,
    /// Whether anybody signs in with a password.
    pub has_password: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}
