//! The caller of a request: an authenticated key, and the place the request comes from.

use std::net::IpAddr;
use std::sync::Arc;

use crate::capacity::body_memory::ChargeSlot;
use crate::capacity::offload::Share;
use crate::state::registry::{KeyState, ProjectState};

/// An authenticated key and the project it is good for.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key.
    pub key: Arc<KeyState>,
    /// Its project.
    pub project: Arc<ProjectState>,
    /// The memory that is held for the body of its request, as long as anything works on that.
    pub charge: ChargeSlot,
}

impl Caller {
    /// By whom work on its texts is shared.
    pub fn share(&self) -> Share {
        Share::of_key(self.project.id(), self.key.key.id)
    }
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The address that counts for perimeter rules.
    pub address: IpAddr,
    /// What the client says of itself.
    pub user_agent: String,
}
