//! Jobs: asked for once, run by one node, found until they expire.

use std::time::Duration;

use domain::ids::{JobId, ProjectId, StepId};
use domain::job::{Job, JobKind, JobState, Progress};
use domain::time::{HOUR, SECOND, Timestamp};
use store::{AddedJob, JobEnd, NewJob, Store};

use crate::recovery::start;
use crate::support::{NOW, databases, project, trace, trace_id};

const KIND: JobKind = JobKind::Replay;

fn id(number: u128) -> JobId {
    JobId(uuid::Uuid::from_u128(number))
}

fn after(seconds: i64) -> Timestamp {
    NOW.minus_micros(-seconds * SECOND)
}

/// The `number`th job, for the request that `request` stands for.
fn job(project: ProjectId, number: u128, request: u8, created_at: Timestamp) -> NewJob {
    NewJob {
        id: id(number),
        kind: KIND,
        project,
        key: Some(domain::ids::KeyId(u64::MAX - 1)),
        request: [request; 32],
        payload: format!("{{\"number\":{number}}}"),
        created_at,
    }
}

async fn add(store: &Store, job: NewJob) -> Job {
    match store.add_job(job, 100).await.unwrap() {
        AddedJob::Job(job) => job,
        AddedJob::TooMany => unreachable!("there is room"),
    }
}

async fn claim(store: &Store, busy: &[ProjectId]) -> Option<JobId> {
    claimed(store, busy).await.map(|job| job.id)
}

async fn claimed(store: &Store, busy: &[ProjectId]) -> Option<Job> {
    store.claim_job(KIND, busy, NOW).await.unwrap()
}

fn end(error: Option<&str>) -> JobEnd {
    JobEnd {
        error: error.map(str::to_owned),
        result: Some("{}".to_owned()),
        at: NOW,
        expires_at: NOW.minus_micros(-HOUR),
    }
}

#[tokio::test]
async fn a_request_has_one_job_until_that_fails_or_expires() {
    for database in databases().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let first = add(&store, job(one, 1, 7, NOW)).await;
        assert_eq!((first.id, first.state), (id(1), JobState::Queued), "{}", database.kind);
        assert_eq!(first.payload, "{\"number\":1}");
        assert_eq!(first.key, Some(domain::ids::KeyId(u64::MAX - 1)));
        assert_eq!(add(&store, job(one, 2, 7, NOW)).await.id, id(1));
        assert_eq!(add(&store, job(one, 3, 8, NOW)).await.id, id(3), "another request");
        assert_eq!(add(&store, job(other, 4, 7, NOW)).await.id, id(4), "another project's");
        assert!(store.job(other, id(1), NOW).await.unwrap().is_none());

        let run = claimed(&store, &[other]).await.unwrap();
        assert_eq!(run.id, id(1));
        assert_eq!(add(&store, job(one, 5, 7, NOW)).await.state, JobState::Running);
        assert!(store.finish_job(&run, end(None)).await.unwrap());
        let done = add(&store, job(one, 6, 7, after(3_599))).await;
        assert_eq!((done.id, done.state), (id(1), JobState::Completed));
        assert_eq!(done.result.as_deref(), Some("{}"));
        assert!(store.job(one, id(1), after(3_599)).await.unwrap().is_some());
        assert!(store.job(one, id(1), after(3_600)).await.unwrap().is_none());
        assert_eq!(add(&store, job(one, 7, 7, after(3_600))).await.id, id(7), "it has expired");

        let run = claimed(&store, &[other]).await.unwrap();
        assert_eq!(run.id, id(3));
        assert!(store.finish_job(&run, end(Some("No."))).await.unwrap());
        let failed = store.job(one, id(3), NOW).await.unwrap().unwrap();
        assert_eq!((failed.state, failed.error.as_deref()), (JobState::Failed, Some("No.")));
        assert_eq!(add(&store, job(one, 8, 8, NOW)).await.id, id(8), "a failure is tried again");
        assert_eq!(store.purge_jobs(after(3_600)).await.unwrap(), 1);
        store.close().await;
    }
}

