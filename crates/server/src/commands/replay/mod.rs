//! `sluice replay`: replays traces on a gateway that runs, and fails under conditions. A file of traces is a
//! regression test for a change of model or prompt.

mod condition;
mod figures;
mod junit;
mod progress;
mod suite;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use domain::secret::Secret;
use providers::{ApiAnswer, ApiClient, ApiError};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{Failure, say};
use crate::commands::agent_setup::own_url;
use crate::config::{Config, Flags};
use crate::open;
use condition::Condition;
use figures::Figures;
use junit::Case;
use progress::Progress;
use suite::Entry;

/// The variable that has the key.
const KEY_VARIABLE: &str = "SLUICE_API_KEY";
/// The path of replays.
const PATH: &str = "/api/v1/replay";
/// The pause between two looks at a job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two requests: a key that sends more than 50 in ten seconds is paused.
const REQUEST_INTERVAL: Duration = Duration::from_millis(300);
/// For this long a gateway may be away while a job runs: it goes on when that is back.
const AWAY_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Args)]
pub(crate) struct ReplayCommand {
    /// The traces to replay
    #[arg(value_name = "TRACE", required_unless_present = "suite")]
    traces: Vec<String>,
    /// A file of traces to replay: one a line, each with a name behind it if you like
    #[arg(long, value_name = "FILE")]
    suite: Option<PathBuf>,
    /// The model that makes every call
    #[arg(long, value_name = "MODEL", conflicts_with = "compare")]
    model: Option<String>,
    /// Models to compare, each of which makes every call
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    compare: Vec<String>,
    /// Models for calls that ran side by side, in turn
    #[arg(long, value_name = "MODELS", value_delimiter = ',')]
    force_models: Vec<String>,
    /// Leave out calls whose estimated cost is higher, in USD
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Fail if this holds: cost>+10%, latency>+20%, similarity<0.8, skipped>0, blocked>0
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
    /// Write a report in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Address of the gateway [default: `public_url`, else `listen` of the configuration]
    #[arg(long)]
    url: Option<String>,
}

/// Replays the traces one after the other. Fails if a replay does, or if a condition holds for one.
pub(crate) async fn run(command: &ReplayCommand, flags: &Flags) -> Result<(), Failure> {
    let entries = suite::entries(&command.traces, command.suite.as_deref())?;
    let config = Config::load(flags)?;
    let url = command.url.clone().unwrap_or_else(|| own_url(&config));
    let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Failure(format!("the key is missing: set {KEY_VARIABLE}")))?;
    let client = ApiClient::new(open::client(&config)?, &url, Secret::new(key));
    let mut gateway = Gateway { client, url, last: None, progress: Progress::new() };
    let overrides = command.overrides();
    let mut cases = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let job = gateway.replay(entry, &overrides, (index + 1, entries.len())).await;
        gateway.progress.clear();
        for case in command.cases(entry, &job?) {
            print(&case)?;
            cases.push(case);
        }
    }
    if let Some(path) = &command.junit {
        std::fs::write(path, junit::report(&cases))
            .map_err(|error| Failure(format!("{} cannot be written: {error}", path.display())))?;
    }
    match cases.iter().filter(|case| !case.failures.is_empty()).count() {
        0 => Ok(()),
        failed => Err(Failure(format!("{failed} of {} replays failed", cases.len()))),
    }
}

fn print(case: &Case) -> Result<(), Failure> {
    let word = if case.failures.is_empty() { "ok  " } else { "FAIL" };
    say(&format!("{word} {}: {}", case.name, case.figures))?;
    case.failures.iter().try_for_each(|failure| say(&format!("     {failure}")))
}

