//! The steps that wait for a person, and the verdicts on them.

use domain::ids::{ProjectId, ServiceTokenId, StepId, UserId};
use domain::review::{Judge, JudgedFinding, Review, Verdict};
use domain::safety::Category;
use domain::step::Step;
use domain::time::{DAY, Timestamp};
use serde_json::json;
use store::{SealingKey, Store};

use crate::support::{NOW, databases, project, run, trace, trace_id};

/// Writes a step that asks for a review, unless a change says otherwise.
async fn write(store: &Store, project: ProjectId, id: i64, change: fn(&mut Step)) {
    let mut step = run(project, trace_id(1), StepId(id));
    (step.parent, step.finished_at) = (None, NOW.minus_micros(1_000 - id));
    step.security.review = true;
    change(&mut step);
    store.writer().step(step, None).await.unwrap();
}

async fn waiting(store: &Store, project: ProjectId, before: Option<i64>) -> Vec<i64> {
    let page = store.steps_for_review(project, before.map(StepId), 2).await.unwrap();
    assert_eq!(page.next.is_some(), page.steps.len() == 2, "{page:?}");
    page.steps.iter().map(|(step, _)| step.0).collect()
}

fn verdict(project: ProjectId, step: i64, verdict: Verdict) -> Review {
    let kind = "EMAIL".to_owned();
    Review {
        step: StepId(step),
        project,
        judge: Judge::User(UserId(1)),
        verdict,
        note: Some("of a test".to_owned()),
        findings: vec![JudgedFinding { category: Category::Pii, kind, score: 0.5 }],
        risk_score: 0.5,
        at: NOW,
    }
}

async fn judge(store: &Store, key: &SealingKey, review: &Review) -> bool {
    let mut tx = store.begin().await.unwrap();
    let step = tx.judge_step(review.project, review.step).await.unwrap();
    if step.is_some() {
        tx.save_review(review, key).await.unwrap();
    }
    tx.commit().await.unwrap();
    step.is_some_and(|step| step.id == review.step)
}

#[tokio::test]
async fn what_nobody_has_judged_waits_newest_first() {
    for database in databases().await {
        let store = database.open().await;
        let (ours, key) = project(&store).await;
        let (other, _) = project(&store).await;
        store.writer().trace(trace(ours, 1)).await.unwrap();
        for id in [11, 13, 14, 12, 15] {
            write(&store, ours, id, |_| {}).await;
        }
        write(&store, ours, 16, |step| step.security.review = false).await;
        write(&store, other, 17, |_| {}).await;
        // Steps of several nodes do not end in the order of their numbers.
        write(&store, ours, 10, |step| step.finished_at = NOW).await;
        assert_eq!(waiting(&store, ours, None).await, [10, 15], "{}", database.kind);
        assert_eq!(waiting(&store, ours, Some(15)).await, [14, 13]);
        assert_eq!(store.count_for_review(ours, 100).await.unwrap(), 6);
        assert_eq!(store.count_for_review(ours, 3).await.unwrap(), 4, "counting ends above 3");

        assert!(judge(&store, &key, &verdict(ours, 14, Verdict::FalsePositive)).await);
        assert!(judge(&store, &key, &verdict(ours, 15, Verdict::Confirmed)).await);
        assert_eq!(waiting(&store, ours, None).await, [10, 13]);
        // A page that was read before its last step was judged goes on behind it.
        assert_eq!(waiting(&store, ours, Some(15)).await, [13, 12]);
        let last = store.steps_for_review(ours, Some(StepId(12)), 2).await.unwrap();
        assert_eq!((last.steps[0].0.0, last.steps.len(), last.next), (11, 1, None));
        for none in [17, 99] {
            let page = store.steps_for_review(ours, Some(StepId(none)), 2).await.unwrap();
            assert!(page.steps.is_empty() && page.next.is_none());
        }
        for (project, step) in [(ours, 16), (ours, 17), (other, 14), (ours, 99)] {
            assert!(
                !judge(&store, &key, &verdict(project, step, Verdict::Confirmed)).await,
                "{step}"
            );
        }
        // Findings are read apart from the page, which has their size.
        write(&store, ours, 18, |step| step.security.findings = Some(json!([1, 2]))).await;
        let page = store.steps_for_review(ours, None, 50).await.unwrap();
        let size = |id| page.steps.iter().find(|(step, _)| step.0 == id).unwrap().1;
        let of_all = r#"[{"type":"EMAIL"}]"#.len();
        assert_eq!((size(18), size(10)), (5, of_all), "{}", database.kind);
        let ids = [StepId(18), StepId(17), StepId(99)];
        let steps = store.steps_of_project(ours, &ids).await.unwrap();
        assert_eq!(steps.iter().map(|step| step.id.0).collect::<Vec<_>>(), [18], "ours alone");
        store.close().await;
    }
}

