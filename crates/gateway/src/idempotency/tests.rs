use domain::ids::{KeyId, ProjectId};
use serde_json::json;

use super::*;
use crate::capacity::body_memory::{BodyOwner, HeldCharge};
use crate::error::IdempotencyFault;
use crate::state::claims::MOST_KEPT_BYTES;
use crate::state::kept_bytes::MOST_KEPT_OF_KEY;
use crate::testing::{Fresh, noise};

/// A request of its own with the key of a gateway.
fn caller(fresh: &Fresh) -> Caller {
    Caller { charge: HeldCharge::default(), ..fresh.caller.clone() }
}

async fn once(fresh: &Fresh, caller: &Caller, idempotency_key: &str) -> Result<Once> {
    let request = IdempotentRequest { idempotency_key, path: "/", query: "", body: b"{}" };
    fresh.gateway.once(caller, request.hashed(caller).await?).await
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
async fn answers_that_are_read_slowly_keep_neither_bodies_nor_answers_of_other_keys_out() {
    let fresh = Fresh::idle(json!({})).await;
    let body = vec![b'a'; 4 << 20];
    answer(&fresh, "one", &body).await;
    let asking = caller(&fresh);
    let (mut on_their_way, gateway) = (Vec::new(), &fresh.gateway);
    let refused = loop {
        match once(&fresh, &asking, "one").await {
            Ok(Once::Again(again)) => on_their_way.push(again.body),
            Ok(Once::First(_)) => panic!("it was answered"),
            Err(refused) => break refused,
        }
        assert!(on_their_way.len() < 100, "there is no bound");
    };
    assert!(matches!(refused, Error::Busy { retry_after: 1, .. }), "{refused:?}");
    assert!(!on_their_way.is_empty());
    assert!(on_their_way.iter().all(|read| *read == body));
    // The largest body, and the largest answers of another key and of another project.
    let bodies = &gateway.body_memory;
    drop(bodies.charge(BodyOwner::Project(ProjectId(99)), 64 << 20).await.unwrap());
    let largest = 2 * MOST_KEPT_BYTES;
    gateway.replay_memory.charge(asking.project.id(), KeyId(1)).add(largest).unwrap();
    gateway.replay_memory.charge(ProjectId(99), KeyId(2)).add(largest).unwrap();
    // One has left.
    on_their_way.pop();
    assert!(matches!(once(&fresh, &asking, "one").await, Ok(Once::Again(_))));
}

#[tokio::test]
async fn the_largest_answer_comes_again() {
    let fresh = Fresh::idle(json!({})).await;
    // Each byte is its own: it cannot be compressed.
    let body = noise(MOST_KEPT_BYTES);
    answer(&fresh, "one", &body).await;
    let asking = caller(&fresh);
    match once(&fresh, &asking, "one").await {
        Ok(Once::Again(again)) => assert!(again.body == body, "it is another"),
        other => panic!("{:?}", other.err()),
    }
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
