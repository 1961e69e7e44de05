//! Invitations: made, listed, withdrawn, accepted.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::ids::ProjectId;
use domain::secret::Secret;
use domain::time::Timestamp;
use gateway::{Handover, InvitationView, NewInvitation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::control::session::{LARGEST, WhoAmI, signed_in_answer};
use crate::http::auth::{ByMember, BySession};
use crate::http::error::Result;
use crate::http::extract::Segments;
use crate::http::{body, cross_site};

/// A person to invite.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvitationRequest {
    /// Their address.
    email: String,
    /// `owner`, `admin`, `member` or `viewer`. Only owners invite owners.
    role: String,
    /// The projects that they will be a member of.
    #[serde(default)]
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
}

/// An invitation that is still good.
#[derive(Debug, Serialize, ToSchema)]
pub struct InvitationBody {
    /// 16 hex digits.
    id: String,
    email: String,
    role: &'static str,
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// An invitation that was made, with its link.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewInvitationBody {
    #[serde(flatten)]
    invitation: InvitationBody,
    /// Whether the link goes to the person by letter.
    sent: bool,
    /// The link, to be handed to the person: without a mail server, and in this answer only.
    link: Option<String>,
}

/// The token of an invitation, and the account to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptRequest {
    /// The text behind `token=` in the link.
    token: String,
    /// The name of the person.
    name: String,
    /// 8 to 1,024 characters.
    #[schema(format = Password)]
    password: String,
}

impl From<InvitationView> for InvitationBody {
    fn from(view: InvitationView) -> Self {
        Self {
            id: view.id,
            email: view.email,
            role: view.role.as_str(),
            projects: view.projects,
            created_at: view.created_at,
            expires_at: view.expires_at,
        }
    }
}

/// Invite a person (admin or owner). An earlier invitation of the address ends.
#[utoipa::path(post, path = "/api/v1/invitations", tag = "Organization",
    request_body = InvitationRequest, responses((status = 200, body = NewInvitationBody)))]
pub async fn create(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<NewInvitationBody>> {
    let new: InvitationRequest = body::read_json(request, &app, LARGEST).await?;
    let new = NewInvitation { email: new.email, role: new.role, projects: new.projects };
    let (view, handover) = app.gateway.invite(&by.member, new).await?;
    let link = shown_link(handover);
    Ok(Json(NewInvitationBody { invitation: view.into(), sent: link.is_none(), link }))
}

/// The link that a person has to hand over; `None` of one that is sent.
pub(super) fn shown_link(handover: Handover) -> Option<String> {
    match handover {
        Handover::Sent => None,
        Handover::Shown(link) => Some(link.address.expose().to_owned()),
    }
}

/// The invitations that are still good, newest first; at most 1,000 (admin or owner).
#[utoipa::path(get, path = "/api/v1/invitations", tag = "Organization",
    responses((status = 200, body = Vec<InvitationBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
) -> Result<Json<Vec<InvitationBody>>> {
    let invitations = app.gateway.list_invitations(&member).await?;
    Ok(Json(invitations.into_iter().map(Into::into).collect()))
}

/// Withdraw an invitation (admin or owner).
#[utoipa::path(delete, path = "/api/v1/invitations/{id}", tag = "Organization",
    params(("id" = String, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.withdraw_invitation(&member, path.text("id")?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Accept an invitation: the account is made and signed in, as by `POST /api/v1/session`.
#[utoipa::path(post, path = "/api/v1/invitations/accept", tag = "Organization",
    request_body = AcceptRequest, responses((status = 200, body = WhoAmI)))]
pub async fn accept(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let AcceptRequest { token, name, password } = body::read_json(request, &app, LARGEST).await?;
    let password = Secret::new(password);
    let accepted = app.gateway.accept_invitation(&token, &name, password, &origin).await?;
    Ok(signed_in_answer(&app, accepted))
}
