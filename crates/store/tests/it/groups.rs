//! Usage by groups, compared with a plain sum over all steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::{KeyId, ProjectId, StepId};
use domain::money::Usd;
use domain::step::{ApiEndpoint, Step, StepKind, StepStatus};
use domain::tier::Tier;
use domain::time::{HOUR, MINUTE, SECOND, Timestamp};
use futures_util::future::try_join_all;
use store::{Arrived, Dimension, GroupRow, Grouped, Store};

use crate::support::{Dice, NOW, databases, project, run, seeds, trace, trace_id};

/// Requests, blocked, failures, tokens of the prompt, of these from a cache, of the completion, and cost.
type Sums = [i64; 7];

fn read(row: &GroupRow) -> Sums {
    [
        row.requests,
        row.blocked,
        row.failures,
        row.prompt_tokens,
        row.cached_tokens,
        row.completion_tokens,
        row.cost().0,
    ]
}

/// The usage of a step, if it counts.
fn counted(step: &Step) -> Option<Sums> {
    let is_copy = step.source.is_some() && step.api_endpoint != ApiEndpoint::Replay;
    let counts = step.kind == StepKind::Run || step.kind == StepKind::Blocked && !is_copy;
    let call = step.call.as_ref();
    let shadow = call.is_some_and(|call| call.shadow);
    let usage = call.map(|call| call.usage).unwrap_or_default();
    counts.then_some([
        i64::from(!shadow),
        i64::from(step.kind == StepKind::Blocked),
        i64::from(step.status == StepStatus::Failed && !shadow),
        usage.prompt as i64,
        usage.cached as i64,
        usage.completion as i64,
        call.map_or(0, |call| call.cost.0),
    ])
}

/// The value of a step.
fn value(step: &Step, dimension: &str) -> String {
    let attributes = step.attributes.as_deref();
    let tier = step.routing.as_ref().and_then(|routing| routing.tier);
    let value = match dimension {
        "model" => step.call.as_ref().map(|call| call.model.clone()),
        "key" => step.key.map(|key| key.to_i64().to_string()),
        "tier" => tier.map(|tier| tier.as_str().to_owned()),
        "endpoint" => Some(step.api_endpoint.as_str().to_owned()),
        "user" => attributes.and_then(|all| all.user.clone()),
        "session" => attributes.and_then(|all| all.session.clone()),
        tag => attributes.and_then(|all| all.tags.get(&tag["tag:".len()..]).cloned()),
    };
    value.unwrap_or_default()
}

/// A step by the dice, which ended in the hours before `NOW`.
fn thrown(dice: &mut Dice, project: ProjectId, id: i64, hours: u64) -> Step {
    let mut step = run(project, trace_id(1), StepId(id));
    step.finished_at = NOW.minus_micros(dice.next(hours * 3_600) as i64 * 1_000_000 + 1);
    step.started_at = step.finished_at;
    step.key = [None, Some(KeyId(7)), Some(KeyId(u64::MAX))][dice.next(3) as usize];
    step.source = (dice.next(3) == 0).then_some(StepId(2));
    step.api_endpoint =
        [ApiEndpoint::Chat, ApiEndpoint::Runs, ApiEndpoint::Replay][dice.next(3) as usize];
    step.status = [StepStatus::Completed, StepStatus::Failed][usize::from(dice.next(3) == 0)];
    let kinds = [StepKind::Run, StepKind::Run, StepKind::Run, StepKind::Blocked, StepKind::Log];
    step.kind = kinds[dice.next(5) as usize];
    let tiers = [None, Some(Tier::Simple), Some(Tier::Complex)];
    step.routing.as_mut().unwrap().tier = tiers[dice.next(3) as usize];
    let call = step.call.as_mut().unwrap();
    call.model = format!("m-{}", dice.next(3));
    call.shadow = dice.next(5) == 0;
    call.cost = Usd(dice.next(1_000) as i64 + dice.next(3) as i64 * 1_234_567_890_123_456);
    call.usage.prompt = dice.next(1_000);
    if step.kind != StepKind::Run {
        step.call = None;
    }
    let name = |prefix: &str, number: u64| format!("{prefix}-{number}");
    let mut attributes = Attributes::default();
    if dice.next(3) > 0 {
        attributes.user = Some(name("jürgen", dice.next(4)));
    }
    if dice.next(3) > 0 {
        attributes.session = Some(name("s", dice.next(20)));
    }
    for tag in ["team", "a.b c$"] {
        if dice.next(3) > 0 {
            attributes.tags.insert(tag.to_owned(), name("v", dice.next(3)));
        }
    }
    step.attributes = (!attributes.is_empty()).then(|| Arc::new(attributes));
    step
}

