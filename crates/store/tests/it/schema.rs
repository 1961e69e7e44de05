//! Both databases end with the same tables and columns.

use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{Claim, Error, Location};

use crate::support::{Database, databases};

/// The last change, undone.
const DOWNGRADE: &str = "
    DROP TABLE export_pieces;
    DELETE FROM _sqlx_migrations WHERE version = 21";

/// The beginnings of the SHA-384 sums of every migration, for SQLite and for PostgreSQL. A row is added, and
/// none is changed: a database keeps the sums of what has run, and no binary with another text opens it.
const SUMS: [(&str, &str); 21] = [
    ("813e4a40", "ddfe27c9"),
    ("5f0ecbcf", "7c62e46e"),
    ("cdcd5a47", "6fad5095"),
    ("4cc5947f", "76470a73"),
    ("dab1cfff", "88149eae"),
    ("01489e81", "c8f6f2d7"),
    ("4afe1876", "4afe1876"),
    ("d636ee9c", "9da4e44d"),
    ("85ea2686", "795e25c6"),
    ("cda002b1", "cda002b1"),
    ("17fe73e7", "17fe73e7"),
    ("61b3470e", "61b3470e"),
    ("7ba97a65", "7ba97a65"),
    ("0cc9c60b", "0cc9c60b"),
    ("79e193a8", "40d373cb"),
    ("220cece5", "4ce83814"),
    ("082dcdcd", "167b56f8"),
    ("e47348ba", "e47348ba"),
    ("2870731b", "769bb9a6"),
    ("5e531d07", "24a829c1"),
    ("04702661", "119741a6"),
];

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
async fn no_migration_that_has_run_changes() {
    const SUM: &str = "SELECT checksum FROM _sqlx_migrations ORDER BY version";
    for database in databases().await {
        database.open().await.close().await;
        let sums: Vec<Vec<u8>> = match &database.location {
            Location::Sqlite(path) => {
                let url = format!("sqlite://{}", path.display());
                let mut db = SqliteConnection::connect(&url).await.unwrap();
                sqlx::query_scalar(SUM).fetch_all(&mut db).await.unwrap()
            }
            Location::Postgres(url) => {
                let mut db = PgConnection::connect(url.expose()).await.unwrap();
                sqlx::query_scalar(SUM).fetch_all(&mut db).await.unwrap()
            }
        };
        let shown = |sum: &Vec<u8>| -> String {
            sum.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
        };
        let found: Vec<String> = sums.iter().map(shown).collect();
        let is_sqlite = matches!(database.location, Location::Sqlite(_));
        let known = SUMS.map(|(sqlite, postgres)| if is_sqlite { sqlite } else { postgres });
        assert_eq!(found, known, "{}", database.kind);
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
