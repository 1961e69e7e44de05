//! Providers of single sign-on.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::ids::{ProjectId, SignOnProviderId};
use domain::secret::Secret;
use domain::sign_on::SignOnRule;
use domain::time::Timestamp;
use gateway::{NewRule, SignOnProvider, SignOnProviderChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::BySession;
use crate::http::body;
use crate::http::error::Result;
use crate::http::extract::{Segments, given, not_null};

/// The most bytes of a provider, of which most are its rules.
const LARGEST: usize = 256 * 1024;

/// A provider of single sign-on. Its secret is never shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignOnProviderBody {
    #[schema(value_type = i64)]
    id: SignOnProviderId,
    slug: String,
    name: String,
    issuer: String,
    client_id: String,
    has_client_secret: bool,
    scopes: Vec<String>,
    groups_claim: String,
    rules: Vec<SignOnRuleBody>,
    trusts_factor: bool,
    /// The address to register at the provider, from its path on.
    callback_path: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// A rule that gives a role and projects.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignOnRuleBody {
    claim_value: String,
    role: &'static str,
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
}

/// A rule: the first whose value is in the claim of the groups decides.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignOnRuleRequest {
    /// The value, compared as it is; at most 256 bytes.
    claim_value: String,
    /// `admin`, `member` or `viewer`.
    role: String,
    /// The projects that it makes a member of.
    #[serde(default)]
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
}

/// The fields of a provider. A new one needs `slug`, `name`, `issuer` and `client_id`; of an existing one those
/// that are left out stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignOnProviderRequest {
    /// Its name in addresses: lower-case letters, digits, hyphens.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    slug: Option<String>,
    /// Its name for people.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// The issuer, exactly as its metadata names it.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    issuer: Option<String>,
    /// The id of this gateway there.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// The secret of this gateway there; null removes it. Another issuer removes it too, unless it comes along.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = Password)]
    client_secret: Option<Option<String>>,
    /// The scopes that are asked for; `openid` is always one (default: `openid`, `email`, `profile`).
    #[serde(default)]
    scopes: Option<Vec<String>>,
    /// The claim with the groups of a user (default: `groups`).
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    groups_claim: Option<String>,
    /// All rules, in order; at most 100.
    #[serde(default)]
    rules: Option<Vec<SignOnRuleRequest>>,
    /// Whether a second factor that the provider reports (`amr`) counts as one here.
    #[serde(default)]
    trusts_factor: Option<bool>,
}

impl From<SignOnProviderRequest> for SignOnProviderChange {
    fn from(request: SignOnProviderRequest) -> Self {
        let rule = |rule: SignOnRuleRequest| {
            let SignOnRuleRequest { claim_value, role, projects } = rule;
            NewRule { claim_value, role, projects }
        };
        Self {
            slug: request.slug,
            name: request.name,
            issuer: request.issuer,
            client_id: request.client_id,
            client_secret: request.client_secret.map(|secret| secret.map(Secret::new)),
            scopes: request.scopes,
            groups_claim: request.groups_claim,
            rules: request.rules.map(|rules| rules.into_iter().map(rule).collect()),
            trusts_factor: request.trusts_factor,
            base: None,
        }
    }
}

impl From<SignOnProvider> for SignOnProviderBody {
    fn from(provider: SignOnProvider) -> Self {
        let rule = |rule: SignOnRule| {
            let SignOnRule { claim_value, role, projects } = rule;
            SignOnRuleBody { claim_value, role: role.as_str(), projects }
        };
        Self {
            id: provider.id,
            callback_path: format!("/api/v1/sign-on/{}/callback", provider.slug),
            slug: provider.slug,
            name: provider.name,
            issuer: provider.issuer,
            client_id: provider.client_id,
            has_client_secret: provider.client_secret.is_some(),
            scopes: provider.scopes,
            groups_claim: provider.groups_claim,
            rules: provider.rules.into_iter().map(rule).collect(),
            trusts_factor: provider.trusts_factor,
            created_at: provider.created_at,
        }
    }
}

/// The providers of single sign-on, by name (owner).
#[utoipa::path(get, path = "/api/v1/sign-on-providers", tag = "Organization",
    responses((status = 200, body = Vec<SignOnProviderBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
) -> Result<Json<Vec<SignOnProviderBody>>> {
    let providers = app.gateway.list_sign_on_providers(&by.member).await?;
    Ok(Json(providers.into_iter().map(Into::into).collect()))
}

/// Add a provider (owner). Its metadata is read first.
#[utoipa::path(post, path = "/api/v1/sign-on-providers", tag = "Organization",
    request_body = SignOnProviderRequest, responses((status = 200, body = SignOnProviderBody)))]
pub async fn create(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<SignOnProviderBody>> {
    let new: SignOnProviderRequest = body::read_json(request, &app, LARGEST).await?;
    Ok(Json(app.gateway.add_sign_on_provider(&by.member, new.into()).await?.into()))
}

/// Change a provider (owner).
#[utoipa::path(patch, path = "/api/v1/sign-on-providers/{provider_id}", tag = "Organization",
    params(("provider_id" = i64, Path)), request_body = SignOnProviderRequest,
    responses((status = 200, body = SignOnProviderBody)))]
pub async fn update(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
    request: Request,
) -> Result<Json<SignOnProviderBody>> {
    let id = path.sign_on_provider()?;
    let change: SignOnProviderRequest = body::read_json(request, &app, LARGEST).await?;
    let changed = app.gateway.change_sign_on_provider(&by.member, id, change.into()).await?;
    Ok(Json(changed.into()))
}

/// Remove a provider (owner). The sessions that came by it end, but for yours; the users stay.
#[utoipa::path(delete, path = "/api/v1/sign-on-providers/{provider_id}", tag = "Organization",
    params(("provider_id" = i64, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<StatusCode> {
    let id = path.sign_on_provider()?;
    app.gateway.remove_sign_on_provider(&by.member, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