/// All that an answer shows.
fn shown(grouped: &Grouped) -> (Vec<(&str, Sums)>, [Sums; 3]) {
    let groups = grouped.groups.iter().map(|row| (&*row.value, read(row))).collect();
    (groups, [&grouped.without, &grouped.rest, &grouped.total].map(read))
}

/// The usage by a dimension is that of a plain sum over the steps.
async fn assert_equal(
    store: &Store,
    project: ProjectId,
    steps: &[Step],
    from: i64,
    end: Timestamp,
) {
    for name in [
        "model",
        "key",
        "tier",
        "endpoint",
        "user",
        "session",
        "tag:team",
        "tag:a.b c$",
        "tag:none",
    ] {
        let mut expected: BTreeMap<String, [i128; 7]> = BTreeMap::new();
        let mut total = [0_i128; 7];
        let in_period =
            |step: &&Step| step.finished_at >= Timestamp(from * HOUR) && step.finished_at < end;
        for step in steps.iter().filter(in_period) {
            let Some(sums) = counted(step) else { continue };
            let group = expected.entry(value(step, name)).or_default();
            for (at, more) in sums.into_iter().enumerate() {
                group[at] += i128::from(more);
                total[at] += i128::from(more);
            }
        }
        let narrow = |sums: [i128; 7]| sums.map(|sum| sum as i64);
        let without = expected.remove("").unwrap_or_default();
        let mut groups: Vec<(String, [i128; 7])> = expected.into_iter().collect();
        groups.sort_by(|(a, one), (b, other)| other[6].cmp(&one[6]).then_with(|| a.cmp(b)));
        let dimension = Dimension::parse(name).unwrap();
        if name == "key" {
            let ids = groups.iter().map(|(value, _)| KeyId::from_i64(value.parse().unwrap()));
            let ids: Vec<KeyId> = ids.chain([KeyId::from_i64(987_654)]).collect();
            let found = store.usage_of_keys(project, &ids, from, end).await.unwrap();
            let found: Vec<_> = found.iter().map(|row| (&*row.value, read(row))).collect();
            let all: Vec<_> =
                groups.iter().map(|(value, sums)| (&**value, narrow(*sums))).collect();
            assert_eq!(found, all);
            let some = store.usage_of_keys(project, &ids[..1], from, end).await.unwrap();
            assert_eq!(some.len(), all.len().min(1));
        }
        for limit in [2, 1_000] {
            let found = store.usage_by(project, &dimension, from, end, limit).await.unwrap();
            // Those of half an hour have come, and are read once.
            let [complete, nearly] = [30, 5].map(|minutes| end.minus_micros(minutes * MINUTE));
            let times = (end, Arrived { complete, nearly });
            let each = [dimension.clone(), Dimension::Model];
            let each = store.usage_by_each(project, &each, from, times, limit).await.unwrap();
            assert_eq!(shown(&each[0]), shown(&found), "{name} of {limit}");
            let (shown, hidden) = groups.split_at(groups.len().min(limit));
            let shown: Vec<_> =
                shown.iter().map(|(value, sums)| (&**value, narrow(*sums))).collect();
            let told: Vec<_> = found.groups.iter().map(|row| (&*row.value, read(row))).collect();
            assert_eq!(told, shown, "{name} of {limit}");
            let mut rest = [0_i128; 7];
            for (_, sums) in hidden {
                rest.iter_mut().zip(sums).for_each(|(sum, more)| *sum += more);
            }
            assert_eq!(read(&found.rest), narrow(rest), "the rest of {name}");
            assert_eq!(read(&found.without), narrow(without), "without {name}");
            assert_eq!(read(&found.total), narrow(total), "{name}");
        }
    }
}

