//! Exports: steps in the order in which they ended, and the pieces of files.

use std::time::Duration;

use domain::ids::{JobId, ProjectId, StepId};
use domain::job::{Job, JobKind, Progress};
use domain::step::Step;
use domain::time::{HOUR, Timestamp};
use domain::trace::TraceStatus;
use sqlx::{Connection as _, Executor as _, PgConnection};
use store::{AddedJob, JobEnd, NewJob, StepCursor, Store};

use crate::support::{NOW, databases, databases_with_dice, project, run, trace, trace_id};

/// Every step of a time, as an export reads them.
async fn read(store: &Store, project: ProjectId, from: Timestamp, until: Timestamp) -> Vec<StepId> {
    let (mut ids, mut cursor) = (Vec::new(), StepCursor::at(from));
    loop {
        let steps = store.next_ended_steps(project, cursor, until).await.unwrap();
        let Some(last) = steps.last() else { return ids };
        cursor = StepCursor::after(last);
        ids.extend(steps.iter().map(|step| step.id));
    }
}

#[tokio::test]
async fn every_step_of_a_time_is_read_once() {
    for (database, mut dice) in databases_with_dice().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let mut steps = Vec::new();
        for number in 0..400 {
            let owner = if dice.next(5) == 0 { other } else { one };
            // Many end in the same moment, more than are read at once.
            let finished_at = Timestamp(NOW.0 + dice.next(4) as i64);
            let id = store.step_id().await.unwrap();
            let made = run(owner, trace_id(number % 7 + 1), id);
            steps.push(Step { finished_at, ..made });
        }
        for step in &steps {
            store.writer().step(step.clone(), None).await.unwrap();
        }
        for (from, until) in [(0, 4), (1, 3), (2, 3), (3, 3), (4, 9)] {
            let (from, until) = (Timestamp(NOW.0 + from), Timestamp(NOW.0 + until));
            let mut expected: Vec<_> = steps
                .iter()
                .filter(|step| step.project == one && (from..until).contains(&step.finished_at))
                .map(|step| (step.finished_at, step.id))
                .collect();
            expected.sort_unstable();
            let expected: Vec<StepId> = expected.into_iter().map(|(_, id)| id).collect();
            assert_eq!(read(&store, one, from, until).await, expected, "{}", database.kind);
            let count = store.count_ended_steps(one, from, until, 1_000).await.unwrap();
            assert_eq!(count, expected.len() as i64);
        }
        let all = Timestamp(NOW.0 + 9);
        assert_eq!(store.count_ended_steps(one, NOW, all, 10).await.unwrap(), 11, "it ends there");
    }
}

