//! A member of an organization who acts on the control plane: a signed-in user, or a service token.

use domain::ids::{OrgId, ProjectId, ServiceTokenId, UserId};
use domain::project::Role;
use domain::time::Timestamp;
use store::Actor;

use crate::error::{Error, Result};
use crate::state::caller::Origin;
use crate::state::registry::ProjectState;

/// A signed-in user or a service token, and the origin of the request.
#[derive(Clone, Debug)]
pub struct Member {
    /// The user. A service token has the number 0, which is nobody's.
    pub user: UserId,
    /// Their address, or the id of the token.
    pub email: String,
    /// The service token, if it is one.
    pub token: Option<ServiceTokenId>,
    /// The hash of the token of their session; `None` of a service token.
    pub session: Option<[u8; 32]>,
    /// The organization.
    pub org: OrgId,
    /// Their role.
    pub role: Role,
    /// The projects they were made a member of.
    pub projects: Vec<ProjectId>,
    /// When their session began, or the token was made.
    pub signed_in_at: Timestamp,
    /// The origin of the request.
    pub origin: Origin,
}

impl Member {
    /// The user; `None` of a service token.
    pub fn person(&self) -> Option<UserId> {
        self.token.is_none().then_some(self.user)
    }

    /// Refuses service tokens: they give nobody a way in or more rights, and end no protection.
    pub fn check_person(&self) -> Result<()> {
        if self.token.is_none() { Ok(()) } else { Err(Error::Forbidden) }
    }

    /// The member as the audit names them.
    pub(crate) fn actor(&self) -> Actor<'_> {
        match self.token {
            Some(_) => Actor::ServiceToken(&self.email),
            None => Actor::User(self.user, &self.email),
        }
    }

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
