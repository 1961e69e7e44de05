//! `sluice replay`: replays traces on a gateway that runs, and fails under conditions. A file of traces is a
//! regression test for a change of model or prompt.

mod condition;
mod figures;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use domain::secret::Secret;
use providers::ApiClient;
use serde_json::{Map, Value, json};

use super::Failure;
use super::job::junit::Case;
use super::job::remote::{JobRequest, Remote};
use super::job::{Report, conclude, print};
use crate::commands::agent_setup::own_url;
use crate::config::Config;
use crate::open;
use condition::Condition;
use figures::Figures;
use suite::Entry;

/// The path of replays.
const PATH: &str = "/api/v1/replay";
/// For how long a replay may wait and run, in seconds.
const TIMEOUT: u64 = 3600;
/// The variable that has the key.
const KEY_VARIABLE: &str = "SLUICE_API_KEY";
/// The exit codes, for the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  every trace was replayed, and no condition holds
  1  a condition of --fail-if holds for a replay, whatever else failed
  2  wrong usage, no gateway, or a replay or one of its calls failed, and no condition holds";

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
    #[arg(long, value_name = "USD", value_parser = amount)]
    max_cost: Option<f64>,
    /// The user that the calls are for, where the project requires one or counts by it
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The session that the calls belong to
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Tags of the calls: NAME=VALUE,NAME=VALUE
    #[arg(long, value_name = "TAGS")]
    tags: Option<String>,
    /// Fail if this holds: cost>+10%, latency>+20%, similarity<0.8, skipped>0, blocked>0. A call without
    /// an answer that can be compared is not similar
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
    /// Write a report for continuous integration, in the format of `JUnit`
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// For how long a replay may wait and run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
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
    let mut client = ApiClient::new(open::client(config)?, &url, Secret::new(key));
    for (name, value) in command.attributes() {
        let with_it = client.with_header(name, value);
        client = with_it.map_err(|_| Failure(format!("{name} cannot be '{value}'")))?;
    }
    let mut gateway = Remote::new(client, url, Duration::from_secs(command.timeout));
    // A result that cannot be reported is not paid for.
    let report = command.junit.as_deref().map(Report::open).transpose()?;
    let ask = |entry: &Entry, index: usize| JobRequest {
        kind: "replay",
        path: PATH,
        body: command.body(entry),
        parts: format!("calls, replay {} of {}", index + 1, entries.len()),
    };
    let mut cases = Vec::new();
    let (mut stopped, mut printed) = (Ok(()), Ok(()));
    for (index, entry) in entries.iter().enumerate() {
        let job = gateway.job(&ask(entry, index)).await;
        let found = match job {
            Ok(job) => command.cases(entry, &job),
            Err(failure) => {
                let case = Case::without_figures(entry.to_string(), failure.to_string());
                stopped = Err(failure);
                vec![case]
            }
        };
        // The report and the exit code count also if nobody reads the output.
        printed = printed.and_then(|()| found.iter().try_for_each(print));
        cases.extend(found);
        if stopped.is_err() {
            break;
        }
    }
    // The report also shows how far a suite came that was broken off.
    let written = report.map_or(Ok(()), |report| report.write("replay", &cases));
    conclude("replays", &cases, [stopped, written, printed])
}

/// Reads an amount. One that is no number would be no limit.
fn amount(text: &str) -> Result<f64, String> {
    let amount: Option<f64> = text.parse().ok();
    amount
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "it is not an amount in USD, from 0 on".to_owned())
}

impl ReplayCommand {
    /// The headers that name whom the calls are for.
    fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("x-sluice-user", &self.user),
            ("x-sluice-session", &self.session),
            ("x-sluice-tags", &self.tags),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The request for the replay of a trace.
    fn body(&self, entry: &Entry) -> Value {
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
        set("trace_id", entry.trace.as_str().into());
        overrides.into()
    }

    /// The cases of a job that is over, or of the error that there is instead: one for each model.
    fn cases(&self, entry: &Entry, job: &Value) -> Vec<Case> {
        let all = Figures::of_job(job);
        let error = match job["error"].as_str() {
            None if all.is_empty() => Some("the gateway has sent no comparison"),
            None if job["status"] == "failed" => Some("the replay has failed"),
            error => error,
        };
        if let Some(error) = error {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_figures_is_trouble() {
        let command = ReplayCommand {
            traces: vec!["t-1".to_owned()],
            suite: None,
            model: None,
            compare: Vec::new(),
            force_models: Vec::new(),
            max_cost: None,
            user: None,
            session: None,
            tags: None,
            fail_if: Vec::new(),
            junit: None,
            timeout: TIMEOUT,
            url: None,
        };
        let entry = suite::entries(&command.traces, None).unwrap().remove(0);
        let is_fine = |job: Value| {
            let cases = command.cases(&entry, &job);
            assert_eq!(cases.len(), 1, "{job}");
            cases.iter().all(Case::is_fine)
        };
        let replay = json!({"replay": {"steps": []}});
        assert!(is_fine(json!({"status": "completed", "comparison": replay})));
        for job in [
            json!({"status": "completed"}),
            json!({"status": "completed", "comparison": null}),
            json!({"status": "completed", "comparison": {"source": {}, "replay": null}}),
            json!({"status": "completed", "comparison": {"source": {}, "replays": []}}),
            json!({"status": "failed", "error": null, "comparison": replay}),
        ] {
            assert!(!is_fine(job.clone()), "{job}");
        }
    }

    #[test]
    fn an_amount_is_a_number() {
        assert_eq!(amount("0.25"), Ok(0.25));
        for text in ["nan", "inf", "-0.1", "1 USD", ""] {
            assert!(amount(text).is_err(), "{text}");
        }
    }
}
