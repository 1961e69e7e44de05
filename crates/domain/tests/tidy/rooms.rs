//! The rooms of each crate: the folders of its source, and which of them may use which.

use std::collections::{BTreeMap, BTreeSet};

use super::sources;

/// The rooms of a crate, the lowest first. A file uses its own room and those below it; the longest
/// name that fits counts, so that a file may lie lower than its room.
const ROOMS: &[(&str, &[&str])] = &[
    (
        "gateway",
        &[
            "error",
            "config",
            "request_id",
            "lock",
            "cache",
            "metric_labels",
            "call_metrics",
            "bounded_read",
            "capacity",
            "state",
            // Below the handle, which holds the providers; above it nothing but this room reaches them.
            "pipeline::endpoint_attempts",
            "pipeline::upstream",
            "otlp",
            "outbox",
            "gateway",
            "idempotency",
            "audit",
            "job_queue",
            "safety",
            "tools",
            "pipeline",
            "streaming",
            "inference",
            "evidence",
            "replay",
            "export",
            "admission",
            "control",
            "live",
            "backtest",
            "jobs",
            "lifecycle",
        ],
    ),
    (
        "providers",
        &[
            "error",
            "breaker",
            "wire",
            "adapter",
            "chat_form",
            "credentials",
            "net",
            "vendors",
            "sandbox",
            "client",
            "api_client",
            "collector",
            "mcp",
            "issuer",
        ],
    ),
    (
        "api",
        &[
            "http::web_origin",
            "app",
            "http",
            "inference",
            "evidence",
            "control",
            "roots",
            "console",
            "router",
        ],
    ),
    (
        "checks",
        &[
            "text",
            "pattern",
            "report",
            "blocked_terms",
            "vocabulary",
            "scan",
            "pii",
            "secrets",
            "injection",
            "recognizers",
            "redact",
            "policy",
            "stream_judge",
        ],
    ),
];

/// The modules of a crate, each with the modules that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The path of a module in its crate: `state::registry` for `src/state/registry.rs`.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
    if path == "lib" { String::new() } else { path }
}

/// The source of a file without its tests and comments.
fn code(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join(" ")
}

/// The paths that a tree such as `crate::{a, b::{C, d}}` names.
fn paths(tree: &str) -> Vec<String> {
    let Some((stem, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut branches) = (0, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match branches.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => branches.push(String::new()),
        }
    }
    branches.iter().flat_map(|branch| paths(&format!("{}{}", stem.trim(), branch.trim()))).collect()
}

/// Every path of the crate that a source names, in imports and elsewhere, from the crate's root.
fn named(module: &str, source: &str, modules: &BTreeSet<String>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for part in source.split("use ").skip(1) {
        found.extend(paths(part.split(';').next().unwrap_or_default()));
    }
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    for root in ["crate::", "super::"] {
        let places = source.match_indices(root);
        let inline =
            places.map(|(at, _)| source[at..].chars().take_while(|&c| is_path(c)).collect());
        // Before a brace it is a tree of an import, read above.
        found.extend(inline.filter(|path: &String| !path.ends_with("::")));
    }
    let own = || module.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
    let from_root = |path: String| -> Option<Vec<String>> {
        let names: Vec<String> = path.split("::").map(|name| name.trim().to_owned()).collect();
        let ups = names.iter().take_while(|name| *name == "super").count();
        let mut all: Vec<String> = own().collect();
        match names.first()?.as_str() {
            "crate" => Some(names[1..].to_vec()),
            "super" => {
                all.truncate(all.len().saturating_sub(ups));
                Some(all.into_iter().chain(names[ups..].iter().cloned()).collect())
            }
            child => {
                all.push(child.to_owned());
                let is_child = modules.contains(&all.join("::"));
                is_child.then(|| all.into_iter().chain(names[1..].iter().cloned()).collect())
            }
        }
    };
    found.into_iter().filter_map(from_root).collect()
}

/// The modules that each module of a crate uses.
fn graph(package: &str) -> Graph {
    let folder = format!("crates/{package}/src/");
    let files: Vec<(String, String)> = sources()
        .into_iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(&folder)?.to_owned(), text)))
        .filter(|(name, _)| !name.ends_with("tests.rs") && !name.ends_with("testing.rs"))
        .map(|(name, text)| (module(&name), code(&text)))
        .collect();
    let modules: BTreeSet<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let used = |name: &str, source: &str| {
        let nearest = |path: &Vec<String>| {
            (0..=path.len())
                .rev()
                .map(|length| path[..length].join("::"))
                .find(|at| modules.contains(at))
        };
        let named = named(name, source, &modules);
        named.iter().filter_map(nearest).filter(|target| target != name).collect()
    };
    files.iter().map(|(name, source)| (name.clone(), used(name, source))).collect()
}

/// The index of a module's room, counted from below.
fn floor(module: &str, rooms: &[&str]) -> Option<usize> {
    let fits = |room: &str| module == room || module.starts_with(&format!("{room}::"));
    let all = rooms.iter().enumerate().filter(|(_, room)| fits(room));
    all.max_by_key(|(_, room)| room.len()).map(|(floor, _)| floor)
}

/// Removes modules that use none of those left, until only circles and the modules that lead to them
/// are left.
fn circles(mut graph: Graph) -> BTreeSet<String> {
    loop {
        let left: BTreeSet<String> = graph.keys().cloned().collect();
        let before = graph.len();
        graph.retain(|_, used| {
            used.retain(|module| left.contains(module));
            !used.is_empty()
        });
        if graph.len() == before {
            return left;
        }
    }
}

#[test]
fn rooms_use_what_lies_below_them() {
    let mut wrong = Vec::new();
    for (package, rooms) in ROOMS {
        let mut graph = graph(package);
        // It only names the parts that the crate exports.
        graph.remove("");
        for (module, used) in &graph {
            let Some(own) = floor(module, rooms) else {
                wrong.push(format!("{package}: {module} lies in no room"));
                continue;
            };
            for target in used {
                if floor(target, rooms).is_none_or(|floor| floor > own) {
                    let target = if target.is_empty() { "lib.rs" } else { target };
                    wrong.push(format!("{package}: {module} must not use {target}"));
                }
            }
        }
        for room in *rooms {
            if !graph.keys().any(|module| floor(module, &[room]).is_some()) {
                wrong.push(format!("{package}: {room} is listed and does not exist"));
            }
        }
        let around = circles(graph);
        if !around.is_empty() {
            wrong.push(format!("{package}: there is a circle among {around:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_arrow_against_the_order_is_found() {
    let modules = ["a", "b", "b::c"].map(str::to_owned).into();
    let source = "use crate::{a::X, b::{self, c::Y}}; use c::Z; super::a::f();";
    let found: BTreeSet<String> =
        named("b", source, &modules).iter().map(|path| path.join("::")).collect();
    let expected = ["a::X", "b::self", "b::c::Y", "b::c::Z", "a::f"].map(str::to_owned);
    assert!(found.is_superset(&expected.into()), "{found:?}");
    assert!(floor("b::c", &["a", "b", "b::c"]) > floor("b", &["a", "b", "b::c"]));
    let of = |used: &str| BTreeSet::from([used.to_owned()]);
    let graph = Graph::from([("a".to_owned(), of("b")), ("b".to_owned(), of("a"))]);
    assert_eq!(circles(graph).len(), 2);
}
