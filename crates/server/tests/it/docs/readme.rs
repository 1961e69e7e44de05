//! The README and the guides, word for word: their commands are run, and print what stands below
//! them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::harness::{Backend, KEY, PASSWORD, Server};

const ROOT: &str = "../..";
/// Each is run on a gateway of its own.
const DOCUMENTS: [&str; 7] = [
    "README.md",
    "docs/backtest.md",
    "docs/getting-started.md",
    "docs/keys-and-limits.md",
    "docs/models.md",
    "docs/replay.md",
    "docs/export.md",
];
/// The README's commands are run from here on: what stands above starts the gateway. The first of
/// them makes the shell ready, for the guides too.
const FROM: &str = "Open a second terminal";
/// Ends what one command prints.
const END: &str = "=== end of a command ===";
/// Ids of traces and jobs, and of keys. One id of a document is one id of its run wherever it stands.
const IDS: &str = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|ak_[0-9a-f]{16}";
/// Times. What is earlier in a document is not later in its run.
const TIMES: &str = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z";
/// A document's text for a value that every run makes anew, and what stands for it when the two are
/// compared.
const VARIES: [(&str, &str); 5] = [
    (IDS, "ID"),
    (r"ak_[0-9a-f]{3}\.\.\.[A-Za-z0-9_-]{4}", "MASKED"),
    (TIMES, "TIME"),
    (r#""created":[0-9]+"#, "CREATED"),
    (r#"("[a-z_]*(latency|_ms)[a-z0-9_]*": ?)-?[0-9][0-9.e-]*"#, "${1}MS"),
];

/// A command, and what a document has it print.
#[derive(Clone, Copy)]
struct Example<'a> {
    command: &'a str,
    printed: &'a str,
}

/// Whether it builds, or needs a package from the network.
fn is_left_out(command: &str) -> bool {
    command.starts_with("cargo ") || command.contains("venv/bin/")
}

/// The examples that are run, and what is printed by those that are not.
fn examples(document: &str) -> (Vec<Example<'_>>, Vec<&str>) {
    let block = |text: &'_ str| text.find("\n```").map(|end| end + 1);
    let (mut found, mut left_out): (Vec<Example<'_>>, _) = (Vec::new(), Vec::new());
    let mut rest = document;
    let mut is_run = true;
    while let Some(at) = rest.find("\n```") {
        let (kind, body) = rest[at + 4..].split_once('\n').unwrap();
        let end = block(body).unwrap();
        match (kind, found.last_mut()) {
            ("text", Some(last)) if is_run => last.printed = &body[..end],
            ("text", _) => left_out.push(&body[..end]),
            ("sh", _) => {
                is_run = !is_left_out(&body[..end]);
                if is_run {
                    found.push(Example { command: &body[..end], printed: "" });
                }
            }
            other => panic!("a block of another kind: {other:?}", other = other.0),
        }
        rest = &body[end + 3..];
    }
    (found, left_out)
}

/// What stands for what: the values of a document, and those of its run.
struct Comparison {
    varies: Vec<(Regex, &'static str)>,
    ids: Regex,
    times: Regex,
    /// Ids of the document with those of the run.
    known: BTreeMap<String, String>,
    /// Times of both.
    compared: Vec<(String, String)>,
}

impl Comparison {
    fn new() -> Self {
        let regex = |pattern| Regex::new(pattern).unwrap();
        let varies = VARIES.map(|(pattern, name)| (regex(pattern), name)).into();
        let (known, compared) = (BTreeMap::new(), Vec::new());
        Self { varies, ids: regex(IDS), times: regex(TIMES), known, compared }
    }

    /// A text without what every run makes anew.
    fn folded(&self, text: &str) -> String {
        self.varies.iter().fold(text.trim_end().to_owned(), |text, (varies, name)| {
            varies.replace_all(&text, *name).into_owned()
        })
    }

    /// Whether a text of the document is one that was printed.
    fn are_same(&mut self, said: &str, printed: &str) -> bool {
        self.folded(said) == self.folded(printed) && self.are_known(said, printed)
    }

    /// Whether the ids of two texts are the same ones as before, and their times come in the same order.
    fn are_known(&mut self, said: &str, printed: &str) -> bool {
        let pairs = |found: &Regex| -> Vec<(String, String)> {
            let texts = |text| found.find_iter(text).map(|found| found.as_str().to_owned());
            texts(said).zip(texts(printed)).collect()
        };
        let (ids, times) = (pairs(&self.ids), pairs(&self.times));
        let (mut known, mut compared) = (self.known.clone(), self.compared.clone());
        for (said, printed) in ids {
            let is_other = |pair: (&String, &String)| (*pair.0 == said) != (*pair.1 == printed);
            if known.iter().any(is_other) {
                return false;
            }
            known.insert(said, printed);
        }
        for (said, printed) in times {
            let is_swapped = |pair: &(String, String)| {
                (pair.0 < said && pair.1 > printed) || (pair.0 > said && pair.1 < printed)
            };
            if compared.iter().any(is_swapped) {
                return false;
            }
            compared.push((said, printed));
        }
        (self.known, self.compared) = (known, compared);
        true
    }

    /// Whether it was printed, where a line of dots stands for what is left out.
    fn was_printed(&mut self, said: &str, printed: &str) -> bool {
        let is_omission = |line: &&str| line.trim() == "...";
        if !said.lines().any(|line| is_omission(&line)) {
            return self.are_same(said.trim(), printed.trim());
        }
        let lines = printed.lines().filter(|line| !line.is_empty());
        let lines: Vec<_> = lines.map(|line| (line, self.folded(line))).collect();
        let mut lines = lines.iter();
        said.lines().filter(|line| !is_omission(line)).all(|said| {
            let folded = self.folded(said);
            lines.any(|(line, printed)| *printed == folded && self.are_known(said, line))
        })
    }

    /// The ids of traces and jobs in what is not run that no command has printed.
    fn strangers(&self, text: &str) -> Vec<String> {
        let ids = self.ids.find_iter(text).map(|id| id.as_str().to_owned());
        ids.filter(|id| !id.starts_with("ak_") && !self.known.contains_key(id)).collect()
    }
}

#[tokio::test]
async fn its_commands_print_what_it_says() {
    let is_there = |program| Command::new(program).arg("--version").output().is_ok();
    if !["bash", "curl", "python3"].into_iter().all(is_there) {
        assert!(
            std::env::var_os("SLUICE_TEST_ALL").is_none(),
            "its commands need curl and python3"
        );
        eprintln!("left out: there is no bash, curl or python3");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(ROOT);
    let documents = DOCUMENTS.map(|name| std::fs::read_to_string(root.join(name)).unwrap());
    let readme = examples(&documents[0][documents[0].find(FROM).unwrap()..]);
    let guides = documents[1..].iter().map(|guide| {
        let (mut all, left_out) = examples(guide);
        all.insert(0, readme.0[0]);
        (all, left_out)
    });
    let all: Vec<_> = std::iter::once(readme.clone()).chain(guides).collect();
    let count: usize = all.iter().map(|(examples, _)| examples.len()).sum();
    assert!(count > 24, "only {count} examples are found");
    let mut wrong = String::new();
    for (name, (examples, left_out)) in DOCUMENTS.into_iter().zip(all) {
        assert!(examples.len() > 3, "only {} examples are found in {name}", examples.len());
        wrong += &differences(name, &examples, &left_out).await;
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Runs the commands in one shell, and names those that print anything else than the document has.
async fn differences(document: &str, examples: &[Example<'_>], left_out: &[&str]) -> String {
    let server = Server::start(&Backend::Sqlite).await;
    let mut script = String::new();
    for example in examples {
        writeln!(script, "{}\necho\necho '{END}'", example.command).unwrap();
    }
    let own = Regex::new("export KEY='[^']*'").unwrap();
    let script = own.replace(&script, format!("export KEY='{KEY}'"));
    let own = Regex::new("PASSWORD='[^']*'").unwrap();
    let script = own.replace(&script, format!("PASSWORD='{PASSWORD}'"));
    let script = script.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", server.port));
    let folder = tempfile::tempdir().unwrap();
    let ran = tokio::task::spawn_blocking(move || {
        Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap()
    });
    let ran = ran.await.unwrap();
    let printed = String::from_utf8(ran.stdout).unwrap();
    let printed: Vec<&str> = printed.split(END).map(str::trim).collect();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(printed.len(), examples.len() + 1, "{said}");
    let (mut wrong, mut comparison) = (String::new(), Comparison::new());
    for (Example { command, printed: said }, printed) in examples.iter().zip(printed) {
        if !comparison.was_printed(said, printed) {
            writeln!(wrong, "{command}\n{document} has:\n{said}\nIt prints:\n{printed}\n").unwrap();
        }
    }
    for id in left_out.iter().flat_map(|text| comparison.strangers(text)) {
        writeln!(wrong, "{document} shows {id}, which no other example has").unwrap();
    }
    if wrong.is_empty() { wrong } else { wrong + &said }
}
