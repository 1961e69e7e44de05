//! Traces: opened, found on the hot path, listed, shown, completed, graded.

pub(crate) mod detail;
mod metadata;
pub(crate) mod writing;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::grade::{Assessment, Baselines, TierBaseline};
use domain::ids::{ProjectId, StepId, TraceId};
use domain::money::Usd;
use domain::step::{Step, StepKind};
use domain::time::{DAY, MINUTE, Timestamp};
use domain::trace::{Trace, TraceStatus};
use serde_json::{Map, Value};
use store::{AgentFigures, Completion};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::otlp::spans::CompletedTrace;
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::registry::ProjectState;

use crate::state::known_traces::TraceHandle;

/// The largest metadata of a trace, as JSON. It is returned with every list, so it is not meant for
/// content.
pub const MAX_METADATA_BYTES: usize = 64 * 1024;
/// A person, not an application, is at work in a session in which nothing ran for longer than this.
const TURN_PAUSE: i64 = MINUTE;
/// Latency baselines look back this far.
const BASELINE: i64 = 7 * DAY;

impl Gateway {
    /// Opens a trace.
    pub async fn open_trace(
        &self,
        caller: &Caller,
        metadata: Option<Map<String, Value>>,
        revenue: Option<f64>,
    ) -> Result<Trace> {
        caller.project.check_active()?;
        let revenue = match revenue {
            Some(revenue) if revenue < 0.0 => {
                return Err(Error::invalid("Revenue must not be negative"));
            }
            Some(revenue) => Some(
                Usd::from_dollars(revenue)
                    .ok_or_else(|| Error::invalid("Revenue is out of range"))?,
            ),
            None => None,
        };
        let size =
            metadata.as_ref().map(|metadata| serde_json::to_string(metadata).map(|t| t.len()));
        if let Some(Ok(size)) = size
            && size > MAX_METADATA_BYTES
        {
            return Err(metadata_too_large());
        }
        let metadata =
            metadata.map(|metadata| metadata::with_attributes(caller, metadata)).transpose()?;
        let trace = Trace { revenue, ..self.new_trace(caller, metadata)? };
        self.store.writer().trace(trace.clone()).await?;
        self.remember_trace(&trace);
        Ok(trace)
    }

    /// A trace that is not stored yet.
    pub(crate) fn new_trace(
        &self,
        caller: &Caller,
        metadata: Option<Map<String, Value>>,
    ) -> Result<Trace> {
        let now = self.clock.now();
        Ok(Trace {
            id: TraceId(time_ordered_id(now)?),
            project: caller.project.id(),
            key: Some(caller.key.key.id),
            status: TraceStatus::Pending,
            created_at: now,
            completed_at: None,
            metadata: metadata.map(Value::Object),
            revenue: None,
            assessment: None,
            work: None,
            purged: None,
        })
    }

    /// Checks that a parent step belongs to the trace.
    pub(crate) async fn find_parent(
        &self,
        trace: &TraceHandle,
        parent: Option<i64>,
    ) -> Result<Option<StepId>> {
        let Some(parent) = parent.map(StepId) else { return Ok(None) };
        if crate::bounded_read::bounded(self.store.step_is_of(parent, trace.id())).await? {
            return Ok(Some(parent));
        }
        Err(Error::invalid("parent_step_id is not a step of this trace"))
    }

    /// Completes a trace and grades it. Completing it again returns the same result.
    pub async fn complete_trace(&self, caller: &Caller, id: &str) -> Result<Trace> {
        let id: TraceId = id.parse().map_err(|_| Error::NotFound)?;
        let project = &caller.project;
        let found = crate::bounded_read::bounded(self.store.trace(project.id(), id)).await?;
        let found = found.ok_or(Error::NotFound)?;
        match found.status {
            TraceStatus::Completed => return Ok(found),
            TraceStatus::Pending => project.check_active()?,
            TraceStatus::Replay | TraceStatus::Failed => {
                return Err(Error::invalid("Trace is not pending"));
            }
        }
        self.complete_pending(project, &[found]).await?;
        crate::bounded_read::bounded(self.store.trace(project.id(), id))
            .await?
            .ok_or(Error::NotFound)
    }

