//! The figures that people look at first: a project over a period, beside the period before.

use domain::ids::ProjectId;
use domain::money::Usd;
use store::{FindingCounts, UsageBucket};

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The figures of a project over a period.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// All usage.
    pub usage: UsageBucket,
    /// Latency percentiles 50, 95 and 99, in milliseconds; `None` without calls.
    pub latency: [Option<f64>; 3],
    /// The traces with findings.
    pub findings: FindingCounts,
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
}

impl Gateway {
    /// The figures of a project that is a member's to see, and those of the period before.
    pub async fn figures_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        period: &Period,
    ) -> Result<ComparedFigures> {
        let project = self.visible_project(member, project)?.id();
        let earlier = period.before();
        let (now, before) =
            tokio::try_join!(self.figures(project, period), self.figures(project, &earlier))?;
        Ok(ComparedFigures { now, before })
    }

    /// The figures of a period.
    pub(crate) async fn figures(&self, project: ProjectId, period: &Period) -> Result<Figures> {
        let (from, to) = period.minutes();
        let (usage, sketch, findings, revenue) = tokio::try_join!(
            bounded(self.store.usage_total(project, from, to)),
            bounded(self.store.latencies(project, from, to)),
            bounded(self.store.finding_counts(project, period.start, period.end)),
            bounded(self.store.revenue(project, period.start, period.end)),
        )?;
        let latency = [50.0, 95.0, 99.0].map(|share| sketch.percentile(share));
        Ok(Figures { usage, latency, findings, revenue })
    }
}
