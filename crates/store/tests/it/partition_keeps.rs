//! Steps that stay when the others of their partition are due, on PostgreSQL.

use domain::ids::StepId;
use domain::time::HOUR;
use store::Claim;

use crate::partition_changes::{PLACES, keep, parts, postgres};
use crate::partition_drops::{
    detached, due, has, id, left, maintenance, prepared, purged, sum, write,
};
use crate::retention::{in_days, note, of_model, purge, rules};
use crate::support::{NOW, project, trace};

/// The tables of partitions of steps that were moved, whether they are attached or not.
const KEPT: &str = "
    SELECT CAST(relname AS TEXT) FROM pg_class WHERE relname ~ '^step.*_k[0-9]+$' AND relkind = 'r' ORDER BY relname";

#[tokio::test]
async fn the_few_steps_that_a_longer_rule_keeps_are_moved_and_the_others_go() {
    for database in postgres().await {
        let (store, project, data) = prepared(&database).await;
        let long = of_model(project, 2, id(1, 1), "long", 1);
        let short = of_model(project, 2, id(1, 2), "short", 1);
        write(&store, [of_model(project, 1, id(1, 0), "short", 1), short.clone()]).await;
        store.writer().step(long.clone(), Some((b"{}", &data))).await.unwrap();
        let now = in_days(1).minus_micros(-60 * HOUR);
        sum(&store, project, now).await;
        keep(&store, now).await;
        assert!(!has(&database, 1).await, "{}", database.kind);
        assert_eq!(database.texts(PLACES).await, ["steps_k20777"]);
        assert_eq!(left(&store, 1).await, [0; 0]);
        assert_eq!(left(&store, 2).await, [id(1, 1)]);
        assert_eq!(store.sealed_contents(&[StepId(id(1, 1))]).await.unwrap().len(), 1);
        assert_eq!(purged(&store, project, 2).await.unwrap().cost, short.cost());
        // It goes when it is due itself.
        sum(&store, project, in_days(12)).await;
        keep(&store, in_days(12)).await;
        assert_eq!(left(&store, 2).await, [0; 0]);
        assert_eq!(database.texts(KEPT).await, [""; 0], "{}", database.kind);
        assert_eq!(purged(&store, project, 2).await.unwrap().cost, short.cost() + long.cost());
        store.close().await;
    }
}

#[tokio::test]
async fn steps_that_are_moved_from_several_days_lie_together() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let ids = [7, id(1, 0), id(2, 0), id(3, 0)];
        for (day, id) in (0..).zip(ids) {
            write(&store, [of_model(project, 1, id, "long", day)]).await;
            write(&store, [of_model(project, 2, id + 1, "short", day)]).await;
        }
        sum(&store, project, in_days(6)).await;
        keep(&store, in_days(6)).await;
        assert_eq!(left(&store, 1).await, ids, "{}", database.kind);
        assert_eq!(left(&store, 2).await, [0; 0]);
        assert_eq!(database.texts(PLACES).await, ["steps_k20779"; 4]);
        assert_eq!(database.texts(KEPT).await, ["step_contents_k20779", "steps_k20779"]);
        // A step that is written late finds a place among them.
        write(&store, [of_model(project, 1, id(2, 5), "long", 6)]).await;
        assert_eq!(database.texts(PLACES).await, ["steps_k20779"; 5]);
        store.close().await;
    }
}

/// One step of trace 1 more than is moved.
const MANY: &str = "
    INSERT INTO steps (id, trace_id, project_id, kind, api_endpoint, status, started_at, finished_at, pii, injection,
                       secret, review, risk_score, model, cost)
    SELECT 20776000000000 + n, t.id, t.project_id, 'run', 'chat', 'completed', t.created_at, t.created_at + 86400000000,
           FALSE, FALSE, FALSE, FALSE, 0, 'long', n
    FROM generate_series(1, 10001) n, (SELECT * FROM traces ORDER BY id LIMIT 1) t";

