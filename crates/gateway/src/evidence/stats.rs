//! Statistics of a project over a period: money and latency from the ledger, the rest from steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use grading::DriftReport;
use store::{AgentCounts, LedgerRow, SecurityCounts, ToolTimes};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// A chain of tool calls deeper than this counts as a deep loop.
const DEEP_CHAIN: i64 = 5;
/// The shadow steps of a period whose similarities are read, the latest.
const MOST_SHADOW_STEPS: i64 = 50_000;
/// The window if a request names none, in hours.
const DEFAULT_WINDOW: i64 = 24;
/// The longest window, in hours: ten years.
const LONGEST_WINDOW: i64 = 87_660;

/// A stretch of time with a name.
#[derive(Clone, Debug)]
pub struct Period {
    /// For people: `last 24 hours`, `2026-11-01 to 2026-11-21`.
    pub label: String,
    /// Its first moment.
    pub start: Timestamp,
    /// The moment after its last.
    pub end: Timestamp,
    /// Whether it begins later when it is asked for later.
    pub(crate) slides: bool,
}

/// The figures of a project over a period.
#[derive(Debug)]
pub struct Stats {
    /// Which period.
    pub period: Period,
    /// Latency percentiles 50, 95, 99 and the mean, in milliseconds; `None` without calls.
    pub latency: [Option<f64>; 4],
    /// The cost of all calls.
    pub cost: Usd,
    /// By model identifier, dearest first.
    pub by_model: Vec<(String, Usd)>,
    /// By infrastructure label, dearest first.
    pub by_infrastructure: Vec<(String, Usd)>,
    /// The revenue of the traces.
    pub revenue: Usd,
    /// Executed requests, blocked ones included.
    pub total_requests: i64,
    /// Findings by trace.
    pub security: SecurityCounts,
    /// The mean similarity of the answers of shadow calls to those beside them, 0 to 1; `None` without any.
    pub shadow_score: Option<f64>,
    /// Loops that were halted on the project's keys, ever.
    pub loop_interventions: i64,
    /// Agent figures.
    pub agent: AgentCounts,
    /// The times of tools.
    pub tools: ToolTimes,
    /// The share of tools in the time of models and tools, 0 to 1.
    pub tool_share: f64,
    /// How the answers of each model have changed since the period before; models with too few answers
    /// in either are left out.
    pub bias_drift: Vec<DriftReport>,
}

impl Period {
    /// So many hours up to now.
    pub(crate) fn last(hours: i64, now: Timestamp) -> Self {
        let label = format!("last {hours} hours");
        Self { label, start: now.minus_micros(hours * HOUR), end: now, slides: true }
    }

    /// From the beginning of a day up to a moment.
    pub(crate) fn days(start: Timestamp, end: Timestamp) -> Self {
        let day = |at: Timestamp| at.to_string()[..10].to_owned();
        let label = format!("{} to {}", day(start), day(end.minus_micros(1)));
        Self { label, start, end, slides: false }
    }

    /// Its whole hours.
    pub fn hours(&self) -> i64 {
        self.end.since(self.start) / HOUR
    }

    /// The period before, of as many hours.
    #[must_use]
    pub fn before(&self) -> Self {
        let hours = self.hours();
        let label = format!("{hours} hours before");
        Self { start: self.start.minus_micros(hours * HOUR), end: self.start, label, ..*self }
    }

    /// The first minute of the ledger, and that after the last one. Its rows are whole minutes: the first and
    /// the last one count in full.
    pub(super) fn minutes(&self) -> (i64, i64) {
        (self.start.minute(), self.end.minus_micros(1).minute() + 1)
    }

    /// Reads `window` (hours) or a pair of ISO dates, both inclusive. Without either, the last 24
    /// hours.
    pub fn read(
        window: Option<&str>,
        start_date: Option<&str>,
        end_date: Option<&str>,
        now: Timestamp,
    ) -> Result<Self> {
        let malformed = |what: &str| Error::Malformed(what.to_owned());
        if start_date.is_none() && end_date.is_none() {
            let hours = match window {
                None => DEFAULT_WINDOW,
                Some(text) => text
                    .parse()
                    .ok()
                    .filter(|hours| (1..=LONGEST_WINDOW).contains(hours))
                    .ok_or_else(|| {
                        malformed("window must be a whole number of hours, 1 to 87660")
                    })?,
            };
            return Ok(Self::last(hours, now));
        }
        if window.is_some() {
            return Err(malformed("window and start_date/end_date are mutually exclusive"));
        }
        let date = |text: Option<&str>, name: &str| match text {
            None => Ok(None),
            Some(text) => Timestamp::parse_date(text).map(Some).ok_or_else(|| {
                malformed(&format!("{name} must be an ISO date such as 2026-11-21"))
            }),
        };
        let start = date(start_date, "start_date")?;
        let last = date(end_date, "end_date")?;
        let end = last.map_or(now, |last| last.minus_micros(-DAY));
        let start = start.unwrap_or_else(|| end.minus_micros(30 * DAY));
        if start >= end {
            return Err(malformed(match end_date {
                Some(_) => "start_date must not be after end_date",
                None => "start_date must not be in the future",
            }));
        }
        Ok(Self::days(start, end))
    }
}

impl Gateway {
    /// Statistics for a key: its own project.
    pub async fn stats_for_key(
        &self,
        caller: &Caller,
        project: Option<ProjectId>,
        period: Period,
    ) -> Result<Stats> {
        self.stats(project_of_key(caller, project)?, period).await
    }

