//! Steps for the tests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::{KeyId, OrgId, ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::{CachePrices, Prices, Usd};
use domain::step::{ApiEndpoint, Call, Security, Step, StepKind, StepStatus};
use domain::time::{DAY, Timestamp};
use domain::usage::Usage;

use crate::ProjectFacts;

/// A day of the tests: 2026-11-20.
pub(crate) const DAY_ZERO: i64 = 20_777 * DAY;

pub(crate) fn project() -> ProjectFacts {
    let keys = HashMap::from([(KeyId(1), "=cmd()".to_owned()), (KeyId(2), "web".to_owned())]);
    ProjectFacts { id: ProjectId(1), name: "Support".to_owned(), org: OrgId(3), keys }
}

/// A run that ended a while after [`DAY_ZERO`], with prices and a cost of its own.
pub(crate) fn run(id: i64, after: i64, usage: Usage, extra: i64) -> Step {
    let prices = Prices::new(Usd(1_234_567), Usd(7_654_321), CachePrices::default());
    let call = Call {
        infrastructure: "public_cloud".to_owned(),
        usage,
        prices: Some(prices),
        cost: prices.cost(&usage) + Usd(extra),
        ..Call::of("gpt-4o".to_owned(), Provider::Openai)
    };
    Step { call: Some(call), kind: StepKind::Run, ..note(id, after) }
}

/// A step that called no model.
pub(crate) fn note(id: i64, after: i64) -> Step {
    let finished_at = Timestamp(DAY_ZERO + after);
    Step {
        id: StepId(id),
        trace: TraceId(uuid::Uuid::from_u128(id.unsigned_abs().into())),
        project: ProjectId(1),
        key: Some(KeyId(1 + id.unsigned_abs() % 2)),
        kind: StepKind::Log,
        parent: None,
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Chat,
        status: StepStatus::Completed,
        reason: None,
        error: None,
        started_at: finished_at.minus_micros(1_500),
        finished_at,
        routing: None,
        security: Security::default(),
        call: None,
        user_rating: None,
    }
}

/// The attributes of a user with one tag.
pub(crate) fn attributes(user: &str, team: &str) -> Arc<Attributes> {
    let tags = BTreeMap::from([("team".to_owned(), team.to_owned())]);
    Arc::new(Attributes { user: Some(user.to_owned()), session: None, tags })
}
