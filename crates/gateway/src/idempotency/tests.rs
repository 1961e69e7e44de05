use domain::ids::{KeyId, ProjectId};
use serde_json::json;

use super::*;
use crate::capacity::body_memory::{BodyOwner, HeldCharge};
use crate::error::IdempotencyFault;
use crate::state::kept_bytes::MOST_KEPT_OF_KEY;
use crate::testing::Fresh;

/// A request of its own with the key of a gateway.
fn caller(fresh: &Fresh) -> Caller {
    Caller { charge: HeldCharge::default(), ..fresh.caller.clone() }
}

async fn once(fresh: &Fresh, caller: &Caller, idempotency_key: &str) -> Result<Once> {
    let request = IdempotentRequest { idempotency_key, path: "/", query: "", body: b"{}" };
    fresh.gateway.once(caller, request).await
}

/// Carries a request out that is answered so.
async fn answer(fresh: &Fresh, idempotency_key: &str, body: &[u8]) {
    let caller = caller(fresh);
    let Once::First(claimed) = once(fresh, &caller, idempotency_key).await.unwrap() else {
        panic!("it was answered before");
    };
    let mut bytes = claimed.answer_bytes();
    assert!(bytes.add(body));
    let answer = AnswerEnd::Whole(KeptAnswer::new(200, Vec::new()), bytes);
    claimed
        .spawn(async move { RequestEnd { has_succeeded: true, answer, leaves: Box::new(|| {}) } });
}

#[tokio::test]
async fn a_kept_answer_is_charged_until_it_has_left() {
    let fresh = Fresh::idle(json!({})).await;
    let body = vec![b'a'; 4 << 20];
    answer(&fresh, "one", &body).await;
    let memory = &fresh.gateway.body_memory;
    let whole = async || memory.charge(BodyOwner::Project(ProjectId(0)), 61 << 20).await.map(drop);
    let asking = caller(&fresh);
    let Once::Again(again) = once(&fresh, &asking, "one").await.unwrap() else {
        panic!("it was not answered");
    };
    drop(asking);
    let body_of_answer = again.body.clone();
    drop(again);
    assert!(whole().await.is_err(), "the answer is on its way");
    assert_eq!(body_of_answer, body);
    drop(body_of_answer);
    whole().await.unwrap();
}

#[tokio::test]
async fn a_project_that_keeps_too_much_keeps_no_more_and_calls_once_all_the_same() {
    let fresh = Fresh::idle(json!({})).await;
    answer(&fresh, "one", b"kept").await;
    let asking = caller(&fresh);
    assert!(matches!(once(&fresh, &asking, "one").await, Ok(Once::Again(_))));
    let (kept, project) = (&fresh.gateway.kept_bytes, asking.project.id());
    let so_far = kept.of_project(project);
    assert!((4..1_000).contains(&so_far), "{so_far}");
    // Other keys fill it up.
    for (key, bytes) in [
        (1, MOST_KEPT_OF_KEY),
        (2, MOST_KEPT_OF_KEY),
        (3, MOST_KEPT_OF_KEY),
        (4, MOST_KEPT_OF_KEY - so_far),
    ] {
        assert!(kept.add(project, KeyId(key), bytes));
    }
    answer(&fresh, "two", b"too much").await;
    for _ in 0..2 {
        let refused = once(&fresh, &asking, "two").await;
        assert!(
            matches!(refused, Err(Error::Idempotency(IdempotencyFault::Unkept))),
            "{refused:?}"
        );
    }
    assert!(matches!(once(&fresh, &asking, "one").await, Ok(Once::Again(_))));
}

#[tokio::test]
async fn what_was_kept_before_a_start_counts() {
    let fresh = Fresh::idle(json!({})).await;
    let (asking, gateway) = (caller(&fresh), &fresh.gateway);
    let (project, key) = (asking.project.id(), asking.key.key.id);
    let id = ClaimId { project, key, name: [1; 32] };
    let now = gateway.clock.now();
    let expired = now.minus_micros(ANSWERS_KEPT);
    assert!(gateway.store.claim_request(id, [2; 32], now, expired).await.unwrap());
    let before = vec![0_u8; 5_000];
    let end = store::ClaimEnd::Answered(&before);
    assert!(gateway.store.end_claim_of_request(id, now, end).await.unwrap());
    answer(&fresh, "one", b"kept").await;
    assert!(matches!(once(&fresh, &asking, "one").await, Ok(Once::Again(_))));
    let kept = gateway.kept_bytes.of_project(project);
    assert!((5_004..6_000).contains(&kept), "{kept}");
}
