//! The configuration that a client library reads at start-up.

use domain::settings::Limits;

use crate::capacity::body_memory::BodyMemory;
use crate::gateway::Gateway;
use crate::state::caller::Caller;

/// The capabilities of this gateway for one key.
#[derive(Clone, Debug)]
pub struct SdkConfig {
    /// Whether the sandbox model is registered on the project.
    pub offline_testing: bool,
    /// The project's limits.
    pub limits: Limits,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
}

impl Gateway {
    /// The capabilities that a client of this key may count on.
    pub fn plan(&self, caller: &Caller) -> SdkConfig {
        SdkConfig {
            offline_testing: caller.project.models.values().any(|model| model.is_sandbox()),
            limits: caller.project.settings.limits.clone(),
            max_body_bytes: self.config.max_body_bytes,
        }
    }

    /// The largest request body in bytes.
    pub fn max_body_bytes(&self) -> usize {
        self.config.max_body_bytes
    }

    /// The memory for request bodies.
    pub fn bodies(&self) -> &BodyMemory {
        &self.body_memory
    }
}
