//! Claims of requests with an `Idempotency-Key`.

use domain::ids::{KeyId, ProjectId};
use domain::key::Key;
use domain::time::{DAY, Timestamp};
use store::{ClaimEnd, ClaimId, ClaimState, Store};

use crate::registry::key;
use crate::support::{NOW, databases, project};

const REQUEST: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];

fn id(project: ProjectId, name: u8) -> ClaimId {
    ClaimId { project, key: KeyId(7), name: [name; 32] }
}

fn expired(now: Timestamp) -> Timestamp {
    now.minus_micros(DAY)
}

async fn claim(store: &Store, id: ClaimId, now: Timestamp) -> bool {
    store.claim_request(id, REQUEST, now, expired(now)).await.unwrap()
}

async fn state(store: &Store, id: ClaimId, now: Timestamp) -> Option<ClaimState> {
    let found = store.claim_of_request(id, expired(now)).await.unwrap();
    found.map(|found| found.state)
}

#[tokio::test]
async fn one_of_many_has_the_claim_until_it_is_released() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let one = id(project, 1);
        let claims = futures_util::future::join_all((0..8).map(|_| claim(&store, one, NOW))).await;
        assert_eq!(claims.iter().filter(|has| **has).count(), 1, "{}", database.kind);
        assert!(!store.claim_request(one, OTHER, NOW, expired(NOW)).await.unwrap());
        let found = store.claim_of_request(one, expired(NOW)).await.unwrap().unwrap();
        assert_eq!((found.request, found.state), (REQUEST, ClaimState::Running(store.node())));
        assert!(claim(&store, id(project, 2), NOW).await, "another name");
        // Not the claim that was made at this time.
        let earlier = NOW.minus_micros(1);
        assert!(!store.release_claim_of_request(one, earlier).await.unwrap());
        assert!(!store.begin_claimed_call(one, earlier).await.unwrap());
        assert!(store.begin_claimed_call(one, NOW).await.unwrap());
        assert!(store.release_claim_of_request(one, NOW).await.unwrap());
        assert_eq!(state(&store, one, NOW).await, None);
        assert!(!store.begin_claimed_call(one, NOW).await.unwrap());
        assert!(claim(&store, one, NOW).await);
        store.close().await;
    }
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let ids = [1, 2, 3].map(|name| id(project, name));
        let answer = &b"sealed"[..];
        let ends = [ClaimEnd::Answered(answer), ClaimEnd::Lost, ClaimEnd::Unkept];
        let states = [ClaimState::Answered(answer.len()), ClaimState::Lost, ClaimState::Unkept];
        for ((id, end), wanted) in ids.into_iter().zip(ends).zip(states) {
            assert!(claim(&store, id, NOW).await);
            assert!(store.end_claim_of_request(id, NOW, end).await.unwrap());
            assert!(!store.end_claim_of_request(id, NOW, end).await.unwrap(), "it has ended");
            assert_eq!(state(&store, id, NOW).await, Some(wanted), "{}", database.kind);
            assert!(!claim(&store, id, NOW).await);
        }
        let kept = async |id, request| store.kept_answer(id, request).await.unwrap();
        assert_eq!(kept(ids[0], REQUEST).await.as_deref(), Some(answer));
        assert_eq!(kept(ids[0], OTHER).await, None);
        assert_eq!(kept(ids[1], REQUEST).await, None);
        let of_other = ClaimId { key: KeyId(8), ..id(project, 4) };
        assert!(claim(&store, of_other, NOW).await);
        let longer = ClaimEnd::Answered(b"sealed too");
        assert!(store.end_claim_of_request(of_other, NOW, longer).await.unwrap());
        let bytes = async |project| {
            let mut of_keys = store.kept_bytes(project).await.unwrap();
            of_keys.sort_unstable_by_key(|(key, _)| key.0);
            of_keys
        };
        let of_keys = [(KeyId(7), answer.len() as u64), (KeyId(8), 10)];
        assert_eq!(bytes(project).await, of_keys, "{}", database.kind);
        assert!(bytes(ProjectId(999)).await.is_empty());
        let later = NOW.minus_micros(-DAY);
        assert_eq!(state(&store, ids[0], later.minus_micros(1)).await.map(drop), Some(()));
        assert!(!claim(&store, ids[0], later.minus_micros(1)).await);
        assert_eq!(state(&store, ids[0], later).await, None);
        assert!(claim(&store, ids[0], later).await);
        assert_eq!(state(&store, ids[0], later).await, Some(ClaimState::Running(store.node())));
        assert_eq!(store.purge_claims_of_requests(expired(later)).await.unwrap(), 3);
        assert_eq!(store.purge_claims_of_requests(expired(later)).await.unwrap(), 0);
        assert_eq!(state(&store, ids[0], later).await, Some(ClaimState::Running(store.node())));
        store.close().await;
    }
}

