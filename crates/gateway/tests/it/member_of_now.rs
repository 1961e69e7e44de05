//! Requests that were let in before their member lost the right to make them.

use std::time::Duration;

use domain::project::Role;
use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use gateway::{Error, Gateway, KeyChange, Member, ModelChange, NewKey, ProjectChange, Result};

use crate::support::{Database, FIRST, new_service_token, origin, owner};

fn new_key() -> NewKey {
    NewKey {
        name: "k".to_owned(),
        project: FIRST,
        hourly_limit: None,
        expires_at: None,
        allowed_models: None,
        allowed_endpoints: None,
    }
}

/// The outcome of everything that changes keys, models and projects, by name.
async fn changes(gateway: &Gateway, member: &Member) -> Vec<(&'static str, Result<()>)> {
    let key = gateway.list_keys(member)[0].key.id;
    let model = || ModelChange {
        name: Some("m".to_owned()),
        identifier: Some("m".to_owned()),
        provider: Some("openai".to_owned()),
        ..ModelChange::default()
    };
    let project = || ProjectChange { name: Some("p".to_owned()), ..ProjectChange::default() };
    let models = gateway.list_models(member, FIRST).unwrap();
    let id = models[0].model.id;
    vec![
        ("create key", gateway.create_key(member, new_key()).await.map(drop)),
        ("update key", gateway.update_key(member, key, KeyChange::default()).await.map(drop)),
        ("rotate key", gateway.rotate_key(member, key, 0).await.map(drop)),
        ("revoke key", gateway.revoke_key(member, key).await),
        ("create model", gateway.create_model(member, FIRST, model()).await.map(drop)),
        ("update model", gateway.update_model(member, FIRST, id, model()).await.map(drop)),
        ("delete model", gateway.delete_model(member, FIRST, id).await),
        ("create project", gateway.create_project(member, project()).await.map(drop)),
        ("update project", gateway.update_project(member, FIRST, project()).await.map(drop)),
        ("delete project", gateway.delete_project(member, FIRST).await),
    ]
}

#[tokio::test]
async fn a_role_counts_as_it_is_when_a_change_is_made() {
    let database = Database::new().await;
    let gateway = database.serve().await;
    let store = database.visit().await;
    let owner = owner(&store).await;
    let mut tx = store.begin().await.unwrap();
    let now = Clock::system().now();
    let user = tx.add_user(owner.org, "a@b.test", "hash", Role::Viewer, now).await.unwrap();
    tx.commit().await.unwrap();
    // The request was let in while they were an admin.
    let member = Member { user, email: "a@b.test".to_owned(), role: Role::Admin, ..owner.clone() };
    for (what, outcome) in changes(&gateway, &member).await {
        assert!(matches!(outcome, Err(Error::Forbidden)), "{what}: {outcome:?}");
    }
    // A member who sees the project no more has a key there no more.
    let mut tx = store.begin().await.unwrap();
    tx.set_role(owner.org, user, Role::Member).await.unwrap();
    tx.add_project_member(FIRST, user).await.unwrap();
    tx.commit().await.unwrap();
    let member = Member { role: Role::Member, projects: vec![FIRST], ..member };
    let own = gateway.create_key(&member, new_key()).await.unwrap().0.key.id;
    let mut tx = store.begin().await.unwrap();
    tx.set_projects(user, &[]).await.unwrap();
    tx.commit().await.unwrap();
    for (what, outcome) in [
        ("create", gateway.create_key(&member, new_key()).await.map(drop)),
        ("rotate", gateway.rotate_key(&member, own, 0).await.map(drop)),
        ("revoke", gateway.revoke_key(&member, own).await),
    ] {
        assert!(matches!(outcome, Err(Error::Forbidden)), "{what}: {outcome:?}");
    }
    store.close().await;
    gateway.close().await;
}

#[tokio::test]
async fn a_service_token_changes_nothing_after_its_end() {
    let database = Database::new().await;
    let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
    let clock = Clock::fixed(noon);
    let gateway = database.serve_on(clock.clone()).await;
    let store = database.visit().await;
    let owner = owner(&store).await;
    let account = store.account(&owner.email).await.unwrap().unwrap();
    let new = new_service_token("admin");
    let password = Secret::new("owner-password-1".to_owned());
    let (made, raw) = gateway.create_service_token(&owner, &account, password, new).await.unwrap();
    let member = gateway.service_token_member(raw.expose(), &origin()).await.unwrap();
    clock.set(noon.plus(Duration::from_mins(10)));
    for (what, outcome) in changes(&gateway, &member).await {
        assert!(matches!(outcome, Err(Error::TokenExpired)), "{what}: {outcome:?}");
    }
    clock.set(noon);
    gateway.revoke_service_token(&owner, made.id).await.unwrap();
    for (what, outcome) in changes(&gateway, &member).await {
        assert!(matches!(outcome, Err(Error::InvalidToken)), "{what}: {outcome:?}");
    }
    store.close().await;
    gateway.close().await;
}
