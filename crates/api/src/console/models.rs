//! The model registry.

use axum::extract::State;
use axum::response::Response;
use dashboard::{ModelRow, ModelsPage, Rate, Section};
use domain::ids::ModelId;
use domain::model::Model;
use domain::money::Price;
use domain::tier::Tier;
use gateway::ModelView;
use serde_json::{Map, Value};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::paging::{List, no_place};
use crate::console::visit::{AFTER, Visit};
use crate::console::{csv, page};

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let settings = app.gateway.project(visit.member(), project)?.project.settings;
    let after = visit.get(AFTER).map(|id| id.parse::<ModelId>().map_err(|_| no_place()));
    let after = after.transpose()?;
    let views = app.gateway.list_models(visit.member(), project)?.into_iter();
    let views = views.filter(|view| after.is_none_or(|after| view.model.id > after)).collect();
    let frame = visit.frame(Section::Models, visit.t.models.title, Some(project));
    let list = List { path: "/models", parameter: AFTER };
    let (views, pages) =
        list.page(&visit, &frame, views, |view: &ModelView| view.model.id.to_string());
    let rows = views.into_iter().map(|view| {
        let model = &view.model;
        ModelRow {
            id: model.id.0,
            name: model.name.clone(),
            identifier: model.identifier.clone(),
            provider: model.provider.as_str(),
            base_url: model.base_url.clone(),
            is_public: model.is_public,
            region: model.region.clone(),
            prices: price(model, model.input_price).zip(price(model, model.output_price)),
            listed: view.listed,
            tiers: tiers(&settings, model),
            warnings: view.warnings,
        }
    });
    let file = frame.href("/models.csv");
    Ok(page(&ModelsPage { rows: rows.collect(), pages, file, frame }))
}

/// The list as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let settings = app.gateway.project(visit.member(), project)?.project.settings;
    let head = [
        "model",
        "name",
        "provider",
        "base_url",
        "is_public",
        "region",
        "input_cost_per_1k",
        "output_cost_per_1k",
        "listed",
        "tiers",
        "warnings",
    ];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "models", &head);
    let line = |view: ModelView| {
        let model = &view.model;
        let cost = |known| csv::maybe(price(model, known).map(|Rate(dollars)| dollars));
        vec![
            model.identifier.clone(),
            model.name.clone(),
            model.provider.as_str().to_owned(),
            csv::maybe(model.base_url.as_deref()),
            model.is_public.to_string(),
            model.region.clone(),
            cost(model.input_price),
            cost(model.output_price),
            csv::maybe(view.listed),
            csv::listed(tiers(&settings, model)),
            view.warnings.join("; "),
        ]
    };
    file.add(app.gateway.list_models(visit.member(), project)?.into_iter().map(line));
    Ok(file.response(visit.t))
}

/// The tiers whose requests are sent to a model first.
fn tiers(settings: &Map<String, Value>, model: &Model) -> Vec<&'static str> {
    let sent_to = |tier: &&Tier| {
        let tiers = settings.get("routing_tiers");
        tiers.and_then(|tiers| tiers.get(tier.as_str())?.as_str()) == Some(&*model.identifier)
    };
    Tier::ALL.iter().filter(sent_to).map(|tier| tier.as_str()).collect()
}

/// A price that is not known is nothing for a private model, as the registry has it.
fn price(model: &Model, price: Option<Price>) -> Option<Rate> {
    let free = model.is_private().then_some(Price::ZERO);
    price.or(free).map(|price| Rate(price.dollars()))
}
