//! The user's own account.

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;
use crate::markup;
use crate::pages::sign_in::SignOnLink;
use crate::qr_code::{QrPath, qr_path};

/// An authenticator that its first code will activate.
#[derive(Clone, Debug)]
pub struct OfferedAuthenticator {
    /// The secret, to be typed.
    pub secret: String,
    /// The secret as an address, to be scanned.
    pub uri: String,
}

impl OfferedAuthenticator {
    fn qr(&self) -> Option<QrPath> {
        qr_path(&self.uri)
    }
}

/// A passkey of the user.
#[derive(Clone, Debug)]
pub struct PasskeyRow {
    /// Its id.
    pub id: String,
    /// The name that the user has given it.
    pub name: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last signed in; `None` if never.
    pub last_used_at: Option<Timestamp>,
}

/// An account of the user at an issuer.
#[derive(Clone, Debug)]
pub struct IdentityRow {
    /// Its id.
    pub id: String,
    /// The issuer.
    pub issuer: String,
    /// The address that the issuer gave when it was linked.
    pub email: String,
    /// When it was linked.
    pub created_at: Timestamp,
}

/// A session of the user.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The client that it began with.
    pub user_agent: Option<String>,
    /// The address that it began from.
    pub address: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// Its last request.
    pub last_seen_at: Timestamp,
    /// Whether it is the one that shows the page.
    pub is_current: bool,
}

/// The account of the signed-in user.
#[derive(Debug, Template)]
#[template(path = "account.html")]
pub struct AccountPage {
    /// The frame.
    pub frame: Frame,
    /// Whether the account has a password, which changes ask for.
    pub has_password: bool,
    /// The ways to sign in once more, where there is no password to ask for.
    pub sign_in_anew: Vec<SignOnLink>,
    /// When the address was verified; `None` if never.
    pub verified_at: Option<Timestamp>,
    /// Whether letters can be sent.
    pub has_mail: bool,
    /// Whether an authenticator is set up.
    pub has_authenticator: bool,
    /// Whether the account has a second factor.
    pub has_factor: bool,
    /// Whether the organization requires one.
    pub requires_factor: bool,
    /// The recovery codes that are left.
    pub codes_left: i64,
    /// An authenticator that is being set up.
    pub offered: Option<OfferedAuthenticator>,
    /// Recovery codes that were just made; none if none were.
    pub codes: Vec<String>,
    /// Whether the gateway can have passkeys: it needs an address of its own for them.
    pub has_passkeys: bool,
    /// The passkeys of the user, oldest first.
    pub passkeys: Vec<PasskeyRow>,
    /// The accounts of the user at issuers.
    pub identities: Vec<IdentityRow>,
    /// The sessions of the user, the latest in use first.
    pub sessions: Vec<SessionRow>,
}

impl AccountPage {
    /// The label of a field for a code.
    fn code_label(&self) -> &'static str {
        let t = &self.frame.t.account;
        if self.has_authenticator { t.any_code } else { t.recovery_code }
    }

    /// The recovery codes that are left, in words.
    fn left(&self) -> String {
        self.frame.t.account.codes_left(self.codes_left)
    }
}
