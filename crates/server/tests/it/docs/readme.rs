//! The README, word for word: its commands are run, and what they print is what it says.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::harness::{Backend, KEY, PASSWORD, Server};

const README: &str = "../../README.md";
/// Ends what one command prints.
const END: &str = "=== end of a command ===";
/// The README's text for a value that every run makes anew, and what stands for it when the two
/// are compared.
const VARIES: [(&str, &str); 6] = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "TRACE"),
    (r"ak_[0-9a-f]{16}", "KEY"),
    (r"ak_[0-9a-f]{3}\.\.\.[A-Za-z0-9_-]{4}", "MASKED"),
    (r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
    (r#""created":[0-9]+"#, "CREATED"),
    (r#"("[a-z_]*(latency|_ms)[a-z0-9_]*": ?)[0-9][0-9.e-]*"#, "${1}MS"),
];

/// A command, and where in the README what it prints stands.
struct Example<'a> {
    command: &'a str,
    printed: &'a str,
}

/// The examples from the second terminal to the official clients. What builds is left out.
fn examples(readme: &str) -> Vec<Example<'_>> {
    let from = readme.find("Open a second terminal").unwrap();
    let to = readme.find("## 5. ").unwrap();
    let block = |text: &'_ str| text.find("\n```").map(|end| end + 1);
    let mut found: Vec<Example<'_>> = Vec::new();
    let mut rest = &readme[from..to];
    while let Some(at) = rest.find("\n```") {
        let (kind, body) = rest[at + 4..].split_once('\n').unwrap();
        let end = block(body).unwrap();
        match (kind, found.last_mut()) {
            ("text", Some(last)) => last.printed = &body[..end],
            ("sh", _) if body.starts_with("cargo ") => {}
            ("sh", _) => found.push(Example { command: &body[..end], printed: "" }),
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(README);
    let readme = std::fs::read_to_string(&path).unwrap();
    let server = Server::start(&Backend::Sqlite).await;
    let examples = examples(&readme);
    assert!(examples.len() > 15, "only {} examples are found", examples.len());
    let mut script = String::new();
    for example in &examples {
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
            writeln!(wrong, "{command}\nThe README has:\n{said}\nIt prints:\n{printed}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}{said}");
}
