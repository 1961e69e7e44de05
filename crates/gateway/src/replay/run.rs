//! The run of a replay: its steps in order, and the comparison at its end. The work of an earlier node is
//! found by its records; a call that has one is not repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::attributes::Attributes;
use domain::grade::Assessment;
use domain::ids::{StepId, TraceId};
use domain::job::{JobKind, Progress};
use domain::model::Model;
use domain::step::{ApiEndpoint, Step};
use domain::time::{HOUR, MINUTE, Timestamp};
use domain::trace::{Trace, TraceStatus};
use serde_json::{Map, json};
use tokio::time::Instant;

use crate::bounded_read::{bounded, read_again};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::job_queue::job_handler::{JobHandler, JobOutcome, reason};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;
use crate::otlp::queue::{Fate, count};
use crate::otlp::spans::CompletedTrace;
use crate::replay::answers;
use crate::replay::ask::{MOST_STEPS, Payload, too_many_steps};
use crate::replay::calls::{
    CallResult, CopiedStep, NOT_STORED, RepeatedCall, ReplayError, may_pass,
};
use crate::replay::comparison::{self, PlannedCall};
use crate::replay::made_steps::MadeSteps;
use crate::replay::plan::{self, Action};
use crate::replay::result::{ReplayResult, Replayed};
use crate::state::caller::Caller;
use crate::state::known_traces::{TraceHandle, asks_secure};
use crate::state::registry::ProjectState;

/// A job that meets no database, or no memory, for so long without any progress fails.
const LONGEST_WAIT: i64 = HOUR;
/// The pause before such a job is given back, for another run.
const WAIT_PAUSE: Duration = Duration::from_secs(10);
/// The longest time that a call waits for money or memory that other calls hold.
const PATIENCE: Duration = Duration::from_mins(1);
/// The pause before such a call is tried again, which has waited for a second itself.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A call is recorded within this time of its start, or by nobody. One that its node drops at a stop is recorded
/// seconds later, as is one whose record the database did not take, once it takes writes again; one of a node that
/// has lost the job may go on for as long as a call may take.
const LONGEST_CALL: i64 = 10 * MINUTE;
const RECORD_POLL: Duration = Duration::from_millis(100);

/// Replays of traces.
pub(crate) struct Replays;

impl JobHandler for Replays {
    const KIND: JobKind = JobKind::Replay;
    const AT_ONCE: usize = 4;

    async fn run(job: &RunningJob) -> JobOutcome {
        let mut replay = match Replay::read(job).await {
            Ok(replay) => replay,
            Err(error) => return ended(job, error).await,
        };
        let failed = match replay.run_steps().await {
            Ok(()) => None,
            Err(error) => match ended(job, error).await {
                JobOutcome::Failed { error, .. } => Some(error),
                waits => return waits,
            },
        };
        // Every call that has left is on disk by now: a run that begins anew makes none of them again.
        let compared = job.gateway.winding_down.run_until_cancelled(replay.compare()).await;
        match (failed, compared.unwrap_or(Err(ReplayError::Interrupted))) {
            (None, Ok(result)) => JobOutcome::of(Self::KIND, Ok(Some(result))),
            (Some(error), Ok(result)) => {
                JobOutcome::Failed { error, result: queued::to_json(&result).ok() }
            }
            (failed, Err(error)) => match (failed, ended(job, error).await) {
                (Some(error), JobOutcome::Failed { result, .. }) => {
                    JobOutcome::Failed { error, result }
                }
                (_, outcome) => outcome,
            },
        }
    }

