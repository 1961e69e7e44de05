//! The cost of judging a text: `cargo bench -p checks`. Prints tables for docs/lab/safety.md. With `--bench cost -- --search
//! [SECONDS] [SEED]` it searches for the dearest text instead; `-- --repeat TEXT...` measures texts that repeat these;
//! `-- --rules` measures a project's own rules; `-- --stops` how long a text is judged on for a caller who has left.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be made has nothing to say")]

mod measure;
mod rules;
mod search;
mod texts;
mod ways;

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use checks::{GiveUp, Part, Policy, Reading};
use domain::safety::{Origin, Safety};

use measure::{micros, quantiles, warm_and_cold};
use texts::{EVERYTHING, Family, hostile, ordinary};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--rules") {
        return rules::print();
    }
    if arguments.iter().any(|argument| argument == "--stops") {
        return print_stops();
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--search") {
        let number = |behind: usize| arguments.get(at + behind).and_then(|n| n.parse().ok());
        return search::run(number(1).unwrap_or(300), number(2).unwrap_or(1));
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--repeat") {
        return search::repeat(&arguments[at + 1..]);
    }
    let policy = Policy::compile(&Safety::default()).unwrap();
    let plain = micros(|| judge(&policy, "The first text."));
    let rich = micros(|| judge(&policy, EVERYTHING));
    println!(
        "tables for any text: {:.1} ms; for one with everything in it: {:.1} ms more",
        plain / 1e3,
        rich / 1e3
    );
    println!(
        "\n| ordinary text | median | p95 | | a cold cache: median | p95 |\n|---|---|---|---|---|---|"
    );
    for (bytes, rounds) in [(2_000, 1_000), (32_000, 200), (100_000, 100)] {
        let texts: Vec<String> = (0..64).map(|n| ordinary(bytes, n)).collect();
        let [warm, cold] = warm_and_cold(&texts, rounds, |text| judge(&policy, text));
        let kb = bytes / 1000;
        println!(
            "| {kb} KB | {:.0} µs | {:.0} µs | | {:.0} µs | {:.0} µs |",
            warm.0, warm.1, cold.0, cold.1
        );
    }
    println!(
        "\n| hostile text | 10 KB, µs | 100 KB, µs | 1 MB, µs | µs per KB of 1 MB | of 10 KB |\n|---|---|---|---|---|---|"
    );
    for Family { name, text, is_json } in hostile() {
        let cost = [10_000, 100_000, 1_000_000].map(|bytes| {
            let text = text(bytes);
            let read = |text: &str| {
                let reading =
                    if is_json { Reading::json(text) } else { Reading::Plain(text.into()) };
                judge(&policy, reading.text());
            };
            let rounds = 2_000_000 / bytes;
            let mut all: Vec<f64> =
                (0..rounds.clamp(3, 40)).map(|_| micros(|| read(&text))).collect();
            quantiles(&mut all).0
        });
        let [ten, hundred, thousand] = cost;
        println!(
            "| {name} | {ten:.0} | {hundred:.0} | {thousand:.0} | {:.1} | {:.1} |",
            thousand / 1e3,
            ten / 10.0
        );
    }
}

fn judge(policy: &Policy, text: &str) {
    black_box(policy.inspect(&[Part { origin: Origin::User, text }]));
}

/// Prints the longest time between two questions whether the caller of a text of 1 MB still waits.
fn print_stops() {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let mut all: Vec<(Duration, &str)> = hostile()
        .into_iter()
        .map(|Family { name, text, .. }| {
            let text = text(1_000_000);
            let parts = [Part { origin: Origin::User, text: &text }];
            let longest = || {
                let (last, longest) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
                let stop = || {
                    longest.set(longest.get().max(last.replace(Instant::now()).elapsed()));
                    false
                };
                black_box(policy.judge_until(&parts, GiveUp::All(&stop)));
                longest.get().max(last.get().elapsed())
            };
            ((0..3).map(|_| longest()).min().unwrap(), name)
        })
        .collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    for (longest, name) in all.into_iter().take(10) {
        println!("| {name} | {:.0} ms |", longest.as_secs_f64() * 1e3);
    }
}
