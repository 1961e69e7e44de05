//! The route table, in the order of the interface, and the layers around it.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::head;
use utoipa::openapi::OpenApi as Document;
use utoipa::{OpenApi as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::app::{App, Settings};
use crate::console;
use crate::control::{
    audit, identities, invitations, keys, models, organization, passkeys, passwords, people,
    projects, safety, second_factor, service_tokens, session, session_list, sign_on,
    sign_on_providers, verification,
};
use crate::evidence::{
    backtests, exports, insights, logs, own_usage, replay, reviews, stats, traces,
};
use crate::http::error::{ErrorBody, Failure};
use crate::http::openapi::{self, Credential, Head};
use crate::http::vendor_errors::{GeminiError, MessagesError, ResponsesError};
use crate::http::{auth, framing, health, request_log, session_cookies, vendor_errors};
use crate::inference::{
    assistants, chat, checks, embeddings, execution_stream, executions, images, messages,
    model_list, responses, sdk, simulate,
};
use crate::roots::{anthropic, gemini, openai};

/// A group of routes behind one guard.
type Group = OpenApiRouter<App>;

/// Routes that require a session or a service token.
fn by_member() -> Group {
    OpenApiRouter::new()
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::show, projects::update, projects::delete))
        .routes(routes!(safety::test))
        .routes(routes!(models::list, models::create))
        .routes(routes!(models::show, models::update, models::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::update, keys::delete))
        .routes(routes!(keys::rotate))
        .routes(routes!(insights::list))
        .routes(routes!(insights::refresh))
        .routes(routes!(insights::dismiss))
        .routes(routes!(reviews::list))
        .routes(routes!(reviews::judge))
        .routes(routes!(exports::create))
        .routes(routes!(exports::show))
        .routes(routes!(exports::download))
        .routes(routes!(backtests::create))
        .routes(routes!(backtests::show))
        .routes(routes!(audit::list))
        .routes(routes!(audit::export))
        .routes(routes!(organization::show))
        .routes(routes!(people::list))
        .routes(routes!(people::delete))
        .routes(routes!(invitations::list))
        .routes(routes!(invitations::delete))
}

/// Routes that require a session: they give somebody a way in or more rights, or are about the user's own.
fn by_person() -> Group {
    OpenApiRouter::new()
        .routes(routes!(own_usage::show))
        .routes(routes!(organization::update))
        .routes(routes!(second_factor::reset))
        .routes(routes!(people::update))
        .routes(routes!(passwords::offer))
        .routes(routes!(passwords::reset_ways_in))
        .routes(routes!(invitations::create))
        .routes(routes!(service_tokens::list, service_tokens::create))
        .routes(routes!(service_tokens::delete))
        .routes(routes!(sign_on_providers::list, sign_on_providers::create))
        .routes(routes!(sign_on_providers::update, sign_on_providers::delete))
}

/// The session's own routes.
fn of_session() -> Group {
    OpenApiRouter::new()
        .routes(routes!(session::show))
        .routes(routes!(second_factor::offer))
        .routes(routes!(second_factor::confirm))
        .routes(routes!(second_factor::replace_codes))
        .routes(routes!(second_factor::remove))
        .routes(routes!(session_list::list))
        .routes(routes!(session_list::revoke))
        .routes(routes!(passwords::change))
        .routes(routes!(verification::send))
        .routes(routes!(passkeys::offer))
        .routes(routes!(passkeys::list, passkeys::add))
        .routes(routes!(passkeys::remove))
        .routes(routes!(identities::list, identities::link))
        .routes(routes!(identities::unlink))
}

/// Routes of a session whose second factor may still be to come.
fn of_awaiting_session() -> Group {
    OpenApiRouter::new().routes(routes!(session::delete)).routes(routes!(second_factor::verify))
}

/// Routes that require a key and call models.
fn by_spending_key() -> Group {
    OpenApiRouter::new()
        .routes(routes!(executions::create))
        .routes(routes!(execution_stream::show, execution_stream::create))
        .routes(routes!(chat::create))
        .routes(routes!(embeddings::create))
        .routes(routes!(assistants::create))
        .routes(routes!(images::create))
        .routes(routes!(executions::run))
        .routes(routes!(replay::create))
}

/// Endpoints for Anthropic's clients, which require a key and call models.
fn for_messages() -> Group {
    OpenApiRouter::new().routes(routes!(messages::create))
}

/// Endpoints for OpenAI's clients, which require a key and call models.
fn for_responses() -> Group {
    OpenApiRouter::new().routes(routes!(responses::create))
}

/// Endpoints for the clients of both, which require a key and cost nothing.
fn for_listing() -> Group {
    OpenApiRouter::new().routes(routes!(model_list::list)).routes(routes!(model_list::show))
}

