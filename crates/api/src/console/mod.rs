//! The console: pages over the same use cases as the API.
//!
//! A page needs a session, and leads to the sign-in without one. Forms are posted from pages of this origin
//! only, and answered by a page or by the way to one. Nothing on a page runs but the files beside it.

mod account;
mod address;
mod audit;
mod choices;
mod compression;
mod csv;
mod failure;
mod files;
mod first_steps;
mod insights;
mod job;
mod jobs;
mod keys;
mod language;
mod limits;
mod links;
mod live;
mod model;
mod model_call;
mod models;
mod once;
mod overview;
mod paging;
mod patch;
mod people;
mod playground;
mod providers;
mod refusal;
mod replay;
mod replay_form;
mod reviews;
mod routing;
mod safety;
mod safety_draft;
mod settings;
mod sign_in;
mod sign_on;
mod tokens;
mod trace;
mod traces;
mod visit;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use dashboard::Page;

use crate::app::App;
use crate::http::{framing, session_cookies};

/// The most bytes of a form.
const LARGEST_FORM: usize = 256 * 1024;

/// A page loads its own files, posts to its own origin, and is shown in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The routes of the console.
pub(crate) fn routes(app: &App) -> Router<App> {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/usage.csv", get(overview::csv))
        .route("/series.csv", get(overview::series_csv))
        .route("/traces", get(traces::list))
        .route("/traces.csv", get(traces::file))
        .route("/traces/{id}", get(trace::show))
        .route("/traces/{id}/steps/{step_id}", get(trace::step))
        .route("/traces/{id}/replay", post(replay::create))
        .route("/replays/{job_id}", get(replay::show))
        .route("/jobs", get(jobs::list))
        .route("/jobs.csv", get(jobs::file))
        .route("/jobs/{job_id}", get(job::show))
        .route("/steps/{step_id}", get(reviews::find_step))
        .route("/playground", get(playground::show))
        .route("/playground/answer", post(playground::answer))
        .route("/playground/record", get(playground::record))
        .route("/models", get(models::list).post(model::create))
        .route("/models.csv", get(models::file))
        .route("/models/new", get(model::fresh))
        .route("/models/{model_id}", get(model::show).post(model::update))
        .route("/models/{model_id}/check", post(model::check))
        .route("/models/{model_id}/call", post(model_call::call))
        .route("/models/{model_id}/delete", post(model::delete))
        .route("/routing", get(routing::show).post(routing::simulate))
        .route("/routing/threshold", post(routing::set_threshold))
        .route("/limits", get(limits::show))
        .route("/limits.csv", get(limits::file))
        .route("/settings", get(settings::show).post(settings::save))
        .route("/settings/preview", post(settings::preview))
        .route("/settings/mcp-tokens", post(settings::save_token))
        .route("/keys", get(keys::list).post(keys::create))
        .route("/keys.csv", get(keys::file))
        .route("/keys/{id}/reset", post(keys::reset))
        .route("/keys/{id}/rotate", post(keys::rotate))
        .route("/keys/{id}/revoke", post(keys::revoke))
        .route("/safety", get(safety::show).post(safety::judge))
        .route("/safety/backtests", post(safety::backtest))
        .route("/safety/reviews", get(reviews::list))
        .route("/safety/reviews.csv", get(reviews::file))
        .route("/safety/reviews/{step_id}", post(reviews::judge))
        .route("/insights", get(insights::list))
        .route("/insights/refresh", post(insights::refresh))
        .route("/insights/{insight_id}/dismiss", post(insights::dismiss))
        .route("/people", get(people::list).post(people::invite))
        .route("/people.csv", get(people::file))
        .route("/people/invitations.csv", get(people::invitations_file))
        .route("/people/sign-on", get(providers::list).post(providers::add))
        .route("/people/sign-on/{provider_id}", post(providers::change))
        .route("/people/sign-on/{provider_id}/remove", post(providers::remove))
        .route("/people/tokens", get(tokens::list).post(tokens::create))
        .route("/people/tokens.csv", get(tokens::file))
        .route("/people/tokens/{id}/revoke", post(tokens::revoke))
        .route("/people/{user_id}", post(people::change))
        .route("/people/{user_id}/remove", post(people::remove))
        .route("/people/{user_id}/password-link", post(people::offer_password))
        .route("/people/{user_id}/reset", post(people::reset))
        .route("/people/{user_id}/factors/remove", post(people::reset_factors))
        .route("/people/invitations/{id}/withdraw", post(people::withdraw))
        .route("/audit", get(audit::list))
        .route("/audit.csv", get(audit::file))
        .route_layer(from_fn_with_state(app.clone(), visit::signed_in));
    let account = Router::new()
        .route("/account", get(account::show))
        .route("/account/password", post(account::change_password))
        .route("/account/authenticator", post(account::offer))
        .route("/account/authenticator/confirm", post(account::confirm))
        .route("/account/recovery-codes", post(account::replace_codes))
        .route("/account/factors/remove", post(account::remove_factors))
        .route("/account/passkeys/{id}/remove", post(account::remove_passkey))
        .route("/account/identities/{id}/remove", post(account::unlink))
        .route("/account/verification", post(account::verify_address))
        .route("/account/sessions/{id}/revoke", post(account::revoke_session))
        .route("/sign-out", post(sign_in::leave))
        .route_layer(from_fn_with_state(app.clone(), visit::may_enrol));
    let live = Router::new()
        .route("/live/traces", get(live::traces))
        .route("/live/jobs", get(live::jobs))
        .route("/live/jobs/{job_id}", get(live::job))
        .route("/live/overview", get(live::overview))
        .route_layer(from_fn_with_state(app.clone(), visit::stays_signed_in));
    Router::new()
        .merge(pages)
        .merge(account)
        .merge(live)
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-in/code", get(sign_in::show_code).post(sign_in::verify))
        .route("/sign-on/link", get(sign_on::show_link).post(sign_on::link))
        .route("/invitation", get(links::show_invitation).post(links::accept))
        .route("/forgotten", get(links::show_forgotten).post(links::ask_password))
        .route("/verification", get(links::show_verification).post(links::verify))
        .route("/new-password", get(links::show_password).post(links::set_password))
        .route_layer(from_fn_with_state(app.clone(), guarded))
        .route("/console/{file}", get(files::show))
        .route_layer(from_fn(compression::compressed))
}

/// Adds what keeps a page to itself, shows it in no frame, and removes session cookies of which there are several.
async fn guarded(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let removals = session_cookies::removals(&app, &mut request);
    let mut response = match framing::check(&app, &request).await {
        Ok(()) => next.run(request).await,
        Err(failure) => failure::PageFailure::from(failure).into_response(),
    };
    session_cookies::put(removals, &mut response);
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        // The id of a trace is no secret, and nobody else's business.
        (REFERRER_POLICY, "same-origin"),
        (OPENER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn page(page: &impl Page) -> Response {
    page_as(StatusCode::OK, page)
}

/// A page as a response of a status.
fn page_as(status: StatusCode, page: &impl Page) -> Response {
    (status, Html(page.html())).into_response()
}