    /// Statistics for a signed-in user: a project that is theirs to see, or the first of those.
    pub async fn stats_for_member(
        &self,
        member: &Member,
        project: Option<ProjectId>,
        period: Period,
    ) -> Result<Stats> {
        self.stats(&*self.project_of_member(member, project)?, period).await
    }

    /// A project that is a member's to see, or the first of those.
    pub(super) fn project_of_member(
        &self,
        member: &Member,
        project: Option<ProjectId>,
    ) -> Result<Arc<ProjectState>> {
        match project {
            Some(id) => self.visible_project(member, id),
            None => self.visible_projects(member).into_iter().next().ok_or(Error::NotFound),
        }
    }

    /// The time now, for those who have to read a period.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn stats(&self, project: &ProjectState, period: Period) -> Result<Stats> {
        let (id, start, end) = (project.id(), period.start, period.end);
        let minutes = period.minutes();
        debug_assert!(minutes.0 * MINUTE <= start.0);
        let (usage, sketch, security, shadow_score, agent, tools, revenue, bias_drift) = tokio::try_join!(
            crate::bounded_read::bounded(self.store.usage(id, minutes.0, minutes.1)),
            crate::bounded_read::bounded(self.store.latencies(id, minutes.0, minutes.1)),
            crate::bounded_read::bounded(self.store.security_counts(id, start, end)),
            crate::bounded_read::bounded(self.store.shadow_score(
                id,
                start,
                end,
                MOST_SHADOW_STEPS
            )),
            crate::bounded_read::bounded(self.store.agent_counts(id, start, end, DEEP_CHAIN)),
            crate::bounded_read::bounded(self.store.tool_times(id, start, end)),
            crate::bounded_read::bounded(self.store.revenue(id, start, end)),
            self.bias_drift(id, &period),
        )?;
        let calls = sketch.count();
        let thought: i64 = usage.iter().map(|row| row.latency_sum).sum();
        let mean = (calls > 0).then(|| domain::time::millis(thought) / calls as f64);
        let waited = tools.mean.unwrap_or(0.0) * tools.rounds as f64;
        let tool_share = if waited > 0.0 { waited / (waited + thought as f64) } else { 0.0 };
        let keys = self.registry.keys();
        let own = keys.iter().filter(|key| key.key.project == id);
        Ok(Stats {
            period,
            latency: [
                sketch.percentile(50.0),
                sketch.percentile(95.0),
                sketch.percentile(99.0),
                mean,
            ],
            cost: usage.iter().map(|row| row.cost).sum(),
            by_model: grouped(&usage, |row| &row.model),
            by_infrastructure: grouped(&usage, |row| &row.infrastructure),
            revenue,
            total_requests: usage.iter().map(|row| row.requests).sum(),
            security,
            shadow_score,
            loop_interventions: own.map(|key| key.key.loop_interventions).sum(),
            agent,
            tools,
            tool_share,
            bias_drift,
        })
    }
}

/// The project of a key, whose id a request may name.
pub(super) fn project_of_key(
    caller: &Caller,
    project: Option<ProjectId>,
) -> Result<&Arc<ProjectState>> {
    match project {
        Some(id) if id != caller.project.id() => Err(Error::NotFound),
        _ => Ok(&caller.project),
    }
}

fn grouped(rows: &[LedgerRow], by: impl Fn(&LedgerRow) -> &String) -> Vec<(String, Usd)> {
    let mut sums: BTreeMap<&str, Usd> = BTreeMap::new();
    for row in rows.iter().filter(|row| !by(row).is_empty()) {
        *sums.entry(by(row)).or_default() += row.cost;
    }
    let mut sums: Vec<_> = sums.into_iter().map(|(name, cost)| (name.to_owned(), cost)).collect();
    sums.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_before_is_as_long_and_ends_where_this_one_begins() {
        let now = Timestamp::parse("2026-11-21T12:34:56Z").unwrap();
        let period = |window, first, last| Period::read(window, first, last, now).unwrap();
        for (period, start) in [
            (period(Some("24"), None, None), "2026-11-19T12:34:56.000Z"),
            (period(Some("720"), None, None), "2026-09-22T12:34:56.000Z"),
            (period(None, Some("2026-11-01"), Some("2026-11-02")), "2026-10-30T00:00:00.000Z"),
        ] {
            let before = period.before();
            assert_eq!(before.end, period.start, "{}", period.label);
            assert_eq!(before.start.to_string(), start, "{}", period.label);
            assert_eq!(before.hours(), period.hours(), "{}", period.label);
            assert_eq!(before.slides, period.slides, "{}", period.label);
        }
    }

    #[test]
    fn a_window_or_a_pair_of_dates() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let day = Period::read(Some("24"), None, None, now).unwrap();
        assert_eq!(day.start.to_string(), "2026-11-20T12:00:00.000Z");
        let dates = Period::read(None, Some("2026-11-01"), Some("2026-11-02"), now).unwrap();
        assert_eq!(dates.end.to_string(), "2026-11-03T00:00:00.000Z");
        assert_eq!(dates.label, "2026-11-01 to 2026-11-02");
        for (window, start, end) in [
            (Some("24"), Some("2026-11-01"), None),
            (Some("0"), None, None),
            (Some("x"), None, None),
            (None, Some("2026-11-02"), Some("2026-11-01")),
            (None, Some("01.11.2026"), None),
        ] {
            let read = Period::read(window, start, end, now);
            assert!(matches!(read, Err(Error::Malformed(_))), "{window:?} {start:?} {end:?}");
        }
    }
}
