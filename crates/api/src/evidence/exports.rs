//! Exports of a project, and their files.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use domain::ids::JobId;
use domain::time::Timestamp;
use gateway::ExportJob;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::evidence::replay::ProgressBody;
use crate::http::auth::ByMember;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// The steps to export.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ExportRequest {
    /// `jsonl` or `parquet` for steps, `focus` for costs as CSV in the columns of FOCUS 1.2.
    format: String,
    /// The first moment: a date, a time, or an age such as `7d`, `12h` or `90m`. A step counts by when it ended.
    since: String,
    /// The moment after the last, likewise; now by default.
    #[serde(default)]
    until: Option<String>,
    /// Whether inputs and outputs are exported, where they are stored.
    #[serde(default)]
    content: bool,
}

/// An export. Fields that do not apply yet are left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExportBody {
    #[schema(value_type = String)]
    job_id: JobId,
    /// `queued`, `running`, `completed` or `failed`.
    status: &'static str,
    /// `jsonl`, `parquet` or `focus`.
    format: &'static str,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    until: Timestamp,
    /// Whether inputs and outputs are exported.
    content: bool,
    /// How far it is, in steps.
    progress: ProgressBody,
    /// The steps of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    steps: Option<u64>,
    /// The size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bytes: Option<u64>,
    /// How many of the steps lack a content that is stored (`content_error` in the file), if contents are
    /// exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_errors: Option<u64>,
    /// How many of the steps cannot be read (`step_error` in the file; a file of costs lacks them), if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    step_errors: Option<u64>,
    /// The path of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    download: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<ExportJob> for ExportBody {
    fn from(job: ExportJob) -> Self {
        let download = || format!("/api/v1/projects/{}/exports/{}/download", job.project, job.id);
        let with_content = job.selection.content;
        Self {
            job_id: job.id,
            status: job.state.as_str(),
            format: job.selection.format.as_str(),
            since: job.selection.since,
            until: job.selection.until,
            content: with_content,
            progress: job.progress.into(),
            steps: job.file.map(|file| file.steps),
            bytes: job.file.map(|file| file.bytes),
            content_errors: job.file.map(|file| file.content_errors).filter(|_| with_content),
            step_errors: job.file.map(|file| file.step_errors).filter(|errors| *errors > 0),
            download: job.file.map(|_| download()),
            error: job.error,
            created_at: job.created_at,
        }
    }
}

/// Export the steps or the costs of a project, by a job (owners and admins). A project has one export at a
/// time, of at most 1,000,000 steps, 366 days and 1 GiB; its last four are kept, each for an hour.
#[utoipa::path(post, path = "/api/v1/projects/{project_id}/exports", tag = "Exports",
    params(("project_id" = i64, Path)), request_body = ExportRequest,
    responses((status = 202, description = "A job that writes the file", body = ExportBody)))]
pub async fn create(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    FlatBody(request): FlatBody<ExportRequest>,
) -> Result<(StatusCode, Json<ExportBody>)> {
    let project = path.project("project_id")?;
    let ExportRequest { format, since, until, content } = request;
    let request = gateway::ExportRequest { format, since, until, content };
    let job = app.gateway.export(&member, project, &request).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// An export of a project, for an hour after its end (owners and admins).
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/exports/{job_id}", tag = "Exports",
    params(("project_id" = i64, Path), ("job_id" = String, Path)),
    responses((status = 200, body = ExportBody)))]
pub async fn show(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<ExportBody>> {
    let (project, job) = (path.project("project_id")?, path.text("job_id")?);
    Ok(Json(app.gateway.export_job(&member, project, job).await?.into()))
}

/// The file of an export that is completed (owners and admins).
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/exports/{job_id}/download", tag = "Exports",
    params(("project_id" = i64, Path), ("job_id" = String, Path)),
    responses((status = 200, description = "The file", content(
        (String = "application/x-ndjson"),
        (String = "application/vnd.apache.parquet"),
        (String = "text/csv")))))]
pub async fn download(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Response> {
    let (project, job) = (path.project("project_id")?, path.text("job_id")?);
    let (job, file, pieces) = app.gateway.export_file(&member, project, job).await?;
    let headers = [
        (CONTENT_TYPE, job.selection.format.media_type().to_owned()),
        (CONTENT_LENGTH, file.bytes.to_string()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{}\"", job.file_name())),
    ];
    Ok((headers, Body::from_stream(pieces.into_stream())).into_response())
}