#[tokio::test]
async fn groups_are_what_a_plain_sum_over_all_steps_is() {
    for database in databases().await {
        for (run, seed) in seeds(4).into_iter().enumerate() {
            eprintln!("{}, seed {seed}", database.kind);
            let store = database.open().await;
            let (project, _) = project(&store).await;
            let (other, _) = self::project(&store).await;
            if run == 0 {
                store.writer().trace(trace(project, 1)).await.unwrap();
            }
            let mut dice = Dice(seed);
            // Some days with gaps, and steps of another project between them.
            let mut steps: Vec<Step> = (0..300)
                .map(|at| thrown(&mut dice, project, seed as i64 * 10_000 + at, 80))
                .filter(|step| !(30..50).contains(&NOW.since(step.finished_at).div_euclid(HOUR)))
                .collect();
            for (at, step) in steps.iter().enumerate() {
                store.writer().step(step.clone(), None).await.unwrap();
                if at % 10 == 0 {
                    let id = StepId(seed as i64 * 10_000 + 5_000 + at as i64);
                    let foreign = Step { id, project: other, ..step.clone() };
                    store.writer().step(foreign, None).await.unwrap();
                }
            }
            let now = NOW.hour();
            let periods = [
                (now - 90, NOW),
                (now - 60, NOW),
                (now - 5, NOW),
                (now, NOW),
                (now - 70, Timestamp((now - 20) * HOUR)),
            ];
            // Nothing is summed, then some hours are, then all that are over.
            for (from, end) in periods {
                assert_equal(&store, project, &steps, from, end).await;
            }
            for _ in 0..9 {
                assert!(store.group_next_hour(project, NOW).await.unwrap());
            }
            for (from, end) in periods {
                assert_equal(&store, project, &steps, from, end).await;
            }
            while store.group_next_hour(project, NOW).await.unwrap() {}
            // A step that ended before the hour was over, and is written after the others.
            let mut late = thrown(&mut dice, project, seed as i64 * 10_000 + 9_000, 1);
            late.finished_at = NOW.minus_micros(1);
            store.writer().step(late.clone(), None).await.unwrap();
            steps.push(late);
            for (from, end) in periods {
                assert_equal(&store, project, &steps, from, end).await;
            }
            store.close().await;
        }
    }
}

#[tokio::test]
async fn hours_that_a_clock_ahead_has_summed_are_summed_again() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let hour = NOW.hour();
        let at = |hours: i64, minutes: i64| Timestamp((hour + hours) * HOUR + minutes * MINUTE);
        let record = async |id: i64, at: Timestamp| {
            let mut step = run(project, trace_id(1), StepId(id));
            (step.finished_at, step.source) = (at, None);
            store.writer().step(step, None).await.unwrap();
        };
        let sum = async |now: Timestamp| {
            while store.group_next_hour(project, now).await.unwrap() {}
        };
        let count = async |end: Timestamp| {
            let by = Dimension::Model;
            store.usage_by(project, &by, hour - 40, end, 9).await.unwrap().total.requests
        };
        record(100, at(-30, 0)).await;
        record(101, at(0, 10)).await;
        // A clock that is 40 minutes or 20 hours ahead, and then right again.
        for (number, ahead) in [at(1, 10), at(20, 10)].into_iter().enumerate() {
            sum(ahead).await;
            let number = i64::try_from(number).unwrap();
            record(102 + number, at(0, 31 + number)).await;
            sum(at(0, 40)).await;
            assert_eq!(count(at(0, 40)).await, 3 + number, "{}", database.kind);
            sum(at(2, 0)).await;
            assert_eq!(count(at(2, 0)).await, 3 + number, "{}", database.kind);
        }
        // A crash while the clock was ahead has left a row of an hour that was not over.
        let last = count(at(2, 0)).await;
        sum(at(3, 10)).await;
        database
            .execute(
                "UPDATE usage_groups SET requests = 0 WHERE span = 1 AND requests > 0
                 AND start = (SELECT max(start) FROM usage_groups WHERE span = 1)",
            )
            .await;
        database.execute("UPDATE usage_grouped SET until = until - 12").await;
        sum(at(3, 10)).await;
        assert_eq!(count(at(2, 0)).await, last, "{}: it is summed anew", database.kind);
        // One that is far behind takes no sums of steps that may be gone.
        let late = Timestamp(NOW.0 + 1_000 * 24 * HOUR);
        while store.sum_next_quarter(project, late).await.unwrap() {}
        while store.purge_steps(late).await.unwrap() > 0 {}
        sum(at(-1_000, 0)).await;
        assert_eq!(count(at(2, 0)).await, 4, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn an_hour_is_summed_when_its_last_step_is_surely_there() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let hour = NOW.hour();
        let mut step = run(project, trace_id(1), StepId(100));
        (step.finished_at, step.source) = (Timestamp(hour * HOUR + 5), None);
        store.writer().step(step.clone(), None).await.unwrap();
        let over = |minutes: i64| Timestamp((hour + 1) * HOUR + minutes * MINUTE);
        assert!(!store.group_next_hour(project, over(4)).await.unwrap());
        assert!(store.group_next_hour(project, over(5)).await.unwrap());
        assert!(!store.group_next_hour(project, over(5)).await.unwrap());
        // Its rows stay when its steps are gone.
        let count = async || {
            let model = Dimension::Model;
            store.usage_by(project, &model, hour, over(6), 9).await.unwrap().total.requests
        };
        assert_eq!(count().await, 1);
        let late = Timestamp(NOW.0 + 1_000 * 24 * HOUR);
        while store.sum_next_quarter(project, late).await.unwrap() {}
        assert_eq!(store.purge_steps(late).await.unwrap(), 1);
        assert_eq!(count().await, 1);
        store.close().await;
    }
}

