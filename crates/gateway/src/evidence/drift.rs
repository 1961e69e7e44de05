//! Bias drift: whether the answers of a model have changed since the period before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::ids::ProjectId;
use grading::{DriftReport, Profile};
use store::{ANSWER_BINS, AlikeAnswers};

use crate::bounded_read::{bounded, or_none};
use crate::error::Result;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The latest steps of each period that are looked at.
const MOST_STEPS: i64 = 20_000;

/// The hours of a week.
const WEEK_HOURS: i64 = 168;
impl Gateway {
    /// How the answers of the models of a project that is a member's to see have changed in the last seven days
    /// since the seven before. They are compared once a minute at the most.
    pub async fn weekly_drift_for_member(
        &self,
        member: &Member,
        project: ProjectId,
    ) -> Result<Arc<Vec<DriftReport>>> {
        let project = self.visible_project(member, project)?;
        let id = project.id();
        if let Some(kept) = self.weekly_drift.get(id, self.clock.now()) {
            return Ok(kept);
        }
        let _place = self.search_place(&project).await?;
        // Another visitor may have waited for it before.
        let now = self.clock.now();
        if let Some(kept) = self.weekly_drift.get(id, now) {
            return Ok(kept);
        }
        let compared = self.compared_answers(id, &Period::last(WEEK_HOURS, now)).await;
        let is_read = compared.is_ok();
        let reports = Arc::new(or_none(compared, "the drift of models is left out of the page")?);
        if is_read {
            self.weekly_drift.keep(id, now, reports.clone());
        }
        Ok(reports)
    }

    /// Compares the answers of each model in a period with those in the one of the same length before
    /// it. Models with too few of them are left out.
    pub(super) async fn bias_drift(
        &self,
        project: ProjectId,
        period: &Period,
    ) -> Result<Vec<DriftReport>> {
        let reports = self.compared_answers(project, period).await;
        or_none(reports, "the drift of models is left out of statistics")
    }

    async fn compared_answers(
        &self,
        project: ProjectId,
        period: &Period,
    ) -> Result<Vec<DriftReport>> {
        let (start, end) = (period.start, period.end);
        let earlier = start.minus_micros(end.since(start));
        let (before, after) = tokio::try_join!(
            bounded(self.store.answers(project, earlier, start, MOST_STEPS)),
            bounded(self.store.answers(project, start, end, MOST_STEPS)),
        )?;
        Ok(reports(&before, &after))
    }
}

fn reports(before: &[AlikeAnswers], after: &[AlikeAnswers]) -> Vec<DriftReport> {
    let both = before.iter().chain(after);
    let languages: BTreeSet<&str> = both.map(|answers| &*answers.language).collect();
    let languages: Vec<&str> = languages.into_iter().collect();
    let (before, after) = (profiles(before, &languages), profiles(after, &languages));
    let report = |(model, after)| grading::drift(model, before.get(model)?, after);
    after.iter().map(|(model, after)| (*model, after)).filter_map(report).collect()
}

/// The profile of each model.
fn profiles<'a>(all: &'a [AlikeAnswers], languages: &[&str]) -> BTreeMap<&'a str, Profile> {
    let empty = || Profile {
        output_length: vec![0; ANSWER_BINS],
        latency: vec![0; ANSWER_BINS],
        language: vec![0; languages.len()],
        ..Profile::default()
    };
    let mut profiles = BTreeMap::new();
    for alike in all {
        let answers = alike.answers.max(0).unsigned_abs();
        let profile: &mut Profile = profiles.entry(&*alike.model).or_insert_with(empty);
        profile.samples += answers;
        profile.refusals += if alike.refuses { answers } else { 0 };
        let add = |bins: &mut [u64], bin: Option<usize>| {
            if let Some(count) = bin.and_then(|bin| bins.get_mut(bin)) {
                *count += answers;
            }
        };
        add(&mut profile.output_length, usize::try_from(alike.length).ok());
        add(&mut profile.latency, usize::try_from(alike.latency).ok());
        add(&mut profile.language, languages.binary_search(&&*alike.language).ok());
    }
    profiles
}

#[cfg(test)]
mod tests {
    use domain::step::{AnswerShape, Step};
    use domain::time::{HOUR, MINUTE};
    use serde_json::json;

    use super::*;
    use crate::testing::Fresh;

    /// Records answers to calls that ended some hours ago.
    async fn answered(
        fresh: &Fresh,
        like: &Step,
        hours: i64,
        each: &[(u64, i64, &'static str, bool)],
    ) {
        let (gateway, now) = (&fresh.gateway, fresh.gateway.clock.now());
        for &(characters, seconds, language, refuses) in each {
            let mut step = like.clone();
            step.id = gateway.store.step_id().await.unwrap();
            step.finished_at = now.minus_micros(hours * HOUR + MINUTE);
            step.started_at = step.finished_at.minus_micros(seconds * 1_000_000);
            let answer = AnswerShape { characters, language: language.into(), refuses };
            step.call.as_mut().unwrap().answer = Some(answer);
            gateway.store.writer().step(step, None).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_model_that_answers_otherwise_is_reported() {
        let fresh = Fresh::with(json!({})).await;
        let trace = fresh.trace().await;
        let mut flight = fresh.in_flight(&trace).await;
        flight.outcome.text = "The house is green.".to_owned();
        flight.finish().await.unwrap();
        let like = fresh.steps(&trace).await.remove(0);
        let noted = like.call.as_ref().unwrap().answer.as_ref().map(|answer| answer.characters);
        assert_eq!(noted, Some(19), "it is noted when it is recorded");
        let reports = async || {
            let now = fresh.gateway.clock.now();
            let period = Period::read(Some("24"), None, None, now).unwrap();
            fresh.gateway.bias_drift(fresh.caller.project.id(), &period).await.unwrap()
        };
        let steady = vec![(100, 1, "en", false); 60];
        answered(&fresh, &like, 30, &steady).await;
        assert_eq!(reports().await, [], "there is nothing to compare with");
        answered(&fresh, &like, 2, &steady).await;
        let found = reports().await;
        let [report] = found.as_slice() else { panic!("{found:?}") };
        // The call that all are like counts too.
        assert_eq!((report.samples, report.baseline_samples), (61, 60));
        assert!(!report.flagged, "{report:?}");
        answered(&fresh, &like, 1, &[(4_000, 1, "en", false); 60]).await;
        let longer = reports().await.remove(0);
        assert!(longer.flagged && longer.output_length > 0.2, "{longer:?}");
        assert!(
            longer.latency < 0.2 && longer.language < 0.2 && longer.refusal_rate < 0.2,
            "{longer:?}"
        );
        answered(&fresh, &like, 1, &[(100, 20, "fr", true); 60]).await;
        let all = reports().await.remove(0);
        assert!(all.latency > 0.2 && all.language > 0.2 && all.refusal_rate > 0.2, "{all:?}");
    }
}
