//! Settings of the project and of the organization.

use askama::Template;

use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::{self, Choice};

/// A value that a change touches.
#[derive(Clone, Debug)]
pub struct DifferenceRow {
    /// Its place: `limits.loop_requests`.
    pub path: String,
    /// Its value today.
    pub before: Option<String>,
    /// Its value afterwards.
    pub after: Option<String>,
}

/// A change that was not saved yet.
#[derive(Clone, Debug)]
pub struct ProposedChange {
    /// `project` or `organization`.
    pub subject: &'static str,
    /// The patch as JSON.
    pub patch: String,
    /// The version of the settings that it is saved over.
    pub base: String,
    /// The values that differ.
    pub rows: Vec<DifferenceRow>,
}

/// The settings that a form of the page has fields for.
#[derive(Clone, Debug, Default)]
pub struct ProjectFields {
    /// The models of the tiers, by their names.
    pub tiers: Vec<(&'static str, Vec<Choice>)>,
    /// Whether there are more models than these.
    pub has_more_models: bool,
    /// `monthly_budget`.
    pub budget: String,
    /// `limits.requests_per_hour`.
    pub requests: String,
    /// `limits.loop_requests`.
    pub loop_requests: String,
    /// `store_content`.
    pub stores_content: bool,
    /// `auto_trace`.
    pub traces: bool,
    /// The version of the settings that they are of.
    pub base: String,
}

/// The settings of the organization.
#[derive(Clone, Debug)]
pub struct OrganizationFields {
    /// Its name.
    pub name: String,
    /// `security.require_mfa`.
    pub requires_factor: bool,
    /// `security.disable_password_login`.
    pub disables_passwords: bool,
    /// Whether the signed-in user may change that.
    pub may_disable_passwords: bool,
    /// `security.default_role`.
    pub roles: Vec<Choice>,
    /// The version of the settings that the fields are of.
    pub base: String,
    /// All settings as JSON.
    pub json: String,
}

/// An MCP server that requests may name.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// The name of its form.
    pub form: String,
    /// Its address.
    pub address: String,
    /// Whether a token is stored for it.
    pub has_token: bool,
}

/// The settings page.
#[derive(Debug, Template)]
#[template(path = "settings.html")]
pub struct SettingsPage {
    /// The frame.
    pub frame: Frame,
    /// The name of the project.
    pub name: String,
    /// Its settings in fields.
    pub fields: ProjectFields,
    /// All its settings as JSON.
    pub json: String,
    /// The MCP servers that requests may name.
    pub servers: Vec<McpServer>,
    /// The organization.
    pub organization: OrganizationFields,
    /// A patch that was refused, or is to be edited further.
    pub draft: String,
    /// A change to look at before it is saved.
    pub proposed: Option<ProposedChange>,
}
