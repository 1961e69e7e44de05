//! People: members, invitations, and the links that they follow.

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;
use crate::markup;
use crate::pages::paging::Pages;
use crate::pages::sign_in::SignOnLink;
use crate::texts::Texts;

/// The roles that a form offers.
pub(crate) const ROLES: [&str; 4] = ["owner", "admin", "member", "viewer"];

/// A user of the organization.
#[derive(Clone, Debug)]
pub struct PersonRow {
    /// Their number.
    pub id: i64,
    /// Their address.
    pub email: String,
    /// Their name.
    pub name: String,
    /// Their role.
    pub role: &'static str,
    /// The projects that they are a member of, by number.
    pub projects: Vec<i64>,
    /// Whether they have a second factor.
    pub has_factor: bool,
    /// How they sign in: `password`, `passkey`, `sign_on`.
    pub ways_in: Vec<&'static str>,
    /// Their last request.
    pub last_seen_at: Option<Timestamp>,
    /// Whether the signed-in user may change and remove them.
    pub may_change: bool,
    /// Whether the signed-in user may hand them a link to a new password.
    pub may_reset: bool,
    /// Whether the signed-in user may remove their second factors, which they have.
    pub may_reset_factor: bool,
}

impl PersonRow {
    /// How they sign in, for people.
    fn ways(&self, t: &Texts) -> String {
        let name = |way: &&'static str| match *way {
            "password" => t.people.password,
            "passkey" => t.people.passkey,
            "sign_on" => t.people.sign_on,
            way => way,
        };
        self.ways_in.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The numbers of their projects, as a form sends them.
    fn project_list(&self) -> String {
        let numbers: Vec<String> = self.projects.iter().map(ToString::to_string).collect();
        numbers.join(", ")
    }
}

/// An invitation that is still good.
#[derive(Clone, Debug)]
pub struct InvitationRow {
    /// Its id.
    pub id: String,
    /// The address that it is for.
    pub email: String,
    /// The role that it gives.
    pub role: &'static str,
    /// The time from which on it is no longer good.
    pub expires_at: Timestamp,
    /// Whether the signed-in user may withdraw it.
    pub may_withdraw: bool,
}

/// A link that is shown once, or sent.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Its purpose and the address that it is for.
    pub title: String,
    /// The time for which it is good.
    pub good_for: &'static str,
    /// The address of the link; `None` if it is sent by letter.
    pub address: Option<String>,
}

/// The people of an organization.
#[derive(Debug, Template)]
#[template(path = "people.html")]
pub struct PeoplePage {
    /// The frame.
    pub frame: Frame,
    /// The users.
    pub people: Vec<PersonRow>,
    /// The other pages of them.
    pub pages: Pages,
    /// The invitations that are still good.
    pub invitations: Vec<InvitationRow>,
    /// The other pages of them.
    pub invitation_pages: Pages,
    /// A link that was just made.
    pub made: Option<NewLink>,
    /// Whether the signed-in user is an owner, who makes owners.
    pub is_owner: bool,
    /// The address of the whole list as a file.
    pub file: String,
    /// The address of all invitations as a file.
    pub invitations_file: String,
}

impl PeoplePage {
    /// The roles that the signed-in user may give, the least powerful last.
    fn roles(&self) -> &'static [&'static str] {
        if self.is_owner { &ROLES } else { &ROLES[1..] }
    }
}

/// The form that an invitation leads to.
#[derive(Debug, Template)]
#[template(path = "invitation.html")]
pub struct InvitationPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address that it is for; `None` if the link is no longer good.
    pub email: Option<String>,
    /// The token of the link.
    pub token: String,
    /// The name as it was given.
    pub name: String,
    /// The links to the providers of single sign-on, by which it is accepted.
    pub providers: Vec<SignOnLink>,
    /// Whether the account may get a password; if not, the provider makes it.
    pub has_password: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// The form by which somebody asks for a link to a new password.
#[derive(Debug, Template)]
#[template(path = "forgotten.html")]
pub struct ForgottenPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address as it was given.
    pub email: String,
    /// Whether a letter is on its way, if the address has an account.
    pub is_done: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// The form that a link in a letter to an address leads to.
#[derive(Debug, Template)]
#[template(path = "verification.html")]
pub struct VerificationPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address; `None` if the link is no longer good.
    pub email: Option<String>,
    /// The token of the link.
    pub token: String,
    /// Whether it is verified.
    pub is_done: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}

/// The form that a link to a new password leads to.
#[derive(Debug, Template)]
#[template(path = "new_password.html")]
pub struct NewPasswordPage {
    /// The texts.
    pub t: &'static Texts,
    /// The address that it is for; `None` if the link is no longer good.
    pub email: Option<String>,
    /// The token of the link.
    pub token: String,
    /// Whether the password was set.
    pub is_done: bool,
    /// Why it was refused.
    pub fault: Option<String>,
}
