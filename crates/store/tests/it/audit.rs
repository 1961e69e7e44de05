//! Audit events: their lists, and the chains that show what was changed.

use std::sync::Arc;

use domain::ids::{OrgId, UserId};
use domain::time::{SECOND, Timestamp};
use serde_json::{Map, Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use store::{
    Actor, Audit, AuditFilter, ChainBreak, ChainCheck, ChainFault, ChainReport, Claim, Location,
    NewAudit, Store,
};
use tokio::task::JoinSet;

use crate::support::{Database, Dice, NOW, databases, databases_with_dice, project};

fn event(org: OrgId, event: &'static str, number: usize) -> NewAudit<'static> {
    NewAudit {
        org,
        event,
        actor: Some(Actor::User(UserId(1), "a@b.test")),
        target: Some(("key", number.to_string())),
        ip: "::1",
        user_agent: "curl\u{0}",
        metadata: Map::from_iter([
            ("rate".to_owned(), json!(0.1)),
            ("a".to_owned(), json!("\u{0}ü")),
        ]),
        at: Timestamp(NOW.0 + 7),
    }
}

async fn write(store: &Store, event: &NewAudit<'_>) -> i64 {
    let mut tx = store.begin().await.unwrap();
    let id = tx.audit(event).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// A store with an organization, and that.
async fn opened(database: &Database) -> (Store, OrgId) {
    let store = database.open().await;
    project(&store).await;
    let org = store.first_org().await.unwrap().unwrap();
    (store, org)
}

/// Three chains, of 4, 1 and 4 links.
async fn three_chains(database: &Database) -> OrgId {
    let (store, org) = opened(database).await;
    store.close().await;
    for links in [4, 1, 4] {
        let store = database.open().await;
        for number in 0..links {
            write(&store, &event(org, "key_created", number)).await;
        }
        store.close().await;
    }
    org
}

/// Runs a statement behind the back of the store.
async fn tamper(database: &Database, statement: &str) {
    let statement = AssertSqlSafe(statement.to_owned());
    match &database.location {
        Location::Sqlite(path) => {
            let url = format!("sqlite://{}", path.display());
            let mut db = SqliteConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        }
        Location::Postgres(url) | Location::Pooled { direct: url, .. } => {
            let mut db = PgConnection::connect(url.expose()).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        }
    }
}

async fn verify(database: &Database) -> ChainReport {
    let store = database.try_open([7; 32], Claim::Look).await.unwrap();
    let report = store.verify_audit().await.unwrap();
    store.close().await;
    report
}

fn whole(report: &ChainReport) -> (u64, usize) {
    assert_eq!((report.broken, &*report.breaks), (0, &[][..]));
    (report.chained, report.chains)
}

/// The findings of a check of the database, as nodes counted from the first that has a chain.
async fn breaks(database: &Database) -> Vec<(i64, i64, ChainFault)> {
    let report = verify(database).await;
    assert_eq!(report.broken, report.breaks.len() as u64);
    let seen = |found: &ChainBreak| (found.node - 1, found.link, found.fault);
    report.breaks.iter().map(seen).collect()
}

#[tokio::test]
async fn no_concurrent_write_fails_and_every_chain_is_whole() {
    for database in databases().await {
        let (first, org) = opened(&database).await;
        first.close().await;
        // On PostgreSQL gateways beside each other, whose chains begin while others go on.
        let count = if database.location.is_postgres() { 4 } else { 1 };
        let mut stores = Vec::new();
        for _ in 0..count {
            let shared = database.try_open([7; 32], Claim::ServeShared).await.unwrap();
            stores.push(Arc::new(shared));
        }
        let mut writes = JoinSet::new();
        for number in 0..200 {
            let store = stores[number % stores.len()].clone();
            writes.spawn(async move { write(&store, &event(org, "key_created", number)).await });
        }
        let ids = writes.join_all().await;
        assert_eq!(ids.len(), 200);
        let chains = stores.len();
        let report = stores[0].verify_audit().await.unwrap();
        assert_eq!(whole(&report), (200, chains), "{}", database.kind);
        for store in stores {
            Arc::into_inner(store).unwrap().close().await;
        }
    }
}

#[tokio::test]
async fn a_write_that_is_taken_back_leaves_no_gap() {
    for database in databases().await {
        let (store, org) = opened(&database).await;
        for number in 0..4 {
            let mut tx = store.begin().await.unwrap();
            tx.audit(&event(org, "key_created", number)).await.unwrap();
            if number % 2 == 0 {
                drop(tx);
            } else {
                tx.audit(&event(org, "key_revoked", number)).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
        let report = store.verify_audit().await.unwrap();
        assert_eq!(whole(&report), (4, 1), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn what_was_changed_or_removed_is_found() {
    // Nodes count from the one that made the organization, which has no chain.
    let of = |node: i64, link: i64| format!("WHERE node = {} AND link = {link}", node + 1);
    let columns = |columns: &str| format!("UPDATE audit_events SET {columns} {}", of(1, 2));
    let mut cases = vec![
        (format!("DELETE FROM audit_events {}", of(1, 2)), vec![(1, 2, ChainFault::Missing(2))]),
        (format!("DELETE FROM audit_events {}", of(3, 1)), vec![(3, 1, ChainFault::Missing(1))]),
        // The last one: the chain that begins next covers it too.
        (
            format!("DELETE FROM audit_events {}", of(1, 4)),
            vec![
                (1, 4, ChainFault::Missing(4)),
                (2, 1, ChainFault::OtherChains),
                (3, 1, ChainFault::OtherChains),
            ],
        ),
        (format!("DELETE FROM audit_events {}", of(3, 4)), vec![(3, 4, ChainFault::Missing(4))]),
        // A whole chain with its head.
        (
            "DELETE FROM audit_events WHERE node = 3; DELETE FROM audit_heads WHERE node = 3"
                .to_owned(),
            vec![(3, 1, ChainFault::OtherChains)],
        ),
        (
            "DELETE FROM audit_events WHERE node = 4".to_owned(),
            vec![(3, 1, ChainFault::Missing(4))],
        ),
        ("DELETE FROM audit_heads WHERE node = 4".to_owned(), vec![(3, 4, ChainFault::NoHead)]),
        // Two events change places: the target of link N is N - 1.
        (
            "UPDATE audit_events SET target_id = CAST(4 - link AS TEXT) WHERE node = 2 AND link IN (2, 3)"
                .to_owned(),
            vec![(1, 2, ChainFault::Changed), (1, 3, ChainFault::Changed)],
        ),
        // The rows themselves, by their numbers.
        (
            "UPDATE audit_events SET id = 1000 WHERE node = 2 AND link = 2;
             UPDATE audit_events SET id = 2 WHERE node = 2 AND link = 3;
             UPDATE audit_events SET id = 3 WHERE id = 1000"
                .to_owned(),
            vec![
                (1, 2, ChainFault::Missing(2)),
                (1, 2, ChainFault::OutOfOrder),
                (1, 3, ChainFault::Missing(3)),
            ],
        ),
    ];
    let changed = [
        "org_id = 2",
        "event = 'key_revoked'",
        "actor_id = 2",
        "actor_id = NULL",
        "actor = 'cli'",
        "target_type = 'model'",
        "target_id = '9'",
        "ip = '::2'",
        "user_agent = ''",
        "metadata = '{}'",
        "metadata = 'no JSON'",
        "occurred_at = occurred_at + 1",
    ];
    cases.extend(changed.map(|change| (columns(change), vec![(1, 2, ChainFault::Changed)])));
    for database in databases().await {
        three_chains(&database).await;
        let kind = database.kind;
        assert_eq!(whole(&verify(&database).await), (9, 3), "{kind}");
        let keep = "CREATE TABLE kept AS SELECT * FROM audit_events;
            CREATE TABLE kept_heads AS SELECT * FROM audit_heads";
        tamper(&database, keep).await;
        for (statement, found) in &cases {
            tamper(&database, statement).await;
            assert_eq!(&breaks(&database).await, found, "{kind}: {statement}");
            let restore = "DELETE FROM audit_events; INSERT INTO audit_events SELECT * FROM kept;
                DELETE FROM audit_heads; INSERT INTO audit_heads SELECT * FROM kept_heads";
            tamper(&database, restore).await;
        }
        assert_eq!(whole(&verify(&database).await), (9, 3), "{kind}");
    }
}

#[tokio::test]
async fn a_recount_of_perimeter_blocks_leaves_the_chain_whole() {
    for database in databases().await {
        let (store, org) = opened(&database).await;
        let counted = |count: u64| {
            let metadata =
                [("why", json!("invalid key")), ("count", json!(count)), ("others", json!(3))];
            Map::from_iter(metadata.map(|(name, value)| (name.to_owned(), value)))
        };
        let block = NewAudit { metadata: counted(1), ..event(org, "perimeter_block", 1) };
        let block = write(&store, &block).await;
        let other = write(&store, &event(org, "key_created", 2)).await;
        let mut tx = store.begin().await.unwrap();
        tx.retell_audit(block, counted(700)).await.unwrap();
        // Nothing else is updated.
        tx.retell_audit(other, counted(700)).await.unwrap();
        tx.commit().await.unwrap();
        let (read, _) = store.audit_events(org, &AuditFilter::default(), None, 9).await.unwrap();
        assert_eq!(
            (&read[1].metadata["count"], &read[0].metadata["count"]),
            (&json!(700), &Value::Null)
        );
        assert_eq!(whole(&store.verify_audit().await.unwrap()), (2, 1), "{}", database.kind);
        store.close().await;
    }
}

#[tokio::test]
async fn events_of_before_the_chain_are_counted() {
    for database in databases().await {
        let (store, org) = opened(&database).await;
        let old = "INSERT INTO audit_events (org_id, event, ip, user_agent, metadata, occurred_at)
            VALUES (1, 'logout', '', '', '{}', 5)";
        for _ in 0..3 {
            tamper(&database, old).await;
        }
        let none = store.verify_audit().await.unwrap();
        assert_eq!((none.not_chained, none.chained, none.late), (3, 0, 0));
        write(&store, &event(org, "key_created", 1)).await;
        let report = store.verify_audit().await.unwrap();
        assert_eq!((whole(&report), report.not_chained, report.late), ((1, 1), 3, 0));
        tamper(&database, old).await;
        let report = store.verify_audit().await.unwrap();
        assert_eq!((whole(&report), report.not_chained, report.late), ((1, 1), 4, 1));
        // A link that is made an event of before leaves a gap.
        write(&store, &event(org, "key_created", 2)).await;
        tamper(&database, "UPDATE audit_events SET node = NULL WHERE link = 1").await;
        assert!(store.verify_audit().await.unwrap().broken > 0, "{}", database.kind);
        store.close().await;
    }
}

/// Events of two organizations with few different values, by their numbers.
async fn many_events(store: &Store, orgs: [OrgId; 2], dice: &mut Dice) -> Vec<(OrgId, Audit)> {
    const EVENTS: [&str; 3] = ["key_created", "logout", "project_updated"];
    const ACTORS: [Option<Actor<'_>>; 3] =
        [None, Some(Actor::CommandLine), Some(Actor::User(UserId(1), "a@b.test"))];
    const TARGETS: [Option<(&str, &str)>; 4] =
        [None, Some(("key", "1")), Some(("key", "2")), Some(("project", "1"))];
    let mut made = Vec::new();
    for _ in 0..150 {
        let mut pick = |sides: usize| dice.next(sides as u64) as usize;
        let org = orgs[pick(2)];
        let target = TARGETS[pick(4)];
        let new = NewAudit {
            org,
            event: EVENTS[pick(3)],
            actor: ACTORS[pick(3)],
            target: target.map(|(kind, id)| (kind, id.to_owned())),
            ip: "",
            user_agent: "",
            metadata: Map::new(),
            // Clocks go back.
            at: Timestamp(NOW.0 + SECOND * pick(10) as i64),
        };
        let id = write(store, &new).await;
        let actor = match new.actor {
            None => None,
            Some(Actor::CommandLine) => Some("cli".to_owned()),
            Some(Actor::User(_, name) | Actor::ServiceToken(name)) => Some(name.to_owned()),
        };
        let audit = Audit {
            id,
            event: new.event.to_owned(),
            actor,
            target_type: target.map(|(kind, _)| kind.to_owned()),
            target_id: target.map(|(_, id)| id.to_owned()),
            ip: String::new(),
            user_agent: String::new(),
            metadata: json!({}),
            at: new.at,
        };
        made.push((org, audit));
    }
    made
}

fn fits(filter: &AuditFilter, audit: &Audit) -> bool {
    let same = |wanted: &Option<String>, found: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
    };
    filter.from.is_none_or(|from| audit.at >= from)
        && filter.to.is_none_or(|to| audit.at < to)
        && same(&filter.event, Some(&audit.event))
        && same(&filter.actor, audit.actor.as_deref())
        && same(&filter.target_type, audit.target_type.as_deref())
        && same(&filter.target_id, audit.target_id.as_deref())
}

fn any_filter(dice: &mut Dice) -> AuditFilter {
    let mut one = |words: &[&str]| {
        let at = dice.next(words.len() as u64 * 2) as usize;
        words.get(at).map(|word| (*word).to_owned())
    };
    let (event, actor) =
        (one(&["key_created", "logout", "none"]), one(&["cli", "a@b.test", "A@B.test"]));
    let (target_type, target_id) = (one(&["key", "project"]), one(&["1", "2"]));
    let mut time = || (dice.next(2) == 0).then(|| Timestamp(NOW.0 + SECOND * dice.next(11) as i64));
    AuditFilter { from: time(), to: time(), actor, event, target_type, target_id }
}

#[tokio::test]
async fn pages_and_exports_have_the_events_that_fit_once_and_of_no_other_organization() {
    for (database, mut dice) in databases_with_dice().await {
        let (store, first) = opened(&database).await;
        let mut tx = store.begin().await.unwrap();
        let second = tx.add_org("Other", NOW).await.unwrap();
        tx.commit().await.unwrap();
        let made = many_events(&store, [first, second], &mut dice).await;
        let mut found = 0;
        for round in 0..60 {
            let filter = if round == 0 { AuditFilter::default() } else { any_filter(&mut dice) };
            let org = [first, second][round % 2];
            let model: Vec<i64> = made
                .iter()
                .filter(|(of, audit)| *of == org && fits(&filter, audit))
                .map(|(_, audit)| audit.id)
                .collect();
            found += model.len();
            let exported = store.audit_records(org, &filter, 0, i64::MAX).await.unwrap();
            let ids: Vec<i64> = exported.iter().map(|record| record.id).collect();
            assert_eq!(ids, model, "{}: {filter:?}", database.kind);
            assert!(exported.iter().all(|record| record.org == org.0));
            // An export with a filter is sound, with gaps.
            let mut check = ChainCheck::new(true);
            for record in &exported {
                check.see(record);
            }
            assert_eq!(check.end(None).broken, 0);
            let most = 1 + dice.next(9) as usize;
            let (mut paged, mut before) = (Vec::new(), None);
            loop {
                let page = store.audit_events(org, &filter, before, most as i64).await.unwrap();
                let (page, has_more) = page;
                assert!(page.len() <= most);
                paged.extend(page.iter().map(|audit| audit.id));
                if !has_more {
                    break;
                }
                before = page.last().map(|audit| audit.id);
                // New events do not move the pages.
                if round % 10 == 9 {
                    let late = NewAudit { at: Timestamp(0), ..event(org, "late", 0) };
                    write(&store, &late).await;
                    tamper(&database, "UPDATE audit_events SET org_id = 3 WHERE event = 'late'")
                        .await;
                }
            }
            paged.reverse();
            assert_eq!(paged, model, "{}: {filter:?} by {most}", database.kind);
        }
        assert!(found > 100, "{found}");
        store.close().await;
    }
}

#[tokio::test]
async fn large_events_are_read_a_few_at_a_time() {
    for database in databases().await {
        let (store, org) = opened(&database).await;
        let metadata = Map::from_iter([("changes".to_owned(), json!("x".repeat(400_000)))]);
        for number in 0..60 {
            let large =
                NewAudit { metadata: metadata.clone(), ..event(org, "project_updated", number) };
            write(&store, &large).await;
        }
        let all = AuditFilter::default();
        for (most, count) in [(10, 10), (1000, 50)] {
            let (page, has_more) = store.audit_events(org, &all, None, most).await.unwrap();
            assert_eq!((page.len(), has_more), (count, true), "{}", database.kind);
        }
        let (mut after, mut batches) = (0, Vec::new());
        loop {
            let read = store.audit_records(org, &all, after, i64::MAX).await.unwrap();
            let Some(last) = read.last() else { break };
            after = last.id;
            batches.push(read.len());
        }
        assert_eq!(batches, [2; 30], "{}", database.kind);
        assert_eq!(whole(&store.verify_audit().await.unwrap()), (60, 1));
        store.close().await;
    }
}
