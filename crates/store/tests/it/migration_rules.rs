//! What a migration may do to the version before it, which may still run beside it.
//!
//! The first line of a file declares it (`build.rs` reads it): an `-- expand` only adds, and leaves old binaries
//! working; a `-- contract N` takes something away that binaries of schema N and newer do not use, and records
//! that N.

use std::path::{Path, PathBuf};

/// The migrations up to this one are from before the rule.
const BEFORE_RULE: u32 = 33;

/// Why an expand is none: what a binary before it would fail on.
fn faults(text: &str) -> Vec<String> {
    statements(text).iter().filter_map(|statement| fault(statement)).collect()
}

/// The statements of a migration in capitals, without comments and with one space between words.
fn statements(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("--").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join(" ").to_uppercase();
    let words = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ");
    code.split(';').map(words).filter(|statement| !statement.is_empty()).collect()
}

fn fault(statement: &str) -> Option<String> {
    let alters = statement.starts_with("ALTER TABLE");
    // Each part of `ALTER TABLE t ADD COLUMN a ..., ADD COLUMN b ...`.
    let adds_required = || {
        let mut columns = statement.split(" ADD ").skip(1);
        columns.any(|column| column.contains("NOT NULL") && !column.contains("DEFAULT"))
    };
    let (is_fault, why) =
        if statement.starts_with("DROP TABLE") || statement.starts_with("DROP VIEW") {
            (true, "drops a table")
        } else if alters && statement.contains(" RENAME ") {
            (true, "renames")
        } else if alters && statement.contains(" DROP ") && !drops_a_bound(statement) {
            (true, "drops a column")
        } else if alters && (statement.contains(" TYPE ") || statement.contains("SET NOT NULL")) {
            (true, "changes a column")
        } else if alters && statement.contains(" ADD CONSTRAINT ") {
            (true, "adds a constraint")
        } else {
            (alters && adds_required(), "adds a column that old binaries do not fill")
        };
    is_fault.then(|| format!("{why}: {statement}"))
}

/// Whether it lifts a rule that old binaries keep.
fn drops_a_bound(statement: &str) -> bool {
    ["DROP CONSTRAINT", "DROP NOT NULL", "DROP DEFAULT"]
        .iter()
        .any(|bound| statement.contains(bound))
}

/// The faults of a file, whatever it declares itself to be.
fn judge(name: &str, text: &str) -> Vec<String> {
    let declared: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    match declared[..] {
        ["--", "expand"] => faults(text),
        ["--", "contract", oldest] => {
            let raises = format!("UPDATE SCHEMA_SUPPORT SET OLDEST = {oldest}");
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

#[test]
fn migrations_leave_the_version_before_them_working_or_say_that_they_do_not() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut judged = 0;
    for path in files(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let number: u32 = name.split('_').next().unwrap().parse().unwrap();
        if number > BEFORE_RULE {
            judged += 1;
            let found = judge(name, &std::fs::read_to_string(&path).unwrap());
            assert!(
                found.is_empty(),
                "{name}: {found:?}\nSee docs/upgrades.md, Writing a migration"
            );
        }
    }
    assert!(judged > 0, "{}", folder.display());
}

#[test]
fn whatever_breaks_an_old_binary_is_found() {
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
    ] {
        let found = judge("bad", &format!("-- expand\n{bad}"));
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
        let told = format!("-- contract 35\n{bad}\nUPDATE schema_support SET oldest = 35;");
        assert_eq!(judge("told", &told), [""; 0]);
        let untold = judge("untold", &format!("-- contract 35\n{bad}"));
        assert_eq!(untold.len(), 1, "{bad}: {untold:?}");
        assert_eq!(judge("undeclared", bad).len(), 1);
    }
    let good = "-- expand
        CREATE TABLE a (id BIGINT NOT NULL, name TEXT NOT NULL); -- DROP TABLE b;
        ALTER TABLE steps ADD COLUMN a TEXT;
        ALTER TABLE steps ADD COLUMN b BIGINT NOT NULL DEFAULT 0;
        ALTER TABLE steps DROP CONSTRAINT short;
        DROP INDEX steps_of_a;
        CREATE INDEX steps_of_b ON steps (b);";
    assert_eq!(judge("good", good), [""; 0]);
}
