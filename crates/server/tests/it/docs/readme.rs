//! The README and the guides, word for word: their commands are run, and print what stands below
//! them.

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
/// A document's text for a value that every run makes anew, and what stands for it when the two are
/// compared.
const VARIES: [(&str, &str); 6] = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "TRACE"),
    (r"ak_[0-9a-f]{16}", "KEY"),
    (r"ak_[0-9a-f]{3}\.\.\.[A-Za-z0-9_-]{4}", "MASKED"),
    (r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
    (r#""created":[0-9]+"#, "CREATED"),
    (r#"("[a-z_]*(latency|_ms)[a-z0-9_]*": ?)[0-9][0-9.e-]*"#, "${1}MS"),
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

fn examples(document: &str) -> Vec<Example<'_>> {
    let block = |text: &'_ str| text.find("\n```").map(|end| end + 1);
    let mut found: Vec<Example<'_>> = Vec::new();
    let mut rest = document;
    let mut is_run = true;
    while let Some(at) = rest.find("\n```") {
        let (kind, body) = rest[at + 4..].split_once('\n').unwrap();
        let end = block(body).unwrap();
        match (kind, found.last_mut()) {
            ("text", Some(last)) if is_run => last.printed = &body[..end],
            ("text", _) => {}
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
    found
}

fn alike(text: &str) -> String {
    VARIES.iter().fold(text.trim().to_owned(), |text, (varies, name)| {
        Regex::new(varies).unwrap().replace_all(&text, *name).into_owned()
    })
}

/// Whether it was printed, where a line of dots stands for what is left out.
fn was_printed(said: &str, printed: &str) -> bool {
    let (said, printed) = (alike(said), alike(printed));
    if !said.lines().any(|line| line.trim() == "...") {
        return said == printed;
    }
    let mut lines = printed.lines().filter(|line| !line.is_empty());
    let mut pieces = said.lines().map(str::trim_end);
    pieces.all(|piece| piece.trim() == "..." || lines.any(|line| line.trim_end() == piece))
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
        let mut all = vec![readme[0]];
        all.extend(examples(guide));
        all
    });
    let all: Vec<Vec<Example<'_>>> = std::iter::once(readme.clone()).chain(guides).collect();
    let count: usize = all.iter().map(Vec::len).sum();
    assert!(count > 24, "only {count} examples are found");
    let mut wrong = String::new();
    for (name, examples) in DOCUMENTS.into_iter().zip(all) {
        assert!(examples.len() > 3, "only {} examples are found in {name}", examples.len());
        wrong += &differences(name, &examples).await;
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Runs the commands in one shell, and names those that print anything else than the document has.
async fn differences(document: &str, examples: &[Example<'_>]) -> String {
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
    let mut wrong = String::new();
    for (Example { command, printed: said }, printed) in examples.iter().zip(printed) {
        if !was_printed(said, printed) {
            writeln!(wrong, "{command}\n{document} has:\n{said}\nIt prints:\n{printed}\n").unwrap();
        }
    }
    if wrong.is_empty() { wrong } else { wrong + &said }
}
