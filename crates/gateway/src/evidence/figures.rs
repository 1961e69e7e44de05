//! The figures that people look at first: a project over a period, beside the period before.

use domain::ids::ProjectId;
use domain::money::Usd;
use store::{Dimension, GroupRow, SecurityCounts};

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The figures of a project over a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The cost of all calls.
    pub cost: Usd,
    /// Executed requests, blocked ones included.
    pub requests: i64,
    /// Latency percentiles 50, 95 and 99, in milliseconds; `None` without calls.
    pub latency: [Option<f64>; 3],
    /// Findings by trace.
    pub findings: SecurityCounts,
    /// The revenue of the traces.
    pub revenue: Usd,
}

/// The figures of a period and of the one before it.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigures {
    /// Those of the period.
    pub now: Figures,
    /// Those of the period before.
    pub before: Figures,
    /// All usage of the period, from the beginning of its first hour on.
    pub usage: GroupRow,
}

impl Gateway {
    /// The figures of a project that is a member's to see.
    pub async fn figures_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        period: &Period,
    ) -> Result<Figures> {
        self.figures(&*self.visible_project(member, project)?, period).await
    }

    async fn figures(&self, project: &ProjectState, period: &Period) -> Result<Figures> {
        let (id, (from, to)) = (project.id(), period.minutes());
        let (usage, sketch, findings, revenue) = tokio::try_join!(
            bounded(self.store.usage(id, from, to)),
            bounded(self.store.latencies(id, from, to)),
            bounded(self.store.security_counts(id, period.start, period.end)),
            bounded(self.store.revenue(id, period.start, period.end)),
        )?;
        Ok(Figures {
            cost: usage.iter().map(|row| row.cost).sum(),
            requests: usage.iter().map(|row| row.requests).sum(),
            latency: [50.0, 95.0, 99.0].map(|share| sketch.percentile(share)),
            findings,
            revenue,
        })
    }

    /// The figures of a project, and those of the period before.
    pub(crate) async fn compared_figures(
        &self,
        project: &ProjectState,
        period: Period,
    ) -> Result<ComparedFigures> {
        let before = self.figures(project, &period.before()).await?;
        let now = self.figures(project, &period).await?;
        let usage = self.usage(project, period, &Dimension::Model).await?.total;
        Ok(ComparedFigures { now, before, usage })
    }
}
