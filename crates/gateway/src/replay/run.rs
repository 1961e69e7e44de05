//! The run of a replay: its parts in order, and the comparison at its end. What an earlier node has done is
//! found by its records; a call that has one is not made again.

use std::collections::HashMap;
use std::sync::Arc;

use domain::grade::Assessment;
use domain::ids::{StepId, TraceId};
use domain::job::{JobKind, Progress};
use domain::key::KeyStatus;
use domain::model::Model;
use domain::step::Step;
use domain::trace::{Trace, TraceStatus};
use serde_json::{Map, json};

use crate::bounded_read::bounded;
use crate::capacity::body_memory::ChargeSlot;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::job_queue::running::RunningJob;
use crate::job_queue::work::{Ended, Work};
use crate::replay::ask::{MOST_STEPS, Payload, too_many_steps};
use crate::replay::calls::{Again, Made, NOT_STORED, Stop};
use crate::replay::comparison::{self, Outcome};
use crate::replay::made_steps::MadeSteps;
use crate::replay::plan::{self, Part};
use crate::replay::result::{ReplayResult, Replayed};
use crate::state::caller::Caller;
use crate::state::known_traces::{TraceHandle, asks_secure};
use crate::state::registry::ProjectState;

/// Replays of traces.
pub(crate) struct Replays;

impl Work for Replays {
    const KIND: JobKind = JobKind::Replay;
    const AT_ONCE: usize = 4;

    async fn run(job: &RunningJob) -> Ended {
        let mut replay = match Replay::read(job).await {
            Ok(replay) => replay,
            Err(Stop::Interrupted) => return Ended::Interrupted,
            Err(Stop::Failed(error)) => return Ended::Failed { error, result: None },
        };
        let stopped = match replay.make().await {
            Ok(()) => None,
            Err(Stop::Interrupted) => return Ended::Interrupted,
            Err(Stop::Failed(error)) => Some(error),
        };
        let compared = replay.compare().await;
        let result = compared.and_then(|result| {
            serde_json::to_string(&result).map_err(|error| Error::Internal(error.to_string()))
        });
        match (result, stopped) {
            (Ok(result), None) => Ended::Completed(result),
            (result, Some(error)) => Ended::Failed { error, result: result.ok() },
            (Err(error), None) => {
                let Stop::Failed(error) = Stop::from(error) else { return Ended::Interrupted };
                Ended::Failed { error, result: None }
            }
        }
    }
}

/// A replay that runs.
struct Replay<'j> {
    job: &'j RunningJob,
    payload: Payload,
    source: Trace,
    /// The steps of the source, in the order they began.
    steps: Vec<Step>,
    progress: Progress,
    /// What became of the calls of the source, by the place of the replay's trace and the step.
    outcomes: HashMap<(usize, StepId), Outcome>,
}

impl<'j> Replay<'j> {
    /// Reads what is to be done. Fails before anything is paid for if it cannot be done whole.
    async fn read(job: &'j RunningJob) -> std::result::Result<Self, Stop> {
        let gateway = &job.gateway;
        let payload: Payload = serde_json::from_str(&job.job.payload)
            .map_err(|error| Error::Internal(format!("a job: {error}")))?;
        let project = project(job)?;
        project.check_active()?;
        let source = bounded(gateway.store.trace(project.id(), payload.trace_id)).await?;
        let source = source.ok_or_else(Error::trace_not_found)?;
        let steps = bounded(gateway.store.steps(source.id)).await?;
        if steps.len() as i64 > MOST_STEPS {
            return Err(too_many_steps().into());
        }
        let without = bounded(gateway.store.steps_without_content(source.id)).await?;
        let is_call = |id| steps.iter().any(|step| step.id == id && plan::part(step) == Part::Call);
        if source.purged.is_some() || without.into_iter().any(is_call) {
            return Err(Stop::Failed(NOT_STORED.to_owned()));
        }
        let parts = steps.iter().filter(|step| plan::part(step) != Part::Nothing).count();
        let total = (parts * payload.traces.len()) as u64;
        let progress = Progress { done: 0, total };
        Ok(Self { job, payload, source, steps, progress, outcomes: HashMap::new() })
    }

    /// Does every part that has no record yet.
    async fn make(&mut self) -> std::result::Result<(), Stop> {
        let targets = self.targets();
        let places = plan::fan_outs(&self.steps);
        for (index, target) in targets.iter().enumerate() {
            let trace = self.open(self.payload.traces[index]).await?;
            let mut made = MadeSteps::of(&bounded(self.store().steps(trace.id())).await?);
            for at in 0..self.steps.len() {
                let part = plan::part(&self.steps[at]);
                if part == Part::Nothing {
                    continue;
                }
                if !self.job.goes_on(self.progress).await? {
                    return Err(Stop::Interrupted);
                }
                let place = places.get(&self.steps[at].id).copied();
                let model = self.model(at, target.as_deref(), place)?;
                let is_made = made.by_source.contains_key(&self.steps[at].id);
                let mut outcome = model.as_ref().map(|model| Outcome {
                    model: model.identifier.clone(),
                    skipped: None,
                    error: None,
                });
                if !is_made {
                    self.make_part(at, model, &trace, &mut made, outcome.as_mut()).await?;
                }
                self.outcomes.extend(outcome.map(|outcome| ((index, self.steps[at].id), outcome)));
                self.progress.done += 1;
            }
        }
        if self.job.goes_on(self.progress).await? { Ok(()) } else { Err(Stop::Interrupted) }
    }

