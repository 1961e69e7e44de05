//! The route table, in the order of the interface, and the layers around it.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::head;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi as Document;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::error::Failure;
use crate::openapi::{self, Credential, Head};
use crate::{App, Settings};
use crate::{
    assistants, audit, auth, chat, checks, edge, embeddings, executions, images, keys, logs,
    models, projects, sdk, session, simulate, stats, stream, traces, up,
};

/// A group of routes behind one guard.
type Group = OpenApiRouter<App>;

/// Routes that ask for a session.
fn by_session() -> Group {
    OpenApiRouter::new()
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::show, projects::update, projects::delete))
        .routes(routes!(models::list, models::create))
        .routes(routes!(models::show, models::update, models::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::update, keys::delete))
        .routes(routes!(audit::list))
}

/// The session's own routes.
fn of_session() -> Group {
    OpenApiRouter::new().routes(routes!(session::show, session::delete))
}

/// Routes that ask for a key and call models.
fn by_spending_key() -> Group {
    OpenApiRouter::new()
        .routes(routes!(executions::create))
        .routes(routes!(stream::show, stream::create))
        .routes(routes!(chat::create))
        .routes(routes!(embeddings::create))
        .routes(routes!(assistants::create))
        .routes(routes!(images::create))
        .routes(routes!(executions::run))
}

/// Routes that ask for a key and cost nothing.
fn by_key() -> Group {
    OpenApiRouter::new()
        .routes(routes!(traces::create, traces::list))
        .routes(routes!(traces::show))
        .routes(routes!(traces::complete))
        .routes(routes!(checks::create))
        .routes(routes!(logs::create))
        .routes(routes!(simulate::create))
        .routes(routes!(sdk::show))
}

/// Routes that take either.
fn by_either() -> Group {
    OpenApiRouter::new().routes(routes!(stats::show))
}

/// Routes that ask for nothing.
fn open() -> Group {
    OpenApiRouter::new()
        .routes(routes!(session::create))
        .routes(routes!(up::up))
        .routes(routes!(up::ready))
        .routes(routes!(openapi::show))
        // Axum answers HEAD by running the GET handler, and this one calls a model.
        .route("/api/v1/executions/stream", head(stream::no_head))
}

/// The API description.
pub fn document() -> Document {
    let groups = [
        (by_session(), Credential::Session),
        (of_session(), Credential::Session),
        (by_spending_key(), Credential::Key),
        (by_key(), Credential::Key),
        (by_either(), Credential::Either),
        (open(), Credential::None),
    ];
    let document = groups.into_iter().fold(Head::openapi(), |mut whole, (group, credential)| {
        let (_, part) = group.split_for_parts();
        whole.merge(openapi::complete(part, credential));
        whole
    });
    openapi::with_credentials(document)
}

/// The whole API over a gateway.
pub fn router(gateway: gateway::Gateway, settings: Settings) -> Router {
    let document = Arc::new(document());
    let app = App::new(gateway, settings, document.clone());
    // A route is in one of the guarded groups or in the open one: there is no other way in.
    let guarded = Router::new()
        .merge(routes_of(by_session()).route_layer(from_fn_with_state(app.clone(), auth::session)))
        .merge(
            routes_of(of_session()).route_layer(from_fn_with_state(app.clone(), auth::own_session)),
        )
        .merge(
            routes_of(by_spending_key())
                .route_layer(from_fn_with_state(app.clone(), auth::spending_key)),
        )
        .merge(routes_of(by_key()).route_layer(from_fn_with_state(app.clone(), auth::key)))
        .merge(routes_of(by_either()).route_layer(from_fn_with_state(app.clone(), auth::either)));
    // The page and its script come from the binary: it works offline.
    let docs = SwaggerUi::new("/docs").config(Config::new(["/api/v1/openapi.json"]));
    let docs: Router<App> = docs.into();
    Router::new()
        .merge(guarded)
        .merge(routes_of(open()))
        .merge(docs)
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(|_| {
            tracing::error!("a handler panicked");
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal error").into_response()
        }))
        .layer(from_fn(edge::around))
}

fn routes_of(group: Group) -> Router<App> {
    group.split_for_parts().0
}

async fn unknown_path() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "Not found")
}

async fn wrong_method() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed")
}
