//! The routing of a project: tried, and its threshold set.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dashboard::{Count, Money, Route, RoutingPage, Section, Texts, ThresholdRow, TierRow};
use domain::ids::ProjectId;
use domain::settings::Settings;
use domain::tier::Tier;
use gateway::{Error, ProjectChange, RecentComplexities, Simulated};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::console::failure::{Result, outcome_of};
use crate::console::refusal::show_refusal;
use crate::console::visit::{Form, Visit, done};
use crate::console::{page, page_as};
use crate::http::error::Failure;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    Ok(page(&routing(&app, &visit, project).await?))
}

async fn routing(app: &App, visit: &Visit, id: ProjectId) -> Result<RoutingPage> {
    let member = visit.member();
    let project = app.gateway.project(member, id)?.project;
    let settings = Settings::parse(&project.settings).map_err(Error::Invalid)?;
    let recent = app.gateway.recent_complexities(member, id).await?;
    let tier = |(tier, purpose): (Tier, &'static str)| TierRow {
        name: tier.as_str(),
        purpose,
        model: settings.routing_tiers.get(&tier).cloned(),
    };
    let t = &visit.t.routing;
    let tiers = [
        (Tier::Simple, t.for_simple),
        (Tier::Complex, t.for_complex),
        (Tier::Secure, t.for_secure),
    ];
    Ok(RoutingPage {
        frame: visit.frame(Section::Routing, visit.t.routing.title, Some(id)),
        tiers: tiers.into_iter().map(tier).collect(),
        may_try: member.role.may_try_settings(),
        may_set: member.role.is_admin(),
        text: String::new(),
        is_sensitive: false,
        route: None,
        threshold: recent.threshold,
        calls: Count(i64::try_from(recent.calls.len()).unwrap_or(i64::MAX)),
        thresholds: thresholds(&recent),
    })
}

/// Every tenth, and the threshold in use.
fn thresholds(recent: &RecentComplexities) -> Vec<ThresholdRow> {
    let tenths = (1..10).map(|tenth| f64::from(tenth) / 10.0);
    let mut all: Vec<f64> =
        tenths.filter(|tenth| (tenth - recent.threshold).abs() > 0.005).collect();
    all.push(recent.threshold);
    all.sort_by(f64::total_cmp);
    let row = |threshold: f64| {
        let complex = recent.calls.iter().filter(|complexity| **complexity >= threshold).count();
        Some(ThresholdRow {
            threshold,
            complex: complex as f64 / recent.calls.len() as f64,
            moved: recent.moved_by(threshold)?,
            is_current: threshold.total_cmp(&recent.threshold).is_eq(),
        })
    };
    all.into_iter().filter_map(row).collect()
}

/// Reports the route of a prompt, and records nothing.
pub(super) async fn simulate(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let mut shown = routing(&app, &visit, project).await?;
    shown.text = form.text_area("text");
    shown.is_sensitive = form.get("sensitive").is_some();
    let (member, text) = (visit.member(), &shown.text);
    let tried = app.gateway.simulate_for_member(member, project, text, shown.is_sensitive).await;
    let (status, tried) = outcome_of(&mut shown.frame, tried.map_err(Failure::from));
    let status = if tried.is_some() { StatusCode::OK } else { status };
    shown.route = tried.map(|tried| route(visit.t, tried));
    Ok(page_as(status, &shown))
}

fn route(t: &Texts, simulated: Simulated) -> Route {
    match simulated {
        Simulated::Resolved {
            tier,
            estimated_cost,
            fallback_path,
            risk_score,
            complexity,
            reasons,
            ..
        } => Route::Model {
            tier: tier.as_str(),
            path: fallback_path,
            cost: estimated_cost.map(Money),
            complexity,
            risk: risk_score,
            reasons,
        },
        Simulated::Blocked { reason } => Route::None { heading: t.routing.is_blocked, reason },
        Simulated::Unconfigured { reason, .. } => {
            Route::None { heading: t.routing.finds_no_model, reason }
        }
    }
}

/// Sets the threshold.
pub(super) async fn set_threshold(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let set = async {
        let given: Option<f64> = form.text("threshold").trim().parse().ok();
        let threshold = given.filter(|number| number.is_finite());
        let threshold = threshold.ok_or_else(|| Error::invalid(visit.t.routing.no_threshold))?;
        let patch = Value::from_iter([("complexity_threshold".to_owned(), json!(threshold))]);
        let settings = Map::from_iter([("routing".to_owned(), patch)]);
        let change = ProjectChange { settings: Some(settings), ..ProjectChange::default() };
        app.gateway.update_project(visit.member(), project, change).await
    };
    match set.await {
        Ok(_) => Ok(done("/routing", project, "threshold_set")),
        Err(error @ Error::Invalid(_)) => {
            let mut shown = routing(&app, &visit, project).await?;
            let places = ["settings.routing", visit.t.routing.no_threshold];
            let places = places.map(|begin| (begin, "threshold"));
            let form = ("threshold", &form);
            let status = show_refusal(&mut shown.frame, error.into(), form, &places);
            Ok(page_as(status, &shown))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_tell_the_share_of_calls_that_they_would_move() {
        let recent = RecentComplexities { threshold: 0.5, calls: vec![0.15, 0.45, 0.55, 0.95] };
        let rows = thresholds(&recent);
        assert_eq!(rows.len(), 9, "the threshold in use is one of the tenths");
        for (at, complex, moved) in
            [(0, 1.0, 0.5), (3, 0.75, 0.25), (4, 0.5, 0.0), (5, 0.25, 0.25), (8, 0.25, 0.25)]
        {
            let row = rows[at];
            assert_eq!((row.complex, row.moved), (complex, moved), "{}", row.threshold);
            assert_eq!(row.is_current, at == 4, "{}", row.threshold);
        }
        let between = RecentComplexities { threshold: 0.52, ..recent };
        assert_eq!(thresholds(&between).len(), 10);
        let quiet = RecentComplexities { threshold: 0.5, calls: Vec::new() };
        assert!(thresholds(&quiet).is_empty(), "nothing would be moved");
    }
}