#[tokio::test]
async fn jobs_are_listed_a_page_at_a_time() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        // Two of each second.
        for number in 1..=6 {
            let made = after(i64::try_from(number).unwrap() / 2);
            add(&store, job(project, number, u8::try_from(number).unwrap(), made)).await;
        }
        let (mut listed, mut last) = (Vec::new(), None);
        loop {
            let page = store.jobs_of(project, NOW, last, 2).await.unwrap();
            let Some(job) = page.last() else { break };
            last = Some((job.created_at, job.id));
            listed.extend(page.iter().map(|job| job.id));
        }
        assert_eq!(listed, [6, 5, 4, 3, 2, 1].map(id), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn requests_at_the_same_time_have_one_job() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let all = (1..=20).map(|number| add(&store, job(project, number, 7, NOW)));
        let ids: Vec<_> =
            futures_util::future::join_all(all).await.iter().map(|job| job.id).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{}: {ids:?}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn jobs_wait_in_line_and_projects_take_turns() {
    for database in databases().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        for (project, number, created) in [(one, 1, 3), (one, 2, 1), (one, 3, 2), (other, 4, 4)] {
            add(&store, job(project, number, u8::try_from(number).unwrap(), after(created))).await;
        }
        assert_eq!(store.count_waiting_jobs(KIND).await.unwrap(), 4, "{}", database.kind);
        assert_eq!(claim(&store, &[]).await, Some(id(2)));
        assert_eq!(claim(&store, &[one]).await, Some(id(4)));
        assert_eq!(claim(&store, &[one, other]).await, None);
        assert_eq!(claim(&store, &[one]).await, None);
        assert_eq!(claim(&store, &[other]).await, Some(id(3)));
        assert_eq!(claim(&store, &[]).await, Some(id(1)));
        assert_eq!(store.count_waiting_jobs(KIND).await.unwrap(), 0);
        assert!(matches!(store.add_job(job(one, 5, 5, NOW), 3).await.unwrap(), AddedJob::TooMany));
        assert!(matches!(store.add_job(job(one, 6, 1, NOW), 3).await.unwrap(), AddedJob::Job(_)));
        assert!(matches!(store.add_job(job(other, 7, 7, NOW), 3).await.unwrap(), AddedJob::Job(_)));
        store.close().await;
    }
}

#[tokio::test]
async fn a_job_goes_to_another_node_when_its_own_is_gone() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        add(&store, job(project, 1, 1, NOW)).await;
        add(&store, job(project, 2, 2, NOW)).await;
        let first = claimed(&store, &[]).await.unwrap();
        assert_eq!(first.id, id(1));
        let progress = Progress { done: 2, total: 5 };
        assert!(store.note_job_progress(&first, progress).await.unwrap());
        let call = store.step_id().await.unwrap();
        store.writer().start(start(project, call)).await.unwrap();
        assert_eq!(
            store.release_lost_jobs(JobKind::Replay, NOW).await.unwrap(),
            0,
            "its node lives"
        );
        store.close().await;

        let store = database.open().await;
        assert_eq!(claim(&store, &[]).await, Some(id(2)), "{}", database.kind);
        assert!(!store.note_job_progress(&first, progress).await.unwrap(), "it is another node's");
        assert!(!store.finish_job(&first, end(None)).await.unwrap());
        store.release_job(&first).await.unwrap();
        assert_eq!(claim(&store, &[]).await, None);
        assert_eq!(store.release_lost_jobs(JobKind::Backtest, NOW).await.unwrap(), 0);
        assert_eq!(store.release_lost_jobs(JobKind::Replay, NOW).await.unwrap(), 1);
        // What its node had begun is settled before another goes on.
        let steps = store.steps(trace_id(1)).await.unwrap();
        assert_eq!(steps.iter().map(|step| step.source).collect::<Vec<_>>(), [Some(StepId(2))]);
        let again = claimed(&store, &[]).await.unwrap();
        assert_eq!((again.id, again.progress, again.runs), (id(1), progress, 2));
        assert_eq!(again.losses, 1, "its first run was lost");

        store.release_job(&again).await.unwrap();
        assert!(!store.note_job_progress(&again, progress).await.unwrap());
        let third = claimed(&store, &[]).await.unwrap();
        assert_eq!((third.id, third.runs, third.losses), (id(1), 3, 1), "a stop loses nothing");
        store.close().await;
    }
}

#[tokio::test]
async fn a_job_that_was_claimed_and_does_not_run_waits_again() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        add(&store, job(project, 1, 1, NOW)).await;
        add(&store, job(project, 2, 2, NOW)).await;
        let run = claimed(&store, &[]).await.unwrap();
        let stray = claimed(&store, &[]).await.unwrap();
        let all = [run.id, stray.id];
        assert_eq!(store.release_stray_jobs(KIND, &all).await.unwrap(), 0, "{}", database.kind);
        assert_eq!(store.release_stray_jobs(JobKind::Export, &[]).await.unwrap(), 0);
        assert_eq!(store.release_stray_jobs(KIND, &[run.id]).await.unwrap(), 1);
        assert!(store.note_job_progress(&run, Progress::default()).await.unwrap());
        assert!(!store.note_job_progress(&stray, Progress::default()).await.unwrap());
        let again = claimed(&store, &[]).await.unwrap();
        assert_eq!((again.id, again.runs, again.losses), (stray.id, 2, 0));
        store.close().await;
    }
}

