//! The caller of a request: an authenticated key, and the origin of the request.

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
    /// The memory that is held for the body of its request, until all work on that is done.
    pub charge: ChargeSlot,
}

impl Caller {
    /// The share that work on its texts counts for.
    pub fn share(&self) -> Share {
        Share::of_key(self.project.id(), self.key.key.id)
    }
}

/// The origin of a request.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The address that counts for perimeter rules.
    pub address: IpAddr,
    /// The client's own description of itself.
    pub user_agent: String,
}
