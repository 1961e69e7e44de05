//! The run of a backtest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use checks::GiveUp;
use domain::job::{JobKind, Progress};
use domain::money::Usd;
use store::{PackedContent, SealedContent, SealingKey};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backtest::ask::Payload;
use crate::backtest::draft::DraftProject;
use crate::backtest::judge::{self, Asks, Judged, Unjudged};
use crate::backtest::limits::{self, Rules};
use crate::backtest::report::BacktestReport;
use crate::backtest::tally::Tally;
use crate::backtest::window::{MOST_STEPS, Pages, RecordedRequest, Window};
use crate::bounded_read::read_again;
use crate::capacity::background_thread::BackgroundThread;
use crate::capacity::body_memory::{BodyCharge, json_bytes, plain_bytes};
use crate::error::{Error, Result};
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::queued;
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
        JobOutcome::of(Self::KIND, Box::pin(backtest(job)).await)
    }
}

/// Judges the window of a job. `None` if the gateway stops meanwhile: a later run begins again.
async fn backtest(job: &RunningJob) -> Result<Option<BacktestReport>> {
    let Payload { window, draft } = queued::payload(&job.job)?;
    let gateway = &job.gateway;
    let project = gateway.registry.project(job.job.project)?;
    let project = project.ok_or_else(|| Error::invalid("The project was deleted"))?;
    project.check_active()?;
    let mut thread = BackgroundThread::start("backtest", &gateway.tasks)?;
    let ignored = draft.ignored.clone();
    let current = project.clone();
    let applied = Arc::new(thread.run(move || draft.apply(&current)).await??);
    let stop = gateway.winding_down.clone();
    let rules = Arc::new(rules(job, window, &applied).await?);
    let judge =
        Judge { draft: applied, rules: rules.clone(), sealing: project.sealing.clone(), stop };
    let Some(mut tally) = tally(job, window, &judge, &mut thread).await? else { return Ok(None) };
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
    let count = || store.count_ended_steps(project, window.from, window.to, MOST_STEPS);
    let count = read_again(count).await?;
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
        while !page.is_empty() {
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
        let judged = thread.run(move || judging.small(rest)).await?;
        judged.outcomes.into_iter().for_each(|outcome| tally.add(outcome));
        requests = judged.rest;
        if let Some((request, packed)) = judged.large {
            match judge_large(job, judge, thread, request, packed).await? {
                Some(outcome) => tally.add(outcome),
                None => return Ok(false),
            }
        }
        if job.gateway.winding_down.is_cancelled() {
            // The last verdicts may have been given up.
            return Ok(false);
        }
    }
    Ok(true)
}

/// Judges a request with a large content, whose memory is taken before it is unpacked and before it is read.
/// `None` if the gateway stops meanwhile.
async fn judge_large(
    job: &RunningJob,
    judge: &Judge,
    thread: &mut BackgroundThread,
    request: RecordedRequest,
    packed: PackedContent,
) -> Result<Option<Outcome>> {
    let plain = plain_bytes(packed.size());
    let held = match memory(job, plain).await? {
        Memory::Taken(charge) => charge,
        Memory::Missing => return Ok(Some(Err(Unjudged::Unreadable))),
        Memory::Stop => return Ok(None),
    };
    let weighed = thread.run(move || {
        let json = packed.unpack().ok()?;
        let weight = json_bytes(&json, true).ok()?;
        Some((json, weight))
    });
    let Some((json, weight)) = weighed.await? else {
        return Ok(Some(Err(Unjudged::Unreadable)));
    };
    let held = match memory(job, weight.saturating_sub(plain)).await? {
        Memory::Taken(charge) => (held, charge),
        Memory::Missing => return Ok(Some(Err(Unjudged::Unreadable))),
        Memory::Stop => return Ok(None),
    };
    let judging = judge.clone();
    let outcome = thread.run(move || judging.one(&request, &json)).await?;
    drop(held);
    Ok(Some(outcome))
}

/// Memory that was asked for.
enum Memory {
    Taken(BodyCharge),
    /// Requests have left none for too long: one content is no reason to end the job.
    Missing,
    Stop,
}

async fn memory(job: &RunningJob, bytes: usize) -> Result<Memory> {
    match job.memory(bytes).await {
        Ok(Some(charge)) => Ok(Memory::Taken(charge)),
        Ok(None) => Ok(Memory::Stop),
        Err(Error::Busy { .. }) => Ok(Memory::Missing),
        Err(error) => Err(error),
    }
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
            read_again(|| gateway.store.usage(project, from, to)).await?
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

/// The draft with its limits, and the means to open contents and to stop.
#[derive(Clone)]
struct Judge {
    draft: Arc<DraftProject>,
    rules: Arc<Rules>,
    sealing: SealingKey,
    stop: CancellationToken,
}

/// The verdict on a request, or why there is none.
type Outcome = std::result::Result<Judged, Unjudged>;

/// Some requests, judged up to a large one.
struct JudgedRequests {
    outcomes: Vec<Outcome>,
    /// A request that takes more memory, with its content, which is opened and still compressed.
    large: Option<(RecordedRequest, PackedContent)>,
    rest: VecDeque<(RecordedRequest, SealedContent)>,
}

impl Judge {
    /// Judges requests until one takes more memory. A content that is damaged has no verdict.
    fn small(&self, mut requests: VecDeque<(RecordedRequest, SealedContent)>) -> JudgedRequests {
        let mut outcomes = Vec::with_capacity(requests.len());
        let mut large = None;
        while let Some((request, sealed)) = requests.pop_front() {
            let outcome = match sealed.open_packed(&self.sealing) {
                Ok(packed) if packed.size() > LARGE => {
                    large = Some((request, packed));
                    break;
                }
                Ok(packed) => packed.unpack().map(|json| self.one(&request, &json)),
                Err(error) => Err(error),
            };
            outcomes.push(outcome.unwrap_or(Err(Unjudged::Unreadable)));
        }
        JudgedRequests { outcomes, large, rest: requests }
    }

    fn one(&self, request: &RecordedRequest, json: &[u8]) -> Outcome {
        let stop = || self.stop.is_cancelled();
        let RecordedRequest { step, asks_secure, .. } = request;
        let asks = Asks { secure: *asks_secure, price: self.rules.bound(step.key) };
        judge::judge(&self.draft, step, json, asks, GiveUp::All(&stop))
    }
}
