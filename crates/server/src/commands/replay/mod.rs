//! `sluice replay`: replays traces on a gateway that runs, and fails under conditions. A file of traces is a
//! regression test for a change of model or prompt.

mod condition;
mod figures;
mod junit;
mod progress;
mod remote;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use domain::secret::Secret;
use providers::ApiClient;
use serde_json::{Map, Value, json};

use super::{Failure, complain, say};
use crate::commands::agent_setup::own_url;
use crate::config::Config;
use crate::open;
use condition::Condition;
use figures::Figures;
use junit::Case;
use remote::Remote;
use suite::Entry;

/// The exit code if something could not be measured: wrong usage, no gateway, a replay or a call that failed.
pub(crate) const TROUBLE: u8 = 2;
/// The variable that has the key.
const KEY_VARIABLE: &str = "SLUICE_API_KEY";
/// The exit codes, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  every trace was replayed, and no condition holds
  1  a condition of --fail-if holds for a replay
  2  wrong usage, no gateway, or a replay or one of its calls failed";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ReplayCommand {
    /// The traces to replay
    #[arg(value_name = "TRACE", required_unless_present = "suite")]
    traces: Vec<String>,
    /// A file of traces to replay: one a line, with a name behind it if wanted; `#` begins a remark
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
    /// Write a report for continuous integration, in the format of `JUnit`
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Address of the gateway [default: `public_url`, else `listen` of the configuration]
    #[arg(long)]
    url: Option<String>,
}

/// Replays the traces one after the other. Fails if the gateway cannot be asked.
pub(crate) async fn run(command: &ReplayCommand, config: &Config) -> Result<ExitCode, Failure> {
    let entries = suite::entries(&command.traces, command.suite.as_deref())?;
    let url = command.url.clone().unwrap_or_else(|| own_url(config));
    let key = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Failure(format!("the key is missing: set {KEY_VARIABLE}")))?;
    let client = ApiClient::new(open::client(config)?, &url, Secret::new(key));
    let mut gateway = Remote::new(client, url);
    let overrides = command.overrides();
    let mut cases = Vec::new();
    let mut stopped = Ok(());
    for (index, entry) in entries.iter().enumerate() {
        let job = gateway.replay(entry, &overrides, (index + 1, entries.len())).await;
        let found = match job {
            Ok(job) => command.cases(entry, &job),
            Err(failure) => {
                let case = Case::without_figures(entry.to_string(), failure.to_string());
                stopped = Err(failure);
                vec![case]
            }
        };
        found.iter().try_for_each(print)?;
        cases.extend(found);
        if stopped.is_err() {
            break;
        }
    }
    // The report also shows how far a suite came that was broken off.
    if let Some(path) = &command.junit {
        std::fs::write(path, junit::report(&cases))
            .map_err(|error| Failure(format!("{} cannot be written: {error}", path.display())))?;
    }
    stopped.map(|()| conclude(&cases))
}

/// Reports how many have failed, and returns the exit code.
fn conclude(cases: &[Case]) -> ExitCode {
    let failed = cases.iter().filter(|case| !case.is_fine()).count();
    if failed == 0 {
        return ExitCode::SUCCESS;
    }
    complain(&Failure(format!("{failed} of {} replays failed", cases.len())));
    if cases.iter().any(|case| !case.errors.is_empty()) {
        return ExitCode::from(TROUBLE);
    }
    ExitCode::FAILURE
}

fn print(case: &Case) -> Result<(), Failure> {
    let word = if case.is_fine() { "ok  " } else { "FAIL" };
    say(&format!("{word} {}: {}", case.name, case.figures))?;
    let reasons = case.errors.iter().chain(&case.failures);
    reasons.map(|reason| format!("     {reason}")).try_for_each(|line| say(&line))
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
            let mut case = Case::without_figures(entry.to_string(), error.to_owned());
            if let Some(done) = all.first() {
                case.figures = done.to_string();
            }
            return vec![case];
        }
        let conditions = |figures: &Figures| {
            let failures = self.fail_if.iter().filter_map(|condition| condition.failure(figures));
            failures.collect()
        };
        let case = |figures: &Figures| Case {
            name: match &figures.model {
                Some(model) => format!("{entry} on {model}"),
                None => entry.to_string(),
            },
            figures: figures.to_string(),
            failures: conditions(figures),
            // A call that failed was not measured.
            errors: figures.errors.clone(),
            seconds: figures.seconds,
        };
        all.iter().map(case).collect()
    }
}