    async fn export_spans(job: &RunningJob) {
        let Some(telemetry) = &job.gateway.telemetry else { return };
        let traces = match queued::payload::<Payload>(&job.job) {
            Ok(payload) => payload.traces,
            Err(error) => {
                let error = error.cause();
                tracing::warn!(job = %job.job.id, error, "the spans of a replay are not exported");
                return;
            }
        };
        for id in traces {
            match completed_trace(job, id).await {
                Ok(trace) => trace.into_iter().for_each(|trace| telemetry.trace(trace)),
                Err(error) => {
                    count(Fate::Failed, 1);
                    let error = error.cause();
                    tracing::warn!(job = %job.job.id, error, "the span of a replay is not exported");
                }
            }
        }
    }
}

/// The outcome of a run that an error ends. Without the database, or memory, the job waits for another run, which
/// makes no call again that has left.
async fn ended(job: &RunningJob, error: ReplayError) -> JobOutcome {
    match error {
        ReplayError::Interrupted => JobOutcome::Interrupted,
        ReplayError::Failed(error @ (Error::Unavailable(_) | Error::Busy { .. }))
            if may_wait(job) =>
        {
            let error = error.cause();
            tracing::warn!(job = %job.job.id, error, "a replay waits for the database, or memory");
            job.pause(WAIT_PAUSE).await;
            JobOutcome::Interrupted
        }
        ReplayError::Failed(error) => {
            JobOutcome::Failed { error: reason(JobKind::Replay, error), result: None }
        }
    }
}

fn may_wait(job: &RunningJob) -> bool {
    job.gateway.job_waits.note(&job.job, job.gateway.clock.now()) < LONGEST_WAIT
}

/// A trace of a replay that has ended, however it did. `None` if the replay did not come to it, or its span is
/// not recorded.
async fn completed_trace(job: &RunningJob, id: TraceId) -> Result<Option<CompletedTrace>> {
    let store = &job.gateway.store;
    let Some(trace) = bounded(store.trace(job.job.project, id)).await? else { return Ok(None) };
    let steps = bounded(store.steps(id)).await?;
    Ok(CompletedTrace::new(&trace, &steps, trace.assessment.as_ref()))
}

/// A replay that runs.
struct Replay<'j> {
    job: &'j RunningJob,
    payload: Payload,
    source: Trace,
    /// The steps of the source, in the order they began.
    steps: Vec<Step>,
    /// The attributes of its calls.
    attributes: Option<Arc<Attributes>>,
    progress: Progress,
    /// The calls of the source as they are planned, by the index of the replay's trace and the step.
    planned: HashMap<(usize, StepId), PlannedCall>,
    /// The calls whose records the comparison waits for: those that earlier runs began, and those that failed.
    awaited: Vec<AwaitedCall>,
}

/// A call of a replay that has left, and may not be recorded yet.
struct AwaitedCall {
    trace: TraceId,
    step: StepId,
    started_at: Timestamp,
}

impl<'j> Replay<'j> {
    /// Reads the job and its source. Fails before anything is paid for if the replay cannot be complete.
    async fn read(job: &'j RunningJob) -> std::result::Result<Self, ReplayError> {
        let store = &job.gateway.store;
        let payload: Payload = queued::payload(&job.job)?;
        let project = project(job)?;
        project.check_active()?;
        let source = read_again(|| store.trace(project.id(), payload.trace_id)).await?;
        let source = source.ok_or_else(Error::trace_not_found)?;
        let steps = read_again(|| store.steps(source.id)).await?;
        if steps.len() as i64 > MOST_STEPS {
            return Err(too_many_steps().into());
        }
        let without = read_again(|| store.steps_without_content(source.id)).await?;
        let is_call =
            |id| steps.iter().any(|step| step.id == id && plan::action(step) == Action::Repeat);
        if source.purged.is_some() || without.into_iter().any(is_call) {
            return Err(Error::invalid(NOT_STORED).into());
        }
        let count = steps.iter().filter(|step| plan::action(step) != Action::Skip).count();
        let total = (count * payload.traces.len()) as u64;
        let progress = Progress { done: 0, total };
        let attributes = project.stored_attributes(payload.attributes.clone());
        let attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
        let (planned, awaited) = (HashMap::new(), Vec::new());
        Ok(Self { job, payload, source, steps, attributes, progress, planned, awaited })
    }

