//! The changes that a migration may make beside the version before it, which may still run.
//!
//! The first line of a file declares it (`build.rs` reads it): an `-- expand` only adds, and leaves old binaries
//! working; a `-- contract N` takes something away that binaries of schema N and newer do not use, and records
//! that N.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The migrations up to this one are from before there was a rule.
const BEFORE_RULE: u32 = 32;
/// The first migration that declares what it is. The one before it, made at the same time, does not, and is judged
/// as an expand.
const FIRST_DECLARED: u32 = 34;
/// The types of the columns that a migration may add.
const TYPES: [&str; 10] = [
    "BIGINT",
    "BLOB",
    "BOOLEAN",
    "BYTEA",
    "DOUBLE PRECISION",
    "INTEGER",
    "REAL",
    "SMALLINT",
    "TEXT",
    "UUID",
];

/// The statements of a migration in capitals, without comments and with one space between words.
fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join(" ").to_uppercase();
    let words = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ");
    code.split(';').map(words).filter(|statement| !statement.is_empty()).collect()
}

/// The text behind some words, any of which may be missing.
fn after<'t>(statement: &'t str, words: &[&str]) -> &'t str {
    words.iter().fold(statement, |rest, word| rest.strip_prefix(word).unwrap_or(rest).trim_start())
}

/// The name that a text begins with, and what follows it.
fn name(text: &str) -> (&str, &str) {
    let end = text.find([' ', '(']).unwrap_or(text.len());
    (text[..end].trim_matches('"'), text[end..].trim_start())
}

/// The index that a statement makes, if it makes one: whether it is unique, its name, and its table.
fn index(statement: &str) -> Option<(bool, &str, &str)> {
    let rest = statement.strip_prefix("CREATE ")?;
    let is_unique = rest.starts_with("UNIQUE ");
    let rest = after(rest, &["UNIQUE "]).strip_prefix("INDEX ")?;
    let (index, rest) = name(after(rest, &["CONCURRENTLY ", "IF NOT EXISTS "]));
    let (table, _) = name(after(rest.strip_prefix("ON ")?, &["ONLY "]));
    Some((is_unique, index, table))
}

/// The objects that a migration must leave alone, and those that it has made itself.
#[derive(Default)]
struct Schema {
    /// The names of unique indices: an `ON CONFLICT` may need them.
    unique: BTreeSet<String>,
    /// The tables that the file has made so far.
    made: BTreeSet<String>,
}

impl Schema {
    /// Why an expand is none: statements that a binary before it may fail on, which is all but those that are
    /// known to be harmless.
    fn faults(&mut self, text: &str) -> Vec<String> {
        let statements = statements(text);
        statements
            .into_iter()
            .filter(|statement| !self.leaves_old_binaries_working(statement))
            .collect()
    }

    fn leaves_old_binaries_working(&mut self, statement: &str) -> bool {
        if let Some(rest) = statement.strip_prefix("CREATE TABLE ") {
            let (table, columns) = name(after(rest, &["IF NOT EXISTS "]));
            self.made.insert(table.to_owned());
            // Such rows would be in the way of deletions.
            let mut others = columns.split("REFERENCES ").skip(1).map(|rest| name(rest).0);
            return columns.starts_with('(') && others.all(|other| self.made.contains(other));
        }
        if let Some((is_unique, _, table)) = index(statement) {
            return !is_unique || self.made.contains(table);
        }
        if let Some(rest) = statement.strip_prefix("ALTER TABLE ") {
            let (table, changes) = name(after(rest, &["IF EXISTS ", "ONLY "]));
            return self.made.contains(table) || changes.split(", ").all(is_harmless);
        }
        if let Some(rest) = statement.strip_prefix("INSERT INTO ") {
            return self.made.contains(name(rest).0);
        }
        if let Some(rest) = statement.strip_prefix("DROP INDEX ") {
            let (index, rest) = name(after(rest, &["IF EXISTS "]));
            return rest.is_empty() && !self.unique.contains(index);
        }
        statement.starts_with("SET LOCAL ") || statement.starts_with("CREATE VIEW ")
    }
}