#[tokio::test]
async fn a_job_whose_row_is_damaged_fails_and_the_next_is_claimed() {
    for database in databases().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        add(&store, job(one, 1, 1, NOW)).await;
        database.execute("UPDATE jobs SET id = 'broken'").await;
        add(&store, job(other, 2, 2, after(1))).await;
        assert_eq!(claim(&store, &[]).await, Some(id(2)), "{}", database.kind);
        assert_eq!(claim(&store, &[]).await, None);
        let states = database.texts("SELECT state FROM jobs ORDER BY created_at").await;
        assert_eq!(states, ["failed", "running"], "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn the_open_calls_of_a_trace_are_found() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        assert!(store.open_calls(trace_id(1)).await.unwrap().is_empty(), "{}", database.kind);
        let call = store.step_id().await.unwrap();
        store.writer().start(start(project, call)).await.unwrap();
        let open = store.open_calls(trace_id(1)).await.unwrap();
        let found: Vec<_> = open.iter().map(|start| (start.step, start.source)).collect();
        assert_eq!(found, [(call, Some(StepId(2)))], "{}", database.kind);
        assert!(store.open_calls(trace_id(2)).await.unwrap().is_empty());
        assert!(store.is_open_call(call).await.unwrap());
        store.writer().withdraw(call).await.unwrap();
        assert!(!store.is_open_call(call).await.unwrap());
        store.close().await;
    }
}

#[tokio::test]
async fn an_earlier_run_writes_nothing_of_a_job_that_its_node_claimed_again() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        add(&store, job(project, 1, 1, NOW)).await;
        let earlier = claimed(&store, &[]).await.unwrap();
        store.release_job(&earlier).await.unwrap();
        let run = claimed(&store, &[]).await.unwrap();
        assert_eq!((run.id, run.runs), (id(1), 2), "{}", database.kind);

        let progress = Progress { done: 4, total: 5 };
        assert!(!store.note_job_progress(&earlier, progress).await.unwrap());
        store.release_job(&earlier).await.unwrap();
        assert!(!store.finish_job(&earlier, end(Some("No."))).await.unwrap());
        let found = store.job(project, id(1), NOW).await.unwrap().unwrap();
        assert_eq!((found.state, found.progress), (JobState::Running, Progress::default()));
        assert!(store.note_job_progress(&run, progress).await.unwrap());
        assert!(!store.has_finished_job(&run).await.unwrap());
        assert!(store.finish_job(&run, end(None)).await.unwrap());
        assert!(!store.finish_job(&run, end(None)).await.unwrap(), "it is over");
        assert!(store.has_finished_job(&run).await.unwrap());
        assert!(!store.has_finished_job(&earlier).await.unwrap());
        store.close().await;
    }
}

#[tokio::test]
async fn jobs_go_with_their_project() {
    for database in databases().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        add(&store, job(one, 1, 1, NOW)).await;
        add(&store, job(other, 2, 2, NOW)).await;
        let mut tx = store.begin().await.unwrap();
        tx.delete_project(one, NOW).await.unwrap();
        tx.commit().await.unwrap();
        while store.purge_deleted_projects().await.unwrap() > 0 {}
        assert!(store.job(one, id(1), NOW).await.unwrap().is_none(), "{}", database.kind);
        assert!(store.job(other, id(2), NOW).await.unwrap().is_some());
        store.close().await;
    }
}

#[tokio::test]
async fn a_request_waits_for_another_of_its_project_for_five_seconds() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut first = store.begin().await.unwrap();
        first.add_job(&job(project, 1, 1, NOW), 100).await.unwrap();
        let second = store.add_job(job(project, 2, 2, NOW), 100);
        let ended = tokio::time::timeout(Duration::from_secs(15), second).await.unwrap();
        assert!(matches!(ended, Err(store::Error::Unavailable(_))), "{}: {ended:?}", database.kind);
        first.commit().await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn the_purge_of_a_project_waits_for_a_request_and_holds_none_of_its_jobs() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        add(&store, job(project, 1, 1, NOW)).await;
        let run = claimed(&store, &[]).await.unwrap();
        assert!(store.finish_job(&run, end(None)).await.unwrap());
        let mut tx = store.begin().await.unwrap();
        tx.delete_project(project, NOW).await.unwrap();
        tx.commit().await.unwrap();

        // A node that has not seen the deletion.
        let mut request = store.begin().await.unwrap();
        request.add_job(&job(project, 2, 2, NOW), 100).await.unwrap();
        let purge = store.purge_deleted_projects();
        tokio::pin!(purge);
        let waits = tokio::time::timeout(Duration::from_millis(300), &mut purge).await;
        assert!(waits.is_err(), "{}: {waits:?}", database.kind);
        // Its job has expired, and is deleted for this one.
        request.add_job(&job(project, 3, 1, after(3_600)), 100).await.unwrap();
        request.commit().await.unwrap();
        assert!(purge.await.unwrap() > 0, "{}", database.kind);
        assert_eq!(claim(&store, &[]).await, None);
    }
}
