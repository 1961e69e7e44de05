//! Insights: advice to the members of a project, computed from its records by the rules of `grading`.

use std::ops::Range;
use std::time::Duration;

use domain::ids::{InsightId, ProjectId};
use domain::insight::{Insight, InsightStatus};
use domain::model::Model;
use domain::money::Usd;
use domain::tier::Tier;
use domain::time::{DAY, MINUTE, Timestamp};
use grading::{Calls, CandidateModel, Findings, Observed};
use serde_json::{Map, Value};
use store::{IntentUsage, ModelLatencies};

use crate::audit::Event;
use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The period whose calls are read, by intent.
const WINDOW: i64 = 30 * DAY;
/// The most steps of it that are read, the latest: more would keep a connection from others for too long.
const MOST_STEPS: i64 = 50_000;
/// The requests of a week are counted, since the calls of a sample depend on the hours that it has.
const WEEK: i64 = 7 * DAY / MINUTE;
/// The time whose latencies are compared with those of the week before it.
const LATENCY_WINDOW: i64 = DAY;
/// The rows of the ledger that are read at once.
const PAGE_ROWS: i64 = 20_000;
/// How often they are read for each of both, the latest ones first. A project with more has a sample.
const MOST_PAGES: usize = 20;
/// How long a request waits until the insights of other projects are computed.
const MAX_WAIT: Duration = Duration::from_secs(5);

impl Gateway {
    /// The active insights of a project, oldest first.
    pub async fn list_insights(&self, member: &Member, project: ProjectId) -> Result<Vec<Insight>> {
        let project = self.visible_project(member, project)?;
        self.active_insights(project.id()).await
    }

    /// Computes the insights of a project anew. Returns those that are active then.
    pub async fn refresh_insights(
        &self,
        member: &Member,
        project: ProjectId,
    ) -> Result<Vec<Insight>> {
        let project = self.visible_project(member, project)?;
        if !member.role.may_manage_insights() {
            return Err(Error::Forbidden);
        }
        let turn = tokio::time::timeout(MAX_WAIT, self.insight_runs.acquire());
        let Ok(Ok(turn)) = turn.await else {
            return Err(Error::Busy {
                why: "The insights of other projects are being computed",
                retry_after: MAX_WAIT.as_secs(),
            });
        };
        self.compute_insights(&project).await?;
        drop(turn);
        self.active_insights(project.id()).await
    }

    /// Takes an insight off the list until its facts change by a quarter, or until it is over and its rule holds
    /// again. To dismiss it again changes nothing.
    pub async fn dismiss_insight(
        &self,
        member: &Member,
        project: ProjectId,
        insight: InsightId,
    ) -> Result<Insight> {
        let project = self.visible_project(member, project)?;
        if !member.role.may_manage_insights() {
            return Err(Error::Forbidden);
        }
        let mut tx = self.store.begin().await?;
        let found = tx.insight(project.id(), insight).await?;
        let mut insight = found.ok_or(Error::NotFound)?;
        let was = insight.status;
        if was == InsightStatus::Dismissed {
            return Ok(insight);
        }
        insight.status = InsightStatus::Dismissed;
        if !tx.save_insight(&insight, was).await? {
            return Err(Error::Unavailable("the insight has just changed".to_owned()));
        }
        let target = ("insight", insight.id.to_string());
        let metadata = Map::from_iter([
            ("project_id".to_owned(), Value::from(project.id().0)),
            ("insight_type".to_owned(), insight.facts.kind.as_str().into()),
            ("data".to_owned(), insight.facts.data.clone().into()),
        ]);
        self.note_act(&mut tx, member, Event::InsightDismissed, target, metadata).await?;
        tx.commit().await?;
        Ok(insight)
    }

    async fn active_insights(&self, project: ProjectId) -> Result<Vec<Insight>> {
        let mut all = bounded(self.store.insights(project)).await?;
        all.retain(|insight| insight.status == InsightStatus::Active);
        Ok(all)
    }

