use domain::ids::ProjectId;
use serde_json::json;

use super::*;
use crate::capacity::body_memory::{BodyOwner, HeldCharge};
use crate::error::IdempotencyFault;
use crate::state::claims::MOST_KEPT_OF_PROJECT;
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
    let (claims, now) = (&fresh.gateway.claims, fresh.gateway.clock.now());
    let project = asking.project.id();
    assert!(claims.kept(project, now).is_some_and(|kept| kept > 4), "it was summed up");
    claims.note_kept(project, MOST_KEPT_OF_PROJECT, now);
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
