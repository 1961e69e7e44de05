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
            tokens: 150,
            session: [3; 16],
        };
        let all = vec![kept("resp_1", "resp_1", 7), kept("msg_1", "resp_1", 7)];
        writer.kept(all.clone()).await.unwrap();
        // A vendor that gives an id twice means the same.
        let again = Kept { model: "other".to_owned(), ..kept("resp_1", "resp_1", 7) };
        writer.kept(vec![again, kept("resp_2", "resp_2", 7)]).await.unwrap();
        for known in &all {
            assert_eq!(store.kept(mine, &known.id).await.unwrap().as_ref(), Some(known));
            assert_eq!(store.kept(other, &known.id).await.unwrap(), None);
        }
        store.forget_kept(other, "resp_1").await.unwrap();
        assert!(store.kept(mine, "resp_1").await.unwrap().is_some());
        store.forget_kept(mine, "resp_1").await.unwrap();
        for known in &all {
            assert_eq!(store.kept(mine, &known.id).await.unwrap(), None);
        }
        assert!(store.kept(mine, "resp_2").await.unwrap().is_some());
        while store.purge_steps(NOW.minus_micros(-400 * DAY)).await.unwrap() > 0 {}
        assert_eq!(store.kept(mine, "resp_2").await.unwrap(), None);
        store.close().await;
    }
}
