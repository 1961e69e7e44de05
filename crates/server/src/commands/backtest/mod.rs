//! `sluice backtest`: judges the recorded requests of a project by draft settings on a gateway that runs,
//! and fails under conditions. A file of settings is tested like any other change.

mod condition;
mod figures;

use std::env::VarError;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use domain::moment::Moment;
use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use providers::{ApiClient, Client, SignIn};
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

/// For how long a backtest may wait and run, in seconds.
const TIMEOUT: u64 = 3600;
/// The most bytes of a file of settings.
const MOST_BYTES: u64 = 1024 * 1024;
/// The variables that have the credentials.
const TOKEN_VARIABLE: &str = "SLUICE_TOKEN";
const EMAIL_VARIABLE: &str = "SLUICE_USER_EMAIL";
const PASSWORD_VARIABLE: &str = "SLUICE_USER_PASSWORD";
/// What the help says beside the arguments.
const MORE_HELP: &str = "\
Credentials:
  SLUICE_TOKEN  a service token with the role admin
  SLUICE_USER_EMAIL, SLUICE_USER_PASSWORD
                without a token: an admin or owner, who must have no second factor

Exit codes:
  0  the requests were judged, but for single ones, and no condition holds
  1  a condition of --fail-if holds, whatever else failed
  2  wrong usage, no gateway, a draft that is refused, a backtest that failed, none of the requests judged, or
     more of them than are read, and no condition holds";

#[derive(Args)]
#[command(after_help = MORE_HELP)]
pub(crate) struct BacktestCommand {
    /// The project whose requests are judged
    #[arg(long, value_name = "ID")]
    project: i64,
    /// A file with the draft: the settings that are merged over those of the project, as JSON
    #[arg(long, value_name = "FILE")]
    settings: PathBuf,
    /// The begin of the window: a date, a time, or an age such as 7d, 12h or 90m
    #[arg(long, value_name = "WHEN", default_value = "7d", value_parser = moment)]
    since: Moment,
    /// The end of the window, likewise [default: now]
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<Moment>,
    /// Fail if this holds: blocked>1%, passed>0, moved>5%, refused>0, cost>+10%, savings<5, unjudged>10%.
    /// A number without % counts requests; of savings it is USD
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    fail_if: Vec<Condition>,
    /// Write a report for continuous integration, in the format of `JUnit`
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the whole report as JSON
    #[arg(long)]
    json: bool,
    /// For how long a backtest may wait and run, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Address of the gateway [default: `public_url`, else `listen` of the configuration]
    #[arg(long)]
    url: Option<String>,
}

/// Reads a time of the command line. The error names the fault.
fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| format!("it must be {}", Moment::FORMS))
}

/// Has a gateway judge the requests. Fails if it cannot be asked.
pub(crate) async fn run(command: &BacktestCommand, config: &Config) -> Result<ExitCode, Failure> {
    let settings = read_settings(&command.settings)?;
    let url = command.url.clone().unwrap_or_else(|| own_url(config));
    let credentials = Credentials::of_environment()?;
    let report = command.junit.as_deref().map(Report::open).transpose()?;
    let has_session = matches!(credentials, Credentials::User { .. });
    let client = credentials.client(open::client(config)?, &url).await?;
    let path = format!("/api/v1/projects/{}/backtests", command.project);
    let request = JobRequest {
        kind: "backtest",
        path: &path,
        body: command.body(settings, Clock::system().now()),
        parts: "steps".to_owned(),
    };
    let mut gateway = Remote::new(client, url, Duration::from_secs(command.timeout));
    let job = gateway.job(&request).await;
    if has_session {
        gateway.sign_out().await;
    }
    let (case, stopped) = match job {
        Ok(job) => (command.case(&job), Ok(job)),
        Err(failure) => (Case::without_figures(command.name(), failure.to_string()), Err(failure)),
    };
    let printed = match &stopped {
        Ok(job) if command.json => super::say(&format!("{job:#}")),
        _ => print(&case),
    };
    let cases = [case];
    let written = report.map_or(Ok(()), |report| report.write("backtest", &cases));
    conclude("backtests", &cases, [stopped.map(drop), written, printed])
}

/// The credentials by which a gateway knows the caller.
enum Credentials {
    Token(Secret),
    User { email: String, password: Secret },
}

