//! The gateway that does a job: one request after the other, at a pace that its limits allow.

use std::time::Duration;

use providers::{ApiAnswer, ApiClient, ApiError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::progress::Progress;
use crate::commands::Failure;

/// The pause between two looks at a job: short at first, then such that the looks of an hour stay below
/// the 1,000 requests that a key has.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const LATER_POLL_INTERVAL: Duration = Duration::from_secs(5);
const EARLY_POLLS: usize = 20;
/// The least time between two requests: a key that sends more than 50 in ten seconds is paused.
const REQUEST_INTERVAL: Duration = Duration::from_millis(300);
/// For this long a gateway may be away while a job runs: it goes on when that is back.
const AWAY_TIMEOUT: Duration = Duration::from_mins(2);
/// For this long a gateway may ask for patience: the longest window of its limits.
const BUSY_TIMEOUT: Duration = Duration::from_hours(1);

/// A request for a job.
pub(crate) struct JobRequest<'a> {
    /// The word for the job.
    pub(crate) kind: &'a str,
    /// The path that it is asked for at; below it the job is found by its id.
    pub(crate) path: &'a str,
    pub(crate) body: Value,
    /// The words for its parts, behind their number.
    pub(crate) parts: String,
}

/// The gateway that is asked.
pub(crate) struct Remote {
    client: ApiClient,
    url: String,
    /// For how long a job may wait and run.
    timeout: Duration,
    last: Option<Instant>,
    progress: Progress,
}

impl Remote {
    pub(crate) fn new(client: ApiClient, url: String, timeout: Duration) -> Self {
        Self { client, url, timeout, last: None, progress: Progress::new() }
    }

    /// Starts the job that a request asks for, and returns it when it is over; or the error of a request
    /// that is refused.
    pub(crate) async fn job(&mut self, job: &JobRequest<'_>) -> Result<Value, Failure> {
        self.progress.show(0, 0, &job.parts);
        let over = self.finished(job).await;
        self.progress.clear();
        over
    }

    /// Ends the session of a signed-in user. One that cannot be ended goes when it is idle.
    pub(crate) async fn sign_out(self) {
        if let Err(error) = self.client.sign_out().await {
            tracing::warn!(%error, "the session was not ended");
        }
    }

    async fn finished(&mut self, job: &JobRequest<'_>) -> Result<Value, Failure> {
        let timeout = self.timeout;
        // The wait for a place counts as well: another job may hold it for as long as it likes.
        match tokio::time::timeout(timeout, self.asked_and_over(job)).await {
            Ok(over) => over,
            Err(_) => {
                let error = format!("the {} is not over after {} s", job.kind, timeout.as_secs());
                Ok(json!({"error": error}))
            }
        }
    }

    async fn asked_and_over(&mut self, job: &JobRequest<'_>) -> Result<Value, Failure> {
        let asked = self.ask(job.path, &job.body).await?;
        match asked.status {
            200 | 202 => self.over(job, asked.body).await,
            400 | 404 | 422 => Ok(json!({"error": message(&asked)})),
            _ => Err(refused(&asked)),
        }
    }

    /// Waits until a job is over.
    async fn over(&mut self, asked: &JobRequest<'_>, mut job: Value) -> Result<Value, Failure> {
        let path = format!("{}/{}", asked.path, job["job_id"].as_str().unwrap_or_default());
        let mut looks = 0;
        while !matches!(job["status"].as_str(), Some("completed" | "failed")) {
            looks += 1;
            let is_early = looks <= EARLY_POLLS;
            tokio::time::sleep(if is_early { POLL_INTERVAL } else { LATER_POLL_INTERVAL }).await;
            job = self.look(&path).await?;
            let part = |name: &str| job["progress"][name].as_u64().unwrap_or(0);
            self.progress.show(part("done"), part("total"), &asked.parts);
        }
        Ok(job)
    }