#[tokio::test]
async fn a_verdict_is_kept_and_changed() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        write(&store, project, 11, |_| {}).await;
        write(&store, project, 12, |_| {}).await;
        let first = verdict(project, 11, Verdict::FalsePositive);
        judge(&store, &key, &first).await;
        let second = Review {
            verdict: Verdict::Confirmed,
            judge: Judge::ServiceToken(ServiceTokenId(u64::MAX)),
            note: None,
            at: Timestamp(NOW.0 + 5),
            ..first.clone()
        };
        judge(&store, &key, &verdict(project, 12, Verdict::Confirmed)).await;
        let all = store.reviews(project, &key, NOW, 10).await.unwrap();
        assert_eq!(all.len(), 2, "{}", database.kind);
        assert!(all.contains(&first));
        judge(&store, &key, &second).await;
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.review(StepId(11), &key).await.unwrap(), Some(second.clone()));
        assert_eq!(tx.review(StepId(99), &key).await.unwrap(), None);
        tx.commit().await.unwrap();
        let since = Timestamp(NOW.0 + 1);
        assert_eq!(store.reviews(project, &key, since, 10).await.unwrap(), [second]);
        assert_eq!(store.reviews(project, &key, NOW, 1).await.unwrap().len(), 1);
        store.close().await;
    }
}

#[tokio::test]
async fn a_note_is_sealed_and_one_verdict_hides_no_other() {
    const MOVED: &str = "
        UPDATE review_verdicts SET note = (SELECT note FROM review_verdicts WHERE step_id = 11)";
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        for id in [11, 12] {
            write(&store, project, id, |_| {}).await;
            judge(&store, &key, &verdict(project, id, Verdict::Confirmed)).await;
        }
        let stored = database.texts("SELECT note FROM review_verdicts").await;
        assert!(!stored.concat().contains("test"), "{}: {stored:?}", database.kind);
        let notes = async || -> Vec<Option<String>> {
            let all = store.reviews(project, &key, Timestamp(0), 10).await.unwrap();
            all.into_iter().map(|review| review.note).collect()
        };
        let whole = Some("of a test".to_owned());
        assert_eq!(notes().await, [whole.clone(), whole.clone()]);
        // It is sealed for its step.
        database.execute(MOVED).await;
        assert_eq!(notes().await, [None, whole.clone()]);
        // A later version has other words.
        database.execute("UPDATE review_verdicts SET verdict = 'unclear' WHERE step_id = 12").await;
        assert_eq!(notes().await, [whole]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_verdict_outlives_its_step_without_its_note_and_for_its_time() {
    for database in databases().await {
        let store = database.open().await;
        let (project, key) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        write(&store, project, 11, |step| step.finished_at = NOW.minus_micros(31 * DAY)).await;
        write(&store, project, 12, |_| {}).await;
        for step in [11, 12] {
            judge(&store, &key, &verdict(project, step, Verdict::FalsePositive)).await;
        }
        while store.group_next_hour(project, NOW).await.unwrap() {}
        while store.sum_next_quarter(project, NOW).await.unwrap() {}
        while store.purge_steps(NOW).await.unwrap() > 0 {}
        let notes = async || -> Vec<(i64, bool)> {
            let all = store.reviews(project, &key, Timestamp(0), 10).await.unwrap();
            all.iter().map(|review| (review.step.0, review.note.is_some())).collect()
        };
        assert_eq!(notes().await, [(12, true), (11, false)], "{}", database.kind);
        let listed = store.listed_reviews(project, &key, Timestamp(0), 10).await.unwrap();
        let kept: Vec<_> = listed.iter().map(|one| (one.review.step.0, one.has_step)).collect();
        assert_eq!(kept, [(12, true), (11, false)], "{}", database.kind);
        // Nobody has the number of the judge.
        assert!(listed.iter().all(|one| one.judge.is_none()), "{listed:?}");
        store.purge_reviews(NOW).await.unwrap();
        assert_eq!(notes().await.len(), 2, "it is not old enough");
        store.purge_reviews(Timestamp(NOW.0 + 1)).await.unwrap();
        assert_eq!(notes().await, [(12, true)], "that of a step that is there stays");
        store.close().await;
    }
}

#[tokio::test]
async fn the_verdicts_of_a_deleted_project_go_with_it() {
    for database in databases().await {
        let store = database.open().await;
        let (ours, key) = project(&store).await;
        let (other, others) = project(&store).await;
        store.writer().trace(trace(ours, 1)).await.unwrap();
        write(&store, ours, 11, |_| {}).await;
        write(&store, other, 12, |_| {}).await;
        judge(&store, &key, &verdict(ours, 11, Verdict::Confirmed)).await;
        judge(&store, &others, &verdict(other, 12, Verdict::Confirmed)).await;
        let mut tx = store.begin().await.unwrap();
        assert!(tx.delete_project(ours, NOW).await.unwrap());
        tx.commit().await.unwrap();
        while store.purge_deleted_projects().await.unwrap() > 0 {}
        let left = store.reviews(ours, &key, Timestamp(0), 10).await.unwrap();
        assert!(left.is_empty(), "{}: {left:?}", database.kind);
        assert_eq!(store.reviews(other, &others, Timestamp(0), 10).await.unwrap().len(), 1);
        store.close().await;
    }
}
