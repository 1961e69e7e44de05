//! The insights of all projects, computed anew.

use std::time::Duration;

use domain::project::ProjectStatus;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};

/// Applies the rules of insights to every project that takes requests.
pub(super) struct Insights;

impl Job for Insights {
    const NAME: &'static str = "insights";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_hours(1)
    }

    /// A project that fails does not keep the others from theirs.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        for project in gateway.registry.projects() {
            if gateway.stopping.is_cancelled() {
                break;
            }
            if project.project.status == ProjectStatus::Active {
                log_failure(Self::NAME, gateway.compute_insights(&project).await);
            }
        }
        Ok(())
    }
}
