//! A signed-in member of an organization.

use domain::ids::{OrgId, ProjectId, UserId};
use domain::project::Role;
use domain::time::Timestamp;

use crate::error::{Error, Result};
use crate::state::caller::Origin;
use crate::state::registry::ProjectState;

/// A signed-in user, and the origin of the request.
#[derive(Clone, Debug)]
pub struct Member {
    /// The user.
    pub user: UserId,
    /// Their address.
    pub email: String,
    /// The organization.
    pub org: OrgId,
    /// Their role.
    pub role: Role,
    /// The projects they were made a member of.
    pub projects: Vec<ProjectId>,
    /// When their session began.
    pub signed_in_at: Timestamp,
    /// The origin of the request.
    pub origin: Origin,
}

impl Member {
    /// Refuses everyone but owners and admins.
    pub fn check_admin(&self) -> Result<()> {
        if self.role.is_admin() { Ok(()) } else { Err(Error::Forbidden) }
    }

    /// Refuses everyone but owners.
    pub fn check_owner(&self) -> Result<()> {
        if self.role == Role::Owner { Ok(()) } else { Err(Error::Forbidden) }
    }

    pub(crate) fn sees(&self, project: &ProjectState) -> bool {
        project.project.org == self.org && self.may_see(project.id())
    }

    /// Whether they see the project if it is of their organization.
    pub(crate) fn may_see(&self, project: ProjectId) -> bool {
        self.role.is_admin() || self.projects.contains(&project)
    }
}
