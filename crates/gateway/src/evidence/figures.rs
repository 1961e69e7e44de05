//! The figures that people look at first: a project over a period, beside the period before.

use domain::ids::ProjectId;
use domain::money::Usd;
use store::{FindingCounts, UsageBucket};

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

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

/// What the period before is compared by.
#[derive(Clone, Debug, PartialEq)]
pub struct FiguresBefore {
    /// All usage.
    pub usage: UsageBucket,
    /// The median latency, in milliseconds; `None` without calls.
    pub latency: Option<f64>,
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
    pub before: FiguresBefore,
}

impl Gateway {
    /// The figures of a project that is a member's to see, and those of the period before.
    pub async fn figures_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        period: &Period,
    ) -> Result<ComparedFigures> {
        self.compared_figures(&*self.visible_project(member, project)?, period).await
    }

    pub(crate) async fn compared_figures(
        &self,
        project: &ProjectState,
        period: &Period,
    ) -> Result<ComparedFigures> {
        let id = project.id();
        let earlier = period.before();
        let ((from, to), (from_before, to_before)) = (period.minutes(), earlier.minutes());
        let (
            (usage, sketch, findings, revenue),
            (usage_before, sketch_before, findings_before, revenue_before),
        ) = tokio::try_join!(
            async {
                tokio::try_join!(
                    bounded(self.store.usage_total(id, from, to)),
                    bounded(self.store.latencies(id, from, to)),
                    bounded(self.store.finding_counts(id, period.start, period.end)),
                    bounded(self.store.revenue(id, period.start, period.end)),
                )
            },
            async {
                tokio::try_join!(
                    bounded(self.store.usage_total(id, from_before, to_before)),
                    bounded(self.store.latencies(id, from_before, to_before)),
                    bounded(self.store.finding_counts(id, earlier.start, earlier.end)),
                    bounded(self.store.revenue(id, earlier.start, earlier.end)),
                )
            },
        )?;
        let latency = [50.0, 95.0, 99.0].map(|share| sketch.percentile(share));
        let before = FiguresBefore {
            usage: usage_before,
            latency: sketch_before.percentile(50.0),
            findings: findings_before,
            revenue: revenue_before,
        };
        Ok(ComparedFigures { now: Figures { usage, latency, findings, revenue }, before })
    }
}
