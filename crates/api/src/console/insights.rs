//! Insights.

use axum::extract::State;
use axum::response::Response;
use dashboard::{Count, DriftRow, InsightCard, InsightsPage, Money, Savings, Section, Texts};
use domain::insight::{InsightFacts, InsightKind};
use domain::money::Usd;
use gateway::DriftReport;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::{Visit, done};
use crate::http::extract::Segments;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let insights = app.gateway.list_insights(visit.member(), project).await?;
    let cards = insights.into_iter().map(|insight| {
        let (title, description) = words(visit.t, insight.facts.kind, &insight.facts.subject);
        InsightCard {
            id: insight.id.0,
            title,
            description,
            savings: savings(&insight.facts),
            since: insight.created_at,
            data: serde_json::to_string_pretty(&insight.facts.data).unwrap_or_default(),
        }
    });
    let drift = app.gateway.weekly_drift_for_member(visit.member(), project).await?;
    Ok(page(&InsightsPage {
        drift: drift.iter().cloned().map(drift_row).collect(),
        cards: cards.collect(),
        frame: visit.frame(Section::Insights, visit.t.insights.title, Some(project)),
        may_manage: visit.member().role.may_manage_insights(),
    }))
}

/// The savings of an alert about a cheaper model. Those of less than a day have no estimate, and the other kinds of
/// insights never have one.
fn savings(facts: &InsightFacts) -> Option<Savings> {
    match (facts.kind, facts.estimated_savings) {
        (InsightKind::MigrationAlert, Usd::ZERO) => Some(Savings::NotKnownYet),
        (InsightKind::MigrationAlert, amount) => Some(Savings::Monthly(Money(amount))),
        (InsightKind::LatencyAlert | InsightKind::IntentPattern, _) => None,
    }
}

fn drift_row(report: DriftReport) -> DriftRow {
    DriftRow {
        samples: (Count::from(report.samples), Count::from(report.baseline_samples)),
        indices: [report.output_length, report.refusal_rate, report.latency, report.language],
        is_flagged: report.flagged,
        model: report.model,
    }
}

/// The title of an insight and what it means.
fn words(t: &Texts, kind: InsightKind, subject: &str) -> (String, &'static str) {
    let t = &t.insights;
    match kind {
        InsightKind::MigrationAlert => (t.cheaper_model(subject), t.about_cheaper_model),
        InsightKind::LatencyAlert => (t.slow_model(subject), t.about_slow_model),
        InsightKind::IntentPattern => (t.common_intent(subject), t.about_common_intent),
    }
}

/// Computes them now.
pub(super) async fn refresh(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    app.gateway.refresh_insights(visit.member(), project).await?;
    Ok(done("/insights", project, "insights_computed"))
}

/// Takes one off the list.
pub(super) async fn dismiss(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    app.gateway.dismiss_insight(visit.member(), project, path.insight()?).await?;
    Ok(done("/insights", project, "insight_dismissed"))
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn a_cheaper_model_alone_has_savings() {
        let of = |kind, estimated_savings| {
            let subject = "code".to_owned();
            savings(&InsightFacts { kind, subject, data: Map::new(), estimated_savings })
        };
        let amount = Usd(2_500_000_000);
        let known = of(InsightKind::MigrationAlert, amount);
        assert!(matches!(known, Some(Savings::Monthly(Money(saved))) if saved == amount));
        let unknown = of(InsightKind::MigrationAlert, Usd::ZERO);
        assert!(matches!(unknown, Some(Savings::NotKnownYet)));
        for kind in [InsightKind::LatencyAlert, InsightKind::IntentPattern] {
            assert!(of(kind, Usd::ZERO).is_none(), "{kind:?}");
        }
    }
}