#[tokio::test]
async fn more_steps_than_are_moved_keep_their_partition() {
    const ONE_LESS: &str = "DELETE FROM steps WHERE id = 20776000000001";
    const MOVED: &str = "SELECT CAST(count(*) AS TEXT) FROM steps_k20777";
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        database.execute(MANY).await;
        write(&store, [of_model(project, 2, id(1, 0), "short", 1)]).await;
        sum(&store, project, in_days(5)).await;
        keep(&store, in_days(5)).await;
        assert!(has(&database, 1).await, "{}", database.kind);
        database.execute(ONE_LESS).await;
        keep(&store, in_days(5)).await;
        assert!(!has(&database, 1).await, "{}", database.kind);
        assert_eq!(database.texts(MOVED).await, ["10000"]);
        assert_eq!(left(&store, 2).await, [0; 0]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_step_that_comes_late_beside_many_keeps_its_partition() {
    const LATE: &str = "
        INSERT INTO steps (id, trace_id, project_id, kind, api_endpoint, status, started_at, finished_at, pii,
                           injection, secret, review, risk_score, model, cost)
        SELECT id + 20000, trace_id, project_id, kind, api_endpoint, status, started_at, finished_at - 1, pii,
               injection, secret, review, risk_score, 'long', cost
        FROM steps WHERE id = 20776000000007";
    const FOR_ANOTHER: &str = "DELETE FROM steps WHERE id = 20776000000001";
    const LEFT: &str = "SELECT CAST(id AS TEXT) FROM steps";
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        database.execute(MANY).await;
        database.execute("UPDATE steps SET model = 'short'").await;
        let now = in_days(5);
        sum(&store, project, now).await;
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(now).await.unwrap();
        let before = due(&mut keeper, now).await.unwrap();
        assert!(keeper.detach(&before).await.unwrap());
        let found = due(&mut keeper, now).await.unwrap();
        database.execute(LATE).await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        // There are as many as there were.
        database.execute(FOR_ANOTHER).await;
        assert!(!keeper.detach(&found).await.unwrap(), "{}", database.kind);
        let found = due(&mut keeper, now).await.unwrap();
        assert!(keeper.detach(&found).await.unwrap(), "{}", database.kind);
        assert_eq!(database.texts(LEFT).await, ["20776000020007"]);
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn steps_are_deleted_alone_when_their_partition_could_have_gone() {
    for database in postgres().await {
        let store = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
        let (project, _) = project(&store).await;
        rules(&store, project, &[("short", 2), ("week", 7), ("long", 365)]).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        // Partitions of seven days.
        keep(&store, NOW).await;
        assert_eq!(parts(&database).await, ["before", "d20776", "rest"]);
        let [week, short] = [("week", id(1, 0)), ("short", id(1, 1))];
        write(&store, [week, short].map(|(model, id)| of_model(project, 1, id, model, 1))).await;
        let mut keeper = maintenance(&store).await;
        // One is due after a week, and its partition after seven days more, or a day and some hours later by a late step.
        // The other is due after two days, and stays for no more than as many again, for the rule of another.
        for (hours, stays) in [
            (5 * 24 + 2, vec![week.1, short.1]),
            (5 * 24 + 4, vec![week.1]),
            (15 * 24 + 2, vec![week.1]),
            (15 * 24 + 4, vec![]),
        ] {
            let now = in_days(1).minus_micros(-hours * HOUR);
            keeper.make_ahead(now).await.unwrap();
            purge(&store, now).await;
            assert_eq!(left(&store, 1).await, stays, "{} {hours} h", database.kind);
        }
        keeper.end().await;
        store.close().await;
    }
}

#[tokio::test]
async fn a_step_that_ends_a_day_late_has_no_other_deleted_alone() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        let (early, late) = (
            of_model(project, 1, id(1, 0), "short", 1),
            of_model(project, 2, id(1, 1), "short", 2),
        );
        write(&store, [early.clone(), late]).await;
        let now = in_days(4).minus_micros(-2 * HOUR);
        let mut keeper = maintenance(&store).await;
        keeper.make_ahead(now).await.unwrap();
        keeper.end().await;
        assert_eq!(purge(&store, now).await, 0, "{}", database.kind);
        keep(&store, now).await;
        assert!(!has(&database, 1).await, "{}", database.kind);
        assert_eq!(purged(&store, project, 1).await.unwrap().cost, early.cost());
        store.close().await;
    }
}

#[tokio::test]
async fn a_note_of_a_trace_that_lost_steps_by_a_longer_rule_stays() {
    const LOST: &str = "UPDATE traces SET purged_cost = 0, purged_days = 90 WHERE id IN (
        SELECT trace_id FROM steps WHERE kind = 'log')";
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [note(project, 2, id(1, 2), None, 1)]).await;
        database.execute(LOST).await;
        for (day, stays) in [(40, vec![id(1, 2)]), (90, vec![id(1, 2)]), (92, vec![])] {
            sum(&store, project, in_days(day)).await;
            keep(&store, in_days(day)).await;
            assert!(!has(&database, 1).await, "{} day {day}", database.kind);
            assert_eq!(left(&store, 2).await, stays, "{} day {day}", database.kind);
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_step_that_its_trace_decides_on_waits_for_what_that_keeps() {
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        rules(&store, project, &[("longer", 40)]).await;
        write(
            &store,
            [of_model(project, 1, id(1, 0), "longer", 1), note(project, 1, id(5, 1), None, 5)],
        )
        .await;
        let now = in_days(43);
        let mut keeper = detached(&store, project, now).await;
        // Neither its trace nor another step shows the rule of 40 days now.
        assert!(!has(&database, 1).await && has(&database, 5).await, "{}", database.kind);
        assert_eq!(purge(&store, now).await, 0, "{}", database.kind);
        assert!(keeper.gather(now, &mut store::PartitionWatch::default()).await.unwrap());
        assert_eq!(purge(&store, now).await, 0, "{}", database.kind);
        assert_eq!(left(&store, 1).await, [id(5, 1)]);
        keeper.make_ahead(in_days(48)).await.unwrap();
        keeper.end().await;
        assert_eq!(purge(&store, in_days(48)).await, 1, "{}", database.kind);
        store.close().await;
    }
}
