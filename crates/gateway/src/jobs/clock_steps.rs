//! Steps of the machine's clock. Windows and months are counted by it, so a step is logged and
//! counted, and what was spent is counted anew from the database. Time in suspend does not pass for
//! [`Instant`]: waking is a step forward.

use std::time::{Duration, Instant};

use domain::time::{MINUTE, SECOND, Timestamp, micros};

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::Job;

/// A difference from the time that has passed is a step when it is larger, in microseconds.
const STEP: i64 = MINUTE;

/// The clock and the time that has passed, as they were at the last look.
#[derive(Debug)]
pub(super) struct ClockSteps {
    now: Timestamp,
    seen: Instant,
    /// The counts that are due anew until that succeeds: the hours of keys, and the months of
    /// projects.
    hours_due: bool,
    months_due: bool,
}

impl ClockSteps {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, seen: Instant::now(), hours_due: false, months_due: false }
    }

    /// Does what is due, and keeps in mind what fails.
    async fn recount(
        &mut self,
        hours: impl Future<Output = Result<()>>,
        months: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let mut counted = Ok(());
        if self.hours_due {
            counted = hours.await;
            self.hours_due = counted.is_err();
        }
        if self.months_due {
            let months = months.await;
            self.months_due = months.is_err();
            counted = counted.and(months);
        }
        counted
    }
}

impl Job for ClockSteps {
    const NAME: &'static str = "clock";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(1)
    }

    /// Looks at the clock: logs and counts a step since the last look. After a step, and at the
    /// begin of a month, spend is read from the database at once; if that fails, at the next look.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let (now, seen) = (gateway.clock.now(), Instant::now());
        let stepped = step(self.now, now, seen.duration_since(self.seen));
        let is_other_month = now.month_start() != self.now.month_start();
        (self.now, self.seen) = (now, seen);
        if let Some(step) = stepped {
            report(step, now);
        }
        self.hours_due |= stepped.is_some();
        self.months_due |= stepped.is_some() || is_other_month;
        self.recount(gateway.recount_whole_hours(), gateway.recount_months()).await
    }
}

/// The difference between the clock's advance and the elapsed time, if it is more than a minute, in
/// microseconds.
fn step(before: Timestamp, now: Timestamp, passed: Duration) -> Option<i64> {
    let step = now.0.saturating_sub(before.0).saturating_sub(micros(passed));
    (step.saturating_abs() > STEP).then_some(step)
}

fn report(step: i64, now: Timestamp) {
    let direction = if step > 0 { "forward" } else { "back" };
    metrics::counter!("sluice_clock_steps_total", "direction" => direction).increment(1);
    tracing::warn!(
        seconds = step / SECOND,
        %now,
        "the clock stepped {direction}: hourly caps, monthly budgets, retention and sessions follow it. Waking from \
         suspend or a paused virtual machine counts too; else check the time synchronisation of this machine, and if the clock was wrong before, restart the gateway, so that no \
         month of that time counts"
    );
}

#[cfg(test)]
mod tests {
    use domain::money::Usd;
    use serde_json::json;

    use super::*;
    use crate::lock::lock;
    use crate::testing::Fresh;

    #[test]
    fn a_step_is_more_than_a_minute_off() {
        let at = |seconds: i64| Timestamp(1_000_000 * SECOND + seconds * SECOND);
        for (before, now, passed, expected) in [
            (0, 1, 1, None),
            (0, 60, 1, None),
            (0, 61, 1, None),
            (0, 62, 1, Some(61)),
            (0, -59, 1, None),
            (0, -60, 1, Some(-61)),
            // The process was stopped: time passed all the same.
            (0, 3_600, 3_600, None),
            (0, 0, 3_600, Some(-3_600)),
        ] {
            let found = step(at(before), at(now), Duration::from_secs(passed));
            assert_eq!(found, expected.map(|seconds: i64| seconds * SECOND), "{before} {now}");
        }
        assert_eq!(step(Timestamp(i64::MIN), Timestamp(i64::MAX), Duration::ZERO), Some(i64::MAX));
    }

