//! The shape of the workspace: the crates that each may depend on, and limits on every source file.

#![expect(clippy::unwrap_used, reason = "a test says best what is wrong by stopping there")]

mod rooms;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The workspace crates that each crate may depend on; every other dependency is a mistake.
const ARROWS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("dashboard", &["domain"]),
    ("domain", &[]),
    ("checks", &["domain"]),
    ("counters", &["domain", "limits"]),
    ("export", &["domain"]),
    ("grading", &["domain"]),
    ("limits", &["domain"]),
    ("mail", &["domain"]),
    ("mcp_client", &[]),
    ("passkeys", &[]),
    ("providers", &["domain", "mcp_client", "sign_on"]),
    ("routing", &["domain"]),
    ("sign_on", &["domain"]),
    ("store", &["domain"]),
    (
        "gateway",
        &[
            "checks",
            "counters",
            "domain",
            "export",
            "grading",
            "limits",
            "mail",
            "passkeys",
            "providers",
            "routing",
            "store",
        ],
    ),
    ("api", &["dashboard", "domain", "gateway"]),
    (
        "sluice",
        &[
            "allocator",
            "api",
            "checks",
            "counters",
            "domain",
            "gateway",
            "grading",
            "limits",
            "mail",
            "providers",
            "routing",
            "store",
        ],
    ),
];

/// Libraries with a home in the workspace, and the only crates whose code may name them. (Tests may;
/// `deny.toml` checks that no other crate depends on them over a third crate.)
const HOMES: &[(&str, &[&str])] = &[
    ("askama", &["dashboard"]),
    ("axum", &["api", "sluice"]),
    ("csv", &["export"]),
    ("hyper-rustls", &["providers"]),
    ("lettre", &["mail"]),
    ("libmimalloc-sys", &["allocator"]),
    ("mimalloc", &["allocator"]),
    ("openidconnect", &["sign_on"]),
    ("parquet", &["export"]),
    ("qrcodegen", &["dashboard"]),
    ("redis", &["counters"]),
    ("reqwest", &["the tests"]),
    ("rmcp", &["mcp_client"]),
    ("rusqlite", &["store"]),
    ("sqlx", &["store"]),
    ("webauthn-rs", &["passkeys"]),
];

/// Longer files are not read to their end.
const MOST_LINES: usize = 500;
/// Files that are data more than code, from the root of the workspace.
const TABLES: &[&str] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The entry in `cargo metadata` of each crate of the workspace.
fn packages() -> Vec<Value> {
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let mut told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let Value::Array(packages) = told["packages"].take() else { return Vec::new() };
    packages
}

fn name(of: &Value) -> String {
    of["name"].as_str().unwrap().to_owned()
}

/// The dependencies of a crate, those of its tests included, that satisfy a condition.
fn dependencies(package: &Value, is_so: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| is_so(dependency)).map(name).collect()
}

/// Every crate of the workspace with those of our own that it depends on.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let is_ours = |dependency: &Value| dependency["path"].is_string();
    packages().iter().map(|package| (name(package), dependencies(package, is_ours))).collect()
}

#[test]
fn arrows_point_one_way() {
    let mut wrong = Vec::new();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let found = arrows();
    for (from, targets) in &found {
        let Some(allowed) = allowed.get(from.as_str()) else {
            wrong.push(format!("{from} is not in the list of arrows"));
            continue;
        };
        for to in targets {
            if !allowed.contains(&to.as_str()) {
                wrong.push(format!("{from} must not depend on {to}"));
            }
        }
    }
    for (listed, _) in ARROWS {
        if !found.contains_key(*listed) {
            wrong.push(format!("{listed} is listed and does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn libraries_stay_at_home() {
    let is_shipped = |dependency: &Value| dependency["kind"].as_str() != Some("dev");
    let mut wrong = Vec::new();
    for package in packages() {
        let (package, used) = (name(&package), dependencies(&package, is_shipped));
        for (library, homes) in HOMES {
            if used.contains(*library) && !homes.contains(&package.as_str()) {
                wrong.push(format!("{package} must leave {library} to {}", homes.join(" and ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every file in the source folders, from the root of the workspace, with its text.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files.len() > 50, "only {} source files were found", files.len());
    files.sort();
    files
}

#[test]
fn files_can_be_read_in_one_go() {
    let sources = sources();
    let mut wrong: Vec<String> = sources
        .iter()
        .filter(|(name, _)| !TABLES.contains(&name.as_str()))
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(name, lines)| format!("{name} has {lines} lines: split it by what it is about"))
        .collect();
    for table in TABLES {
        if !sources.iter().any(|(name, _)| name == table) {
            wrong.push(format!("{table} is listed as a table and does not exist"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that a search for them finds no exception.
    let markers = ["todo", "unimplemented"].map(|word| format!("{word}!("));
    let wrong: Vec<String> = sources()
        .iter()
        .flat_map(|(name, text)| (1..).zip(text.lines()).map(move |(at, line)| (name, at, line)))
        // Examples in comments that must not compile may have a hole.
        .filter(|(_, _, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, _, line)| markers.iter().any(|marker| line.contains(marker)))
        .map(|(name, at, line)| format!("{name}:{at}: {}", line.trim()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
