//! Traces with findings and their revenue over a period, compared with what was written.

use std::collections::BTreeSet;

use domain::ids::{ProjectId, StepId, TraceId};
use domain::money::Usd;
use domain::step::{Security, Step};
use domain::time::{DAY, HOUR, MINUTE, SECOND, Timestamp};
use domain::trace::Trace;
use store::{FindingCounts, Store};

use crate::support::{Dice, NOW, databases, databases_with_dice, project, run, trace};

fn opened(project: ProjectId, number: u128, at: Timestamp, revenue: Option<Usd>) -> Trace {
    let id = TraceId(uuid::Uuid::from_u128(TraceId::first_at(at).0.as_u128() + number));
    Trace { id, created_at: at, revenue, ..trace(project, number) }
}

fn found(trace: &Trace, id: i64, at: Timestamp, [pii, injection, secret]: [bool; 3]) -> Step {
    let security = Security { pii, injection, secret, ..Security::default() };
    let step = run(trace.project, trace.id, StepId(id));
    Step { parent: None, source: None, started_at: at, finished_at: at, security, ..step }
}

/// A moment up to so many microseconds later.
fn later(at: Timestamp, most: i64, dice: &mut Dice) -> Timestamp {
    let millis = dice.next((most / 1_000).cast_unsigned()).cast_signed();
    at.minus_micros(-(millis * 1_000 + dice.next(1_000).cast_signed()))
}

/// Fails unless the counts of a period are those of the steps and traces that were written.
async fn assert_equal(
    store: &Store,
    traces: &[Trace],
    steps: &[Step],
    until: Option<Timestamp>,
    period: (Timestamp, Timestamp),
) {
    let (mut from, to) = period;
    // A day before the sums end, the quarter in which a period of several begins counts in full.
    let quarter = 15 * MINUTE;
    let is_old = until.is_some_and(|until| from.minute() < until.minus_micros(DAY).minute());
    if is_old && from.0 / quarter < to.0 / quarter {
        from = Timestamp(from.0 - from.0 % quarter);
    }
    let with = |finding: fn(&Security) -> bool| {
        let ended = steps.iter().filter(|step| (from..to).contains(&step.finished_at));
        let found = ended.filter(|step| finding(&step.security));
        found.map(|step| step.trace).collect::<BTreeSet<_>>().len() as i64
    };
    let expected = FindingCounts {
        found: with(|security| security.pii || security.injection || security.secret),
        pii: with(|security| security.pii),
        injection: with(|security| security.injection),
        secret: with(|security| security.secret),
    };
    let project = traces[0].project;
    let case = format!("{from} to {to}");
    let counts = store.finding_counts(project, period.0, to).await.unwrap();
    assert_eq!(counts, expected, "{case}");
    let ids = TraceId::first_at(from)..TraceId::first_at(to);
    let opened = traces.iter().map(|trace| trace.id).filter(|id| ids.contains(id));
    let ended = steps.iter().filter(|step| (from..to).contains(&step.finished_at));
    let seen = opened.chain(ended.map(|step| step.trace)).collect::<BTreeSet<_>>().len() as i64;
    let counts = store.security_counts(project, period.0, to).await.unwrap();
    assert_eq!(counts.traces, seen, "{case}");
    let ids = TraceId::first_at(period.0)..TraceId::first_at(to);
    let revenue: i64 = traces
        .iter()
        .filter(|trace| ids.contains(&trace.id))
        .map(|trace| trace.revenue.map_or(0, |revenue| revenue.0))
        .sum();
    assert_eq!(store.revenue(project, period.0, to).await.unwrap(), Usd(revenue), "{case}");
}

