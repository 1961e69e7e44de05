//! Both databases end with the same tables and columns.

use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{Claim, Error, Location};

use crate::support::{Database, databases};

/// The last change, undone.
const DOWNGRADE: &str = "
    DROP TABLE usage_groups;
    DROP TABLE usage_grouped;
    DELETE FROM _sqlx_migrations WHERE version = 20";

async fn execute(database: &Database, statement: &'static str) {
    match &database.location {
        Location::Sqlite(path) => {
            let url = format!("sqlite://{}", path.display());
            let mut db = SqliteConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        }
        Location::Postgres(url) => {
            let mut db = PgConnection::connect(url.expose()).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_visitor_changes_no_schema() {
    for database in databases().await {
        // There is none yet.
        database.try_open([7; 32], Claim::Visit).await.unwrap().close().await;
        // As a binary before this one has left it.
        execute(&database, DOWNGRADE).await;
        let refused = database.try_open([7; 32], Claim::Visit).await;
        assert!(matches!(refused, Err(Error::Older { .. })), "{}: {refused:?}", database.kind);
        // An exclusive claim brings it up to date.
        database.try_open([7; 32], Claim::Alone).await.unwrap().close().await;
        database.try_open([7; 32], Claim::Visit).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn both_schemas_have_the_same_tables_and_columns() {
    let all = databases().await;
    let [sqlite, postgres] = all.as_slice() else {
        eprintln!("only SQLite is at hand: set SLUICE_TEST_PG to compare");
        return;
    };
    for database in &all {
        database.open().await.close().await;
    }
    let (Location::Sqlite(path), Location::Postgres(url)) = (&sqlite.location, &postgres.location)
    else {
        unreachable!("SQLite comes first")
    };
    let mut db = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let ours = "SELECT m.name, p.name FROM sqlite_master m JOIN pragma_table_info(m.name) p
        WHERE m.type = 'table' AND m.name NOT LIKE '\\_%' ESCAPE '\\' AND m.name NOT LIKE 'sqlite%'
        ORDER BY m.name, p.cid";
    let left: Vec<(String, String)> = sqlx::query_as(ours).fetch_all(&mut db).await.unwrap();
    let mut db = PgConnection::connect(url.expose()).await.unwrap();
    let theirs = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT)
        FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name NOT LIKE '\\_%'
        ORDER BY table_name, ordinal_position";
    let mut right: Vec<(String, String)> = sqlx::query_as(theirs).fetch_all(&mut db).await.unwrap();
    // The two collate an underscore differently.
    right.sort_by_key(|(table, _)| table.clone());
    assert!(left.len() > 100);
    assert_eq!(left, right);
}
