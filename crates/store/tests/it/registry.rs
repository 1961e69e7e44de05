//! Projects, models, keys.

use domain::ids::{KeyId, ModelId, ProjectId, UserId};
use domain::key::{Key, KeyStatus};
use domain::model::Provider;
use domain::money::Usd;
use domain::project::ProjectStatus;
use domain::step::ApiEndpoint;
use domain::time::DAY;
use store::{Error, ModelRow};

use crate::support::{NOW, databases, project, trace};

pub fn key(project: ProjectId) -> Key {
    Key {
        allowed_models: Some(vec!["m".to_owned()]),
        allowed_endpoints: Some(vec![ApiEndpoint::Chat]),
        owner: Some(UserId(1)),
        earlier: None,
        id: KeyId(u64::MAX - 1),
        project,
        name: "k".to_owned(),
        secret_hash: [3; 32],
        masked: "ak_fff...abcd".to_owned(),
        status: KeyStatus::Active,
        hourly_limit: None,
        expires_at: Some(NOW),
        loop_interventions: 0,
        last_used: None,
        reset_at: None,
        created_at: NOW,
    }
}

pub fn model(project: ProjectId, identifier: &str) -> ModelRow {
    ModelRow {
        id: ModelId(0),
        project,
        name: "Model".to_owned(),
        identifier: identifier.to_owned(),
        provider: Provider::Gemini,
        base_url: Some("https://x.test".to_owned()),
        api_key: Some(vec![1, 2, 3]),
        endpoint_keys: Some(vec![4, 5, 6]),
        is_public: true,
        input_price: Some(Usd(150_000)),
        output_price: None,
        data_retention_days: 30,
        region: "global".to_owned(),
        currency: "CAD".to_owned(),
        config: "{}".to_owned(),
        created_at: NOW,
    }
}

