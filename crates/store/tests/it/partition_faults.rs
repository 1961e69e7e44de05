//! Partitions of steps where something is not as it should be: clocks, long rules, what operators have added.

use domain::ids::StepId;
use domain::time::{DAY, MINUTE};
use store::PartitionWatch;

use crate::partition_changes::{PLACES, TODAY, keep, parts, postgres};
use crate::partition_drops::{
    has, id, left, maintenance, prepared, purged, sum, two_detached, write,
};
use crate::retention::{in_days, of_model, rules};
use crate::support::{NOW, project, run, trace, trace_id};

const DETACHED: &str = "SELECT name FROM detached_partitions";

#[tokio::test]
async fn a_clock_that_is_far_from_that_of_the_server_changes_nothing() {
    const COUNTER: &str = "SELECT CAST(value AS TEXT) FROM counters WHERE name = 'step'";
    for database in postgres().await {
        let store = database.open().await;
        let keep = async |now| {
            store.keep_partitions(now, &mut PartitionWatch::default()).await.unwrap();
        };
        let mut keeper = maintenance(&store).await;
        let server = keeper.server_time().await.unwrap();
        keeper.end().await;
        keep(server.minus_micros(3 * DAY)).await;
        assert_eq!(parts(&database).await, [""; 0], "{}", database.kind);
        keep(server).await;
        let before = (parts(&database).await, database.texts(COUNTER).await);
        assert!(before.0.len() > 7, "{}", database.kind);
        keep(server.minus_micros(-3 * DAY)).await;
        let after = (parts(&database).await, database.texts(COUNTER).await);
        assert_eq!(after, before, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_rule_of_a_hundred_years_makes_partitions_of_a_week() {
    for database in postgres().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        rules(&store, project, &[("short", 2), ("longest", 36_500)]).await;
        keep(&store, NOW).await;
        assert_eq!(parts(&database).await, ["before", "d20776", "rest"]);
        let step = run(project, trace_id(1), StepId(id(7, 0)));
        store.writer().step(step, None).await.unwrap();
        assert_eq!(database.texts(PLACES).await, ["steps_d20776"], "{}", database.kind);
        // The week ends within the next one.
        keep(&store, in_days(1)).await;
        assert_eq!(parts(&database).await, ["before", "d20776", "d20783", "rest"]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_partition_that_cannot_go_stays_and_others_go() {
    const REFUSE: &str = "
        CREATE FUNCTION refuse() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$
        BEGIN
            IF current_query() LIKE '%DETACH PARTITION steps_before%' THEN
                RAISE EXCEPTION 'it is refused';
            END IF;
        END $$;
        CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
            EXECUTE FUNCTION refuse()";
    const VIEW: &str = "CREATE VIEW mine AS SELECT id FROM steps_before";
    const KEY: &str = "CREATE TABLE mine (id BIGINT REFERENCES step_contents_before)";
    for database in postgres().await {
        let (store, project, _) = prepared(&database).await;
        write(&store, [of_model(project, 1, id(1, 0), "short", 1)]).await;
        sum(&store, project, in_days(5)).await;
        for (days, make, drop) in [
            (5, REFUSE, "DROP EVENT TRIGGER refuse"),
            (6, VIEW, "DROP VIEW mine"),
            (7, KEY, "DROP TABLE mine"),
        ] {
            database.execute(make).await;
            keep(&store, in_days(days)).await;
            assert!(parts(&database).await.contains(&"before".to_owned()), "{make}");
            assert!(!has(&database, 1).await && !has(&database, days - 2).await, "{make}");
            assert!(has(&database, days - 1).await, "{make}: it is not over for a day");
            database.execute(drop).await;
        }
        keep(&store, in_days(7)).await;
        assert!(!parts(&database).await.contains(&"before".to_owned()), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_partition_that_takes_too_long_to_be_dropped_is_left_alone_for_an_hour() {
    // A sequence counts what is rolled back, too.
    const SLOW: &str = "
        CREATE SEQUENCE attempts;
        CREATE FUNCTION refuse() RETURNS EVENT_TRIGGER LANGUAGE plpgsql AS $$
        BEGIN
            IF current_query() ~ 'steps_k[0-9]+' THEN
                PERFORM nextval('attempts');
                RAISE EXCEPTION 'it takes too long' USING ERRCODE = '57014';
            END IF;
        END $$";
    const TO_COPY: &str = "
        CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE TABLE')
            EXECUTE FUNCTION refuse()";
    const TO_ATTACH: &str = "
        CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('ALTER TABLE')
            EXECUTE FUNCTION refuse()";
    const ATTEMPTS: &str = "SELECT CAST(last_value AS TEXT) FROM attempts WHERE is_called";
    for slow in [TO_COPY, TO_ATTACH] {
        for database in postgres().await {
            let (store, project, _) = prepared(&database).await;
            write(
                &store,
                [
                    of_model(project, 1, id(1, 0), "short", 1),
                    of_model(project, 2, id(1, 1), "long", 1),
                ],
            )
            .await;
            let after = |minutes: i64| in_days(4).minus_micros(-minutes * MINUTE);
            sum(&store, project, after(0)).await;
            database.execute(SLOW).await;
            database.execute(slow).await;
            let mut keeper = maintenance(&store).await;
            let mut watch = PartitionWatch::default();
            for (minutes, attempts) in [(0, "1"), (30, "1"), (61, "2")] {
                keeper.run(after(minutes), true, &mut watch).await.unwrap();
                assert_eq!(database.texts(ATTEMPTS).await, [attempts], "{minutes} min: {slow}");
                assert!(has(&database, 1).await, "{}", database.kind);
                assert!(!has(&database, 2).await, "{}: others go", database.kind);
            }
            database.execute("DROP EVENT TRIGGER refuse").await;
            keeper.run(after(122), true, &mut watch).await.unwrap();
            assert!(!has(&database, 1).await, "{}", database.kind);
            assert_eq!(left(&store, 1).await, [0; 0], "{}", database.kind);
            assert_eq!(left(&store, 2).await, [id(1, 1)], "{}", database.kind);
            keeper.end().await;
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_table_that_cannot_be_dropped_is_emptied_and_keeps_no_other() {
    const VIEWS: &str = "
        CREATE VIEW mine AS SELECT id FROM steps_d20776;
        CREATE VIEW mine_too AS SELECT step_id FROM step_contents_d20776";
    const LEFT: &str = "
        SELECT CAST(id AS TEXT) FROM steps_d20776
        UNION ALL SELECT CAST(step_id AS TEXT) FROM step_contents_d20776";
    const TABLES: &str =
        "SELECT CAST(relname AS TEXT) FROM pg_class WHERE relname ~ 'step.*_(d20776|d20777)$'";
    for database in postgres().await {
        let (store, project, now, costs) = two_detached(&database).await;
        let costs = costs.map(Some);
        database.execute(VIEWS).await;
        let kept = async || {
            [
                purged(&store, project, 1).await.map(|kept| kept.cost),
                purged(&store, project, 2).await.map(|kept| kept.cost),
            ]
        };
        for _ in 0..2 {
            keep(&store, now).await;
            assert_eq!(database.texts(DETACHED).await, ["steps_d20776"], "{}", database.kind);
            assert_eq!(database.texts(LEFT).await, [""; 0], "{}", database.kind);
            assert_eq!(kept().await, costs, "{}", database.kind);
        }
        // Nothing is left to wait for.
        assert_eq!(store.fail_idle_traces(project, in_days(4), 10).await.unwrap().len(), 3);
        database.execute("DROP VIEW mine, mine_too").await;
        keep(&store, now).await;
        assert_eq!(database.texts(DETACHED).await, [""; 0], "{}", database.kind);
        assert_eq!(database.texts(TABLES).await, [""; 0], "{}", database.kind);
        assert_eq!(kept().await, costs, "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn a_batch_that_fails_keeps_no_other_partition_and_no_contents() {
    const REFUSE: &str = "
        CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT EXISTS (SELECT 1 FROM traces t WHERE t.id < NEW.id) THEN
                RAISE EXCEPTION 'it takes too long' USING ERRCODE = '57014';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON traces FOR EACH ROW EXECUTE FUNCTION refuse()";
    const CONTENTS: &str = "SELECT CAST(to_regclass('step_contents_d20776') IS NULL AS TEXT)";
    for database in postgres().await {
        let (store, project, data) = prepared(&database).await;
        let steps = [1, 2].map(|day| of_model(project, day as u128, id(day, 0), "short", day));
        let [first, second] = steps.clone().map(|step| Some(step.cost()));
        for step in steps {
            store.writer().step(step, Some((b"{}", &data))).await.unwrap();
        }
        let now = in_days(6);
        sum(&store, project, now).await;
        database.execute(REFUSE).await;
        keep(&store, now).await;
        assert!(!has(&database, 1).await && !has(&database, 2).await, "{}", database.kind);
        assert_eq!(database.texts(DETACHED).await, ["steps_d20776"], "{}", database.kind);
        assert_eq!(database.texts(CONTENTS).await, ["true"], "{}", database.kind);
        assert_eq!(purged(&store, project, 2).await.map(|kept| kept.cost), second);
        database.execute("DROP TRIGGER refuse ON traces").await;
        keep(&store, now).await;
        assert_eq!(database.texts(DETACHED).await, [""; 0], "{}", database.kind);
        assert_eq!(purged(&store, project, 1).await.map(|kept| kept.cost), first);
        store.close().await;
    }
}

#[tokio::test]
async fn partitioned_tables_have_statistics_and_the_owner_and_the_indices_of_the_plain_ones() {
    const OWN: &str = "
        ALTER TABLE steps OWNER TO pg_monitor;
        CREATE UNIQUE INDEX mine_with_id ON steps (trace_id, id);
        CREATE UNIQUE INDEX mine_without ON steps (trace_id, started_at, finished_at);
        CREATE UNIQUE INDEX mine_beside ON steps (trace_id, finished_at, started_at) INCLUDE (id)";
    const OWNERS: &str = "
        SELECT DISTINCT CAST(pg_get_userbyid(relowner) AS TEXT) FROM pg_class
        WHERE relname ~ '^steps(_before|_rest|_d[0-9]+)?$' AND relkind IN ('r', 'p')";
    const INDICES: &str = "
        SELECT CAST(CAST(indexrelid AS REGCLASS) AS TEXT) FROM pg_index
        WHERE indrelid = to_regclass('steps') AND CAST(CAST(indexrelid AS REGCLASS) AS TEXT) LIKE 'mine%'";
    const ROWS: &str = "
        SELECT CAST(CAST(reltuples AS BIGINT) AS TEXT) FROM pg_class
        WHERE oid IN (to_regclass('steps'), to_regclass('step_contents')) ORDER BY relname";
    for database in postgres().await {
        let store = database.open().await;
        let (project, data) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        let step = run(project, trace_id(1), StepId(1));
        store.writer().step(step, Some((b"{}", &data))).await.unwrap();
        database.execute(OWN).await;
        keep(&store, NOW).await;
        assert_eq!(parts(&database).await.len(), 9, "{}", database.kind);
        assert_eq!(database.texts(OWNERS).await, ["pg_monitor"], "{}", database.kind);
        assert_eq!(database.texts(INDICES).await, ["mine_with_id"], "{}", database.kind);
        assert_eq!(database.texts(ROWS).await, ["1", "1"], "{}", database.kind);
        assert_eq!(TODAY, 20_775);
        store.close().await;
    }
}

#[tokio::test]
async fn a_table_whose_usual_sample_takes_too_long_is_analyzed_by_a_small_one() {
    // PostgreSQL computes the expression for each row of its sample. A table that was analyzed within a day is to be
    // analyzed again.
    const SLOW: &str = "
        CREATE FUNCTION slow(BIGINT) RETURNS BIGINT IMMUTABLE LANGUAGE plpgsql AS $$
        BEGIN
            IF current_setting('default_statistics_target') <> '10' THEN
                RAISE EXCEPTION 'it takes too long' USING ERRCODE = '57014';
            END IF;
            RETURN $1;
        END $$;
        CREATE STATISTICS slow ON (slow(id)) FROM steps;
        SELECT pg_stat_reset()";
    const ROWS: &str = "
        SELECT CAST(CAST(reltuples AS BIGINT) AS TEXT) FROM pg_class WHERE oid = to_regclass('steps')";
    for database in postgres().await {
        let store = database.open().await;
        let (project, _) = project(&store).await;
        store.writer().trace(trace(project, 1)).await.unwrap();
        write(&store, [run(project, trace_id(1), StepId(1))]).await;
        keep(&store, NOW).await;
        assert_eq!(database.texts(ROWS).await, ["1"], "{}", database.kind);
        database.execute(SLOW).await;
        write(&store, [run(project, trace_id(1), StepId(2))]).await;
        keep(&store, NOW).await;
        assert_eq!(database.texts(ROWS).await, ["2"], "{}", database.kind);
        store.close().await;
    }
}