#[tokio::test]
async fn a_damaged_step_has_its_place() {
    for database in databases().await {
        let store = database.open().await;
        let (owner, _) = project(&store).await;
        store.writer().trace(trace(owner, 1)).await.unwrap();
        for number in 1..=3 {
            store.writer().step(run(owner, trace_id(1), StepId(number)), None).await.unwrap();
        }
        let damage = "UPDATE steps SET status = 'odd' WHERE id = 2 RETURNING status";
        database.texts(damage).await;
        let until = Timestamp(i64::MAX);
        let steps = store.next_ended_steps(owner, StepCursor::at(NOW), until).await.unwrap();
        let read = steps.iter().map(|ended| (ended.id, ended.step.is_ok())).collect::<Vec<_>>();
        let expected = [(StepId(1), true), (StepId(2), false), (StepId(3), true)];
        assert_eq!(read, expected, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn steps_have_their_traces_and_the_sizes_of_their_contents() {
    for database in databases().await {
        let store = database.open().await;
        let (owner, key) = project(&store).await;
        store.writer().trace(trace(owner, 1)).await.unwrap();
        let mut steps = Vec::new();
        for number in [1, 2] {
            let id = store.step_id().await.unwrap();
            let step = run(owner, trace_id(number), id);
            let content = (number == 1).then_some((&b"{}"[..], &key));
            store.writer().step(step.clone(), content).await.unwrap();
            steps.push(step);
        }
        let traces = store.trace_grades(&[trace_id(1), trace_id(2)]).await.unwrap();
        assert_eq!(traces.len(), 1, "{}", database.kind);
        assert_eq!(traces[&trace_id(1)], (TraceStatus::Pending, None));
        let ids: Vec<StepId> = steps.iter().map(|step| step.id).collect();
        let sizes = store.sealed_sizes(&ids).await.unwrap();
        assert_eq!(sizes.keys().collect::<Vec<_>>(), [&ids[0]]);
        assert!(sizes[&ids[0]] > 2);
    }
}

fn new_job(project: ProjectId, number: u8, created_at: Timestamp) -> NewJob {
    NewJob {
        id: JobId(uuid::Uuid::from_u128(number.into())),
        kind: JobKind::Export,
        project,
        key: None,
        request: [number; 32],
        payload: "{}".to_owned(),
        created_at,
    }
}

/// Adds a job, and claims it.
async fn claimed(store: &Store, project: ProjectId, number: u8) -> Job {
    let created_at = Timestamp(NOW.0 + i64::from(number));
    let mut tx = store.begin().await.unwrap();
    let job = new_job(project, number, created_at);
    assert!(matches!(tx.add_job(&job, 1).await.unwrap(), AddedJob::Job(_)));
    let second = new_job(project, number + 100, created_at);
    assert!(matches!(tx.add_job(&second, 1).await.unwrap(), AddedJob::TooMany));
    tx.commit().await.unwrap();
    store.claim_job(JobKind::Export, &[], NOW).await.unwrap().unwrap()
}

#[tokio::test]
async fn jobs_that_are_added_at_once_are_counted_one_after_the_other() {
    for database in databases().await {
        let store = database.open().await;
        let (owner, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let mut first = store.begin().await.unwrap();
        let job = new_job(owner, 1, NOW);
        assert!(matches!(first.add_job(&job, 1).await.unwrap(), AddedJob::Job(_)));
        let second = store.add_job(new_job(owner, 2, NOW), 1);
        tokio::pin!(second);
        let waits = tokio::time::timeout(Duration::from_millis(200), &mut second).await;
        assert!(waits.is_err(), "{}: {waits:?}", database.kind);
        if database.location.is_postgres() {
            // Jobs of others do not wait, nor do records of the project.
            let added = store.add_job(new_job(other, 3, NOW), 1).await.unwrap();
            assert!(matches!(added, AddedJob::Job(_)));
            store.writer().trace(trace(owner, 1)).await.unwrap();
        }
        first.commit().await.unwrap();
        assert!(matches!(second.await.unwrap(), AddedJob::TooMany), "{}", database.kind);
    }
}

async fn finish(store: &Store, job: &Job) {
    let expires_at = NOW.minus_micros(-HOUR);
    let end = JobEnd { error: None, result: None, at: NOW, expires_at };
    assert!(store.finish_job(job, end).await.unwrap());
}

#[tokio::test]
async fn pieces_belong_to_one_run_of_a_job_and_go_with_it() {
    for database in databases().await {
        let store = database.open().await;
        let (owner, _) = project(&store).await;
        let progress = Progress { done: 1, total: 2 };
        let first = claimed(&store, owner, 1).await;
        for number in 0..45 {
            let piece = vec![number as u8; 3];
            assert!(store.add_export_piece(&first, number, &piece, progress).await.unwrap());
        }
        let found = store.export_piece(first.id, first.runs, 44).await.unwrap();
        assert_eq!(found, Some(vec![44; 3]), "{}", database.kind);
        assert_eq!(store.export_piece(first.id, first.runs, 45).await.unwrap(), None);
        assert_eq!(store.purge_export_pieces().await.unwrap(), 0, "its job runs");
        // A piece whose answer was lost is stored again; no other takes its place.
        assert!(store.add_export_piece(&first, 44, &[44; 3], progress).await.unwrap());
        let other = store.add_export_piece(&first, 44, &[45; 3], progress).await;
        assert!(matches!(other, Err(store::Error::Corrupt(_))), "{other:?}");
        let kept = store.export_piece(first.id, first.runs, 44).await.unwrap();
        assert_eq!(kept, Some(vec![44; 3]), "{}", database.kind);
        let noted = store.job(owner, first.id, NOW).await.unwrap().unwrap();
        assert_eq!(noted.progress, progress);

        // Another run begins the file again; the old one can write no more, and its pieces go.
        store.release_job(&first).await.unwrap();
        assert!(!store.add_export_piece(&first, 45, &[0], progress).await.unwrap());
        let again = store.claim_job(JobKind::Export, &[], NOW).await.unwrap().unwrap();
        assert!(store.add_export_piece(&again, 0, &[9], progress).await.unwrap());
        let mut gone = 0;
        loop {
            let some = store.purge_export_pieces().await.unwrap();
            assert!(some <= 20, "the writer waits meanwhile");
            gone += some;
            if some == 0 {
                break;
            }
        }
        assert_eq!(gone, 45);
        finish(&store, &again).await;
        assert_eq!(store.export_piece(again.id, again.runs, 0).await.unwrap(), Some(vec![9]));

        // Of the jobs that are over, the latest stay.
        for number in 2..=4 {
            let job = claimed(&store, owner, number).await;
            assert!(store.add_export_piece(&job, 0, &[number], progress).await.unwrap());
            finish(&store, &job).await;
        }
        let mut tx = store.begin().await.unwrap();
        tx.expire_old_jobs(JobKind::Export, owner, 2, NOW).await.unwrap();
        tx.commit().await.unwrap();
        store.purge_jobs(NOW).await.unwrap();
        while store.purge_export_pieces().await.unwrap() > 0 {}
        let kept = database.texts("SELECT id FROM jobs ORDER BY id").await;
        let of_kept = database.texts("SELECT job_id FROM export_pieces ORDER BY job_id").await;
        let expected = [3_u8, 4].map(|number| uuid::Uuid::from_u128(number.into()).to_string());
        assert_eq!((&kept[..], &of_kept[..]), (&expected[..], &expected[..]));
    }
}

#[tokio::test]
async fn postgresql_itself_ends_a_read_of_an_export_that_takes_too_long() {
    for database in databases().await {
        let store::Location::Postgres(url) = &database.location else { continue };
        let store = database.open().await;
        let (owner, _) = project(&store).await;
        let mut other = PgConnection::connect(url.expose()).await.unwrap();
        let lock =
            "BEGIN; LOCK TABLE steps, step_contents, traces, api_keys IN ACCESS EXCLUSIVE MODE";
        other.execute(sqlx::raw_sql(lock)).await.unwrap();
        let ids = [StepId(1)];
        let cursor = StepCursor::at(NOW);
        let traces = [trace_id(1)];
        let reads = async {
            let (steps, sizes, contents, traces, keys) = tokio::join!(
                store.next_ended_steps(owner, cursor, NOW),
                store.sealed_sizes(&ids),
                store.sealed_contents(&ids),
                store.trace_grades(&traces),
                store.key_names(owner),
            );
            let sentence = |error: store::Error| error.to_string();
            [
                steps.map(drop).map_err(sentence),
                sizes.map(drop).map_err(sentence),
                contents.map(drop).map_err(sentence),
                traces.map(drop).map_err(sentence),
                keys.map(drop).map_err(sentence),
            ]
        };
        let ends = tokio::time::timeout(store::READ_BOUND * 2, reads).await.unwrap();
        for end in ends {
            assert!(
                end.as_ref().is_err_and(|fault| fault.contains("statement timeout")),
                "{end:?}"
            );
        }
        other.execute(sqlx::raw_sql("ROLLBACK")).await.unwrap();
        assert!(store.next_ended_steps(owner, cursor, NOW).await.unwrap().is_empty());
        store.close().await;
    }
}
