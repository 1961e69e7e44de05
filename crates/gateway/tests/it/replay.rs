//! Replays and the hour for which they are found.

use std::time::Duration;

use domain::job::JobState;
use domain::time::{Clock, Timestamp};
use gateway::{Caller, Error, Gateway, Overrides, ReplayJob};

use crate::support::{Database, gate};

/// Waits for the end of a replay.
async fn ended(gateway: &Gateway, caller: &Caller, job: &ReplayJob) -> ReplayJob {
    let id = job.id.to_string();
    let ended = async {
        loop {
            let job = gateway.replay_job(caller, &id).await.unwrap();
            if job.state.is_over() {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), ended).await.unwrap()
}

#[tokio::test]
async fn a_replay_is_found_for_an_hour() {
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let clock = Clock::fixed(noon);
    let database = Database::new().await;
    let gateway = database.serve_on(clock.clone()).await;
    let caller = gate(&gateway, &database.key).await.unwrap();
    let trace = gateway.open_trace(&caller, None, None).await.unwrap().id.to_string();
    let model = caller.project.models.keys().next().unwrap().clone();
    gateway.run(&caller, &trace, &model, "Hello.".to_owned(), None).await.unwrap();
    let ask = async || gateway.replay(&caller, &trace, Overrides::default()).await.unwrap();
    let first = ask().await;
    assert_eq!(ended(&gateway, &caller, &first).await.state, JobState::Completed);

    let id = first.id.to_string();
    clock.set(noon.plus(Duration::from_secs(3_599)));
    let again = ask().await;
    assert_eq!((again.id, again.state), (first.id, JobState::Completed));
    assert!(again.result.is_some());
    gateway.replay_job(&caller, &id).await.unwrap();

    clock.set(noon.plus(Duration::from_hours(1)));
    assert!(matches!(gateway.replay_job(&caller, &id).await, Err(Error::NotFound)));
    let second = ask().await;
    assert_ne!(second.id, first.id);
    let second = ended(&gateway, &caller, &second).await;
    assert_ne!(second.traces, first.traces, "it is made again");
    gateway.close().await;
}
