//! Logs: what a caller notes on a trace, ratings among it.

use domain::ids::{StepId, TraceId};
use domain::step::{Door, Step, StepKind};
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::Gateway;
use crate::admit::Caller;
use crate::error::Result;
use crate::flow::Turn;

/// A recorded note.
#[derive(Debug)]
pub struct LogResult {
    /// The step that holds it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// When it was noted.
    pub created_at: Timestamp,
}

impl Gateway {
    /// Records a note. Completed traces take notes too: feedback comes late, and a rating regrades.
    pub async fn log(
        &self,
        caller: &Caller,
        trace_id: &str,
        output: Map<String, Value>,
    ) -> Result<LogResult> {
        caller.project.check_active()?;
        let trace = self.find_trace(caller, trace_id).await?;
        let turn = Turn { caller: caller.clone(), trace, parent: None, door: Door::Logs };
        let output = Value::Object(output);
        let step = Step {
            user_rating: grading::user_rating(&output),
            ..self.plain_step(&turn, StepKind::Log).await?
        };
        let result =
            LogResult { step: step.id, trace: turn.trace.id(), created_at: step.started_at };
        self.record_plain(&turn, step, None, &output).await?;
        Ok(result)
    }
}
