//! How alike a recorded answer and that of a replay are.

use domain::ids::StepId;
use serde::Deserialize;
use serde_json::Value;

use crate::bounded_read::bounded;
use crate::capacity::offload::{Share, offload};
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::registry::ProjectState;

/// The answer in the content of a step.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    output: Option<Value>,
}

impl Gateway {
    /// How alike the answers of two steps are, 0 to 1; `None` if one of them is not stored.
    pub(super) async fn similarity(
        &self,
        project: &ProjectState,
        one: StepId,
        other: StepId,
    ) -> Result<Option<f64>> {
        let sealed = bounded(self.store.sealed_contents(&[one, other])).await?;
        let (mut answers, mut bytes) = (Vec::with_capacity(2), 0);
        for content in sealed {
            let json = content.open(&project.sealing)?;
            bytes += json.len();
            let answer = serde_json::from_slice::<Answer>(&json).ok();
            answers.extend(answer.and_then(|answer| answer.output));
        }
        let [one, other] = answers.as_slice() else { return Ok(None) };
        let compare = || grading::similarity(one, other);
        offload(Share::of_project(project.id()), bytes, compare).await.map(Some)
    }
}
