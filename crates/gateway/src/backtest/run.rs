//! The run of a backtest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use checks::GiveUp;
use domain::job::{JobKind, Progress};
use domain::money::Usd;
use domain::settings::Settings;
use store::{PackedContent, SealedContent, SealingKey};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backtest::ask::Payload;
use crate::backtest::both::Both;
use crate::backtest::draft::DraftProject;
use crate::backtest::judge::{self, Asks, Judged, Unjudged};
use crate::backtest::limits::{self, Caps, Rules};
use crate::backtest::report::BacktestReport;
use crate::backtest::tally::Tally;
use crate::backtest::window::{MOST_STEPS, Pages, RecordedRequest, Window};
use crate::bounded_read::read_again;
use crate::capacity::background_thread::BackgroundThread;
use crate::capacity::body_memory::{BodyCharge, json_bytes, plain_bytes};
use crate::error::{Error, Result};
use crate::job_queue::content_memory::{ContentMemory, Memory};
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;

/// Memory for a larger content, in bytes of JSON, is taken from that of requests.
const LARGE: usize = 256 * 1024;
/// How much longer a backtest rests after each page than the page took: it has time, and the requests that
/// are served meanwhile have none. It takes an eighth of two processors.
const REST: u32 = 3;
/// The longest rest: a page that has waited for memory or the database has rested.
const LONGEST_REST: Duration = Duration::from_millis(500);
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
    let mut thread = BackgroundThread::start("backtest", &gateway.tasks, &gateway.stopping)?;
    let ignored = draft.ignored.clone();
    let current = project.clone();
    // On a busy machine the thread may get no time: a stop waits neither for it nor for the database.
    let stop = gateway.winding_down.clone();
    let applied = stop.run_until_cancelled(thread.run(move || draft.apply(&current))).await;
    let Some(applied) = applied.transpose()? else { return Ok(None) };
    let applied = Arc::new(applied?);
    let Some(rules) = stop.run_until_cancelled(rules(job, window, &applied)).await else {
        return Ok(None);
    };
    let rules = Arc::new(rules?);
    let sealing = project.sealing.clone();
    let judge = Judge { draft: applied, rules: rules.clone(), sealing, stop: stop.clone() };
    let tally = stop.run_until_cancelled(tally(job, window, &judge, &mut thread)).await;
    let Some(mut tally) = tally.transpose()?.flatten() else { return Ok(None) };
    let calls = tally.take_calls();
    let replay = thread.run(move || limits::replay(calls, &rules));
    let Some(refusals) = stop.run_until_cancelled(replay).await.transpose()? else {
        return Ok(None);
    };
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
    let mut tally = Tally::new(!judge.rules.now.is_empty() || !judge.rules.draft.is_empty());
    tally.steps.truncated = count > MOST_STEPS;
    let mut pages = Pages::of(store, project, window);
    let mut noted: Option<Instant> = None;
    let mut memory = ContentMemory::default();
    while progress.done < progress.total {
        if noted.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL) {
            if !job.checkpoint(progress).await? {
                return Ok(None);
            }
            noted = Some(Instant::now());
        }
        let page_began = Instant::now();
        let mut page = pages.next().await?;
        if page.read == 0 {
            // Steps were purged meanwhile.
            break;
        }
        tally.conversations.note(page.since, &page.others);
        while let Some(next) = page.peek() {
            let mut charge = job.empty_charge().await?;
            match memory.raise(job, &mut charge, next.charged()).await? {
                Memory::Taken => {}
                Memory::Missing => {
                    page.skip();
                    tally.add(Err(Unjudged::Unreadable));
                    continue;
                }
                Memory::Stop => return Ok(None),
            }
            let requests = pages.contents(&mut page).await?;
            let mut taken = TakenMemory { memory: &mut memory, charge };
            if !judge_all(job, requests, judge, thread, &mut tally, &mut taken).await? {
                return Ok(None);
            }
        }
        progress.done += page.read;
        tally.steps.read += page.read;
        tally.steps.without_content += page.without_content;
        tally.steps.unreadable += page.damaged;
        if progress.done < progress.total {
            tokio::time::sleep((page_began.elapsed() * REST).min(LONGEST_REST)).await;
        }
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
    taken: &mut TakenMemory<'_>,
) -> Result<bool> {
    while !requests.is_empty() {
        let (judging, rest) = (judge.clone(), std::mem::take(&mut requests));
        let judged = thread.run(move || judging.small(rest)).await?;
        judged.outcomes.into_iter().for_each(|outcome| tally.add(outcome));
        requests = judged.rest;
        if let Some((request, packed)) = judged.large {
            match judge_large(job, judge, thread, (request, packed), taken).await? {
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

/// The memory that sealed contents hold, and the means to take more.
struct TakenMemory<'m> {
    memory: &'m mut ContentMemory,
    charge: BodyCharge,
}

/// Judges a request with a large content, whose memory is taken before it is unpacked and before it is read.
/// Nothing but the sealed content is held while it waits. `None` if the gateway stops meanwhile.
async fn judge_large(
    job: &RunningJob,
    judge: &Judge,
    thread: &mut BackgroundThread,
    (request, packed): (RecordedRequest, PackedContent),
    TakenMemory { memory, charge }: &mut TakenMemory<'_>,
) -> Result<Option<Outcome>> {
    let (request, packed) = (Arc::new(request), Arc::new(packed));
    let mut needed = plain_bytes(packed.size());
    let outcome = loop {
        match memory.raise(job, charge, request.charged() + needed).await? {
            Memory::Taken => {}
            Memory::Missing => break Err(Unjudged::Unreadable),
            Memory::Stop => return Ok(None),
        }
        let unpacking = packed.clone();
        let weighed = thread.run(move || {
            let json = unpacking.unpack().ok()?;
            let weight = json_bytes(&json, true).ok()?;
            Some((json, weight))
        });
        let Some((json, weight)) = weighed.await? else { break Err(Unjudged::Unreadable) };
        if memory.raise_at_once(charge, request.charged() + weight).await? {
            let (judging, request) = (judge.clone(), request.clone());
            break thread.run(move || judging.one(&request, &json)).await?;
        }
        // The whole is asked for the next time, so it is there before the content is unpacked again.
        needed = weight;
        drop(json);
        charge.lower(request.charged());
    };
    charge.lower(request.charged());
    Ok(Some(outcome))
}

/// The limits of now and those that the draft would have, for the keys that there are.
async fn rules(job: &RunningJob, window: Window, draft: &DraftProject) -> Result<Both<Rules>> {
    let gateway = &job.gateway;
    let project = job.job.project;
    let (now, drafted) = (&draft.current.settings, &draft.state.settings);
    let month = window.from.month_start();
    let before = match now.monthly_budget.or(drafted.monthly_budget) {
        None => Vec::new(),
        Some(_) => {
            let (from, to) = (month.minute(), window.from.minute());
            read_again(|| gateway.store.usage(project, from, to)).await?
        }
    };
    let spent: Usd = before.iter().map(|row| row.cost).sum();
    let keys = gateway.registry.keys().into_iter().filter(|state| state.key.project == project);
    let own = keys.filter_map(|state| Some((state.key.id, state.key.hourly_limit?)));
    let own = Caps::Own(own.collect());
    let rules = |settings: &Settings, caps| Rules {
        limits: settings.limits.clone(),
        monthly_budget: settings.monthly_budget,
        caps,
        spent_before: (window.from, spent),
    };
    Ok(Both { draft: rules(drafted, draft.caps(&own)), now: rules(now, own) })
}

/// The draft with its limits, and the means to open contents and to stop.
#[derive(Clone)]
struct Judge {
    draft: Arc<DraftProject>,
    rules: Arc<Both<Rules>>,
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
        let Both { now, draft } = &*self.rules;
        let price = Both { now: now.bound(step.key), draft: draft.bound(step.key) };
        let asks = Asks { secure: *asks_secure, price };
        judge::judge(&self.draft, step, json, asks, GiveUp::All(&stop))
    }
}