#[tokio::test]
async fn sums_that_are_kept_are_not_read_again() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let hour = NOW.hour();
        let mut step = run(project, trace_id(1), StepId(100));
        (step.finished_at, step.source) = (Timestamp((hour - 3) * HOUR), None);
        let model = value(&step, "model");
        store.writer().step(step, None).await.unwrap();
        while store.group_next_hour(project, NOW).await.unwrap() {}
        assert_eq!(store.grouped_until(project).await.unwrap(), Some(hour));
        let by = Dimension::Model;
        store.keep_usage(project, &by, hour - 10, NOW, 9).await.unwrap();
        // The total stays the same.
        database.execute("UPDATE usage_groups SET value = 'other' WHERE dimension = 'model'").await;
        let names = async |from: i64| -> Vec<String> {
            let usage = store.usage_by(project, &by, from, NOW, 9).await.unwrap();
            usage.groups.into_iter().map(|group| group.value).collect()
        };
        assert_eq!(names(hour - 10).await, [model.as_str()], "{}", database.kind);
        assert_eq!(names(hour - 9).await, ["other"], "{}", database.kind);
        store.close().await;
    }
}

/// The usage of a project from the hour of [`NOW`] on up to a time, by two dimensions; steps are complete before one
/// time, and nearly before another. Times are microseconds of the hour.
async fn usage_up_to(store: &Store, project: ProjectId, times: [i64; 3]) -> GroupRow {
    let start = NOW.hour() * HOUR;
    let [end, complete, nearly] = times.map(|time| Timestamp(start + time));
    let by = [Dimension::Model, Dimension::Key];
    let times = (end, Arrived { complete, nearly });
    let each = store.usage_by_each(project, &by, NOW.hour(), times, 9).await.unwrap();
    assert_eq!(each[0].total, each[1].total);
    each[0].total.clone()
}

