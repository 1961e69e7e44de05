//! Recorded answers and those of replays: how alike they are, and side by side.

use std::collections::HashMap;
use std::ops::Range;

use domain::ids::{ProjectId, StepId};
use serde::Deserialize;
use serde_json::Value;
use store::{PackedContent, STEPS_AT_ONCE};

use crate::bounded_read::{bounded, read_again};
use crate::capacity::body_memory::{json_bytes, plain_bytes};
use crate::capacity::offload::{Share, offload};
use crate::error::Result;
use crate::gateway::Gateway;
use crate::job_queue::running::RunningJob;
use crate::replay::ask::ReplayJob;
use crate::replay::calls::ReplayError;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The answer in the content of a step.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    output: Option<Value>,
}

/// The part of the content of a step that names what its canonical form lacks.
#[derive(Deserialize)]
struct Omitted {
    #[serde(default)]
    omitted: Vec<String>,
}

/// A call of the source beside its repetition, as their contents have them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ComparedAnswers {
    /// How alike the answers are, 0 to 1; `None` if one of them is not stored, or if both are larger than the
    /// memory of requests.
    pub(super) similarity: Option<f64>,
    /// The parts of the source's request that the repetition lacks; empty also if the content of the source alone is
    /// larger than the memory of requests.
    pub(super) left_out: Vec<String>,
}

/// Compares the answers of a step of the source and of its repetition.
pub(super) async fn compared(
    job: &RunningJob,
    project: &ProjectState,
    steps: [StepId; 2],
) -> std::result::Result<ComparedAnswers, ReplayError> {
    let [source, _] = steps;
    let mut compared = ComparedAnswers::default();
    let sealed = read_again(|| job.gateway.store.sealed_contents(&steps)).await?;
    let packed = sealed.into_iter().map(|content| {
        let step = content.step();
        content.open_packed(&project.sealing).map(|content| (step, content))
    });
    let packed = packed.collect::<std::result::Result<Vec<(StepId, PackedContent)>, _>>()?;
    let bytes = packed.iter().map(|(_, content)| content.size()).sum();
    compared.left_out = left_out(job, source, &packed).await?;
    if !job.gateway.body_memory.can_hold(plain_bytes(bytes)) {
        return Ok(compared);
    }
    let mut charge = job.memory(plain_bytes(bytes)).await?.ok_or(ReplayError::Interrupted)?;
    let (mut answers, mut held) = (Vec::with_capacity(2), 0);
    for (_, content) in packed {
        let json = content.unpack()?;
        let Ok(weight) = json_bytes(&json, true) else { return Ok(compared) };
        held += weight;
        if !job.gateway.body_memory.can_hold(held) {
            return Ok(compared);
        }
        if !job.raise(&mut charge, held).await? {
            return Err(ReplayError::Interrupted);
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(&json) else { continue };
        answers.extend(answer.output);
    }
    if let [one, other] = answers.as_slice() {
        let compare = || grading::similarity(one, other);
        let similarity = offload(Share::of_project(project.id()), bytes, compare).await?;
        compared.similarity = Some(similarity);
    }
    Ok(compared)
}

/// The parts of a request that the record names. They are read without the answers, which need not fit into memory
/// together.
async fn left_out(
    job: &RunningJob,
    step: StepId,
    contents: &[(StepId, PackedContent)],
) -> std::result::Result<Vec<String>, ReplayError> {
    let Some((_, content)) = contents.iter().find(|(of, _)| *of == step) else {
        return Ok(Vec::new());
    };
    let bytes = plain_bytes(content.size());
    if !job.gateway.body_memory.can_hold(bytes) {
        return Ok(Vec::new());
    }
    let _charge = job.memory(bytes).await?.ok_or(ReplayError::Interrupted)?;
    let json = content.unpack()?;
    let read = serde_json::from_slice::<Omitted>(&json);
    Ok(read.map(|read| read.omitted).unwrap_or_default())
}

/// The most answers that are read to be shown.
const MOST_SHOWN: usize = 100;
/// A longer content is not shown, in sealed bytes.
const LARGEST_SHOWN: usize = 256 * 1024;
/// All contents that are read at once, in bytes.
const LARGEST_UNPACKED: usize = 16 * 1024 * 1024;
/// All contents that are shown at once, in sealed bytes.
const LARGEST_TOGETHER: usize = 4 * 1024 * 1024;

impl Gateway {
    /// The answers of some of the calls of a replay and of its source, as text: of the first ones, as far as they are
    /// stored and not too long.
    pub async fn replay_answers(
        &self,
        member: &Member,
        project: ProjectId,
        job: &ReplayJob,
        calls: Range<usize>,
    ) -> Result<HashMap<StepId, String>> {
        let project = self.visible_project(member, project)?;
        let Some(result) = &job.result else { return Ok(HashMap::new()) };
        // Call by call, so that both sides of a comparison are among the first.
        let of_call = |index: usize| {
            let repeated = result.replays.iter().filter_map(move |all| all.steps.get(index));
            repeated.flat_map(|step| [Some(StepId(step.source)), step.step]).flatten()
        };
        let mut ids: Vec<StepId> = Vec::new();
        for id in calls.flat_map(of_call) {
            if ids.len() < MOST_SHOWN && !ids.contains(&id) {
                ids.push(id);
            }
        }
        let mut sizes = HashMap::new();
        for some in ids.chunks(STEPS_AT_ONCE) {
            sizes.extend(bounded(self.store.sealed_sizes(some)).await?);
        }
        let mut room = LARGEST_TOGETHER;
        ids.retain(|id| {
            let size = sizes.get(id).copied().unwrap_or(usize::MAX);
            let fits = size <= LARGEST_SHOWN && size <= room;
            room -= if fits { size } else { 0 };
            fits
        });
        let mut sealed = Vec::with_capacity(ids.len());
        for some in ids.chunks(STEPS_AT_ONCE) {
            sealed.extend(bounded(self.store.sealed_contents(some)).await?);
        }
        let (mut packed, mut bytes) = (Vec::with_capacity(sealed.len()), 0);
        for content in sealed {
            let id = content.step();
            let content = content.open_packed(&project.sealing)?;
            // A content that is small while it is compressed may be large.
            if bytes + content.size() <= LARGEST_UNPACKED {
                bytes += content.size();
                packed.push((id, content));
            }
        }
        let read = move || {
            let text = |(id, content): (StepId, PackedContent)| {
                let json = content.unpack().ok()?;
                let output = serde_json::from_slice::<Answer>(&json).ok()?.output?;
                Some((id, shown(output)))
            };
            packed.into_iter().filter_map(text).collect()
        };
        offload(Share::of_project(project.id()), bytes, read).await
    }
}

/// An answer for people: its text, or its JSON if it is no text.
fn shown(output: Value) -> String {
    let text = |message: &Value| match message.get("content") {
        Some(Value::String(text)) if message.get("tool_calls").is_none() => Some(text.clone()),
        _ => None,
    };
    match output {
        Value::String(text) => text,
        other => text(&other).unwrap_or_else(|| format!("{other:#}")),
    }
}
