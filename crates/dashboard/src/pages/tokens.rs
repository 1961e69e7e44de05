//! Service tokens.

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;
use crate::pages::keys::NewSecret;
use crate::pages::paging::Pages;
use crate::pages::people::ROLES;
use crate::texts::Texts;

/// A service token that is not revoked.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its first and last characters.
    pub masked: String,
    /// Its role.
    pub role: &'static str,
    /// The projects that it sees, by number.
    pub projects: Vec<i64>,
    /// The address of the user who made it; `None` if the command line did.
    pub maker: Option<String>,
    /// Its last request.
    pub last_used_at: Option<Timestamp>,
    /// When it stops being good.
    pub expires_at: Option<Timestamp>,
    /// Whether that time is over.
    pub has_expired: bool,
}

impl TokenRow {
    /// The numbers of its projects.
    fn project_list(&self) -> String {
        let numbers: Vec<String> = self.projects.iter().map(ToString::to_string).collect();
        numbers.join(", ")
    }
}

/// The service tokens of an organization.
#[derive(Debug, Template)]
#[template(path = "tokens.html")]
pub struct TokensPage {
    /// The frame.
    pub frame: Frame,
    /// The tokens.
    pub rows: Vec<TokenRow>,
    /// The other pages of them.
    pub pages: Pages,
    /// Whether the signed-in user has a password, which a new token asks for.
    pub has_password: bool,
    /// A token that was just made.
    pub made: Option<NewSecret>,
    /// The address of this gateway.
    pub address: String,
    /// The address of the whole list as a file.
    pub file: String,
}

impl TokensPage {
    /// The times for which a token can be good, in days, with their names.
    fn terms(t: &Texts) -> [(&'static str, String); 4] {
        let t = &t.tokens;
        [("7", t.days(7)), ("30", t.days(30)), ("90", t.days(90)), ("365", t.a_year.to_owned())]
    }

    /// The roles that a token can have.
    fn roles() -> &'static [&'static str] {
        &ROLES[1..]
    }
}
