//! Recovery from a crash, and opening with another master key.

use domain::ids::{KeyId, ProjectId, StepId};
use domain::key::Key;
use domain::money::Usd;
use domain::step::{Step, StepStatus};
use domain::time::{HOUR, SECOND};
use store::{Claim, Error, STEPS_AT_ONCE, Start};

use crate::support::{NOW, databases, project, run, trace, trace_id};

pub fn start(project: ProjectId, id: StepId) -> Start {
    let step = run(project, trace_id(1), id);
    Start {
        step: id,
        trace: step.trace,
        project,
        key: step.key.map(KeyId::to_i64),
        api_endpoint: step.api_endpoint,
        parent: None,
        source: step.source,
        traceparent: step.trace_context.map(|context| context.to_string()),
        attributes: step.attributes.as_deref().cloned(),
        model: "m".to_owned(),
        provider: domain::model::Provider::Openai,
        infrastructure: "private".to_owned(),
        is_public: true,
        tier: Some(domain::tier::Tier::Simple),
        prompt_tokens: 500,
        prices: Some((1_000_000, 2_000_000)),
        flat_cost: None,
        shadow: true,
        started_at: NOW.0,
    }
}

#[tokio::test]
async fn a_call_whose_end_was_lost_becomes_a_failed_step_that_costs_its_prompt() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let (ended, lost) = (store.step_id().await.unwrap(), store.step_id().await.unwrap());
        for id in [ended, lost] {
            store.writer().start(start(project, id)).await.unwrap();
        }
        store.writer().step(run(project, trace_id(1), ended), None).await.unwrap();
        store.close().await;

        let store = database.open().await;
        let (send, mut observed) = tokio::sync::mpsc::unbounded_channel();
        store.writer().observe(Box::new(move |observed| {
            send.send((observed.step.id, observed.is_lost)).unwrap();
        }));
        assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 1, "{}", database.kind);
        assert_eq!(observed.recv().await, Some((lost, true)));
        let steps = store.steps(trace_id(1)).await.unwrap();
        let found = steps.iter().find(|step| step.id == lost).unwrap();
        let call = found.call.as_ref().unwrap();
        assert_eq!(found.status, StepStatus::Failed);
        assert_eq!((call.cost, call.cost_estimated), (Usd(500_000), true));
        assert!(call.shadow, "it is not graded");
        assert_eq!(found.attributes, run(project, trace_id(1), lost).attributes);
        assert_eq!(found.trace_context, run(project, trace_id(1), lost).trace_context);
        assert!(found.trace_context.is_some());
        assert_eq!(found.source, Some(StepId(2)));
        assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 0);
        assert_eq!(store.steps(trace_id(1)).await.unwrap().len(), 2);
        store.close().await;
    }
}

#[tokio::test]
async fn whoever_finds_the_calls_of_a_node_recorded_has_them_to_count() {
    // A task that settles the calls too knows that they are recorded, and one that reads the ledger finds them there.
    for settles in [true, false] {
        // The one on SQLite: its writer has a thread, which an observer may hold.
        let database = databases().await.remove(0);
        let store = database.try_open([7; 32], Claim::ServeFleet).await.unwrap();
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let gone = database.try_open([7; 32], Claim::Visit).await.unwrap();
        for _ in 0..2 {
            gone.writer().start(start(project, gone.step_id().await.unwrap())).await.unwrap();
        }
        let node = gone.node();
        gone.close().await;
        let (send, mut observed) = tokio::sync::mpsc::unbounded_channel();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        store.writer().observe(Box::new(move |observed| {
            send.send(observed.is_lost).unwrap();
            // Until the test lets the writer go on, or has ended.
            let _ = held.lock().unwrap().recv();
        }));
        // All that has begun before these and takes a read or two is done after them.
        let reads = async || {
            for _ in 0..20 {
                store.open_calls(trace_id(1)).await.unwrap();
            }
        };
        let own = run(project, trace_id(1), store.step_id().await.unwrap());
        store.writer().step(own, None).await.unwrap();
        assert_eq!(observed.recv().await, Some(false));
        let records = async {
            assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 2);
        };
        let looks = async {
            reads().await;
            // Both calls wait for the writer by now, so they share a commit. It answers the first alone.
            release.send(()).unwrap();
            assert_eq!(observed.recv().await, Some(true));
            let finds = async {
                if settles {
                    assert!(store.settle_if_gone(node, &database.clock).await.unwrap());
                } else {
                    store.lost_calls_are_listed().await;
                }
                assert_eq!(store.take_lost_calls().len(), 2);
            };
            let goes_on = async {
                reads().await;
                drop(release);
            };
            tokio::join!(finds, goes_on);
        };
        tokio::join!(records, looks);
        assert!(store.take_lost_calls().is_empty(), "each is counted once");
        if settles {
            store.leave(node).await;
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_call_that_was_taken_back_leaves_nothing() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let (stored, queued) = (store.step_id().await.unwrap(), store.step_id().await.unwrap());
        store.writer().start(start(project, stored)).await.unwrap();
        store.writer().withdraw(stored).await.unwrap();
        assert!(store.writer().enqueue_start(start(project, queued)));
        store.writer().withdraw(queued).await.unwrap();
        store.close().await;

        let store = database.open().await;
        assert_eq!(store.settle_lost_calls(&database.clock).await.unwrap(), 0, "{}", database.kind);
        assert!(store.steps(trace_id(1)).await.unwrap().is_empty());
        store.close().await;
    }
}