#[tokio::test]
async fn steps_that_have_come_are_read_once_until_their_hour_is_summed() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let start = NOW.hour() * HOUR;
        let write = async |id: i64, minute: i64| {
            let mut step = run(project, trace_id(1), StepId(id));
            (step.finished_at, step.source) = (Timestamp(start + minute * MINUTE), None);
            store.writer().step(step, None).await.unwrap();
        };
        let requests = async |minutes: [i64; 3]| {
            let times = minutes.map(|minute| minute * MINUTE);
            usage_up_to(&store, project, times).await.requests
        };
        write(100, 10).await;
        write(101, 40).await;
        assert_eq!(requests([59, 20, 30]).await, 2);
        // One that comes later than all should is in the sums of its hour.
        write(102, 15).await;
        assert_eq!(requests([59, 20, 30]).await, 2, "{}", database.kind);
        write(103, 39).await;
        assert_eq!(requests([59, 20, 30]).await, 3, "{}", database.kind);
        assert_eq!(requests([59, 50, 55]).await, 3, "{}", database.kind);
        write(104, 45).await;
        write(105, 54).await;
        assert_eq!(requests([59, 50, 55]).await, 4, "{}", database.kind);
        // A question about an earlier end counts its own.
        assert_eq!(requests([12, 50, 55]).await, 1, "{}", database.kind);
        assert_eq!(requests([59, 50, 55]).await, 4, "{}", database.kind);
        let later = Timestamp(start + 2 * HOUR);
        while store.group_next_hour(project, later).await.unwrap() {}
        assert_eq!(requests([61, 50, 55]).await, 6, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn many_steps_are_read_again_only_if_others_have_come_to_them() {
    const MANY: i64 = 500;
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        // Steps that end within a second, each with one token.
        let write = async |first: i64, number: i64, second: i64| {
            let steps = (first..first + number).map(|id| {
                let mut step = run(project, trace_id(1), StepId(id));
                (step.finished_at, step.source) =
                    (Timestamp(NOW.hour() * HOUR + second * SECOND + id), None);
                step.call.as_mut().unwrap().usage.prompt = 1;
                store.writer().step(step, None)
            });
            try_join_all(steps).await.unwrap();
        };
        let tokens = async |seconds: [i64; 3]| {
            let times = seconds.map(|second| second * SECOND);
            usage_up_to(&store, project, times).await.prompt_tokens
        };
        let change = || database.execute("UPDATE steps SET prompt_tokens = 100");
        write(1_000, MANY, 104).await;
        assert_eq!(tokens([120, 100, 108]).await, MANY);
        change().await;
        assert_eq!(tokens([120, 100, 108]).await, MANY, "{}: they are kept", database.kind);
        write(2_000, 1, 105).await;
        assert_eq!(tokens([120, 100, 108]).await, 100 * MANY + 1, "{}: anew", database.kind);
        // Another part is joined to the first.
        write(3_000, MANY, 110).await;
        assert_eq!(tokens([120, 100, 112]).await, 101 * MANY + 1);
        change().await;
        assert_eq!(tokens([120, 100, 113]).await, 101 * MANY + 1, "{}: kept", database.kind);
        write(4_000, 1, 106).await;
        assert_eq!(tokens([120, 100, 113]).await, 200 * MANY + 101, "{}: anew", database.kind);
        // Now they are complete.
        assert_eq!(tokens([120, 112, 113]).await, 200 * MANY + 101);
        write(5_000, 1, 105).await;
        write(6_000, 1, 114).await;
        assert_eq!(tokens([120, 112, 113]).await, 200 * MANY + 102, "{}: complete", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn groups_of_the_latest_summed_day_are_counted() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let day = NOW.hour() - NOW.hour() % 24;
        let mut id = 100;
        for (days, users) in [(3, 5), (2, 7), (0, 4)] {
            for number in 0..2 * users {
                id += 1;
                let mut step = run(project, trace_id(1), StepId(id));
                let user = Some(format!("u-{}", number % users));
                step.attributes = Some(Arc::new(Attributes { user, ..Attributes::default() }));
                (step.finished_at, step.source) = (Timestamp((day - 24 * days) * HOUR), None);
                store.writer().step(step, None).await.unwrap();
            }
        }
        while store.group_next_hour(project, NOW).await.unwrap() {}
        let user = Dimension::parse("user").unwrap();
        let count = async |by: &Dimension, from: i64, most: i64| {
            store.count_groups(project, by, from, most).await.unwrap()
        };
        let kind = database.kind;
        assert_eq!(
            count(&user, day - 300, 100).await,
            7,
            "{kind}: the day that goes on is not over"
        );
        assert_eq!(count(&user, day - 48, 100).await, 7, "{kind}");
        assert_eq!(count(&user, day - 25, 100).await, 7, "{kind}: a part of the day");
        assert_eq!(count(&user, day - 24, 100).await, 0, "{kind}: no call since");
        assert_eq!(count(&user, day - 300, 6).await, 6, "{kind}: no further");
        assert_eq!(count(&Dimension::Model, day - 300, 100).await, 1, "{kind}");
        store.close().await;
    }
}