    /// The model that makes the call of a step again; none if the step has no such call.
    fn model(
        &self,
        at: usize,
        target: Option<&str>,
        place: Option<usize>,
    ) -> Result<Option<Arc<Model>>> {
        let step = &self.steps[at];
        let call = step.call.as_ref().filter(|_| plan::part(step) == Part::Call);
        let Some(call) = call else { return Ok(None) };
        let name = plan::model(call, place, target, &self.payload.overrides);
        project(self.job)?.model(name).map(|model| Some(model.clone()))
    }

    /// Makes the call of a step again with a model, or copies the step.
    async fn make_part(
        &self,
        at: usize,
        model: Option<Arc<Model>>,
        trace: &Arc<TraceHandle>,
        made: &mut MadeSteps,
        outcome: Option<&mut Outcome>,
    ) -> std::result::Result<(), Stop> {
        let gateway = &self.job.gateway;
        let (caller, source) = (caller(self.job)?, &self.steps[at]);
        let parent = made.parent(source, &self.steps);
        let (Some(model), Some(outcome)) = (model, outcome) else {
            let step = gateway.copy_step(&caller, source, trace, parent).await?;
            made.by_source.insert(source.id, step);
            return Ok(());
        };
        gateway.check_settled(&caller, gateway.clock.now()).await?;
        let (max_cost, trace) = (self.payload.overrides.max_cost(), trace.clone());
        let again = Again { source, model, trace, parent, max_cost };
        match Box::pin(again.make(self.job, &caller)).await? {
            Made::Recorded { step, tools } => made.note(source.id, step, tools),
            Made::Skipped(skip) => outcome.skipped = Some(skip),
            Made::Failed(error) => outcome.error = Some(error),
        }
        Ok(())
    }

    /// The trace of the replay with this id, opened if no node has opened it yet.
    async fn open(&self, id: TraceId) -> Result<Arc<TraceHandle>> {
        let project = self.job.job.project;
        if let Some(found) = bounded(self.store().trace(project, id)).await? {
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
            purged: None,
        };
        self.store().writer().trace(trace.clone()).await?;
        Ok(self.job.gateway.remember_trace(&trace))
    }

    /// Grades the traces of the replay, and compares them with the source.
    async fn compare(&self) -> Result<ReplayResult> {
        let project = project(self.job)?;
        let assessment = match &self.source.assessment {
            Some(assessment) => assessment.clone(),
            None => self.job.gateway.assess(&project, &self.steps).await?,
        };
        let source = comparison::summary(&self.source, &self.steps, &assessment);
        let mut replays = Vec::with_capacity(self.payload.traces.len());
        for (index, (id, target)) in
            std::iter::zip(&self.payload.traces, self.targets()).enumerate()
        {
            // One that has failed may not have come to its later models.
            let Some(trace) = bounded(self.store().trace(project.id(), *id)).await? else {
                continue;
            };
            let model = target.filter(|_| self.payload.overrides.compare_models.is_some());
            replays.push(Replayed { model, ..self.replayed(&project, index, &trace).await? });
        }
        Ok(ReplayResult { source, replays })
    }

    /// Grades one trace of the replay, and compares it.
    async fn replayed(
        &self,
        project: &ProjectState,
        index: usize,
        trace: &Trace,
    ) -> Result<Replayed> {
        let steps = bounded(self.store().steps(trace.id)).await?;
        let assessment = self.job.gateway.assess(project, &steps).await?;
        self.grade(trace.id, &assessment).await?;
        let records = comparison::records(&steps);
        let calls = || self.steps.iter().filter(|step| plan::part(step) == Part::Call);
        let answered = |step: &Step| {
            let record = records.get(&step.id).copied();
            record.filter(|record| comparison::is_answered(record))
        };
        let pairs = calls().filter_map(|step| Some((step, answered(step)?)));
        let (cost_change_pct, latency_change_pct) = comparison::changes(pairs);
        let mut compared = Vec::new();
        for step in calls() {
            let record = records.get(&step.id).copied();
            let outcome = self.outcomes.get(&(index, step.id));
            // One that has failed may not have come to its later calls.
            if record.is_none() && outcome.is_none() {
                continue;
            }
            let mut replayed = comparison::replayed_step(step, record, outcome);
            if let Some(record) = answered(step) {
                let gateway = &self.job.gateway;
                replayed.similarity = gateway.similarity(project, step.id, record.id).await?;
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

/// The key that has asked for a job, as the caller who pays for its next call.
fn caller(job: &RunningJob) -> Result<Caller> {
    let gateway: &Gateway = &job.gateway;
    let project = project(job)?;
    project.check_active()?;
    let key = job.job.key.and_then(|key| gateway.registry.key(key));
    let now = gateway.clock.now();
    let key = key.filter(|key| key.key.expires_at.is_none_or(|at| at > now));
    let key = key.ok_or_else(|| {
        Error::invalid("The key that asked for this replay was revoked, or has expired")
    })?;
    match key.key.status {
        KeyStatus::Active => {}
        KeyStatus::LoopDetected => return Err(Error::LoopDetected),
        KeyStatus::Tripped => return Err(Error::SpendCapped { limit: key.key.hourly_limit }),
    }
    Ok(Caller { key, project, charge: ChargeSlot::default(), session_name: None, attributes: None })
}