    /// Repeats or copies every step that has no record yet.
    async fn run_steps(&mut self) -> std::result::Result<(), ReplayError> {
        let targets = self.targets();
        let positions = plan::parallel_positions(&self.steps);
        for (target_index, target) in targets.iter().enumerate() {
            let trace = self.open(self.payload.traces[target_index]).await?;
            let mut made = self.made(trace.id()).await?;
            for step_index in 0..self.steps.len() {
                let step = self.steps[step_index].id;
                if plan::action(&self.steps[step_index]) == Action::Skip {
                    continue;
                }
                self.checkpoint().await?;
                let position = positions.get(&step).copied();
                let model = self.model(step_index, target.as_deref(), position)?;
                let is_made = made.by_source.contains_key(&step);
                let mut planned = model.as_ref().map(|model| PlannedCall {
                    model: model.identifier.clone(),
                    skipped: None,
                    error: None,
                });
                if !is_made {
                    let run = self.run_step(step_index, model, &trace, &mut made, planned.as_mut());
                    let failed = run.await?;
                    let (trace, started_at) = (trace.id(), self.job.gateway.clock.now());
                    let await_it = |step| AwaitedCall { trace, step, started_at };
                    self.awaited.extend(failed.map(await_it));
                }
                self.planned.extend(planned.map(|planned| ((target_index, step), planned)));
                self.progress.done += 1;
            }
        }
        self.checkpoint().await
    }

    async fn checkpoint(&self) -> std::result::Result<(), ReplayError> {
        let may_continue = self.job.checkpoint(self.progress).await?;
        if may_continue { Ok(()) } else { Err(ReplayError::Interrupted) }
    }

    /// The steps of a trace of the replay. Open calls are read first: one that ends meanwhile is found as a
    /// step.
    async fn made(&mut self, trace: TraceId) -> Result<MadeSteps> {
        let open = read_again(|| self.store().open_calls(trace)).await?;
        let steps = read_again(|| self.store().steps(trace)).await?;
        let made = MadeSteps::of(&steps, &open);
        self.awaited.extend(open.into_iter().map(|start| AwaitedCall {
            trace,
            step: start.step,
            started_at: Timestamp(start.started_at),
        }));
        Ok(made)
    }

    /// The model that repeats the call of a step; `None` if the step has no such call.
    fn model(
        &self,
        step_index: usize,
        target: Option<&str>,
        parallel_position: Option<usize>,
    ) -> Result<Option<Arc<Model>>> {
        let step = &self.steps[step_index];
        let call = step.call.as_ref().filter(|_| plan::action(step) == Action::Repeat);
        let Some(call) = call else { return Ok(None) };
        let name = plan::model(call, parallel_position, target, &self.payload.overrides);
        project(self.job)?.model(name).map(|model| Some(model.clone()))
    }

    /// Repeats the call of a step with a model, or copies the step. Returns the step of a call that failed: its
    /// record may follow.
    async fn run_step(
        &self,
        step_index: usize,
        model: Option<Arc<Model>>,
        trace: &Arc<TraceHandle>,
        made: &mut MadeSteps,
        planned: Option<&mut PlannedCall>,
    ) -> std::result::Result<Option<StepId>, ReplayError> {
        let source = &self.steps[step_index];
        let parent = made.parent(source, &self.steps);
        let attributes = self.attributes.clone();
        let (Some(model), Some(planned)) = (model, planned) else {
            let copied = CopiedStep { source, trace, parent, attributes };
            let step = copied.copy(self.job, &caller(self.job)?).await?;
            made.by_source.insert(source.id, step);
            return Ok(None);
        };
        let max_cost = self.payload.overrides.max_cost();
        let (trace, progress) = (trace.clone(), self.progress);
        let call = RepeatedCall { source, model, trace, parent, max_cost, attributes, progress };
        match self.repeat(&call).await? {
            CallResult::Recorded { step, tools } => made.note(source.id, step, tools),
            CallResult::Skipped(skip) => planned.skipped = Some(skip),
            CallResult::Failed { error, step } => {
                planned.error = Some(error);
                // Later steps may follow from it.
                if let Some(step) = step {
                    made.note(source.id, step, None);
                }
                return Ok(step);
            }
        }
        Ok(None)
    }