    /// Asks for a job, as often as the gateway only wants patience.
    async fn ask(&mut self, path: &str, body: &Value) -> Result<ApiAnswer, Failure> {
        let began = Instant::now();
        loop {
            self.pace().await;
            let asked = self.client.post(path, body).await;
            let asked = asked.map_err(|error| self.unanswered(error))?;
            match patience(&asked) {
                Some(pause) if began.elapsed() < BUSY_TIMEOUT => tokio::time::sleep(pause).await,
                _ => return Ok(asked),
            }
        }
    }

    /// Reads a job. A gateway that is away for a moment, or wants patience, is asked again.
    async fn look(&mut self, path: &str) -> Result<Value, Failure> {
        let began = Instant::now();
        loop {
            self.pace().await;
            let pause = match self.client.get(path).await {
                Ok(found) if found.status == 200 => return Ok(found.body),
                Ok(found) => match patience(&found) {
                    Some(pause) if began.elapsed() < BUSY_TIMEOUT => pause,
                    _ => return Err(refused(&found)),
                },
                Err(error) if began.elapsed() > AWAY_TIMEOUT => return Err(self.unanswered(error)),
                Err(_) => POLL_INTERVAL,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Waits until the next request is no sign of a loop.
    async fn pace(&mut self) {
        if let Some(last) = self.last {
            tokio::time::sleep_until(last + REQUEST_INTERVAL).await;
        }
        self.last = Some(Instant::now());
    }

    fn unanswered(&self, error: ApiError) -> Failure {
        Failure(format!("{}: {error}", self.url))
    }
}

/// How long to wait before the same request may be answered otherwise; `None` if waiting does not help.
fn patience(answer: &ApiAnswer) -> Option<Duration> {
    let is_passing = match answer.status {
        // A key that is paused has a code.
        429 => answer.body["code"].is_null(),
        503 => answer.retry_after.is_some(),
        _ => false,
    };
    let pause = answer.retry_after.unwrap_or(POLL_INTERVAL).clamp(POLL_INTERVAL, BUSY_TIMEOUT);
    is_passing.then_some(pause)
}

fn message(answer: &ApiAnswer) -> &str {
    answer.body["error"].as_str().unwrap_or("no error is named")
}

fn refused(answer: &ApiAnswer) -> Failure {
    // A second factor is required of people alone.
    let advice = match answer.body["code"].as_str() {
        Some("MFA_REQUIRED") => "; a service token in SLUICE_TOKEN needs no second factor",
        _ => "",
    };
    Failure(format!("the gateway answered {}: {}{advice}", answer.status, message(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_factor_is_answered_with_the_token() {
        let refused = |body: Value| refused(&ApiAnswer { status: 403, body, retry_after: None });
        let failure = refused(json!({"error": "No.", "code": "MFA_REQUIRED"})).to_string();
        assert!(failure.starts_with("the gateway answered 403: No.; "), "{failure}");
        assert!(failure.contains("SLUICE_TOKEN"), "{failure}");
        let failure = refused(json!({"error": "Forbidden"})).to_string();
        assert_eq!(failure, "the gateway answered 403: Forbidden");
    }

    #[test]
    fn a_request_is_sent_again_if_time_helps() {
        let seconds = |status, body: Value, retry_after| {
            let retry_after = Option::map(retry_after, Duration::from_secs);
            patience(&ApiAnswer { status, body, retry_after }).map(|pause| pause.as_secs())
        };
        assert_eq!(seconds(429, json!({"error": "Rate limit exceeded"}), Some(90)), Some(90));
        assert_eq!(seconds(429, json!({"error": "Rate limit exceeded"}), None), Some(1));
        assert_eq!(seconds(503, json!({"code": "busy"}), Some(60)), Some(60));
        assert_eq!(seconds(503, json!({"code": "project_unreadable"}), None), None);
        for code in ["CIRCUIT_OPEN", "LOOP_DETECTED"] {
            assert_eq!(seconds(429, json!({"code": code}), Some(60)), None);
        }
        assert_eq!(seconds(422, json!({"error": "Unknown model"}), Some(1)), None);
    }
}