    /// Applies the rules to the records of a project, and writes the insights that change. Its caller has a turn
    /// of `insight_runs`.
    pub(crate) async fn compute_insights(&self, project: &ProjectState) -> Result<()> {
        let (id, now) = (project.id(), self.clock.now());
        let Some((since, observed)) = self.observed(id, now).await? else { return Ok(()) };
        let recent = bounded(self.store.recent_usage(id, since, MOST_STEPS)).await?;
        let calls: Vec<Calls> = recent.iter().filter_map(calls).collect();
        let candidates = candidate_models(project, &recent);
        let mut found = grading::intent_patterns(&calls, observed);
        found.raised.extend(grading::migration_alerts(&calls, &candidates, observed));
        found.extend(self.latency_alerts(project, now).await?);
        let stored = bounded(self.store.insights(id)).await?;
        let changes = grading::insight_changes(stored, found, now);
        if changes == grading::InsightChanges::default() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        for facts in &changes.new {
            tx.add_insight(id, facts, now).await?;
        }
        for (insight, was) in &changes.changed {
            // One that a person dismisses meanwhile stays dismissed.
            tx.save_insight(insight, *was).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn latency_alerts(&self, project: &ProjectState, now: Timestamp) -> Result<Findings> {
        let (id, end) = (project.id(), now.minute() + 1);
        let middle = end - LATENCY_WINDOW / MINUTE;
        let begin = middle - WEEK;
        let mut day = self.latencies_by_pages(id, middle..end, PAGE_ROWS).await?;
        let week = self.latencies_by_pages(id, begin..middle, PAGE_ROWS).await?;
        day.by_model.retain(|model, _| project.models.contains_key(model));
        let mut found = grading::latency_alerts(&day.by_model, &week.by_model);
        let is_whole = |read: &ModelLatencies, from| read.from_minute <= from && !read.is_cut;
        let is_sampled = !is_whole(&day, middle) || !is_whole(&week, begin);
        let hours = |minutes: i64| (minutes as f64 / 6.0).round() / 10.0;
        for facts in found.raised.iter_mut().chain(&mut found.below) {
            let data = &mut facts.data;
            data.insert("sampled".to_owned(), is_sampled.into());
            data.insert("observed_hours_24h".to_owned(), hours(end - day.from_minute).into());
            data.insert("observed_hours_7d".to_owned(), hours(middle - week.from_minute).into());
        }
        Ok(found)
    }

    /// The latencies of each model in some minutes, by pages of so many rows of the ledger: of the latest minutes, if
    /// there are too many rows.
    async fn latencies_by_pages(
        &self,
        project: ProjectId,
        minutes: Range<i64>,
        rows: i64,
    ) -> Result<ModelLatencies> {
        let mut all = ModelLatencies::before(minutes.end);
        for _ in 0..MOST_PAGES {
            if all.from_minute <= minutes.start {
                break;
            }
            let page = self.store.latencies_by_model(project, minutes.start, all.from_minute, rows);
            all.extend(bounded(page).await?);
        }
        Ok(all)
    }

    /// Since when steps are looked at, and the time for which their calls stand. It begins with the first step
    /// that is looked at, since only the calls among them are. `None` if a sample is of times to come: the clock
    /// has gone back, and nothing can be told from it.
    async fn observed(
        &self,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<Option<(Timestamp, Observed)>> {
        let since = now.minus_micros(WINDOW);
        let (steps, first) = bounded(self.store.recent_extent(project, since, MOST_STEPS)).await?;
        let looked_at = first.map_or(0, |first| now.since(first));
        if steps < MOST_STEPS {
            // For when the calls become a sample: the requests of both times can be compared then.
            let requests = if steps > 0 { self.requests_7d(project, now).await? } else { None };
            return Ok(Some((since, Observed::all(looked_at, requests))));
        }
        if first.is_some_and(|first| first > now) {
            return Ok(None);
        }
        let first = bounded(self.store.first_end(project, since)).await?;
        let known = first.map_or(looked_at, |first| now.since(first));
        let observed = Observed::sample(known, looked_at, self.requests_7d(project, now).await?);
        Ok(Some((now.minus_micros(looked_at), observed)))
    }

    /// The requests of a project in the last 7 days. `None` if there were none in the week before: in the first
    /// week their number grows by the clock.
    async fn requests_7d(&self, project: ProjectId, now: Timestamp) -> Result<Option<u64>> {
        let end = now.minute();
        let begin = end - WEEK;
        let before = bounded(self.store.usage_total(project, begin - WEEK, begin)).await?;
        let week = bounded(self.store.usage_total(project, begin, end)).await?;
        Ok(u64::try_from(week.requests).ok().filter(|_| before.requests > 0))
    }
}

/// The calls of a row that classifies; embeddings and images do not.
fn calls(row: &IntentUsage) -> Option<Calls> {
    Some(Calls {
        intent: row.intent?,
        tier: row.tier?,
        model: row.model.clone(),
        steps: row.steps,
        usage: row.usage,
        longest: row.longest,
        cost: row.cost,
    })
}

/// The models with a price, each with the tiers that it may be suggested for.
fn candidate_models(project: &ProjectState, recent: &[IntentUsage]) -> Vec<CandidateModel> {
    let candidate = |model: &Model| {
        let fits = |tier: &&Tier| answers_text(model, recent) && fits(project, model, **tier);
        Some(CandidateModel {
            model: model.identifier.clone(),
            prices: model.prices()?,
            tiers: Tier::ALL.iter().filter(fits).copied().collect(),
            context_window: model.config.context_window,
            is_sandbox: model.is_sandbox(),
        })
    };
    project.models.values().filter_map(|model| candidate(model)).collect()
}

/// Whether a model may be suggested for requests of a tier. Simple ones may be sent to any. For the
/// others only the models that the project chose for them: other models are not known to be capable, and
/// sensitive data goes only to models that were chosen.
fn fits(project: &ProjectState, model: &Model, tier: Tier) -> bool {
    if tier == Tier::Simple {
        let regions = project.settings.allowed_regions.as_deref();
        return !routing::chain(model, |_| None, false, regions).is_empty();
    }
    let chosen = project.candidates(tier).unwrap_or_default();
    chosen.iter().any(|chosen| chosen.id == model.id)
}

/// Whether a model answers with text, as far as is known. A model for embeddings charges for prompts
/// alone, or is recorded with nothing else.
fn answers_text(model: &Model, recent: &[IntentUsage]) -> bool {
    let own = || recent.iter().filter(|row| row.model == model.identifier);
    if own().any(|row| row.intent.is_some()) {
        return true;
    }
    let has_free_answers =
        model.prices().is_some_and(|prices| prices.input > Usd::ZERO && prices.output == Usd::ZERO);
    let is_named_embedding = model.upstream_name().to_ascii_lowercase().contains("embed");
    own().next().is_none()
        && !has_free_answers
        && !is_named_embedding
        && model.config.image_price.is_none()
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;
    use domain::insight::InsightKind;
    use domain::project::Role;
    use domain::step::Step;
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::state::caller::Origin;
    use crate::testing::Fresh;

    /// Records calls at a time, each of which took so many milliseconds. Latencies count when they are recorded.
    async fn called(fresh: &Fresh, like: &Step, at: Timestamp, latency_ms: i64, calls: usize) {
        fresh.gateway.clock.set(at);
        for _ in 0..calls {
            let id = fresh.gateway.store.step_id().await.unwrap();
            let started_at = at.minus_micros(latency_ms * 1_000);
            let step = Step { id, started_at, finished_at: at, ..like.clone() };
            fresh.gateway.store.writer().step(step, None).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_model_that_has_become_slow_since_yesterday_is_reported() {
        let now = Timestamp::parse("2026-11-21T12:00:30Z").unwrap();
        let before = |minutes: i64| now.minus_micros(minutes * MINUTE);
        let fresh = Fresh::at(before(10 * 24 * 60), json!({})).await;
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let like = fresh.steps(&trace).await.remove(0);
        let alerts = async |at: Timestamp| {
            fresh.gateway.clock.set(at);
            let project = &fresh.caller.project;
            fresh.gateway.compute_insights(project).await.unwrap();
            let mut all = fresh.gateway.active_insights(project.id()).await.unwrap();
            all.retain(|insight| insight.facts.kind == InsightKind::LatencyAlert);
            all
        };
        called(&fresh, &like, before(193 * 60), 1_000, 1).await;
        called(&fresh, &like, before(27 * 60), 1_000, 19).await;
        called(&fresh, &like, before(20 * 60), 2_500, 30).await;
        let found = alerts(before(90)).await;
        let [alert] = found.as_slice() else { panic!("{found:?}") };
        let facts = &alert.facts;
        assert_eq!((&*facts.subject, facts.estimated_savings), ("sandbox", Usd::ZERO));
        assert_eq!(facts.data["model"], "sandbox");
        assert_eq!([&facts.data["calls_24h"], &facts.data["calls_7d"]], [&json!(30), &json!(20)]);
        assert_eq!(facts.data["sampled"], false);
        assert_eq!(facts.data["observed_hours_24h"], 24.0);
        assert_eq!(facts.data["observed_hours_7d"], 168.0);
        for (name, expected) in [("p95_24h_ms", 2_500.0), ("p95_7d_ms", 1_000.0), ("factor", 2.5)] {
            let found = facts.data[name].as_f64().unwrap();
            assert!((found / expected - 1.0).abs() < 0.02, "{name}: {found}");
        }
        // The first call is of more than eight days ago now: 19 are too few to compare with.
        assert_eq!(alerts(now).await, []);
    }

    #[tokio::test]
    async fn the_ledger_is_read_in_pages_up_to_a_bound() {
        let now = Timestamp::parse("2026-11-21T12:00:30Z").unwrap();
        let before = |minutes: i64| now.minus_micros(minutes * MINUTE);
        let fresh = Fresh::idle_at(before(100), json!({})).await;
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let like = fresh.steps(&trace).await.remove(0);
        for minute in (0..25).rev() {
            called(&fresh, &like, before(minute), 1_000, 2).await;
        }
        let (from, to) = (before(30).minute(), now.minute() + 1);
        let project = fresh.caller.project.id();
        let read = async |rows| fresh.gateway.latencies_by_pages(project, from..to, rows).await;
        let whole = read(1_000).await.unwrap();
        assert_eq!((whole.by_model["sandbox"].count(), whole.from_minute), (50, from));
        // Two minutes a page are enough for all of them, one is not.
        assert_eq!(read(3).await.unwrap(), whole);
        let latest = read(2).await.unwrap();
        assert_eq!((latest.by_model["sandbox"].count(), latest.from_minute), (40, to - 20));
    }

    #[tokio::test]
    async fn the_requests_of_a_week_are_known_once_there_was_one_before() {
        let now = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let after = |hours: i64| now.minus_micros(-hours * 60 * MINUTE);
        let fresh = Fresh::idle_at(now, json!({})).await;
        let project = fresh.caller.project.id();
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let like = fresh.steps(&trace).await.remove(0);
        let requests = async |at| fresh.gateway.requests_7d(project, at).await.unwrap();
        called(&fresh, &like, after(48), 10, 3).await;
        assert_eq!(requests(after(49)).await, None, "two days");
        called(&fresh, &like, after(192), 10, 2).await;
        assert_eq!(requests(after(193)).await, Some(5));
        assert_eq!(requests(after(220)).await, Some(2), "of the last 7 days");
    }

    #[tokio::test]
    async fn a_viewer_is_refused_before_anything_is_computed() {
        let fresh = Fresh::idle(json!({})).await;
        let (gateway, project) = (&fresh.gateway, &fresh.caller.project);
        let member = |role| Member {
            user: UserId(1),
            email: "owner@localhost".to_owned(),
            token: None,
            session: None,
            org: project.project.org,
            role,
            projects: vec![project.id()],
            signed_in_at: Timestamp(0),
            origin: Origin { address: [127, 0, 0, 1].into(), user_agent: "a test".to_owned() },
        };
        // A member who may compute waits for this turn.
        let _turn = gateway.insight_runs.acquire().await.unwrap();
        let viewer = member(Role::Viewer);
        let refused = gateway.refresh_insights(&viewer, project.id()).now_or_never();
        assert!(matches!(refused, Some(Err(Error::Forbidden))), "{refused:?}");
        let other = member(Role::Member);
        assert!(gateway.refresh_insights(&other, project.id()).now_or_never().is_none());
    }
}