#[tokio::test]
async fn the_claims_of_a_node_that_is_gone_are_settled() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let [begun, unbegun, answered] = [1, 2, 3].map(|name| id(project, name));
        for id in [begun, unbegun, answered] {
            assert!(claim(&store, id, NOW).await);
        }
        assert!(store.begin_claimed_call(begun, NOW).await.unwrap());
        let answer = ClaimEnd::Answered(b"sealed");
        store.end_claim_of_request(answered, NOW, answer).await.unwrap();
        assert_eq!(store.settle_lost_claims().await.unwrap(), 0, "this node lives");
        store.close().await;
        let store = database.open().await;
        assert!(!claim(&store, begun, NOW).await);
        assert_eq!(store.settle_lost_claims().await.unwrap(), 2, "{}", database.kind);
        assert_eq!(state(&store, begun, NOW).await, Some(ClaimState::Lost));
        assert_eq!(state(&store, unbegun, NOW).await, None);
        let kept = ClaimState::Answered(b"sealed".len());
        assert_eq!(state(&store, answered, NOW).await, Some(kept));
        store.close().await;
    }
}

#[tokio::test]
async fn a_claim_that_its_own_node_has_forgotten_is_settled() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let [begun, unbegun] = [1, 2].map(|name| id(project, name));
        for id in [begun, unbegun] {
            assert!(claim(&store, id, NOW).await);
        }
        assert!(store.begin_claimed_call(begun, NOW).await.unwrap());
        assert_eq!(store.own_claims_of_requests().await.unwrap().len(), 2);
        store.settle_stray_claim(begun).await.unwrap();
        store.settle_stray_claim(unbegun).await.unwrap();
        assert_eq!(state(&store, begun, NOW).await, Some(ClaimState::Lost), "{}", database.kind);
        assert_eq!(state(&store, unbegun, NOW).await, None);
        assert!(store.own_claims_of_requests().await.unwrap().is_empty());
        // A clock that steps by a day takes nobody's claim away.
        assert!(claim(&store, unbegun, NOW).await);
        let later = NOW.minus_micros(-2 * DAY);
        assert!(!claim(&store, unbegun, later).await);
        let running = Some(ClaimState::Running(store.node()));
        assert_eq!(state(&store, unbegun, later).await, running);
        store.close().await;
    }
}

#[tokio::test]
async fn revoked_keys_and_deleted_projects_lose_their_answers() {
    for database in databases().await {
        let store = database.open().await;
        let (kept, _) = project(&store).await;
        let (gone, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        for (project, number) in [(kept, 7), (kept, 8), (gone, 9)] {
            tx.add_key(&Key { id: KeyId(number), ..key(project) }).await.unwrap();
        }
        tx.commit().await.unwrap();
        let ids = [(kept, 7), (kept, 8), (gone, 9)]
            .map(|(project, number)| ClaimId { key: KeyId(number), ..id(project, 1) });
        for id in ids {
            assert!(claim(&store, id, NOW).await);
            store.end_claim_of_request(id, NOW, ClaimEnd::Unkept).await.unwrap();
        }
        let mut tx = store.begin().await.unwrap();
        assert!(tx.revoke_key(KeyId(8), NOW).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(store.purge_claims_of_requests(expired(NOW)).await.unwrap(), 1);
        let there = async |id| state(&store, id, NOW).await.is_some();
        assert!(there(ids[0]).await && !there(ids[1]).await && there(ids[2]).await);
        let mut tx = store.begin().await.unwrap();
        assert!(tx.delete_project(gone, NOW).await.unwrap());
        tx.commit().await.unwrap();
        while store.purge_deleted_projects().await.unwrap() > 0 {}
        assert!(there(ids[0]).await && !there(ids[2]).await, "{}", database.kind);
        store.close().await;
    }
}
