//! One model: registered, changed, checked, deleted.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dashboard::{Choice, EndpointRow, ModelPage, Section, Texts};
use domain::ids::{ModelId, ProjectId};
use domain::model::{Model, Provider};
use domain::money::Price;
use domain::secret::Secret;
use gateway::{EndpointCheck, EndpointState, Error, Gateway, ModelChange};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::refusal::show_refusal;
use crate::console::visit::{Form, Visit, done};
use crate::console::{page, page_as, playground};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The form of a new model.
pub(super) async fn fresh(visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    visit.member().check_admin()?;
    Ok(page(&empty(&visit, project)))
}

fn empty(visit: &Visit, project: ProjectId) -> ModelPage {
    ModelPage {
        frame: visit.frame(Section::Models, visit.t.model.new, Some(project)),
        id: None,
        base: String::new(),
        name: String::new(),
        identifier: String::new(),
        providers: providers(visit.t, Provider::Openai.as_str()),
        base_url: String::new(),
        has_key: false,
        is_public: true,
        input_price: String::new(),
        output_price: String::new(),
        region: String::new(),
        retention: String::new(),
        warnings: Vec::new(),
        endpoints: Vec::new(),
        keys: Vec::new(),
        once: String::new(),
        called: None,
        may_change: true,
    }
}

fn providers(t: &Texts, chosen: &str) -> Vec<Choice> {
    let choice = |provider: &Provider| Choice {
        value: provider.as_str().to_owned(),
        label: match provider {
            Provider::Openai => t.model.openai_format,
            Provider::Anthropic => "anthropic",
            Provider::Gemini => "gemini",
            Provider::Bedrock => "bedrock",
            Provider::Azure => "azure",
            Provider::Internal => "internal",
        }
        .to_owned(),
        is_chosen: provider.as_str() == chosen,
    };
    Provider::ALL.iter().map(choice).collect()
}

/// The page of a model.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    Ok(page(&model(&app, &visit, project, path.model()?, visit.get("key"))?))
}

/// The page of a model, with a key chosen for a test call.
pub(super) fn model(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    id: ModelId,
    key: Option<&str>,
) -> Result<ModelPage> {
    let view = app.gateway.model(visit.member(), project, id)?;
    let states = app.gateway.endpoint_states(visit.member(), project, id)?;
    let base = view.base();
    let model = view.model;
    Ok(ModelPage {
        frame: visit.frame(Section::Models, model.identifier.clone(), Some(project)),
        id: Some(id.0),
        base,
        name: model.name.clone(),
        identifier: model.identifier.clone(),
        providers: providers(visit.t, model.provider.as_str()),
        base_url: model.base_url.clone().unwrap_or_default(),
        has_key: model.api_key.is_some(),
        is_public: model.is_public,
        input_price: shown_price(model.input_price),
        output_price: shown_price(model.output_price),
        region: model.region.clone(),
        retention: model.data_retention_days.to_string(),
        warnings: view.warnings,
        endpoints: states.into_iter().map(|state| endpoint(visit.t, state, None)).collect(),
        keys: playground::keys(app, visit, project, key),
        once: Gateway::one_time_value()?,
        called: None,
        may_change: visit.member().role.is_admin(),
    })
}

fn endpoint(
    t: &Texts,
    state: EndpointState,
    check: Option<std::result::Result<(), String>>,
) -> EndpointRow {
    EndpointRow {
        name: state.index.map_or_else(
            || t.model.only_endpoint.to_owned(),
            |index| t.model.endpoint_name(index + 1),
        ),
        address: state.model.base_url.clone(),
        region: state.model.region.clone(),
        is_open: state.is_open,
        check,
    }
}

/// Checks that the endpoints of a model can be reached.
pub(super) async fn check(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let id = path.model()?;
    let checks = app.gateway.check_endpoints(visit.member(), project, id).await?;
    let mut shown = model(&app, &visit, project, id, visit.get("key"))?;
    let row =
        |EndpointCheck { state, fault }| endpoint(visit.t, state, Some(fault.map_or(Ok(()), Err)));
    shown.endpoints = checks.into_iter().map(row).collect();
    Ok(page(&shown))
}

/// Registers a model.
pub(super) async fn create(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let change = match change(visit.t, &form) {
        Ok(change) => change,
        Err(failure) => return Ok(refused(empty(&visit, project), &form, failure)),
    };
    match app.gateway.create_model(visit.member(), project, change).await {
        Ok(_) => Ok(done("/models", project, "model_created")),
        Err(error) => Ok(refused(empty(&visit, project), &form, error.into())),
    }
}

