//! The run of a backtest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use checks::GiveUp;
use domain::job::{JobKind, Progress};
use domain::money::Usd;
use store::{SealedContent, SealingKey};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backtest::ask::Payload;
use crate::backtest::draft::DraftProject;
use crate::backtest::judge::{self, Judged, Unjudged};
use crate::backtest::limits::{self, Rules};
use crate::backtest::report::BacktestReport;
use crate::backtest::tally::Tally;
use crate::backtest::window::{MOST_STEPS, Pages, RecordedRequest, Window};
use crate::bounded_read::bounded;
use crate::capacity::background_thread::BackgroundThread;
use crate::capacity::body_memory::json_bytes;
use crate::error::{Error, Result};
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;

/// Memory for a larger content, in bytes of JSON, is taken from that of requests.
const LARGE: usize = 256 * 1024;
/// How often progress is written.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Backtests of draft settings.
pub(crate) struct Backtests;

impl JobHandler for Backtests {
    const KIND: JobKind = JobKind::Backtest;
    const AT_ONCE: usize = 1;

    async fn run(job: &RunningJob) -> JobOutcome {
        let report = match Box::pin(backtest(job)).await {
            Ok(None) => return JobOutcome::Interrupted,
            Ok(Some(report)) => report,
            Err(error) => return failed(error),
        };
        match serde_json::to_string(&report) {
            Ok(report) => JobOutcome::Completed(report),
            Err(error) => failed(Error::Internal(error.to_string())),
        }
    }
}

/// Logs an internal error, whose cause the message does not have.
fn failed(error: Error) -> JobOutcome {
    let message = error.to_string();
    if matches!(error, Error::Internal(_)) {
        tracing::error!(error = error.cause(), "a backtest met a fault");
    }
    JobOutcome::Failed { error: message, result: None }
}

/// Judges the window of a job. `None` if the gateway stops meanwhile: a later run begins again.
async fn backtest(job: &RunningJob) -> Result<Option<BacktestReport>> {
    let Payload { window, draft } = serde_json::from_str(&job.job.payload)
        .map_err(|error| Error::Internal(format!("a job: {error}")))?;
    let gateway = &job.gateway;
    let project = gateway.registry.project(job.job.project)?;
    let project = project.ok_or_else(|| Error::invalid("The project was deleted"))?;
    project.check_active()?;
    let mut thread = BackgroundThread::start("backtest", &gateway.tasks)?;
    let ignored = draft.ignored.clone();
    let current = project.clone();
    let applied = Arc::new(thread.run(move || draft.apply(&current)).await??);
    let stop = gateway.winding_down.clone();
    let judge = Judge { draft: applied, sealing: project.sealing.clone(), stop };
    let Some(mut tally) = tally(job, window, &judge, &mut thread).await? else { return Ok(None) };
    let rules = rules(job, window, &judge.draft).await?;
    let calls = tally.take_calls();
    let refusals = thread.run(move || limits::replay(calls, &rules)).await?;
    Ok(Some(tally.report(refusals, ignored)))
}

/// Judges all requests of a window.
async fn tally(
    job: &RunningJob,
    window: Window,
    judge: &Judge,
    thread: &mut BackgroundThread,
) -> Result<Option<Tally>> {
    let (store, project) = (&job.gateway.store, job.job.project);
    let count = store.count_ended_steps(project, window.from, window.to, MOST_STEPS);
    let count = bounded(count).await?;
    let mut progress = Progress { done: 0, total: count.min(MOST_STEPS).unsigned_abs() };
    let mut tally = Tally::default();
    tally.steps.truncated = count > MOST_STEPS;
    let mut pages = Pages::of(store, project, window);
    let mut noted: Option<Instant> = None;
    while progress.done < progress.total {
        if noted.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL) {
            if !job.checkpoint(progress).await? {
                return Ok(None);
            }
            noted = Some(Instant::now());
        }
        let mut page = pages.next().await?;
        if page.read == 0 {
            // Steps were purged meanwhile.
            break;
        }
        while Pages::has_more(&page) {
            let requests = pages.contents(&mut page).await?;
            if !judge_all(job, requests, judge, thread, &mut tally).await? {
                return Ok(None);
            }
        }
        progress.done += page.read;
        tally.steps.read += page.read;
        tally.steps.without_content += page.without_content;
    }
    Ok(job.checkpoint(progress).await?.then_some(tally))
}