    /// Repeats a call. One for which there is no money or memory now is tried again for a while: nobody
    /// waits for it.
    async fn repeat(
        &self,
        call: &RepeatedCall<'_>,
    ) -> std::result::Result<CallResult, ReplayError> {
        let gateway = &self.job.gateway;
        let began = Instant::now();
        loop {
            let caller = caller(self.job)?;
            gateway.check_settled(&caller, gateway.clock.now()).await?;
            match Box::pin(call.run(self.job, &caller)).await {
                Err(ReplayError::Failed(error))
                    if began.elapsed() < PATIENCE
                        && may_pass(&error, &caller, gateway.fleet.is_some()) => {}
                done => return done,
            }
            if !self.job.pause(RETRY_PAUSE).await {
                return Err(ReplayError::Interrupted);
            }
            self.checkpoint().await?;
        }
    }

    /// The trace of the replay with this id; it is created if no earlier node did.
    async fn open(&self, id: TraceId) -> Result<Arc<TraceHandle>> {
        let project = self.job.job.project;
        if let Some(found) = read_again(|| self.store().trace(project, id)).await? {
            return Ok(Arc::new(TraceHandle::of(&found)));
        }
        let mut metadata = Map::from_iter([("replay_of".to_owned(), json!(self.source.id))]);
        let given = |name| self.source.metadata.as_ref().and_then(|metadata| metadata.get(name));
        if asks_secure(given("sensitivity")) {
            metadata.insert("sensitivity".to_owned(), "secure".into());
        }
        let trace = Trace {
            id,
            project,
            key: self.job.job.key,
            status: TraceStatus::Replay,
            created_at: self.job.gateway.clock.now(),
            completed_at: None,
            metadata: Some(metadata.into()),
            revenue: None,
            assessment: None,
            work: None,
            purged: None,
        };
        self.store().writer().trace(trace.clone()).await?;
        Ok(self.job.gateway.remember_trace(&trace))
    }

    /// Grades the traces of the replay, and compares them with the source.
    async fn compare(&self) -> std::result::Result<ReplayResult, ReplayError> {
        let project = project(self.job)?;
        self.await_records().await?;
        let assessment = match &self.source.assessment {
            Some(assessment) => assessment.clone(),
            None => self.job.gateway.assess(&project, &self.steps).await?,
        };
        let source = comparison::summary(&self.source, &self.steps, &assessment);
        let mut replays = Vec::with_capacity(self.payload.traces.len());
        for (target_index, (id, target)) in
            std::iter::zip(&self.payload.traces, self.targets()).enumerate()
        {
            // A replay that failed may lack its later models.
            let trace = read_again(|| self.store().trace(project.id(), *id)).await?;
            let Some(trace) = trace else { continue };
            let model = target.filter(|_| self.payload.overrides.compare_models.is_some());
            replays
                .push(Replayed { model, ..self.replayed(&project, target_index, &trace).await? });
        }
        Ok(ReplayResult { source, replays })
    }

