//! Responses that vendors store.

use domain::ids::StepId;
use domain::time::DAY;
use serde_json::json;
use store::StoredResource;

use crate::support::{NOW, databases, project, run, trace, trace_id};

#[tokio::test]
async fn a_stored_response_is_known_to_its_project_as_long_as_its_step() {
    for database in databases().await {
        let store = database.open().await;
        let (mine, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let writer = store.writer();
        writer.trace(trace(mine, 1)).await.unwrap();
        writer.step(run(mine, trace_id(1), StepId(7)), None).await.unwrap();
        let stored = |id: &str, response: &str, step| StoredResource {
            project: mine,
            id: id.to_owned(),
            response: response.to_owned(),
            step: StepId(step),
            model: "gpt".to_owned(),
            account: -5,
            tokens: if id == response { Some(150) } else { None },
            session: [3; 16],
            tools: if id == response { vec![json!({"type": "web_search"})] } else { Vec::new() },
        };
        let all = vec![stored("resp_1", "resp_1", 7), stored("msg_1", "resp_1", 7)];
        writer.stored_resources(all.clone()).await.unwrap();
        // A vendor that gives an id twice means the same.
        let again = StoredResource { model: "other".to_owned(), ..stored("resp_1", "resp_1", 7) };
        writer.stored_resources(vec![again, stored("resp_2", "resp_2", 7)]).await.unwrap();
        let found = |project, id: &'static str| {
            let store = &store;
            async move { store.stored_resources(project, &[id]).await.unwrap() }
        };
        for known in &all {
            assert_eq!(
                store.stored_resources(mine, &[&*known.id]).await.unwrap(),
                std::slice::from_ref(known)
            );
            assert_eq!(store.stored_resources(other, &[&*known.id]).await.unwrap(), []);
        }
        let many: Vec<String> = (0..40).map(|number| format!("msg_{number}")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        many.extend(["resp_1", "resp_2"]);
        let ids: Vec<String> = store
            .stored_resources(mine, &many)
            .await
            .unwrap()
            .into_iter()
            .map(|stored| stored.id)
            .collect();
        assert_eq!(ids, ["msg_1", "resp_1", "resp_2"], "however many are asked for");
        store.forget_stored(other, "resp_1").await.unwrap();
        assert_eq!(found(mine, "resp_1").await.len(), 1);
        store.forget_stored(mine, "resp_1").await.unwrap();
        for id in ["resp_1", "msg_1"] {
            assert_eq!(found(mine, id).await, []);
        }
        assert_eq!(found(mine, "resp_2").await.len(), 1);
        let late = NOW.minus_micros(-400 * DAY);
        while store.group_next_hour(mine, late).await.unwrap() {}
        while store.sum_next_quarter(mine, late).await.unwrap() {}
        while store.purge_steps(late).await.unwrap() > 0 {}
        assert_eq!(found(mine, "resp_2").await, []);
        store.close().await;
    }
}
