//! Providers of single sign-on.

use askama::Template;

use crate::frame::Frame;
use crate::markup;

/// A provider, as a form shows it.
#[derive(Clone, Debug, Default)]
pub struct ProviderForm {
    /// Its number; `None` of a new one.
    pub id: Option<i64>,
    /// The version of the fields that it shows.
    pub base: String,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// The issuer.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// The issuer that is stored, whatever the form shows.
    pub stored_issuer: String,
    /// Our id there that is stored.
    pub stored_client_id: String,
    /// Whether we have a secret there.
    pub has_client_secret: bool,
    /// The scopes, with spaces between them.
    pub scopes: String,
    /// The claim with the groups.
    pub groups_claim: String,
    /// The rules, one a line.
    pub rules: String,
    /// Whether a second factor that the issuer has seen counts.
    pub trusts_factor: bool,
    /// The sessions that end with it.
    pub sessions: i64,
}

impl ProviderForm {
    /// The path that the form is sent to.
    fn path(&self) -> String {
        match self.id {
            Some(id) => format!("/people/sign-on/{id}"),
            None => "/people/sign-on".to_owned(),
        }
    }

    /// The id of a field of this form.
    fn field(&self, name: &str) -> String {
        format!("{name}-{}", self.id.unwrap_or_default())
    }
}

/// The providers of an organization.
#[derive(Debug, Template)]
#[template(path = "sign_on.html")]
pub struct SignOnPage {
    /// The frame.
    pub frame: Frame,
    /// The providers.
    pub providers: Vec<ProviderForm>,
    /// The form of a new one, as it was given.
    pub new: ProviderForm,
    /// The address of this gateway for browsers; `None` if it is not configured.
    pub address: Option<String>,
}