    /// Waits until the calls that have left are recorded. A node that stops has the job wait again before it has
    /// recorded the call that it dropped. One that it has withdrawn instead is left for another run.
    async fn await_records(&self) -> std::result::Result<(), ReplayError> {
        let is_open = |step| read_again(move || self.store().is_open_call(step));
        let now = || self.job.gateway.clock.now();
        for call in &self.awaited {
            while now().since(call.started_at) < LONGEST_CALL && is_open(call.step).await? {
                tokio::time::sleep(RECORD_POLL).await;
            }
        }
        for trace in &self.payload.traces {
            if !self.awaited.iter().any(|call| call.trace == *trace) {
                continue;
            }
            let steps = read_again(|| self.store().steps(*trace)).await?;
            for call in &self.awaited {
                let is_here = call.trace == *trace;
                let is_recorded = steps.iter().any(|step| step.id == call.step);
                if is_here && !is_recorded && !is_open(call.step).await? {
                    return Err(ReplayError::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Grades one trace of the replay, and compares it.
    async fn replayed(
        &self,
        project: &ProjectState,
        target_index: usize,
        trace: &Trace,
    ) -> std::result::Result<Replayed, ReplayError> {
        let steps = read_again(|| self.store().steps(trace.id)).await?;
        let assessment = self.job.gateway.assess(project, &steps).await?;
        self.grade(trace.id, &assessment).await?;
        let records = comparison::records(&steps);
        let calls = || self.steps.iter().filter(|step| plan::action(step) == Action::Repeat);
        let answered = |step: &Step| {
            let record = records.get(&step.id).copied();
            record.filter(|record| comparison::is_answered(record))
        };
        let pairs = calls().filter_map(|step| Some((step, answered(step)?)));
        let (cost_change_pct, latency_change_pct) = comparison::changes(pairs);
        let mut compared = Vec::new();
        for step in self.steps.iter().filter(|step| plan::is_completed_call(step)) {
            if plan::action(step) != Action::Repeat {
                compared.push(comparison::unrepeated_step(step));
                continue;
            }
            let record = records.get(&step.id).copied();
            let planned = self.planned.get(&(target_index, step.id));
            // A replay that failed may lack its later calls.
            if record.is_none() && planned.is_none() {
                continue;
            }
            let mut replayed = comparison::replayed_step(step, record, planned);
            if let Some(record) = answered(step) {
                let steps = [step.id, record.id];
                let answers = answers::compared(self.job, project, steps).await?;
                (replayed.similarity, replayed.left_out) = (answers.similarity, answers.left_out);
            }
            compared.push(replayed);
        }
        Ok(Replayed {
            model: None,
            trace: trace.id,
            summary: comparison::summary(trace, &steps, &assessment),
            steps: compared,
            cost_change_pct,
            latency_change_pct,
        })
    }

    async fn grade(&self, trace: TraceId, assessment: &Assessment) -> Result<()> {
        let mut tx = self.store().begin().await?;
        tx.grade_replay(trace, self.job.gateway.clock.now(), assessment).await?;
        Ok(tx.commit().await?)
    }

    fn store(&self) -> &'j store::Store {
        &self.job.gateway.store
    }

    fn targets(&self) -> Vec<Option<String>> {
        let targets = self.payload.overrides.targets();
        targets.into_iter().map(|target| target.map(str::to_owned)).collect()
    }
}

/// The project of a job.
fn project(job: &RunningJob) -> Result<Arc<ProjectState>> {
    let project = job.gateway.registry.project(job.job.project)?;
    project.ok_or_else(|| Error::invalid("The project was deleted"))
}

/// The key that requested a job, as the caller who pays for its next call.
fn caller(job: &RunningJob) -> Result<Caller> {
    let gateway: &Gateway = &job.gateway;
    let project = project(job)?;
    project.check_active()?;
    let key = job.job.key.and_then(|key| gateway.registry.key(key));
    let now = gateway.clock.now();
    let key = key.filter(|key| key.key.is_valid(now));
    let key = key.ok_or_else(|| {
        Error::invalid("The key that asked for this replay was revoked, or has expired")
    })?;
    key.check_active()?;
    let caller = Caller::new(key, project);
    caller.check_endpoint(ApiEndpoint::Replay)?;
    Ok(caller)
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