    #[tokio::test]
    async fn a_step_over_the_end_of_a_month_and_back_frees_no_budget() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let (november, december) = (at("2026-11-30T23:59:00Z"), at("2026-12-01T00:01:01Z"));
        let fresh = Fresh::at(november, json!({})).await;
        let (gateway, project) = (&fresh.gateway, &fresh.caller.project);
        let mut steps = ClockSteps::new(november);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let month = || lock(&project.month).total(gateway.clock.now());
        let spent = month();
        assert!(spent > Usd::ZERO);
        for _ in 0..2 {
            gateway.clock.set(december);
            steps.run(gateway).await.unwrap();
            assert_eq!(month(), Usd::ZERO, "a new month");
            gateway.clock.set(november);
            assert_eq!(month(), spent, "before the step is noticed");
            steps.run(gateway).await.unwrap();
            assert_eq!(month(), spent);
        }
        gateway.clock.set(december);
        let trace = fresh.trace().await;
        for _ in 0..2 {
            fresh.in_flight(&trace).await.finish().await.unwrap();
        }
        let later = month();
        assert_eq!(later, spent + spent);
        gateway.clock.set(november);
        for _ in 0..2 {
            assert_eq!(month(), later, "what was spent in the later month counts on");
            steps.run(gateway).await.unwrap();
        }
        // A start reads the ledger of its own month, and the later month finds its own.
        let mut again = limits::MonthSpend::default();
        for (id, total) in gateway.store.spend_by_project(november).await.unwrap() {
            assert_eq!((id, total), (project.id(), spent));
            again.add(november, total);
        }
        assert_eq!(again.total(november), spent);
        *lock(&project.month) = again;
        gateway.clock.set(december);
        steps.run(gateway).await.unwrap();
        assert_eq!(month(), later, "at the begin of a month, not within a minute");
    }

    #[tokio::test]
    async fn an_hour_that_a_step_has_pushed_out_is_taken_in_again() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::at(noon, json!({})).await;
        let (gateway, id) = (&fresh.gateway, fresh.caller.key.key.id);
        let mut tx = gateway.store.begin().await.unwrap();
        let mut key = tx.key(id).await.unwrap().unwrap();
        key.hourly_limit = Usd::from_dollars(100.0);
        tx.save_key(&key).await.unwrap();
        gateway.publish(tx).await.unwrap();
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let hour = || lock(&gateway.registry.key(id).unwrap().windows).spent(gateway.clock.now());
        let spent = hour();
        assert!(spent > Usd::ZERO);
        let mut steps = ClockSteps::new(noon);
        gateway.clock.set(noon.plus(Duration::from_hours(5)));
        steps.run(gateway).await.unwrap();
        gateway.recount_hours().await.unwrap();
        assert_eq!(hour(), Usd::ZERO);
        fresh.in_flight(&trace).await.finish().await.unwrap();
        gateway.clock.set(noon);
        steps.run(gateway).await.unwrap();
        for _ in 0..3 {
            assert_eq!(hour(), spent + spent, "both calls were made within this hour");
            gateway.recount_hours().await.unwrap();
            gateway.recount_whole_hours().await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_hour_that_was_dated_later_counts_once() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let after = |minutes: u64| noon.plus(Duration::from_mins(minutes));
        let fresh = Fresh::at(noon, json!({})).await;
        let (gateway, id) = (&fresh.gateway, fresh.caller.key.key.id);
        let mut tx = gateway.store.begin().await.unwrap();
        let mut key = tx.key(id).await.unwrap().unwrap();
        key.hourly_limit = Usd::from_dollars(100.0);
        tx.save_key(&key).await.unwrap();
        gateway.publish(tx).await.unwrap();
        let trace = fresh.trace().await;
        let hour = || lock(&gateway.registry.key(id).unwrap().windows).spent(gateway.clock.now());
        let mut steps = ClockSteps::new(noon);
        gateway.clock.set(after(90));
        steps.run(gateway).await.unwrap();
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let spent = hour();
        assert!(spent > Usd::ZERO);
        for (minutes, expected) in [
            (1, spent),
            (30, spent),
            (60, spent),
            (62, Usd::ZERO),
            (90, Usd::ZERO),
            (91, Usd::ZERO),
            (149, Usd::ZERO),
            (160, Usd::ZERO),
        ] {
            gateway.clock.set(after(minutes));
            for _ in 0..2 {
                steps.run(gateway).await.unwrap();
                gateway.recount_hours().await.unwrap();
                gateway.recount_whole_hours().await.unwrap();
                assert_eq!(hour(), expected, "after {minutes} minutes");
            }
        }
    }

    #[tokio::test]
    async fn what_could_not_be_counted_anew_is_tried_again() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::idle_at(noon, json!({})).await;
        let (gateway, project) = (&fresh.gateway, &fresh.caller.project);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let month = || lock(&project.month).total(gateway.clock.now());
        let spent = month();
        let forget = || *lock(&project.month) = limits::MonthSpend::default();
        forget();
        let mut steps = ClockSteps::new(noon);
        (steps.hours_due, steps.months_due) = (true, true);
        let fails = async || Err(crate::Error::Internal("the database is away".to_owned()));
        for _ in 0..2 {
            steps.recount(fails(), fails()).await.unwrap_err();
        }
        steps.recount(async { Ok(()) }, fails()).await.unwrap_err();
        steps.run(gateway).await.unwrap();
        assert_eq!(month(), spent, "no step since, and yet it is counted");
        forget();
        steps.run(gateway).await.unwrap();
        assert_eq!(month(), Usd::ZERO, "it is done once");
    }
}
