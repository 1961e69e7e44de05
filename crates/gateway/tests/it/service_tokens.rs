//! The life of a service token, on a clock that the test sets.

use std::time::Duration;

use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use gateway::{Error, Gateway, Member};

use crate::support::{Database, new_service_token, origin, owner};

async fn call(gateway: &Gateway, token: &Secret) -> gateway::Result<Member> {
    gateway.service_token_member(token.expose(), &origin()).await
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_its_use_is_noted_once_a_minute() {
    let database = Database::new().await;
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let clock = Clock::fixed(noon);
    let gateway = database.serve_on(clock.clone()).await;
    let store = database.visit().await;
    let owner = owner(&store).await;
    let account = store.account(&owner.email).await.unwrap().unwrap();
    let password = Secret::new("owner-password-1".to_owned());
    let new = new_service_token("member");
    let (made, raw) = gateway.create_service_token(&owner, &account, password, new).await.unwrap();
    assert_eq!(made.expires_at, Some(noon.plus(Duration::from_mins(10))));
    for (after, noted) in [(0, 0), (30, 0), (60, 0), (61, 61), (599, 599)] {
        clock.set(noon.plus(Duration::from_secs(after)));
        let member = call(&gateway, &raw).await.unwrap();
        assert_eq!((member.person(), &*member.email), (None, &*made.id.to_string()));
        let listed = gateway.list_service_tokens(&owner).await.unwrap();
        let last_used_at = listed[0].last_used_at;
        assert_eq!(last_used_at, Some(noon.plus(Duration::from_secs(noted))), "after {after}");
    }
    // One that is wrong is no sign of when the right one ends.
    let wrong = Secret::new(format!("{}x", &raw.expose()[..raw.expose().len() - 1]));
    clock.set(noon.plus(Duration::from_mins(10)));
    let over = call(&gateway, &raw).await;
    assert!(matches!(over, Err(Error::TokenExpired)), "{over:?}");
    let refused = call(&gateway, &wrong).await;
    assert!(matches!(refused, Err(Error::InvalidToken)), "{refused:?}");
    store.close().await;
    gateway.close().await;
}
