//! Sums of findings while what traces keep of a partition that is dropped is not gathered, on PostgreSQL.

use domain::ids::ProjectId;
use domain::time::{HOUR, Timestamp};
use store::{Maintenance, PartitionWatch, Store};

use crate::partition_changes::postgres;
use crate::partition_drops::{detach_all, has, id, maintenance, prepared, sum, write};
use crate::retention::{in_days, of_model};
use crate::support::{Database, NOW};

/// The quarters with findings that are summed.
const SUMMED: &str = "SELECT CAST(count(*) AS TEXT) FROM usage_spans WHERE span = 15 AND pii > 0";

/// So many hours after the second finding.
fn later(hours: i64) -> Timestamp {
    in_days(5).minus_micros(-hours * HOUR)
}

/// A trace with the same finding in a partition that is detached, and not gathered, and in a step since.
async fn detached(database: &Database) -> (Store, ProjectId, Maintenance) {
    let (store, project, _) = prepared(database).await;
    write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
    sum(&store, project, later(0)).await;
    assert_eq!(database.texts(SUMMED).await, ["1"], "{}", database.kind);
    let mut keeper = maintenance(&store).await;
    detach_all(&mut keeper, later(0)).await;
    assert!(!has(database, 1).await, "{}", database.kind);
    write(&store, [of_model(project, 1, id(5, 0), "long", 5)]).await;
    (store, project, keeper)
}

#[tokio::test]
async fn a_finding_counts_once_whose_step_has_gone_with_its_partition() {
    for database in postgres().await {
        let (store, project, mut keeper) = detached(&database).await;
        sum(&store, project, later(1)).await;
        assert_eq!(database.texts(SUMMED).await, ["1"], "{}: it waits", database.kind);
        assert!(keeper.gather(later(1), &mut PartitionWatch::default()).await.unwrap());
        keeper.end().await;
        sum(&store, project, later(1)).await;
        assert_eq!(database.texts(SUMMED).await, ["2"], "{}", database.kind);
        let counts = store.finding_counts(project, NOW, later(1)).await.unwrap();
        assert_eq!((counts.found, counts.pii), (1, 1), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn sums_wait_for_three_hours_for_a_partition_that_is_not_gathered() {
    for database in postgres().await {
        let (store, project, keeper) = detached(&database).await;
        for (hours, summed) in [(1, "1"), (2, "1"), (4, "2")] {
            sum(&store, project, later(hours)).await;
            assert_eq!(database.texts(SUMMED).await, [summed], "{} {hours} h", database.kind);
        }
        keeper.end().await;
        store.close().await;
    }
}
