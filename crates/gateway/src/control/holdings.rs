//! Holdings: the money that is spent and reserved, and the requests that count against limits.

use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::state::member::Member;

/// The money and requests that count against the limits of a project now.
#[derive(Clone, Debug)]
pub struct Holdings {
    /// Its budget of the calendar month.
    pub budget: Option<Usd>,
    /// Its spend in this month.
    pub spent: Usd,
    /// Reserved on this node for calls that run.
    pub reserved: Usd,
    /// The requests that a key may make in a rolling hour; `None` if there is no limit.
    pub most_requests: Option<u64>,
    /// The holdings of its keys, oldest first.
    pub keys: Vec<KeyHoldings>,
}

/// The money and requests that count against the limits of a key now.
#[derive(Clone, Copy, Debug)]
pub struct KeyHoldings {
    /// The key.
    pub id: KeyId,
    /// Spent in the rolling hour.
    pub spent: Usd,
    /// Reserved on this node for calls that run.
    pub reserved: Usd,
    /// Requests admitted on this node in the rolling hour.
    pub requests: u64,
}

impl Gateway {
    /// The holdings of a project that is a member's to see, and of its keys.
    pub fn holdings(&self, member: &Member, id: ProjectId) -> Result<Holdings> {
        let project = self.visible_project(member, id)?;
        let now = self.clock.now();
        let held = |id: KeyId| {
            let state = self.registry.key(id)?;
            let mut windows = lock(&state.windows);
            Some(KeyHoldings {
                id,
                spent: windows.spent(now),
                reserved: windows.set_aside.total(),
                requests: windows.requests(now),
            })
        };
        let keys = self.registry.keys();
        let of_project = keys.iter().filter(|state| state.key.project == id);
        let mut month = lock(&project.month);
        Ok(Holdings {
            budget: project.settings.monthly_budget,
            spent: month.total(now),
            reserved: month.set_aside.total(),
            most_requests: project.settings.limits.requests_per_hour,
            keys: of_project.filter_map(|state| held(state.key.id)).collect(),
        })
    }
}
