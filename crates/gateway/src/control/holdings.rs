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
    /// Reserved for calls that run: of all gateways that share counters, else of this one.
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
    /// Reserved for calls that run: of all gateways that share counters, else of this one.
    pub reserved: Usd,
    /// Requests admitted in the rolling hour, by the same gateways.
    pub requests: u64,
}

impl Gateway {
    /// The holdings of a project that is a member's to see, and of its keys. Of shared counters that cannot be
    /// reached, it shows what this gateway knows.
    pub async fn holdings(&self, member: &Member, id: ProjectId) -> Result<Holdings> {
        let project = self.visible_project(member, id)?;
        let keys = self.registry.keys();
        let keys: Vec<_> = keys.iter().filter(|state| state.key.project == id).collect();
        let mut holdings = Holdings {
            budget: project.settings.monthly_budget,
            spent: Usd::ZERO,
            reserved: Usd::ZERO,
            most_requests: project.settings.limits.requests_per_hour,
            keys: Vec::with_capacity(keys.len()),
        };
        let now = self.clock.now();
        {
            let mut month = lock(&project.month);
            (holdings.spent, holdings.reserved) = (month.total(now), month.set_aside.total());
        }
        for state in &keys {
            let mut windows = lock(&state.windows);
            holdings.keys.push(KeyHoldings {
                id: state.key.id,
                spent: windows.spent(now),
                reserved: windows.set_aside.total(),
                requests: windows.requests(now),
            });
        }
        if let Some(fleet) = &self.fleet {
            let ids: Vec<KeyId> = keys.iter().map(|state| state.key.id).collect();
            if let Ok(figures) = fleet.counters.look(id, &ids).await {
                // Without a bound they do not know what is spent.
                holdings.spent = holdings.spent.max(figures.spent);
                holdings.reserved += figures.reserved;
                for (held, of_key) in holdings.keys.iter_mut().zip(figures.keys) {
                    held.spent = held.spent.max(of_key.spent);
                    held.reserved += of_key.reserved;
                    held.requests = held.requests.max(of_key.requests);
                }
            }
        }
        Ok(holdings)
    }
}