/// OpenAI's root: endpoints that require a key and call models.
fn openai_root() -> Group {
    OpenApiRouter::new()
        .routes(routes!(openai::create_completion))
        .routes(routes!(openai::create_response))
        .routes(routes!(openai::embeddings::create))
        .routes(routes!(openai::images::create))
}

/// OpenAI's root: endpoints that require a key, cost nothing, and may call a provider.
fn openai_root_stored() -> Group {
    OpenApiRouter::new()
        .routes(routes!(openai::stored_responses::show))
        .routes(routes!(openai::stored_responses::delete))
        .routes(routes!(openai::stored_responses::cancel))
        .routes(routes!(openai::stored_responses::input_items))
}

/// OpenAI's root: endpoints that require a key and cost nothing.
fn openai_root_for_free() -> Group {
    OpenApiRouter::new().routes(routes!(openai::models::list)).routes(routes!(openai::models::show))
}

/// Anthropic's root: endpoints that require a key and call models.
fn anthropic_root() -> Group {
    OpenApiRouter::new().routes(routes!(anthropic::create_message))
}

/// Anthropic's root: endpoints that require a key and cost nothing.
fn anthropic_root_for_free() -> Group {
    OpenApiRouter::new()
        .routes(routes!(anthropic::count_tokens))
        .routes(routes!(anthropic::list_models))
        .routes(routes!(anthropic::show_model))
}

/// Gemini's root: endpoints that require a key. Most call models.
fn gemini_root() -> Group {
    OpenApiRouter::new()
        .routes(routes!(gemini::models::list))
        .routes(routes!(gemini::models::show, gemini::call_model))
}

/// Routes that require a key and cost nothing.
fn by_key() -> Group {
    OpenApiRouter::new()
        .routes(routes!(traces::create, traces::list))
        .routes(routes!(traces::show))
        .routes(routes!(traces::complete))
        .routes(routes!(checks::create))
        .routes(routes!(logs::create))
        .routes(routes!(simulate::create))
        .routes(routes!(replay::show))
        .routes(routes!(sdk::show))
}

/// Routes that take either.
fn by_either() -> Group {
    OpenApiRouter::new().routes(routes!(stats::show))
}

/// Routes that require no credential.
fn open() -> Group {
    OpenApiRouter::new()
        .routes(routes!(session::create))
        .routes(routes!(passkeys::challenge))
        .routes(routes!(passkeys::sign_in))
        .routes(routes!(invitations::accept))
        .routes(routes!(passwords::ask))
        .routes(routes!(passwords::reset))
        .routes(routes!(verification::verify))
        .routes(routes!(sign_on::start))
        .routes(routes!(sign_on::finish))
        .routes(routes!(health::up))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::show))
        // Axum answers HEAD by running the GET handler, and this one calls a model.
        .route("/api/v1/executions/stream", head(execution_stream::no_head))
}

/// The API description.
pub fn document() -> Document {
    let ours = ErrorBody::name();
    let groups = vec![
        (by_member(), Credential::Member, ours.clone()),
        (by_person(), Credential::Session, ours.clone()),
        (of_session(), Credential::Session, ours.clone()),
        (of_awaiting_session(), Credential::Session, ours.clone()),
        (by_spending_key(), Credential::SpendingKey, ours.clone()),
        (for_messages(), Credential::SpendingKey, MessagesError::name()),
        (for_responses(), Credential::SpendingKey, ResponsesError::name()),
        (for_listing(), Credential::Key, ResponsesError::name()),
        (openai_root(), Credential::SpendingRootKey, ResponsesError::name()),
        (openai_root_stored(), Credential::RootKey, ResponsesError::name()),
        (openai_root_for_free(), Credential::RootKey, ResponsesError::name()),
        (anthropic_root(), Credential::SpendingRootKey, MessagesError::name()),
        (anthropic_root_for_free(), Credential::RootKey, MessagesError::name()),
        (gemini_root(), Credential::SpendingRootKey, GeminiError::name()),
        (by_key(), Credential::Key, ours.clone()),
        (by_either(), Credential::Either, ours.clone()),
        (open(), Credential::None, ours),
    ];
    let document = groups.into_iter().fold(Head::openapi(), |mut whole, group| {
        let (routes, credential, error) = group;
        let (_, part) = routes.split_for_parts();
        whole.merge(openapi::complete(part, credential, &error));
        whole
    });
    openapi::with_credentials(document)
}