#[tokio::test]
async fn step_ids_are_never_given_twice() {
    for database in databases().await {
        let mut last = 0;
        for _ in 0..3 {
            let store = database.open().await;
            for _ in 0..1500 {
                let id = store.step_id().await.unwrap().0;
                assert!(id > last);
                last = id;
            }
            store.close().await;
        }
    }
}

#[tokio::test]
async fn the_rolling_hour_is_counted_from_the_steps() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        let mut key = crate::registry::key(project);
        key.hourly_limit = Some(Usd(1));
        tx.add_key(&key).await.unwrap();
        tx.commit().await.unwrap();
        let mut expected = Usd::ZERO;
        for n in 0..3 {
            let mut step = run(project, trace_id(1), StepId(n + 1));
            step.finished_at = NOW.minus_micros(n * 40 * 60 * SECOND);
            if n < 2 {
                expected += step.cost();
            }
            store.writer().step(step, None).await.unwrap();
        }
        let spent = store.spent_seconds(NOW.minus_micros(HOUR)).await.unwrap();
        assert!(spent.iter().all(|second| second.key == key.id));
        let sum: Usd = spent.iter().map(|second| second.cost).sum();
        assert_eq!(sum, expected, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn spend_is_read_of_those_projects_alone_that_are_asked_for() {
    for database in databases().await {
        let store = database.open().await;
        let (one, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let both = [(one, KeyId(1)), (other, KeyId(2))];
        let cost = run(one, trace_id(1), StepId(1)).cost();
        for (of, id) in both {
            let key = Key {
                id,
                secret_hash: [id.0 as u8; 32],
                hourly_limit: Some(Usd(1)),
                ..crate::registry::key(of)
            };
            let mut tx = store.begin().await.unwrap();
            tx.add_key(&key).await.unwrap();
            tx.commit().await.unwrap();
            let step = run(of, trace_id(id.0.into()), StepId(id.0 as i64));
            store.writer().step(Step { key: Some(id), ..step }, None).await.unwrap();
        }
        let since = NOW.minus_micros(HOUR);
        // As many as one statement takes, so that whatever stands behind them is in another.
        let none: Vec<ProjectId> = (1_000..).map(ProjectId).take(STEPS_AT_ONCE).collect();
        for (of, key) in both {
            for asked in [vec![of], [&none[..], &[of]].concat()] {
                let seconds = store.spent_seconds_of(&asked, since).await.unwrap();
                let seconds: Vec<_> =
                    seconds.iter().map(|spent| (spent.key, spent.second, spent.cost)).collect();
                assert_eq!(seconds, [(key, NOW.unix_seconds(), cost)], "{}", database.kind);
                let months = store.spend_of_projects(&asked, NOW).await.unwrap();
                assert_eq!(months, [(of, cost)], "{}", database.kind);
            }
        }
        let nobody: &[ProjectId] = &[];
        for asked in [nobody, &none[..]] {
            assert!(store.spent_seconds_of(asked, since).await.unwrap().is_empty());
            assert!(store.spend_of_projects(asked, NOW).await.unwrap().is_empty());
        }
        assert_eq!(store.spent_seconds_of(&[one, other], since).await.unwrap().len(), 2);
        assert_eq!(store.spent_seconds(since).await.unwrap().len(), 2);
        assert_eq!(store.spend_of_projects(&[one, other], NOW).await.unwrap().len(), 2);
        assert_eq!(store.spend_by_project(NOW).await.unwrap().len(), 2);
        // But for so many that one statement for all projects is cheaper.
        let many: Vec<ProjectId> = (1_000..).map(ProjectId).take(10 * STEPS_AT_ONCE).collect();
        for (asked, read) in [(many.clone(), 0), ([&many[..], &[one]].concat(), 2)] {
            assert_eq!(store.spent_seconds_of(&asked, since).await.unwrap().len(), read);
            assert_eq!(store.spend_of_projects(&asked, NOW).await.unwrap().len(), read);
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_wrong_master_key_is_refused_and_a_rotated_one_opens_everything() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        let pepper = store.pepper().await.unwrap();
        let sealed = key.seal("place", b"secret").unwrap();
        let new = store::SealingKey::master(&[9; 32]).unwrap();
        let mut tx = store.begin().await.unwrap();
        assert_eq!(store.rotate_master_key(&mut tx, &new).await.unwrap(), 2);
        tx.commit().await.unwrap();
        store.close().await;
        let old = database.try_open([7; 32], Claim::Serve).await;
        assert!(matches!(old, Err(Error::WrongMasterKey)), "{}: {old:?}", database.kind);
        let store = database.try_open([9; 32], Claim::Serve).await.unwrap();
        assert_eq!(store.pepper().await.unwrap(), pepper);
        let keys = store.data_keys().await.unwrap();
        assert_eq!(keys[0].0, project);
        assert_eq!(keys[0].1.as_ref().unwrap().open("place", &sealed).unwrap(), b"secret");
        store.close().await;
    }
}
