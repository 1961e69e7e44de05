//! Safety and routing of texts, without a database: one text for people, JSON Lines for scorers and
//! pipelines.

use std::io::{self, BufRead, Read, Write};
use std::time::Instant;

use checks::{Part, Policy, Report};
use clap::{Args, ValueEnum};
use domain::safety::{Category, Origin, Safety};
use domain::tier::Tier;
use routing::{Classification, DEFAULT_THRESHOLD, Shape};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Failure;

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// A file that is one text, or - for the standard input
    #[arg(value_name = "FILE")]
    text: Option<String>,
    /// A file of JSON Lines, each of which is a text, or - for the standard input
    #[arg(long, value_name = "FILE")]
    jsonl: Option<String>,
}

#[derive(Args)]
#[command(
    after_help = "Exits with 0 whenever the text could be judged, also where it is blocked: the first word, or \
    `allowed` of a line, says that."
)]
pub(crate) struct Check {
    #[command(flatten)]
    source: Source,
    /// Author of the text; a line may name its own
    #[arg(long, value_enum, default_value = "user")]
    role: Role,
}

/// The author of a text.
#[derive(Clone, Copy, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    fn origin(self) -> Origin {
        match self {
            Self::System => Origin::System,
            Self::User => Origin::User,
            Self::Assistant => Origin::Assistant,
            Self::Tool => Origin::Tool,
        }
    }
}

/// A line to judge.
#[derive(Deserialize)]
struct ToCheck {
    #[serde(default)]
    id: Value,
    text: String,
    role: Option<Role>,
}

/// A line to route.
#[derive(Deserialize)]
struct ToRoute {
    #[serde(default)]
    id: Value,
    input: String,
}

/// A text, or lines `{"id","text"}`, in, findings out.
pub(crate) fn check(asked: &Check) -> Result<(), Failure> {
    let policy = policy()?;
    let inspect = |text: &str, role: Role| policy.inspect(&[Part { origin: role.origin(), text }]);
    if let Some(file) = &asked.source.text {
        let text = whole(file)?;
        return print(&findings(&text, &inspect(&text, asked.role)));
    }
    // Tables are built at first use: here, and not in the time of the first line.
    inspect("warm", asked.role);
    each(&asked.source, |line: &ToCheck| {
        let began = Instant::now();
        let report = inspect(&line.text, line.role.unwrap_or(asked.role));
        let took = began.elapsed();
        let personal = report.findings.iter().filter(|finding| finding.category == Category::Pii);
        let entities: Vec<Value> = personal
            .map(
                |finding| json!({"type": finding.kind, "start": finding.start, "end": finding.end}),
            )
            .collect();
        json!({
            "id": line.id,
            "allowed": report.block.is_none(),
            "reason": report.block.as_ref().map(|block| &block.reason),
            "pii_detected": report.pii_detected(),
            "injection_attempt": report.injection_attempt(),
            "secret_leaked": report.secret_leaked(),
            "risk_score": report.risk_score,
            "pii_entities": entities,
            "findings": report.findings,
            "latency_us": took.as_secs_f64() * 1e6,
        })
    })
}

/// A text, or lines `{"id","input"}`, in, tier and complexity out.
pub(crate) fn route(source: &Source) -> Result<(), Failure> {
    let policy = policy()?;
    let classify = |text: &str| {
        routing::classify(text, &Shape { turns: 1, total_chars: text.len(), tools: 0 })
    };
    let resolve = |text: &str, classification: &mut Classification| {
        let report = policy.inspect(&[Part { origin: Origin::User, text }]);
        match routing::sensitive(report.pii_detected(), false, false) {
            Some(why) => {
                classification.reasons.insert(0, why.to_owned());
                Tier::Secure
            }
            None => routing::tier(classification, DEFAULT_THRESHOLD),
        }
    };
    if let Some(file) = &source.text {
        let text = whole(file)?;
        let mut classification = classify(&text);
        let tier = resolve(&text, &mut classification);
        let Classification { complexity, intent, reasons } = classification;
        let head =
            format!("{}, complexity {complexity:.3}, intent {}\n", tier.as_str(), intent.as_str());
        let reasons = reasons.iter().map(|reason| format!("  {reason}\n"));
        return print(&reasons.fold(head, |all, reason| all + &reason));
    }
    classify("warm");
    each(source, |line: &ToRoute| {
        let began = Instant::now();
        let mut classification = classify(&line.input);
        let took = began.elapsed();
        let tier = resolve(&line.input, &mut classification);
        json!({
            "id": line.id,
            "tier": tier,
            "complexity": classification.complexity,
            "intent": classification.intent,
            "reasons": classification.reasons,
            "us": took.as_secs_f64() * 1e6,
        })
    })
}