/// The whole API over a gateway.
pub fn router(gateway: gateway::Gateway, settings: Settings) -> Router {
    let has_console = settings.console;
    let app = App::new(gateway, settings, document);
    // A route is in one of the guarded groups or in the open one: there is no other way in.
    let guarded = Router::new()
        .merge(routes_of(by_member()).route_layer(from_fn_with_state(app.clone(), auth::member)))
        .merge(routes_of(by_person()).route_layer(from_fn_with_state(app.clone(), auth::person)))
        .merge(
            routes_of(of_session())
                .route_layer(from_fn_with_state(app.clone(), auth::own_session))
                .route_layer(from_fn_with_state(app.clone(), session_cookies::several_removed)),
        )
        .merge(
            routes_of(of_awaiting_session())
                .route_layer(from_fn_with_state(app.clone(), auth::awaiting_session))
                .route_layer(from_fn_with_state(app.clone(), session_cookies::several_removed)),
        )
        .merge(
            routes_of(by_spending_key())
                .route_layer(from_fn_with_state(app.clone(), auth::spending_key)),
        )
        .merge(
            routes_of(for_messages())
                .route_layer(from_fn_with_state(app.clone(), auth::spending_key))
                .route_layer(from_fn(vendor_errors::messages)),
        )
        .merge(
            routes_of(for_responses())
                .route_layer(from_fn_with_state(app.clone(), auth::spending_key))
                .route_layer(from_fn(vendor_errors::responses)),
        )
        .merge(
            routes_of(for_listing())
                .route_layer(from_fn_with_state(app.clone(), auth::key))
                .route_layer(from_fn(vendor_errors::responses)),
        )
        .merge(
            routes_of(openai_root())
                .route_layer(from_fn_with_state(app.clone(), auth::root_spending_key))
                .route_layer(from_fn(vendor_errors::openai_root)),
        )
        .merge(
            routes_of(openai_root_stored())
                .route_layer(from_fn_with_state(app.clone(), auth::root_provider_key))
                .route_layer(from_fn(vendor_errors::openai_root)),
        )
        .merge(
            routes_of(openai_root_for_free())
                .route_layer(from_fn_with_state(app.clone(), auth::root_key))
                .route_layer(from_fn(vendor_errors::openai_root)),
        )
        .merge(
            routes_of(anthropic_root())
                .route_layer(from_fn_with_state(app.clone(), auth::root_spending_key))
                .route_layer(from_fn(vendor_errors::anthropic_root)),
        )
        .merge(
            routes_of(anthropic_root_for_free())
                .route_layer(from_fn_with_state(app.clone(), auth::root_key))
                .route_layer(from_fn(vendor_errors::anthropic_root)),
        )
        .merge(
            routes_of(gemini_root())
                .route_layer(from_fn_with_state(app.clone(), auth::gemini_key))
                .route_layer(from_fn(vendor_errors::gemini_root)),
        )
        .merge(routes_of(by_key()).route_layer(from_fn_with_state(app.clone(), auth::key)))
        .merge(routes_of(by_either()).route_layer(from_fn_with_state(app.clone(), auth::either)));
    // The page and its script come from the binary: it works offline, and sends the description to
    // no validator on the internet.
    let console = if has_console { console::routes(&app) } else { Router::new() };
    let config = Config::new(["/api/v1/openapi.json"]).validator_url("none").use_base_layout();
    let docs = SwaggerUi::new("/docs").config(config);
    let docs: Router<App> = docs.into();
    let docs = docs.route_layer(from_fn_with_state(app.clone(), framing::docs_guarded));
    Router::new()
        .merge(guarded)
        .merge(routes_of(open()))
        .merge(docs)
        .merge(console)
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(from_fn(request_log::around))
}

fn routes_of(group: Group) -> Router<App> {
    group.split_for_parts().0
}

async fn unknown_path(State(app): State<App>, request: Request) -> Response {
    let failure = Failure::new(StatusCode::NOT_FOUND, "Not found");
    with_quota(app, request, failure).await
}

async fn wrong_method(State(app): State<App>, request: Request) -> Response {
    let failure = Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    with_quota(app, request, failure).await
}

/// A failure at no endpoint, for a key as every answer to it.
async fn with_quota(app: App, request: Request, failure: Failure) -> Response {
    let response = vendor_errors::at(&request, failure);
    auth::with_quota_left(&app, &request, response).await
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_group_is_served_and_described() {
        let source = include_str!("router.rs");
        let names = source
            .lines()
            .filter_map(|line| line.strip_prefix("fn ")?.strip_suffix("() -> Group {"));
        let names: Vec<&str> = names.collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            let described = format!("({name}(), Credential::");
            let served = format!("routes_of({name}())");
            assert!(source.contains(&described) && source.contains(&served), "{name}");
        }
    }
}