impl ReplayCommand {
    fn overrides(&self) -> Map<String, Value> {
        let mut overrides = Map::new();
        let mut set = |name: &str, value: Value| overrides.insert(name.to_owned(), value);
        if let Some(model) = &self.model {
            set("force_model", model.as_str().into());
        }
        for (name, models) in
            [("compare_models", &self.compare), ("force_models", &self.force_models)]
        {
            if !models.is_empty() {
                set(name, models.clone().into());
            }
        }
        if let Some(cost) = self.max_cost {
            set("max_cost", json!(cost));
        }
        overrides
    }

    /// The cases of a job that is over, or of the error that there is instead: one for each model.
    fn cases(&self, entry: &Entry, job: &Value) -> Vec<Case> {
        let all = Figures::of_job(job);
        if let Some(error) = job["error"].as_str() {
            let done =
                all.first().map_or_else(|| "nothing was done".to_owned(), Figures::to_string);
            let (name, failures) = (entry.to_string(), vec![error.to_owned()]);
            return vec![Case { name, figures: done, failures, seconds: 0.0 }];
        }
        let case = |figures: &Figures| Case {
            name: match &figures.model {
                Some(model) => format!("{entry} on {model}"),
                None => entry.to_string(),
            },
            figures: figures.to_string(),
            failures: self.failures(figures),
            seconds: figures.seconds,
        };
        all.iter().map(case).collect()
    }

    /// A call that failed was not measured, so that is a failure by itself.
    fn failures(&self, figures: &Figures) -> Vec<String> {
        let conditions = self.fail_if.iter().filter_map(|condition| condition.failure(figures));
        figures.errors.iter().cloned().chain(conditions).collect()
    }
}

/// The gateway that is called.
struct Gateway {
    client: ApiClient,
    url: String,
    last: Option<Instant>,
    progress: Progress,
}

impl Gateway {
    /// Replays a trace, and returns the job when it is over; or the error of a trace that is not replayed.
    async fn replay(
        &mut self,
        entry: &Entry,
        overrides: &Map<String, Value>,
        (number, count): (usize, usize),
    ) -> Result<Value, Failure> {
        self.progress.show(number, count, 0, 0);
        let mut body = overrides.clone();
        body.insert("trace_id".to_owned(), entry.trace.as_str().into());
        self.pace().await;
        let asked = self.client.post(PATH, &body.into()).await;
        let asked = asked.map_err(|error| self.unanswered(error))?;
        let job = match asked.status {
            200 | 202 => asked.body,
            400 | 404 | 422 => return Ok(json!({"error": asked.body["error"]})),
            _ => return Err(self.refused(&asked)),
        };
        let is_over = |job: &Value| matches!(job["status"].as_str(), Some("completed" | "failed"));
        let path = format!("{PATH}/{}", job["job_id"].as_str().unwrap_or_default());
        let (mut job, mut seen) = (job, Instant::now());
        while !is_over(&job) {
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.client.get(&path).await {
                Ok(found) if found.status == 200 => (job, seen) = (found.body, Instant::now()),
                Ok(found) if found.status != 503 => return Err(self.refused(&found)),
                Err(error) if seen.elapsed() > AWAY_TIMEOUT => return Err(self.unanswered(error)),
                Ok(found) if seen.elapsed() > AWAY_TIMEOUT => return Err(self.refused(&found)),
                Ok(_) | Err(_) => {}
            }
            let part = |name: &str| job["progress"][name].as_u64().unwrap_or(0);
            self.progress.show(number, count, part("done"), part("total"));
        }
        self.last = Some(Instant::now());
        Ok(job)
    }

    /// Waits until the next request is no sign of a loop.
    async fn pace(&mut self) {
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + REQUEST_INTERVAL).await;
        }
        self.last = Some(Instant::now());
    }

    fn unanswered(&self, error: ApiError) -> Failure {
        self.progress.clear();
        Failure(format!("{}: {error}", self.url))
    }

    fn refused(&self, answer: &ApiAnswer) -> Failure {
        self.progress.clear();
        let error = answer.body["error"].as_str().unwrap_or("no error is named");
        Failure(format!("the gateway answered {}: {error}", answer.status))
    }
}
