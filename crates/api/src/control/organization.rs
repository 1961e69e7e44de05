//! The organization of the signed-in user.

use axum::Json;
use axum::extract::{Request, State};
use domain::ids::OrgId;
use gateway::{OrganizationChange, OrganizationView};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::{ByMember, BySession};
use crate::http::body;
use crate::http::error::Result;
use crate::http::extract::not_null;

/// The most bytes of a change: every name that is not known is a sentence of the answer.
const LARGEST: usize = 64 * 1024;

/// An organization and its settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrganizationDetail {
    #[schema(value_type = i64)]
    id: OrgId,
    name: String,
    settings: OrganizationSettingsBody,
}

/// The settings of an organization.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrganizationSettingsBody {
    security: OrganizationSecurityBody,
}

/// How the people of an organization sign in.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrganizationSecurityBody {
    /// Without a second factor a session is good for nothing but to set one up.
    require_mfa: bool,
    /// `admin`, `member` or `viewer`: the role of people who come by single sign-on when no rule gives them
    /// one; null refuses them.
    default_role: Option<&'static str>,
    /// Whether nobody signs in with a password. True needs a provider of single sign-on.
    disable_password_login: bool,
}

/// The fields that can be changed; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrganizationRequest {
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Merged into the settings at every depth; null sets one back.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    settings: Option<Map<String, Value>>,
}

impl From<OrganizationView> for OrganizationDetail {
    fn from(view: OrganizationView) -> Self {
        let security = view.settings.security;
        Self {
            id: view.id,
            name: view.name,
            settings: OrganizationSettingsBody {
                security: OrganizationSecurityBody {
                    require_mfa: security.require_mfa,
                    default_role: security.default_role.map(domain::project::Role::as_str),
                    disable_password_login: security.disable_password_login,
                },
            },
        }
    }
}

/// Show your organization and its settings.
#[utoipa::path(get, path = "/api/v1/organization", tag = "Organization",
    responses((status = 200, body = OrganizationDetail)))]
pub async fn show(
    State(app): State<App>,
    ByMember(member): ByMember,
) -> Result<Json<OrganizationDetail>> {
    Ok(Json(app.gateway.organization(&member).await?.into()))
}

/// Change the organization; settings are merged (admin or owner).
#[utoipa::path(patch, path = "/api/v1/organization", tag = "Organization",
    request_body = OrganizationRequest, responses((status = 200, body = OrganizationDetail)))]
pub async fn update(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<OrganizationDetail>> {
    let request: OrganizationRequest = body::read_json(request, &app, LARGEST).await?;
    let change = OrganizationChange { name: request.name, settings: request.settings, base: None };
    Ok(Json(app.gateway.update_organization(&by.member, change).await?.into()))
}