#[tokio::test]
async fn counts_are_the_same_before_and_after_quarters_and_days_are_summed() {
    for (database, mut dice) in databases_with_dice().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut traces = Vec::new();
        let mut steps = Vec::new();
        for number in 0..60 {
            let at = later(NOW, 3 * DAY, &mut dice);
            let revenue = (dice.next(3) > 0).then(|| Usd(dice.next(5_000_000_000) as i64));
            let trace = opened(project, number, at, revenue);
            store.writer().trace(trace.clone()).await.unwrap();
            let mut at = at;
            for _ in 0..dice.next(6) {
                // Seconds, minutes or hours later; some traces go on for a day.
                let most = [10 * MINUTE, 10 * MINUTE, HOUR, 12 * HOUR][dice.next(4) as usize];
                at = later(at, most, &mut dice);
                let flags = [0; 3].map(|_| dice.next(2) == 0);
                let step = found(&trace, steps.len() as i64 + 1, at, flags);
                store.writer().step(step.clone(), None).await.unwrap();
                steps.push(step);
            }
            traces.push(trace);
        }
        let midnight = Timestamp(NOW.0 - NOW.0 % DAY);
        let after = |micros: i64| midnight.minus_micros(-micros);
        let mut periods = vec![
            (midnight, after(DAY)),
            (after(DAY), after(3 * DAY)),
            (midnight, after(9 * DAY)),
            (after(DAY + 15 * MINUTE), after(DAY + 30 * MINUTE)),
            (after(DAY + 16 * MINUTE), after(DAY + 29 * MINUTE)),
            (after(DAY), after(DAY)),
        ];
        for _ in 0..60 {
            let from = later(midnight, 4 * DAY, &mut dice);
            let length = [20 * MINUTE, 2 * HOUR, DAY, 3 * DAY][dice.next(4) as usize];
            periods.push((from, later(from, length, &mut dice)));
        }
        // Seconds that end before a trace is opened in the same minute: ids have whole milliseconds.
        for trace in &traces[..10] {
            let to = trace.created_at.minus_micros(trace.created_at.0 % 1_000);
            periods.push((to.minus_micros(MINUTE / 60), to));
        }
        // Those that begin and end with a step.
        for pair in steps.chunks_exact(2) {
            let (a, b) = (pair[0].finished_at, pair[1].finished_at);
            periods.push((a.min(b), a.max(b)));
        }
        let all = async || {
            let until =
                database.texts("SELECT CAST(until * 60000000 AS TEXT) FROM usage_spanned").await;
            let until = until.first().map(|until| Timestamp(until.parse().unwrap()));
            for &period in &periods {
                assert_equal(&store, &traces, &steps, until, period).await;
            }
        };
        all().await;
        for round in 0..20 {
            let late = after(20 * DAY);
            let more = store.sum_next_quarter(project, late).await.unwrap();
            assert!(more, "{}: quarter {round}", database.kind);
        }
        all().await;
        while store.sum_next_quarter(project, after(20 * DAY)).await.unwrap() {}
        let days = database
            .texts("SELECT CAST(count(*) AS TEXT) FROM usage_spans WHERE span = 1440")
            .await;
        assert_ne!(days, ["0"], "{}: days are summed", database.kind);
        all().await;
        // The clock was ahead: what is taken back is summed again.
        let last = steps.iter().map(|step| step.finished_at).max().unwrap();
        while store.sum_next_quarter(project, last.minus_micros(6 * HOUR)).await.unwrap() {}
        all().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_trace_that_a_clock_ahead_has_opened_counts_once() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let end = Timestamp(NOW.0 - NOW.0 % HOUR + HOUR);
        let after = |seconds: i64| end.minus_micros(-seconds * SECOND);
        let trace = opened(project, 1, after(20), None);
        store.writer().trace(trace.clone()).await.unwrap();
        for (id, seconds) in [(1, -5), (2, 40)] {
            let step = found(&trace, id, after(seconds), [true, false, false]);
            store.writer().step(step, None).await.unwrap();
        }
        while store.sum_next_quarter(project, after(5 * 60)).await.unwrap() {}
        let until = database.texts("SELECT CAST(until AS TEXT) FROM usage_spanned").await;
        assert_eq!(until, [end.minute().to_string()], "{}", database.kind);
        let counts = store.finding_counts(project, after(-3_600), after(60)).await.unwrap();
        assert_eq!(counts.found, 1, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn findings_stay_in_their_time_when_their_steps_are_deleted() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let early = opened(project, 1, NOW, None);
        store.writer().trace(early.clone()).await.unwrap();
        let step = found(&early, 1, NOW.minus_micros(-2 * HOUR), [true, false, false]);
        store.writer().step(step, None).await.unwrap();
        let late = NOW.minus_micros(-40 * DAY);
        while store.group_next_hour(project, late).await.unwrap() {}
        assert_eq!(store.purge_steps(late).await.unwrap(), 0, "{}: in no sum", database.kind);
        while store.sum_next_quarter(project, late).await.unwrap() {}
        assert_eq!(store.purge_steps(late).await.unwrap(), 1, "{}", database.kind);
        let hour = NOW.0 - NOW.0 % HOUR;
        let pii = async |from: i64, to: i64| {
            let (from, to) = (Timestamp(hour + from * HOUR), Timestamp(hour + to * HOUR));
            store.finding_counts(project, from, to).await.unwrap().pii
        };
        assert_eq!((pii(0, 2).await, pii(2, 4).await), (0, 1), "{}", database.kind);
        assert_eq!(pii(0, 4).await, 1, "{}", database.kind);
        store.close().await;
    }
}
