//! The people of the organization.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::ids::{ProjectId, UserId};
use domain::time::Timestamp;
use gateway::{Person, PersonChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::control::session::LARGEST;
use crate::http::auth::{ByMember, BySession};
use crate::http::body;
use crate::http::error::Result;
use crate::http::extract::{Segments, not_null};

/// A user in the list of the organization.
#[derive(Debug, Serialize, ToSchema)]
pub struct PersonBody {
    #[schema(value_type = i64)]
    id: UserId,
    email: String,
    name: String,
    /// `owner`, `admin`, `member` or `viewer`.
    role: &'static str,
    /// The projects that they were made a member of. Owners and admins see all.
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
    mfa_enabled: bool,
    /// How they sign in: `password`, `passkey`, `sign_on`.
    ways_in: Vec<&'static str>,
    /// Whether the address was verified by a letter to it.
    email_verified: bool,
    /// The last request of a session that has not ended, to the minute; null without one.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_seen_at: Option<Timestamp>,
}

/// The fields that can be changed; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonRequest {
    /// `owner`, `admin`, `member` or `viewer`. Only owners make owners.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    role: Option<String>,
    /// All projects that they are a member of.
    #[serde(default)]
    #[schema(value_type = Option<Vec<i64>>)]
    projects: Option<Vec<ProjectId>>,
}

impl From<Person> for PersonBody {
    fn from(person: Person) -> Self {
        Self {
            ways_in: person.ways_in(),
            id: person.user,
            email: person.email,
            name: person.name,
            role: person.role.as_str(),
            projects: person.projects,
            mfa_enabled: person.mfa_enabled,
            email_verified: person.email_verified_at.is_some(),
            last_seen_at: person.last_seen_at,
        }
    }
}

/// The people of your organization, oldest first; at most 1,000 (admin or owner).
#[utoipa::path(get, path = "/api/v1/users", tag = "Organization",
    responses((status = 200, body = Vec<PersonBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
) -> Result<Json<Vec<PersonBody>>> {
    let people = app.gateway.list_people(&member).await?;
    Ok(Json(people.into_iter().map(Into::into).collect()))
}

/// Change the role or the projects of a user (admin or owner; owners only by an owner). It counts from
/// their next request on.
#[utoipa::path(patch, path = "/api/v1/users/{user_id}", tag = "Organization",
    params(("user_id" = i64, Path)), request_body = PersonRequest,
    responses((status = 200, body = PersonBody)))]
pub async fn update(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
    request: Request,
) -> Result<Json<PersonBody>> {
    let PersonRequest { role, projects } = body::read_json(request, &app, LARGEST).await?;
    let change = PersonChange { role, projects };
    Ok(Json(app.gateway.change_person(&by.member, path.user()?, change).await?.into()))
}

/// Remove a user (admin or owner; owners only by an owner). Their sessions end; the keys that they made go
/// on until they are revoked.
#[utoipa::path(delete, path = "/api/v1/users/{user_id}", tag = "Organization",
    params(("user_id" = i64, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.remove_person(&member, path.user()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
