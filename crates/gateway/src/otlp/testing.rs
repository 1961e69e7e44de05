//! Steps for the tests of this room.

use domain::ids::{KeyId, ProjectId, StepId};
use domain::step::{ApiEndpoint, Call, Security, Step, StepKind, StepStatus};
use domain::time::Timestamp;

/// The trace of every step here.
pub(super) const TRACE: &str = "01a1fe4e-57c4-731b-a4e9-4b060946c0d9";

/// A completed step with nothing else in it, which took a second and a half.
pub(super) fn step(kind: StepKind, call: Option<Call>) -> Step {
    Step {
        id: StepId(7),
        trace: TRACE.parse().unwrap(),
        project: ProjectId(1),
        key: Some(KeyId(0xaa)),
        kind,
        parent: None,
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Executions,
        status: StepStatus::Completed,
        reason: None,
        error: None,
        started_at: Timestamp(1_000_000),
        finished_at: Timestamp(2_500_000),
        routing: None,
        security: Security::default(),
        call,
        user_rating: None,
    }
}
