//! Both databases end with the same tables and columns.

use domain::project::Role;
use sqlx::{Connection, PgConnection, SqliteConnection};
use store::{Claim, Error, Location};

use crate::support::{NOW, databases, project};

/// The last change, undone.
const DOWNGRADE: &str = "
    DROP TABLE detached_partitions;
    ALTER TABLE traces DROP COLUMN total_after;
    DELETE FROM _sqlx_migrations WHERE version = 37";

/// The beginnings of the SHA-384 sums of every migration, for SQLite and for PostgreSQL. A row is added, and
/// none is changed: a database keeps the sums of what has run, and no binary with another text opens it.
const SUMS: [(u32, u32); 36] = [
    (0x813e_4a40, 0xddfe_27c9),
    (0x5f0e_cbcf, 0x7c62_e46e),
    (0xcdcd_5a47, 0x6fad_5095),
    (0x4cc5_947f, 0x7647_0a73),
    (0xdab1_cfff, 0x8814_9eae),
    (0x0148_9e81, 0xc8f6_f2d7),
    (0x4afe_1876, 0x4afe_1876),
    (0xd636_ee9c, 0x9da4_e44d),
    (0x85ea_2686, 0x795e_25c6),
    (0xcda0_02b1, 0xcda0_02b1),
    (0x17fe_73e7, 0x17fe_73e7),
    (0x61b3_470e, 0x61b3_470e),
    (0x7ba9_7a65, 0x7ba9_7a65),
    (0x0cc9_c60b, 0x0cc9_c60b),
    (0x79e1_93a8, 0x40d3_73cb),
    (0x220c_ece5, 0x4ce8_3814),
    (0x082d_cdcd, 0x167b_56f8),
    (0xe473_48ba, 0xe473_48ba),
    (0x2870_731b, 0x769b_b9a6),
    (0x5e53_1d07, 0x24a8_29c1),
    (0x0470_2661, 0x1197_41a6),
    (0x7717_b3ff, 0x7717_b3ff),
    (0x65bf_a2da, 0x98fc_311a),
    (0x8586_3e4c, 0x45ae_3dd3),
    (0x9106_834c, 0xf754_d7ef),
    (0xdec0_c0d1, 0xd931_8b56),
    (0x283e_c1e5, 0x4cb1_68fd),
    (0x01e1_b391, 0x9cf0_eb62),
    (0x7408_6b43, 0x19af_c998),
    (0x7d0a_45ab, 0x3848_8746),
    (0x501f_7232, 0xc6ee_b866),
    (0xdf6f_d2da, 0x5c78_02d4),
    (0x2bb2_349e, 0xf0a8_365e),
    (0xfdee_6e26, 0xfdee_6e26),
    (0x2eb7_14df, 0x0015_2b6f),
    (0x62ca_2718, 0x62ca_2718),
];

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
            Location::Postgres(url) | Location::Pooled { direct: url, .. } => {
                let mut db = PgConnection::connect(url.expose()).await.unwrap();
                sqlx::query_scalar(SUM).fetch_all(&mut db).await.unwrap()
            }
        };
        let begin = |sum: &Vec<u8>| u32::from_be_bytes(*sum.first_chunk().unwrap());
        let found: Vec<u32> = sums.iter().map(begin).collect();
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
        database.execute(DOWNGRADE).await;
        let refused = database.try_open([7; 32], Claim::Visit).await;
        assert!(matches!(refused, Err(Error::Older { .. })), "{}: {refused:?}", database.kind);
        // An exclusive claim brings it up to date.
        database.try_open([7; 32], Claim::Alone).await.unwrap().close().await;
        database.try_open([7; 32], Claim::Visit).await.unwrap().close().await;
    }
}

/// Users of single sign-on as migration 0030 finds them.
const BEFORE_0030: &str = "
    ALTER TABLE users DROP COLUMN made_by_sign_on;
    ALTER TABLE identities ADD COLUMN made_user BOOLEAN NOT NULL DEFAULT FALSE;
    DROP TABLE unlinked_identities;
    ALTER TABLE review_verdicts DROP COLUMN token_id;
    DELETE FROM _sqlx_migrations WHERE version = 30;
    UPDATE identities SET made_user = TRUE WHERE subject = 'made'";

#[tokio::test]
async fn users_whom_a_sign_on_has_made_are_known_after_0030() {
    const MADE: &str = "SELECT email FROM users WHERE made_by_sign_on ORDER BY email";
    for database in databases().await {
        let store = database.open().await;
        project(&store).await;
        let org = store.first_org().await.unwrap().unwrap();
        let mut tx = store.begin().await.unwrap();
        for name in ["linked", "made", "plain"] {
            let email = format!("{name}@b.test");
            let user = tx.add_user(org, &email, "hash", Role::Member, NOW).await.unwrap();
            if name != "plain" {
                tx.add_identity(user, ("https://issuer.test", name), &email, NOW).await.unwrap();
            }
        }
        tx.commit().await.unwrap();
        store.close().await;
        database.execute(BEFORE_0030).await;
        database.open().await.close().await;
        assert_eq!(database.texts(MADE).await, ["made@b.test"], "{}", database.kind);
        let linked = database.texts("SELECT subject FROM identities ORDER BY subject").await;
        assert_eq!(linked, ["linked", "made"], "{}", database.kind);
    }
}

#[tokio::test]
async fn both_schemas_have_the_same_tables_and_columns() {
    let all = databases().await;
    let [sqlite, postgres, ..] = all.as_slice() else {
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