#[tokio::test]
async fn a_project_is_saved_hidden_and_shredded() {
    for database in databases().await {
        let store = database.open().await;
        let (id, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        let mut found = tx.project(id).await.unwrap().unwrap();
        found.status = ProjectStatus::Archived;
        found.settings.insert("mine".to_owned(), serde_json::json!({"nul": "\u{0}"}));
        tx.save_project(&found).await.unwrap();
        tx.commit().await.unwrap();
        let saved = store.projects().await.unwrap().pop().unwrap().1.unwrap();
        assert_eq!(format!("{saved:?}"), format!("{found:?}"), "{}", database.kind);
        let mut tx = store.begin().await.unwrap();
        tx.add_key(&key(id)).await.unwrap();
        assert!(tx.delete_project(id, NOW).await.unwrap());
        tx.commit().await.unwrap();
        assert!(store.projects().await.unwrap().is_empty());
        assert!(store.keys().await.unwrap().is_empty());
        assert!(store.data_keys().await.unwrap().is_empty());
        let mut tx = store.begin().await.unwrap();
        assert!(!tx.delete_project(id, NOW).await.unwrap(), "it is deleted once");
        tx.commit().await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn an_endpoint_of_a_newer_version_allows_nothing() {
    for database in databases().await {
        let store = database.open().await;
        let (id, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        tx.add_key(&key(id)).await.unwrap();
        tx.commit().await.unwrap();
        let newer =
            "UPDATE api_keys SET allowed_endpoints = '[\"telepathy\", \"chat\"]' RETURNING name";
        assert_eq!(database.texts(newer).await, ["k"]);
        let read = store.keys().await.unwrap().pop().unwrap().1.unwrap();
        assert_eq!(read.allowed_endpoints, Some(vec![ApiEndpoint::Chat]), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_deleted_project_is_forgotten_but_for_its_id() {
    const TEXTS: &str = "
        SELECT name || settings FROM projects
        UNION ALL SELECT name || identifier || config || COALESCE(base_url, '') FROM models
        UNION ALL SELECT name || masked FROM api_keys";
    const SUMS: &str =
        "SELECT CASE WHEN span = 15 THEN 'quarter' ELSE 'day' END FROM usage_spans ORDER BY span";
    for database in databases().await {
        let store = database.open().await;
        let (kept, _) = project(&store).await;
        let (gone, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        for (project, number) in [(kept, 1), (gone, 2)] {
            tx.add_key(&Key { id: KeyId(number), ..key(project) }).await.unwrap();
            tx.add_model(&model(project, "m")).await.unwrap();
        }
        assert!(tx.delete_project(gone, NOW).await.unwrap());
        tx.commit().await.unwrap();
        store.save_windows(&[(KeyId(2), vec![1], NOW)], NOW).await.unwrap();
        store.writer().trace(trace(gone, 1)).await.unwrap();
        while store.sum_next_quarter(gone, NOW.minus_micros(-2 * DAY)).await.unwrap() {}
        assert_eq!(database.texts(SUMS).await, ["quarter", "day"], "{}", database.kind);
        while store.purge_deleted_projects().await.unwrap() > 0 {}
        assert!(database.texts(SUMS).await.is_empty(), "{}: its sums go", database.kind);
        let mut texts = database.texts(TEXTS).await;
        texts.sort_unstable();
        let rest = ["Modelm{}https://x.test", "Project{}", "kak_fff...abcd", "{}", "{}"];
        assert_eq!(texts, rest, "{}", database.kind);
        assert!(store.saved_windows().await.unwrap().is_empty());
        assert_eq!(store.keys().await.unwrap().len(), 1);
        let (next, _) = project(&store).await;
        assert!(next > gone, "its id is not given again");
        store.close().await;
    }
}

#[tokio::test]
async fn an_identifier_is_unique_among_the_living() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        let first = tx.add_model(&model(project, "m")).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let again = tx.add_model(&model(project, "m")).await;
        assert!(matches!(again, Err(Error::Taken)), "{}: {again:?}", database.kind);
        drop(tx);
        let mut tx = store.begin().await.unwrap();
        tx.delete_model(first, NOW).await.unwrap();
        let second = tx.add_model(&model(project, "m")).await.unwrap();
        tx.commit().await.unwrap();
        let rows = store.models().await.unwrap();
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row.unwrap()).collect();
        assert_eq!(rows.len(), 1);
        let expected = ModelRow { id: second, ..model(project, "m") };
        assert_eq!(format!("{:?}", rows[0]), format!("{expected:?}"));
        store.close().await;
    }
}

#[tokio::test]
async fn a_key_is_paused_once() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        let mut tx = store.begin().await.unwrap();
        tx.add_key(&key(project)).await.unwrap();
        let id = key(project).id;
        let as_known = key(project);
        for stale in [
            Key { hourly_limit: Some(Usd(12_345)), ..as_known.clone() },
            Key { reset_at: Some(NOW), ..as_known.clone() },
        ] {
            let paused = tx.pause_key(&stale, KeyStatus::Tripped).await.unwrap();
            assert!(!paused, "it was judged by what holds no longer");
        }
        assert!(tx.pause_key(&as_known, KeyStatus::LoopDetected).await.unwrap());
        assert!(!tx.pause_key(&as_known, KeyStatus::LoopDetected).await.unwrap());
        let before = store.registry_version().await.unwrap();
        tx.bump_registry().await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.registry_version().await.unwrap(), before + 1);
        store.save_windows(&[(id, vec![1, 2], NOW)], NOW).await.unwrap();
        store.save_windows(&[(id, vec![3], NOW)], NOW).await.unwrap();
        assert_eq!(store.saved_windows().await.unwrap(), [(id, vec![3])]);
        let found = store.keys().await.unwrap().pop().unwrap().1.unwrap();
        assert_eq!((found.status, found.loop_interventions), (KeyStatus::LoopDetected, 1));
        assert_eq!(found.last_used, Some(NOW));
        let mut tx = store.begin().await.unwrap();
        tx.save_key(&Key { status: KeyStatus::Active, reset_at: Some(NOW), ..found.clone() })
            .await
            .unwrap();
        assert!(tx.revoke_key(id, NOW).await.unwrap());
        assert!(!tx.revoke_key(id, NOW).await.unwrap(), "it is revoked once");
        tx.commit().await.unwrap();
        assert!(store.keys().await.unwrap().is_empty());
        store.close().await;
    }
}
