//! The registry skips rows that make no sense to it.

use domain::ids::ProjectId;
use domain::time::Clock;
use gateway::{Error, Gateway, ProjectChange};
use serde_json::{Map, Value, json};
use store::Store;

use crate::support::{Database, FIRST, gate, owner};

/// Writes settings as another version would, past all that is checked here.
async fn write_settings(store: &Store, project: ProjectId, settings: Value) {
    let mut tx = store.begin().await.unwrap();
    let mut stored = tx.project(project).await.unwrap().unwrap();
    stored.settings = serde_json::from_value(settings).unwrap();
    tx.save_project(&stored).await.unwrap();
    tx.bump_registry().await.unwrap();
    tx.commit().await.unwrap();
}

/// Changes another project, which makes the gateway load everything anew.
async fn rename(gateway: &Gateway, store: &Store, project: ProjectId, name: &str) {
    let change = ProjectChange { name: Some(name.to_owned()), ..ProjectChange::default() };
    gateway.update_project(&owner(store).await, project, change).await.unwrap();
    assert_eq!(gateway.project(&owner(store).await, project).unwrap().project.name, name);
}

#[tokio::test]
async fn a_project_that_cannot_be_read_blocks_no_other() {
    let database = Database::new().await;
    let gateway = database.serve().await;
    let beside = database.visit().await;
    let owner = owner(&beside).await;
    let named = ProjectChange { name: Some("Second".to_owned()), ..ProjectChange::default() };
    let second = gateway.create_project(&owner, named).await.unwrap().project.id;
    let clock = Clock::system();
    let key = gateway::create_key(&beside, second, "k", None, &clock).await.unwrap();

    write_settings(&beside, FIRST, json!({"limits": "of a later version"})).await;
    rename(&gateway, &beside, second, "Renamed").await;
    assert!(gate(&gateway, &key).await.is_ok());
    let refused = gate(&gateway, &database.key).await;
    assert!(matches!(refused, Err(Error::ProjectUnreadable)), "{refused:?}");
    let refused = gateway.project(&owner, FIRST);
    assert!(matches!(refused, Err(Error::ProjectUnreadable)), "{refused:?}");
    assert_eq!(gateway.list_projects(&owner).len(), 1);

    // Nor does it when the gateway starts.
    gateway.close().await;
    let gateway = database.serve().await;
    assert!(gate(&gateway, &key).await.is_ok());
    let refused = gate(&gateway, &database.key).await;
    assert!(matches!(refused, Err(Error::ProjectUnreadable)), "{refused:?}");

    // When it can be read, it is served.
    write_settings(&beside, FIRST, Value::Object(Map::new())).await;
    rename(&gateway, &beside, second, "Again").await;
    assert!(gate(&gateway, &database.key).await.is_ok());
    gateway.close().await;
    beside.close().await;
}

#[tokio::test]
async fn what_a_key_has_used_up_outlasts_a_time_in_which_its_project_cannot_be_read() {
    let database = Database::new().await;
    let gateway = database.serve().await;
    let beside = database.visit().await;
    let strict = json!({"limits": {"requests_per_hour": 1}});
    write_settings(&beside, FIRST, strict.clone()).await;
    let named = ProjectChange { name: Some("Second".to_owned()), ..ProjectChange::default() };
    let second = gateway.create_project(&owner(&beside).await, named).await.unwrap().project.id;
    gate(&gateway, &database.key).await.unwrap();
    write_settings(&beside, FIRST, json!({"limits": 1})).await;
    rename(&gateway, &beside, second, "While it cannot").await;
    write_settings(&beside, FIRST, strict).await;
    rename(&gateway, &beside, second, "When it can").await;
    let refused = gate(&gateway, &database.key).await;
    assert!(matches!(refused, Err(Error::RateLimited { .. })), "{refused:?}");
    gateway.close().await;
    beside.close().await;
}