/// Whether binaries that do not know of a change to a table work on.
fn is_harmless(change: &str) -> bool {
    if let Some(column) = change.strip_prefix("ADD COLUMN ") {
        let (_, rest) = name(after(column, &["IF NOT EXISTS "]));
        let Some(kind) = TYPES.iter().find(|kind| rest.starts_with(**kind)) else { return false };
        let clauses = rest[kind.len()..].trim();
        return match clauses.split_once("DEFAULT ") {
            None => clauses.is_empty(),
            Some((before, value)) => matches!(before.trim(), "" | "NOT NULL") && is_constant(value),
        };
    }
    // As PostgreSQL names what only refuses rows. An `ON CONFLICT` may need any other.
    let bound = change.strip_prefix("DROP CONSTRAINT ");
    bound.is_some_and(|bound| bound.ends_with("_CHECK") || bound.ends_with("_FKEY"))
}

fn is_constant(value: &str) -> bool {
    let text = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    matches!(value, "TRUE" | "FALSE")
        || value.parse::<f64>().is_ok()
        || text.is_some_and(|text| !text.contains('\''))
}

/// The faults of a file, whatever it declares itself to be.
fn judge(name: &str, text: &str, unique: &BTreeSet<String>) -> Vec<String> {
    let mut schema = Schema { unique: unique.clone(), ..Schema::default() };
    let declared: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    match declared[..] {
        ["--", "expand"] => schema.faults(text),
        ["--", "contract", oldest] => {
            let raises =
                format!("UPDATE SCHEMA_SUPPORT SET OLDEST = {oldest} WHERE OLDEST < {oldest}");
            let is_raised = statements(text).contains(&raises);
            Vec::from_iter((!is_raised).then(|| format!("{name} does not `{raises}`")))
        }
        _ => vec![format!("the first line of {name} is not `-- expand` or `-- contract N`")],
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            found.push(path);
        }
    }
    found
}