    /// Completes pending traces together, and grades them: all, or none.
    pub(crate) async fn complete_pending(
        &self,
        project: &ProjectState,
        traces: &[Trace],
    ) -> Result<()> {
        let handle = |trace: &Trace| {
            self.traces.known.get_or_insert(trace.id, || Arc::new(TraceHandle::of(trace)))
        };
        let handles: Vec<_> = traces.iter().map(handle).collect();
        let mut held = Vec::with_capacity(handles.len());
        for handle in &handles {
            held.push(handle.grading.lock().await);
            // From now on calls that end late see that they have to regrade, and wait for this.
            handle.set(TraceStatus::Completed);
        }
        let graded = self.grade(project, traces).await;
        if graded.is_err() {
            for handle in &handles {
                handle.set(TraceStatus::Pending);
            }
        }
        graded
    }

    /// Grades a completed trace anew: a step or a rating came late. The work is done in a task of
    /// the gateway's, also if no caller waits for it.
    pub(crate) fn regrade(
        &self,
        project: Arc<ProjectState>,
        trace: Arc<TraceHandle>,
    ) -> JoinHandle<()> {
        let gateway = self.clone();
        let asked = trace.regrades.fetch_add(1, Ordering::SeqCst) + 1;
        self.tasks.spawn(request_id::carried(async move {
            let again = async {
                let mut served = trace.grading.lock().await;
                // One that began since has seen the step.
                if *served >= asked {
                    return Ok(());
                }
                let serves = trace.regrades.load(Ordering::SeqCst);
                let found = gateway.store.trace(project.id(), trace.id()).await?;
                if let Some(trace) = found.filter(|it| it.status == TraceStatus::Completed) {
                    gateway.grade(&project, &[trace]).await?;
                }
                *served = serves;
                Ok::<_, Error>(())
            };
            if let Err(error) = again.await {
                tracing::error!(%error, trace = %trace.id(), "a trace was not regraded");
            }
        }))
    }

    /// Grades traces and stores the results in one commit. A trace that was graded before is measured
    /// against the same baselines; if steps of it are gone since, its grades stay.
    async fn grade(&self, project: &ProjectState, traces: &[Trace]) -> Result<()> {
        let gap = self.typical_gap(project.id()).await?;
        // Traces that are graded together and called the same models have the same baselines.
        let mut known: HashMap<Vec<String>, Baselines> = HashMap::new();
        let mut graded = Vec::with_capacity(traces.len());
        for trace in traces {
            let steps = crate::bounded_read::bounded(self.store.steps(trace.id)).await?;
            let baselines = match &trace.assessment {
                Some(assessment) => assessment.baselines.clone(),
                None => {
                    let called = called_models(&steps);
                    let baselines = match known.get(&called) {
                        Some(baselines) => baselines.clone(),
                        None => {
                            let baselines = self.baselines(project, &called).await?;
                            known.entry(called).or_insert(baselines).clone()
                        }
                    };
                    let of_session = self.store.is_session_trace(trace.id);
                    let of_session = crate::bounded_read::bounded(of_session).await?;
                    Baselines { pause: of_session.then_some(TURN_PAUSE), ..baselines }
                }
            };
            let pause = baselines.pause;
            let mut assessment = grading::assess(&steps, baselines);
            assessment.total_cost += trace.purged.unwrap_or_default().cost;
            let is_ending = trace.status == TraceStatus::Pending && self.telemetry.is_some();
            let ended =
                is_ending.then(|| CompletedTrace::new(trace, &steps, Some(&assessment))).flatten();
            let figures = grading::figures_in_turns(trace.created_at, &steps, gap, pause);
            let agent = AgentFigures {
                chain_depth: figures.chain_depth as i64,
                stall_probability: figures.stall_probability,
                tool_fidelity: figures.tool_fidelity_score,
                latency: (figures.total_latency_ms * 1000.0).round() as i64,
            };
            graded.push((trace.id, assessment, agent, ended));
        }
        let mut tx = self.store.begin().await?;
        let mut completed = Vec::new();
        for (trace, assessment, agent, ended) in graded {
            let now = self.clock.now();
            let completion = tx.complete_trace(trace, now, &assessment, agent).await?;
            // Another call, or another node, may have completed it since it was read.
            completed.extend(ended.filter(|_| completion == Completion::First));
        }
        tx.commit().await?;
        if let Some(telemetry) = &self.telemetry {
            for trace in completed {
                telemetry.trace(trace);
            }
        }
        Ok(())
    }

