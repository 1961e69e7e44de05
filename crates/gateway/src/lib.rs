//! The gateway: one use case a file, and nothing of HTTP.
//!
//! Invariants: no status code is named here; only `admit` decides which keys may call and the order
//! of the checks; only `pipeline` reaches a provider, and only with a funded call.

mod admission;
mod audit;
mod backtest;
mod bounded_read;
mod cache;
mod call_metrics;
mod capacity;
mod config;
mod control;
mod error;
mod evidence;
mod export;
mod gateway;
mod idempotency;
mod inference;
mod job_queue;
mod jobs;
mod lifecycle;
mod live;
mod lock;
mod metric_labels;
mod otlp;
mod outbox;
pub mod pipeline;
mod replay;
pub mod request_id;
mod safety;
mod state;
mod streaming;
#[cfg(test)]
mod testing;
mod tools;

pub use ::export::cell_text;
pub use providers::{FaultCode, StoredResponseAction};

pub use crate::admission::admit::{GateRefusal, Spends};
pub use crate::audit::export::AuditLines;
pub use crate::audit::verify::verify_audit_lines;
pub use crate::audit::{AuditPage, AuditQuery, MOST_AUDIT_EVENTS};
pub use crate::backtest::ask::{BacktestJob, BacktestRequest};
pub use crate::backtest::report::{
    BacktestReport, ByCause, Costs, Limit, ModelCosts, RefusalCounts, Refused, StepCounts, TierMove,
};
pub use crate::backtest::window::Window;
pub use crate::capacity::body_memory::{
    BodyCharge, BodyMemory, BodyOwner, HeldCharge, json_bytes, least_body_memory, plain_bytes,
    too_deep,
};
pub use crate::capacity::hang_up::{CallerWaits, until_hang_up};
pub use crate::capacity::offload::{Share, offload, try_offload};
pub use crate::config::{
    Config, OnCounterLoss, Otlp, OtlpCompression, OtlpProtocol, SharedCounters,
};
pub use crate::control::bootstrap::{FirstCredentials, FirstSettings, bootstrap};
pub use crate::control::command_line::{
    NewUser, allow_password_login, create_key, create_service_token, create_user, reset_mfa,
    reset_password, rotate_master_key,
};
pub use crate::control::doctor::{Finding, inspect_models, inspect_reviews};
pub use crate::control::holdings::{Holdings, KeyHoldings};
pub use crate::control::identities::{PendingLink, identity_id};
pub use crate::control::invitations::{InvitationView, NewInvitation};
pub use crate::control::keys::{KeyChange, KeyRights, KeyView, NewKey};
pub use crate::control::links::{Handover, Link};
pub use crate::control::model_check::{EndpointCheck, EndpointState};
pub use crate::control::models::{ModelChange, ModelView};
pub use crate::control::offline_export::{ExportedProjects, export_offline};
pub use crate::control::organization::{OrganizationChange, OrganizationView};
pub use crate::control::own_account::OwnAccount;
pub use crate::control::passkeys::{
    AddedPasskey, PASSKEY_ASKED, PasskeyAnswer, PasskeyOffer, PasskeyView,
};
pub use crate::control::people::PersonChange;
pub use crate::control::projects::{ProjectChange, ProjectView};
pub use crate::control::safety_preview::{Direction, SafetyTrial, SafetyVerdict, SlowRule};
pub use crate::control::sdk_config::SdkConfig;
pub use crate::control::second_factor::NewAuthenticator;
pub use crate::control::self_service::OwnUsage;
pub use crate::control::service_tokens::{NewServiceToken, TokenExpiry};
pub use crate::control::session_list::SessionView;
pub use crate::control::session_tokens::has_own;
pub use crate::control::sessions::{
    FACTOR_AWAITED, SESSION_ABSOLUTE, SESSION_IDLE, SignIn, SignedIn, Standing,
};
pub use crate::control::settings_preview::{SettingsDifference, SettingsPreview};
pub use crate::control::sign_on::{SignOnAnswer, SignOnStart, SignedOn};
pub use crate::control::sign_on_cookies::SIGN_ON_LASTS;
pub use crate::control::sign_on_providers::{NewRule, SignOnProviderChange, provider_base};
pub use crate::error::{Congestion, Error, IdempotencyFault, NOT_STORED, Result, SignOnRefusal};
pub use crate::evidence::complexity::RecentComplexities;
pub use crate::evidence::figures::{ComparedFigures, Figures};
pub use crate::evidence::listed_trace::ListedTrace;
pub use crate::evidence::logs::LogResult;
pub use crate::evidence::reviews::{
    ExpectedVerdict, Judged, MOST_REVIEWS, PresentReview, ReviewContent, ReviewQueue, VerdictNote,
};
pub use crate::evidence::series::UsageSeries;
pub use crate::evidence::stats::{Period, Stats};
pub use crate::evidence::trace_search::{TracePage, TraceQuery};
pub use crate::evidence::traces::detail::{StepDetail, StepList, TraceDetail};
pub use crate::evidence::traces::writing::{DetailText, WriteStep};
pub use crate::evidence::traces::{MAX_METADATA_BYTES, metadata_too_large};
pub use crate::evidence::usage::{Usage, UsageGroup};
pub use crate::export::ask::{ExportFile, ExportJob, ExportPieces};
pub use crate::export::reader::ExportedSteps;
pub use crate::export::selection::{ExportRequest, Selection};
pub use crate::gateway::{Gateway, Inner};
pub use crate::idempotency::{
    AnswerEnd, ClaimedRequest, HashedRequest, IdempotentRequest, KeptAnswer, Once, RequestEnd,
};
pub use crate::inference::assistants::{AssistantRequest, Assisted};
pub use crate::inference::chat::{CHOOSES_MODEL, ChatAnswer, ChatReply, ChatRequest};
pub use crate::inference::checks::CheckResult;
pub use crate::inference::earlier::EarlierAnswer;
pub use crate::inference::embeddings::{EmbeddingRequest, Embeddings, MOST_TEXTS};
pub use crate::inference::executions::{ExecuteRequest, Executed, Outcome};
pub use crate::inference::images::{ImageRequest, Images};
pub use crate::inference::simulate::{Simulated, Simulation};
pub use crate::live::LiveViews;
pub use crate::live::stream::{LiveEvent, LiveStream};
pub use crate::live::view::{LiveOverview, LiveView, Span};
pub use crate::pipeline::auto_trace::{AutoTracing, Unanswered};
pub use crate::pipeline::call_outcome::CallRecord;
pub use crate::pipeline::refusal::Refusal;
pub use crate::replay::ask::ReplayJob;
pub use crate::replay::overrides::Overrides;
pub use crate::replay::result::{
    ReplayResult, Replayed, ReplayedStep, Skip, TotalChanges, TraceSummary,
};
pub use crate::safety::location::Located;
pub use crate::safety::text_numbers::numbered_texts;
pub use crate::state::caller::{Caller, HeaderAttributes, Origin};
pub use crate::state::claims::AnswerBytes;
pub use crate::state::member::Member;
pub use crate::state::perimeter_counts::PerimeterReason;
pub use crate::state::registry::{KeyState, ProjectState};
pub use crate::streaming::piece::{Mode, Piece, Started, Streamed};
pub use crate::tools::function_tools::{ToolCall, ToolResult};
pub use checks::{Violation, ViolationKind};
pub use grading::{AdvisedChange, DriftReport, JudgedCategory};
pub use limits::RequestQuota;
pub use store::{
    Account, Audit, AuditFilter, COUNT_LIMIT, Dimension, GroupRow, LinkPurpose, LinkedIdentity,
    ListedVerdict, Order, Person, ServiceToken, SignOnProvider, Term, UsageBucket,
};
