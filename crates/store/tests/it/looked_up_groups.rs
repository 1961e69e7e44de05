//! Groups that are not among the dearest of the hours that are summed, and may be with the steps since.

use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::StepId;
use domain::money::Usd;
use domain::time::{HOUR, MINUTE, Timestamp};
use store::Dimension;

use crate::support::{NOW, databases, project, run, trace, trace_id};

#[tokio::test]
async fn a_group_is_looked_up_once_until_another_hour_is_summed() {
    for database in databases().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let hour = NOW.hour();
        let write = async |id: i64, user: &str, cost: i64, at: Timestamp| {
            let mut step = run(project, trace_id(1), StepId(id));
            (step.finished_at, step.source) = (at, None);
            let user = Some(user.to_owned());
            step.attributes = Some(Arc::new(Attributes { user, ..Attributes::default() }));
            step.call.as_mut().unwrap().cost = Usd(cost);
            store.writer().step(step, None).await.unwrap();
        };
        let past = Timestamp((hour - 3) * HOUR);
        let summed = [("ann", 90), ("bob", 80), ("cy", 70), ("dee", 40)];
        for (id, (user, cost)) in (100..).zip(summed) {
            write(id, user, cost, past).await;
        }
        while store.group_next_hour(project, NOW).await.unwrap() {}
        let by = Dimension::parse("user").unwrap();
        let dearest = async |end: Timestamp| {
            let usage = store.usage_by(project, &by, hour - 10, end, 1).await.unwrap();
            let [group] = &usage.groups[..] else { panic!("{usage:?}") };
            (group.value.clone(), group.cost().0)
        };
        let now = Timestamp(hour * HOUR + MINUTE);
        let end = Timestamp(now.0 + 1);
        write(104, "cy", 50, now).await;
        assert_eq!(dearest(end).await, ("cy".to_owned(), 120), "{}", database.kind);
        // The total stays the same.
        database.execute("UPDATE usage_groups SET cost = 0 WHERE value = 'cy'").await;
        assert_eq!(dearest(end).await, ("cy".to_owned(), 120), "{}", database.kind);
        // One that has come since is looked up beside it.
        write(105, "dee", 85, now).await;
        assert_eq!(dearest(end).await, ("dee".to_owned(), 125), "{}", database.kind);
        database.execute("UPDATE usage_groups SET cost = 0 WHERE value = 'dee'").await;
        let later = Timestamp((hour + 1) * HOUR + 5 * MINUTE);
        while store.group_next_hour(project, later).await.unwrap() {}
        assert_eq!(store.grouped_until(project).await.unwrap(), Some(hour + 1));
        assert_eq!(dearest(later).await, ("ann".to_owned(), 90), "{}", database.kind);
        store.close().await;
    }
}