impl Credentials {
    fn of_environment() -> Result<Self, Failure> {
        if let Some(token) = variable(TOKEN_VARIABLE)? {
            // The value is not shown: it may be a token with a newline behind it.
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                let what = "it has a blank, a newline or another character that no token has";
                return Err(Failure(format!("{TOKEN_VARIABLE} is no token: {what}")));
            }
            return Ok(Self::Token(Secret::new(token)));
        }
        match (variable(EMAIL_VARIABLE)?, variable(PASSWORD_VARIABLE)?) {
            (Some(email), Some(password)) => {
                Ok(Self::User { email, password: Secret::new(password) })
            }
            _ => Err(Failure(format!(
                "the credentials of an admin are missing: set {TOKEN_VARIABLE} to a service token, or \
                 set {EMAIL_VARIABLE} and {PASSWORD_VARIABLE}"
            ))),
        }
    }

    /// What sends requests with them. A user is signed in first.
    async fn client(self, client: Client, url: &str) -> Result<ApiClient, Failure> {
        let (email, password) = match self {
            Self::Token(token) => return Ok(ApiClient::new(client, url, token)),
            Self::User { email, password } => (email, password),
        };
        let signed_in = ApiClient::sign_in(client, url, &email, &password).await;
        match signed_in.map_err(|error| Failure(format!("{url}: {error}")))? {
            SignIn::Complete(client) => Ok(client),
            SignIn::AwaitsFactor => Err(Failure(format!(
                "{email} has a second factor, which a command cannot give: set {TOKEN_VARIABLE} to a \
                 service token with the role admin instead"
            ))),
            SignIn::Refused(answer) => {
                let error = answer.body["error"].as_str().unwrap_or("no error is named");
                let status = answer.status;
                let advice = match status {
                    401 | 403 => format!(
                        ". Where the organization has switched passwords off, set {TOKEN_VARIABLE} to a \
                         service token with the role admin"
                    ),
                    _ => String::new(),
                };
                Err(Failure(format!(
                    "the gateway refused to sign {email} in ({status}): {error}{advice}"
                )))
            }
        }
    }
}

/// A variable of the environment, if it is set and has a value.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure(format!("{name} is not valid UTF-8"))),
    }
}

fn read_settings(path: &Path) -> Result<Map<String, Value>, Failure> {
    let fault = |what: &dyn Display| Failure(format!("{}: {what}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| fault(&error))?.len();
    if size > MOST_BYTES {
        return Err(fault(&"it is larger than 1 MiB"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    serde_json::from_str(&text).map_err(|error| fault(&format!("it is no JSON object: {error}")))
}

impl BacktestCommand {
    fn name(&self) -> String {
        format!("{} on project {}", self.settings.display(), self.project)
    }

    /// The request.
    fn body(&self, settings: Map<String, Value>, now: Timestamp) -> Value {
        let mut body = json!({"settings": settings, "from": self.since.seen_from(now).exact()});
        if let Some(until) = &self.until {
            body["to"] = json!(until.seen_from(now).exact());
        }
        body
    }

    /// The case of a job that is over, or of the error that there is instead.
    fn case(&self, job: &Value) -> Case {
        let Some(figures) = Figures::of_job(job) else {
            let error = job["error"].as_str().unwrap_or("the gateway has sent no report");
            return Case::without_figures(self.name(), error.to_owned());
        };
        let failures = self.fail_if.iter().filter_map(|condition| condition.failure(&figures));
        Case {
            name: self.name(),
            figures: figures.to_string(),
            failures: failures.collect(),
            errors: figures.fault().into_iter().collect(),
            seconds: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> BacktestCommand {
        BacktestCommand {
            project: 1,
            settings: PathBuf::from("draft.json"),
            since: Moment::Ago(7),
            until: None,
            fail_if: Vec::new(),
            junit: None,
            json: false,
            timeout: TIMEOUT,
            url: None,
        }
    }

    #[test]
    fn the_window_is_asked_for_to_the_microsecond() {
        let at = |text| Moment::At(Timestamp::parse(text).unwrap());
        let (since, until) = ("2026-11-21T12:00:00.000001Z", "2026-11-21T13:00:00.123456Z");
        let command = BacktestCommand { since: at(since), until: Some(at(until)), ..command() };
        let body = command.body(Map::new(), Timestamp::default());
        assert_eq!(body, json!({"settings": {}, "from": since, "to": until}));
    }

    #[test]
    fn a_window_that_is_not_judged_is_trouble() {
        let case = |steps: Value| {
            let report = json!({"steps": steps, "ignored_settings": ["model_aliases", "mcp"]});
            command().case(&json!({"status": "completed", "report": report}))
        };
        for (steps, fault) in [
            (json!({"judged": 5, "without_content": 2, "unreadable": 1}), None),
            (json!({"judged": 0}), None),
            (
                json!({"judged": 0, "without_content": 2, "unreadable": 1}),
                Some("none of 3 requests could be judged"),
            ),
            (
                json!({"judged": 5, "truncated": true}),
                Some("the window has more steps than are read: later requests were not judged"),
            ),
        ] {
            let case = case(steps);
            assert_eq!(case.errors.first().map(String::as_str), fault);
            assert!(case.figures.ends_with(", ignored: model_aliases, mcp"), "{}", case.figures);
        }
        let some = case(json!({"judged": 5, "without_content": 2, "unreadable": 1}));
        assert!(some.figures.contains(", 3 not judged"), "{}", some.figures);
    }

    #[test]
    fn a_job_without_a_report_is_trouble() {
        let command = command();
        assert!(command.case(&json!({"status": "completed", "report": {"steps": {}}})).is_fine());
        for job in [
            json!({"status": "completed"}),
            json!({"status": "failed", "error": "No."}),
            json!({"error": "settings.limits must be an object"}),
        ] {
            assert!(!command.case(&job).is_fine(), "{job}");
        }
    }
}
