//! Safety and routing on JSON Lines, without a database: for scorers and pipelines.

use std::io::{BufRead as _, Write as _};
use std::time::Instant;

use checks::{Part, Policy};
use clap::Args;
use domain::safety::{Category, Origin, Safety};
use routing::{DEFAULT_THRESHOLD, Shape};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Failure;

#[derive(Args)]
pub(crate) struct Jsonl {
    /// A file of JSON Lines, or - for the standard input
    #[arg(long, value_name = "FILE")]
    jsonl: String,
}

/// A line to judge.
#[derive(Deserialize)]
struct ToCheck {
    id: Value,
    text: String,
}

/// A line to route.
#[derive(Deserialize)]
struct ToRoute {
    id: Value,
    input: String,
}

/// `{"id","text"}` in, findings out.
pub(crate) fn check(jsonl: &Jsonl) -> Result<(), Failure> {
    let policy =
        Policy::compile(&Safety::default()).map_err(|faults| Failure(faults.join("; ")))?;
    // Tables are made at first use: not on the first line's time.
    policy.inspect(&[Part { origin: Origin::User, text: "warm" }]);
    each(jsonl, |line: &ToCheck| {
        let began = Instant::now();
        let report = policy.inspect(&[Part { origin: Origin::User, text: &line.text }]);
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

/// `{"id","input"}` in, tier and complexity out.
pub(crate) fn route(jsonl: &Jsonl) -> Result<(), Failure> {
    let policy =
        Policy::compile(&Safety::default()).map_err(|faults| Failure(faults.join("; ")))?;
    let classify = |text: &str| {
        routing::classify(text, &Shape { turns: 1, total_chars: text.len(), tools: 0 })
    };
    classify("warm");
    each(jsonl, |line: &ToRoute| {
        let began = Instant::now();
        let classification = classify(&line.input);
        let took = began.elapsed();
        let report = policy.inspect(&[Part { origin: Origin::User, text: &line.input }]);
        let sensitive = routing::sensitive(report.pii_detected(), false, false).is_some();
        let tier = if sensitive {
            domain::tier::Tier::Secure
        } else {
            routing::tier(&classification, DEFAULT_THRESHOLD)
        };
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

fn each<Line: DeserializeOwned>(
    jsonl: &Jsonl,
    answer: impl Fn(&Line) -> Value,
) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure(format!("{}: {error}", jsonl.jsonl));
    let input: Box<dyn std::io::BufRead> = if jsonl.jsonl == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = std::fs::File::open(&jsonl.jsonl).map_err(unreadable)?;
        Box::new(std::io::BufReader::new(file))
    };
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, text) in input.lines().enumerate() {
        let text = text.map_err(unreadable)?;
        if text.trim().is_empty() {
            continue;
        }
        let line: Line =
            serde_json::from_str(&text).map_err(|error| unusable(number + 1, &error))?;
        writeln!(output, "{}", answer(&line)).map_err(unreadable)?;
        output.flush().map_err(unreadable)?;
    }
    Ok(())
}

/// Which line is wrong, and how. To the parser each line is the first.
fn unusable(number: usize, error: &serde_json::Error) -> Failure {
    let said = error.to_string();
    let what = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
    Failure(format!("line {number}, column {}: {what}", error.column()))
}