/// Changes a model.
pub(super) async fn update(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    visit.member().check_admin()?;
    let id = path.model()?;
    let view = app.gateway.model(visit.member(), project, id)?;
    let changed = if form.text("base") == view.base() {
        change(visit.t, &form).and_then(|change| kept(visit.t, change, &form, &view.model))
    } else {
        Err(Error::SettingsChanged.into())
    };
    let saved = match changed {
        Ok(change) => {
            let saved = app.gateway.update_model(visit.member(), project, id, change).await;
            saved.map(drop).map_err(Failure::from)
        }
        Err(failure) => Err(failure),
    };
    match saved {
        Ok(()) => Ok(done(&format!("/models/{}", id.0), project, "model_saved")),
        Err(failure) if failure.status() == StatusCode::CONFLICT => {
            // The form would undo later changes.
            let mut shown = model(&app, &visit, project, id, visit.get("key"))?;
            shown.frame.fault = Some(visit.t.model.is_old.to_owned());
            Ok(page_as(StatusCode::CONFLICT, &shown))
        }
        Err(failure) => {
            Ok(refused(model(&app, &visit, project, id, visit.get("key"))?, &form, failure))
        }
    }
}

/// A change of a model without what its form has only shown: the list price is not made its own.
fn kept(
    t: &Texts,
    mut change: ModelChange,
    form: &Form,
    known: &Model,
) -> std::result::Result<ModelChange, Failure> {
    let is_moved = change.base_url.as_ref().is_some_and(|url| *url != known.base_url)
        || change.provider.as_deref() != Some(known.provider.as_str());
    if is_moved && known.api_key.is_some() && change.api_key.is_none() {
        return Err(Error::invalid(t.model.api_key_stays).into());
    }
    if form.text("input_price") == shown_price(known.input_price) {
        change.input_price = None;
    }
    if form.text("output_price") == shown_price(known.output_price) {
        change.output_price = None;
    }
    change.base = Some(form.text("base"));
    Ok(change)
}

fn shown_price(price: Option<Price>) -> String {
    price.map(|price| price.dollars().to_string()).unwrap_or_default()
}

/// Deletes a model.
pub(super) async fn delete(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    app.gateway.delete_model(visit.member(), project, path.model()?).await?;
    Ok(done("/models", project, "model_deleted"))
}

/// The page with the values that were sent, but for the credential, and why they were refused.
fn refused(mut shown: ModelPage, form: &Form, failure: Failure) -> Response {
    shown.base = form.text("base");
    shown.name = form.text("name");
    shown.identifier = form.text("identifier");
    shown.providers = providers(shown.frame.t, &form.text("provider"));
    shown.base_url = form.text("base_url");
    shown.is_public = form.get("is_public").is_some();
    shown.input_price = form.text("input_price");
    shown.output_price = form.text("output_price");
    shown.region = form.text("region");
    shown.retention = form.text("retention");
    let t = &shown.frame.t.model;
    let places = [
        ("Name", "name"),
        ("Identifier", "identifier"),
        ("Provider", "provider"),
        ("base_url", "base_url"),
        ("api_key", "api_key"),
        (t.api_key_stays, "api_key"),
        ("input_cost_per_1k", "input_price"),
        (t.input_no_amount, "input_price"),
        ("output_cost_per_1k", "output_price"),
        (t.output_no_amount, "output_price"),
        ("region_restriction", "region"),
        ("data_retention_days", "retention"),
        (t.retention_no_number, "retention"),
    ];
    let status = show_refusal(&mut shown.frame, failure, ("model", form), &places);
    page_as(status, &shown)
}

fn change(t: &Texts, form: &Form) -> std::result::Result<ModelChange, Failure> {
    let retention = form.get("retention").map(|text| {
        let days = text.trim().parse();
        days.map_err(|_| Error::invalid(t.model.retention_no_number))
    });
    Ok(ModelChange {
        name: Some(form.text("name")),
        identifier: Some(form.text("identifier")),
        provider: Some(form.text("provider")),
        base_url: Some(form.get("base_url").map(str::to_owned)),
        // An empty field keeps the credential.
        api_key: form.get("api_key").map(|key| Some(Secret::new(key.trim().to_owned()))),
        is_public: Some(form.get("is_public").is_some()),
        input_price: Some(form.dollars("input_price", t.model.input_no_amount)?),
        output_price: Some(form.dollars("output_price", t.model.output_no_amount)?),
        region: Some(form.text("region")),
        data_retention_days: retention.transpose()?,
        ..ModelChange::default()
    })
}
