//! Projects, roles, and their rights.

use crate::ids::{OrgId, ProjectId};
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// Whether a project takes writes.
    ProjectStatus {
        /// It does.
        Active = "active",
        /// It is only read.
        Archived = "archived",
    }
);

words!(
    /// The rights of a member of an organization.
    Role {
        /// Everything.
        Owner = "owner",
        /// Everything.
        Admin = "admin",
        /// Reads its projects, makes and revokes keys there, judges findings, and dismisses insights.
        Member = "member",
        /// Reads its projects.
        Viewer = "viewer",
    }
);

impl Role {
    /// Whether it sees and does everything in the organization.
    pub fn is_admin(self) -> bool {
        matches!(self, Self::Owner | Self::Admin)
    }

    /// Whether it may try out safety settings of its projects, which takes processor time.
    pub fn may_try_settings(self) -> bool {
        self != Self::Viewer
    }

    /// Whether it may judge findings in its projects.
    pub fn may_judge_findings(self) -> bool {
        self != Self::Viewer
    }

    /// Whether it may compute and dismiss insights of its projects.
    pub fn may_manage_insights(self) -> bool {
        self != Self::Viewer
    }

    /// Whether it may make and revoke keys of its projects.
    pub fn may_manage_keys(self) -> bool {
        self != Self::Viewer
    }
}

/// A project as it is stored.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its number.
    pub id: ProjectId,
    /// The organization that owns it.
    pub org: OrgId,
    /// For people; never blank.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Whether it takes writes.
    pub status: ProjectStatus,
    /// Its settings as they were merged, unknown keys included.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// The tokens of the MCP servers that it allows, sealed.
    pub mcp_credentials: Option<Vec<u8>>,
    /// When it was made.
    pub created_at: Timestamp,
}
