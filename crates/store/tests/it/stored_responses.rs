//! What vendors keep of answers.

use domain::ids::StepId;
use domain::time::DAY;
use store::Kept;

use crate::support::{NOW, databases, project, run, trace, trace_id};

#[tokio::test]
async fn what_a_vendor_keeps_is_known_to_its_project_as_long_as_the_step() {
    for database in databases().await {
        let store = database.open().await;
        let (mine, _) = project(&store).await;
        let (other, _) = project(&store).await;
        let writer = store.writer();
        writer.trace(trace(mine, 1)).await.unwrap();
        writer.step(run(mine, trace_id(1), StepId(7)), None).await.unwrap();
        let kept = |id: &str, response: &str, step| Kept {
            project: mine,
            id: id.to_owned(),
            response: response.to_owned(),
            step: StepId(step),
            model: "gpt".to_owned(),
            account: -5,
            tokens: if id == response { Some(150) } else { None },
            session: [3; 16],
        };
        let all = vec![kept("resp_1", "resp_1", 7), kept("msg_1", "resp_1", 7)];
        writer.kept(all.clone()).await.unwrap();
        // A vendor that gives an id twice means the same.
        let again = Kept { model: "other".to_owned(), ..kept("resp_1", "resp_1", 7) };
        writer.kept(vec![again, kept("resp_2", "resp_2", 7)]).await.unwrap();
        let found = |project, id: &'static str| {
            let store = &store;
            async move { store.kept(project, &[id]).await.unwrap() }
        };
        for known in &all {
            assert_eq!(store.kept(mine, &[&*known.id]).await.unwrap(), std::slice::from_ref(known));
            assert_eq!(store.kept(other, &[&*known.id]).await.unwrap(), []);
        }
        let many: Vec<String> = (0..40).map(|number| format!("msg_{number}")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        many.extend(["resp_1", "resp_2"]);
        let ids: Vec<String> =
            store.kept(mine, &many).await.unwrap().into_iter().map(|kept| kept.id).collect();
        assert_eq!(ids, ["msg_1", "resp_1", "resp_2"], "however many are asked for");
        store.forget_kept(other, "resp_1").await.unwrap();
        assert_eq!(found(mine, "resp_1").await.len(), 1);
        store.forget_kept(mine, "resp_1").await.unwrap();
        for id in ["resp_1", "msg_1"] {
            assert_eq!(found(mine, id).await, []);
        }
        assert_eq!(found(mine, "resp_2").await.len(), 1);
        while store.purge_steps(NOW.minus_micros(-400 * DAY)).await.unwrap() > 0 {}
        assert_eq!(found(mine, "resp_2").await, []);
        store.close().await;
    }
}