fn policy() -> Result<Policy, Failure> {
    Policy::compile(&Safety::default()).map_err(|faults| Failure(faults.join("; ")))
}

/// The findings, for people: their positions, never their text.
fn findings(text: &str, report: &Report) -> String {
    let risk = report.risk_score;
    let head = match &report.block {
        Some(block) => {
            let reason = block.reason.trim_start_matches("Blocked by safety check: ");
            format!("blocked: {}, risk {risk:.2}\n", reason.trim_end_matches('.'))
        }
        None if report.review => format!("allowed, to be reviewed, risk {risk:.2}\n"),
        None => format!("allowed, risk {risk:.2}\n"),
    };
    let mut place = Place { text, at: 0, line: 1, column: 1 };
    let lines = report.findings.iter().map(|finding| {
        place.advance(finding.bytes.start);
        let Place { line, column, .. } = place;
        let (category, kind) = (finding.category.as_str(), &finding.kind);
        let (start, end, score) = (finding.start, finding.end, finding.score);
        format!(
            "  line {line}, column {column} (characters {start} to {end}): {category} {kind}, score {score:.2}\n"
        )
    });
    lines.fold(head, |all, line| all + &line)
}

/// A position in a text, its line and column counted from 1. Findings come in order, so it only goes
/// forward.
struct Place<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    column: usize,
}

impl Place<'_> {
    fn advance(&mut self, to: usize) {
        for c in self.text.get(self.at..to).unwrap_or_default().chars() {
            (self.line, self.column) =
                if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.at = self.at.max(to);
    }
}

/// The byte order mark that some editors put before a text to mark it as UTF-8. It is no part of the text.
const MARK: &[u8] = b"\xef\xbb\xbf";

fn open(name: &str) -> Result<Box<dyn BufRead>, Failure> {
    Ok(if name == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = std::fs::File::open(name).map_err(|error| unreadable(name, &error))?;
        Box::new(io::BufReader::new(file))
    })
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure(format!("{name}: {error}"))
}

fn whole(name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    open(name)?.read_to_end(&mut bytes).map_err(|error| unreadable(name, &error))?;
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    String::from_utf8(bytes).map_err(|_| Failure(format!("{name}: it is no text in UTF-8")))
}

fn print(text: &str) -> Result<(), Failure> {
    written(io::stdout().lock().write_all(text.as_bytes())).map(drop)
}

/// Whether the output still has a reader.
fn written(result: io::Result<()>) -> Result<bool, Failure> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(unreadable("standard output", &error)),
        Ok(()) => Ok(true),
    }
}

/// Answers each line with one. A line that cannot be read is answered with its fault; the command fails
/// then, at the end.
fn each<Line: DeserializeOwned>(
    source: &Source,
    answer: impl Fn(&Line) -> Value,
) -> Result<(), Failure> {
    let name = source.jsonl.as_deref().unwrap_or("-");
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut faults = Vec::new();
    for (index, line) in open(name)?.split(b'\n').enumerate() {
        let line = line.map_err(|error| unreadable(name, &error))?;
        let mark = if index == 0 { MARK } else { b"" };
        let line = line.strip_prefix(mark).unwrap_or(&line).trim_ascii();
        if line.is_empty() {
            continue;
        }
        let said = read(line, index + 1).map_or_else(
            |fault| {
                faults.push(fault.clone());
                let known: Option<Value> = serde_json::from_slice(line).ok();
                let id = known.and_then(|line| line.get("id").cloned());
                json!({"line": index + 1, "id": id, "error": fault})
            },
            |line| answer(&line),
        );
        let result = writeln!(output, "{said}").and_then(|()| output.flush());
        if !written(result)? {
            return Ok(());
        }
    }
    match faults.as_slice() {
        [] => Ok(()),
        [fault] => Err(Failure(fault.clone())),
        [fault, rest @ ..] => Err(Failure(format!("{fault} (and {} more lines)", rest.len()))),
    }
}

/// Reads a line, or reports its number and its fault. To the parser each line is the first.
fn read<Line: DeserializeOwned>(line: &[u8], number: usize) -> Result<Line, String> {
    // A list names its fields by their order alone, so one text is easily taken for another.
    if line.first() == Some(&b'[') {
        return Err(format!("line {number}, column 1: it is a list and no object with names"));
    }
    serde_json::from_slice(line).map_err(|error| {
        let said = error.to_string();
        let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
        format!("line {number}, column {}: {what}", error.column())
    })
}