/// Judges requests and counts them. False if the gateway stops meanwhile.
async fn judge_all(
    job: &RunningJob,
    mut requests: VecDeque<(RecordedRequest, SealedContent)>,
    judge: &Judge,
    thread: &mut BackgroundThread,
    tally: &mut Tally,
) -> Result<bool> {
    while !requests.is_empty() {
        let (judging, rest) = (judge.clone(), std::mem::take(&mut requests));
        let judged = thread.run(move || judging.small(rest)).await??;
        judged.outcomes.into_iter().for_each(|outcome| tally.add(outcome));
        requests = judged.rest;
        if let Some((request, json)) = judged.large {
            let Ok(weight) = json_bytes(&json, true) else {
                tally.add(Err(Unjudged::Unreadable));
                continue;
            };
            let Some(charge) = job.memory(weight).await? else { return Ok(false) };
            let judging = judge.clone();
            tally.add(thread.run(move || judging.one(&request, &json)).await?);
            drop(charge);
        }
        if job.gateway.winding_down.is_cancelled() {
            // The last verdicts may have been given up.
            return Ok(false);
        }
    }
    Ok(true)
}

/// The limits that the draft would have, for the keys that there are.
async fn rules(job: &RunningJob, window: Window, draft: &DraftProject) -> Result<Rules> {
    let gateway = &job.gateway;
    let (settings, project) = (&draft.state.settings, job.job.project);
    let month = window.from.month_start();
    let before = match settings.monthly_budget {
        None => Vec::new(),
        Some(_) => {
            let (from, to) = (month.minute(), window.from.minute());
            bounded(gateway.store.usage(project, from, to)).await?
        }
    };
    let spent: Usd = before.iter().map(|row| row.cost).sum();
    let keys = gateway.registry.keys().into_iter().filter(|state| state.key.project == project);
    Ok(Rules {
        limits: settings.limits.clone(),
        monthly_budget: settings.monthly_budget,
        caps: draft.caps(keys.map(|state| (state.key.id, state.key.hourly_limit))),
        spent_before: (window.from, spent),
    })
}

/// The draft, and the means to open contents and to stop.
#[derive(Clone)]
struct Judge {
    draft: Arc<DraftProject>,
    sealing: SealingKey,
    stop: CancellationToken,
}

/// Some requests, judged up to a large one.
struct JudgedRequests {
    outcomes: Vec<std::result::Result<Judged, Unjudged>>,
    /// A request that takes more memory, with its content, which is opened.
    large: Option<(RecordedRequest, Vec<u8>)>,
    rest: VecDeque<(RecordedRequest, SealedContent)>,
}

impl Judge {
    /// Judges requests until one takes more memory.
    fn small(
        &self,
        mut requests: VecDeque<(RecordedRequest, SealedContent)>,
    ) -> Result<JudgedRequests> {
        let mut outcomes = Vec::with_capacity(requests.len());
        let mut large = None;
        while let Some((request, sealed)) = requests.pop_front() {
            let json = sealed.open(&self.sealing)?;
            if json.len() > LARGE {
                large = Some((request, json));
                break;
            }
            outcomes.push(self.one(&request, &json));
        }
        Ok(JudgedRequests { outcomes, large, rest: requests })
    }

    fn one(&self, request: &RecordedRequest, json: &[u8]) -> std::result::Result<Judged, Unjudged> {
        let stop = || self.stop.is_cancelled();
        let RecordedRequest { step, asks_secure, .. } = request;
        judge::judge(&self.draft, step, json, *asks_secure, GiveUp::All(&stop))
    }
}