/// The number and the text of every migration, in order.
fn migrations() -> Vec<(u32, String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut found: Vec<_> = files(&folder)
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let number = name.split('_').next().unwrap().parse().unwrap();
            (number, name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn migrations_leave_the_version_before_them_working_or_say_that_they_do_not() {
    let mut unique = BTreeSet::new();
    let mut judged = 0;
    for (number, name, text) in migrations() {
        if number > BEFORE_RULE {
            judged += 1;
            let found = if number < FIRST_DECLARED {
                Schema { unique: unique.clone(), ..Schema::default() }.faults(&text)
            } else {
                judge(&name, &text, &unique)
            };
            assert!(
                found.is_empty(),
                "{name}: {found:?}\nSee docs/upgrades.md, Writing a migration"
            );
        }
        let statements = statements(&text);
        let indices = statements.iter().filter_map(|statement| index(statement));
        unique.extend(indices.filter(|index| index.0).map(|index| index.1.to_owned()));
    }
    assert!(judged > 0 && !unique.is_empty());
}

#[test]
fn whatever_breaks_an_old_binary_is_found() {
    let unique = BTreeSet::from(["STEPS_ONCE".to_owned()]);
    for bad in [
        "DROP TABLE steps;",
        "ALTER TABLE steps DROP COLUMN kind;",
        "alter table steps\n  drop   kind;",
        "ALTER TABLE steps RENAME COLUMN kind TO sort;",
        "ALTER TABLE steps RENAME TO events;",
        "ALTER TABLE steps ADD COLUMN sort TEXT NOT NULL;",
        "ALTER TABLE steps ADD COLUMN a TEXT DEFAULT '', ADD COLUMN b TEXT NOT NULL;",
        "ALTER TABLE steps ALTER COLUMN kind TYPE BIGINT;",
        "ALTER TABLE steps ALTER COLUMN kind SET NOT NULL;",
        "ALTER TABLE steps ADD CONSTRAINT short CHECK (length(kind) < 9);",
        "ALTER TABLE steps DROP COLUMN kind, DROP CONSTRAINT steps_kind_check;",
        "ALTER TABLE steps DROP CONSTRAINT short;",
        "ALTER TABLE steps DROP CONSTRAINT steps_pkey;",
        "ALTER TABLE steps ALTER COLUMN kind DROP NOT NULL;",
        "ALTER TABLE steps ALTER COLUMN kind DROP DEFAULT;",
        "ALTER TABLE steps ADD CHECK (length(kind) < 9);",
        "ALTER TABLE steps ADD UNIQUE (kind);",
        "ALTER TABLE steps ADD PRIMARY KEY (kind);",
        "ALTER TABLE steps ADD FOREIGN KEY (kind) REFERENCES kinds (name);",
        "ALTER TABLE steps ADD COLUMN a TEXT UNIQUE;",
        "ALTER TABLE steps ADD COLUMN a TEXT DEFAULT '' CHECK (a <> 'b');",
        "ALTER TABLE steps ADD COLUMN a BIGINT REFERENCES projects (id);",
        "ALTER TABLE steps ADD COLUMN a BIGINT DEFAULT now();",
        "ALTER TABLE steps ADD COLUMN a BIGINT GENERATED ALWAYS AS (id) STORED;",
        "CREATE UNIQUE INDEX steps_of_a ON steps (a);",
        "CREATE UNIQUE INDEX IF NOT EXISTS steps_of_a ON ONLY steps (a);",
        "CREATE TABLE a (project_id BIGINT NOT NULL REFERENCES projects (id));",
        "CREATE TABLE a PARTITION OF steps FOR VALUES FROM (1) TO (2);",
        "CREATE OR REPLACE VIEW a AS SELECT 1;",
        "DROP VIEW a;",
        "DROP INDEX steps_once;",
        "DROP INDEX IF EXISTS steps_once;",
        "DROP INDEX steps_of_a CASCADE;",
        "DROP SEQUENCE step_ids;",
        "DROP FUNCTION f;",
        "DO $$ BEGIN EXECUTE 'DROP TABLE steps' END $$;",
        "CREATE TRIGGER t BEFORE INSERT ON steps EXECUTE FUNCTION f();",
        "CREATE RULE r AS ON INSERT TO steps DO INSTEAD NOTHING;",
        "REVOKE ALL ON steps FROM PUBLIC;",
        "TRUNCATE steps;",
        "UPDATE steps SET kind = 'b';",
        "DELETE FROM steps;",
        "INSERT INTO steps (id) VALUES (1);",
    ] {
        let judge = |name, text: &str| judge(name, text, &unique);
        let found = judge("bad", &format!("-- expand\n{bad}"));
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
        let told = format!(
            "-- contract 35\n{bad}\nUPDATE schema_support SET oldest = 35 WHERE oldest < 35;"
        );
        assert_eq!(judge("told", &told), [""; 0]);
        let untold = judge("untold", &format!("-- contract 35\n{bad}"));
        assert_eq!(untold.len(), 1, "{bad}: {untold:?}");
        // It would lower what an earlier contract has raised.
        let lowers = format!("-- contract 35\n{bad}\nUPDATE schema_support SET oldest = 35;");
        assert_eq!(judge("lowers", &lowers).len(), 1);
        assert_eq!(judge("undeclared", bad).len(), 1);
    }
    let good = "-- expand
        SET LOCAL statement_timeout = 0;
        CREATE TABLE a (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE); -- DROP TABLE b;
        CREATE TABLE b (id BIGINT NOT NULL REFERENCES a (id));
        CREATE UNIQUE INDEX b_once ON b (id);
        ALTER TABLE a ALTER COLUMN name SET STORAGE EXTERNAL;
        INSERT INTO a (id, name) VALUES (1, 'a, b');
        CREATE VIEW c AS SELECT id FROM a JOIN steps USING (id);
        ALTER TABLE steps ADD COLUMN a TEXT;
        ALTER TABLE steps ADD COLUMN b BIGINT NOT NULL DEFAULT 0;
        ALTER TABLE steps ADD COLUMN c DOUBLE PRECISION, ADD COLUMN d BOOLEAN DEFAULT FALSE;
        ALTER TABLE steps DROP CONSTRAINT steps_kind_check;
        DROP INDEX steps_of_a;
        CREATE INDEX steps_of_b ON steps (b);";
    assert_eq!(judge("good", good, &unique), [""; 0]);
}