    /// Grades steps by today's baselines, and stores nothing.
    pub(crate) async fn assess(
        &self,
        project: &ProjectState,
        steps: &[Step],
    ) -> Result<Assessment> {
        let baselines = self.baselines(project, &called_models(steps)).await?;
        Ok(grading::assess(steps, baselines))
    }

    /// The pause between two steps that is usual in a project, in milliseconds.
    async fn typical_gap(&self, project: ProjectId) -> Result<Option<f64>> {
        if let Some(known) = self.traces.gaps.get(&project) {
            return Ok(known);
        }
        let since = self.clock.now().minus_micros(BASELINE);
        let gap = crate::bounded_read::bounded(self.store.typical_gap(project, since)).await?;
        self.traces.gaps.insert(project, gap);
        Ok(gap)
    }

    async fn baselines(&self, project: &ProjectState, called: &[String]) -> Result<Baselines> {
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        let since = self.clock.now().minus_micros(BASELINE);
        let latency = self.store.latency_baselines(project.id(), &called, since);
        let latency = crate::bounded_read::bounded(latency).await?;
        let tiers = project.settings.routing_tiers.iter().filter_map(|(&tier, identifier)| {
            let prices = project.models.get(identifier)?.prices()?;
            Some(TierBaseline {
                tier,
                model: identifier.clone(),
                input: prices.input,
                output: prices.output,
                cached_input: Some(prices.cached_input),
                cache_write: Some(prices.cache_write),
                cache_write_1h: Some(prices.cache_write_1h),
            })
        });
        Ok(Baselines { latency, tiers: tiers.collect(), pause: None })
    }
}

/// The models that run steps called, by name.
fn called_models(steps: &[Step]) -> Vec<String> {
    let runs = steps.iter().filter(|step| step.kind == StepKind::Run);
    let called: BTreeSet<&String> =
        runs.filter_map(|step| step.call.as_ref().map(|call| &call.model)).collect();
    called.into_iter().cloned().collect()
}

/// The refusal of metadata that is too large.
pub fn metadata_too_large() -> Error {
    Error::invalid(format!("Metadata is larger than {MAX_METADATA_BYTES} bytes"))
}

/// An id of version 7 for a moment (RFC 9562, section 5.7). The 12 bits after its milliseconds are their
/// fraction (section 6.2, method 3), so that traces which are opened one after the other are listed so.
pub(crate) fn time_ordered_id(now: Timestamp) -> Result<Uuid> {
    let mut bits = store::random::<10>()?;
    let micros = now.0.max(0).cast_unsigned();
    let fraction = ((micros % 1000) << 12) / 1000;
    [bits[0], bits[1]] = [(fraction >> 8) as u8, fraction as u8];
    Ok(uuid::Builder::from_unix_timestamp_millis(micros / 1000, &bits).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_microsecond() {
        let began = 1_795_000_000_000_999;
        let ids: Vec<_> =
            (began..began + 2_500).map(|at| time_ordered_id(Timestamp(at)).unwrap()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        let id = ids[1];
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert!(id >= TraceId::first_at(Timestamp(began + 1)).0);
        assert!(id < TraceId::first_at(Timestamp(began + 1_001)).0);
    }
}
