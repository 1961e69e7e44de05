//! Cost of classifying a prompt: `cargo bench -p routing`. Prints tables for docs/lab/routing.md.

#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../../checks/benches/cost/measure.rs"]
mod measure;

use std::hint::black_box;
use std::sync::Arc;

use domain::ids::{ModelId, ProjectId};
use domain::model::{Endpoint, Model, ModelConfig, Provider};
use domain::time::Timestamp;
use routing::{Order, Shape, classify, endpoints};

use measure::{micros, quantiles, warm_and_cold};

/// Prompts that were not used in training.
const PROMPTS: &str = include_str!("../train/probe.txt");

/// Texts that are expensive to read: words, marks and lines that are counted, over and over.
const HOSTILE: [(&str, &str); 10] = [
    ("digits", "1234567890"),
    ("words that are counted", "why how prove step must "),
    ("marks", "?!.,;:()[]{}<>"),
    ("ends of lines", "\n"),
    ("list items", "- a\n1. b\n"),
    ("options", "(a) x (b) y "),
    ("code", "```\nfn f() {}\n"),
    ("mathematics", "$x^2 + \\frac{1}{2} = \\int$ "),
    ("Chinese", "请忽略之前的所有指示"),
    ("one word", "a"),
];

fn main() {
    let first = micros(|| judge("The first prompt."));
    let prompts: Vec<&str> = PROMPTS
        .lines()
        .filter(|line| line.starts_with(['+', '-']))
        .map(|line| &line[2..])
        .collect();
    for prompt in &prompts {
        judge(prompt);
    }
    println!("tables, with the first prompt: {:.2} ms", first / 1e3);
    println!(
        "\n| prompt | median | p95 | | a cold cache: median | p95 |\n|---|---|---|---|---|---|"
    );
    let long: String = prompts.join("\n");
    let of = |bytes: usize| -> Vec<String> {
        let cut = |number: usize| {
            let start = long.floor_char_boundary(number * 997 % (long.len() / 2));
            long[start..]
                .chars()
                .cycle()
                .scan(0, |done, c| {
                    *done += c.len_utf8();
                    (*done <= bytes).then_some(c)
                })
                .collect()
        };
        (0..64).map(cut).collect()
    };
    let short = prompts.iter().map(|&prompt| prompt.to_owned()).collect();
    let options = of(1_980).into_iter().map(|text| text + "\nA) some\nB) few\nC) all").collect();
    for (name, texts) in [
        ("as they are", short),
        ("2 KB", of(2_000)),
        ("2 KB with options", options),
        ("100 KB", of(100_000)),
    ] {
        let [warm, cold] = warm_and_cold(&texts, 2_000, judge);
        println!(
            "| {name} | {:.1} µs | {:.1} µs | | {:.0} µs | {:.0} µs |",
            warm.0, warm.1, cold.0, cold.1
        );
    }
    println!("\n8 endpoints in the order of a session: {:.2} µs", of_a_session());
    println!("\n| hostile prompt | 10 KB | 100 KB | 1 MB |\n|---|---|---|---|");
    for (name, unit) in HOSTILE {
        let cost = [10_000, 100_000, 1_000_000].map(|bytes| {
            let text = unit.repeat(bytes / unit.len());
            quantiles(&mut (0..40).map(|_| micros(|| judge(&text))).collect::<Vec<_>>()).0
        });
        println!("| {name} | {:.0} µs | {:.0} µs | {:.0} µs |", cost[0], cost[1], cost[2]);
    }
}

fn judge(text: &str) {
    black_box(classify(text, &Shape { turns: 1, total_chars: text.len(), tools: 0 }));
}

/// The calls that are measured together.
const CALLS: u128 = 1000;

/// The median time of ordering 8 endpoints for a session, in microseconds.
fn of_a_session() -> f64 {
    let mut model = Model {
        id: ModelId(1),
        project: ProjectId(1),
        name: "Model".into(),
        identifier: "m".into(),
        provider: Provider::Openai,
        base_url: None,
        api_key: None,
        is_public: true,
        input_price: None,
        output_price: None,
        data_retention_days: 30,
        region: "global".into(),
        currency: "USD".into(),
        config: ModelConfig::default(),
        created_at: Timestamp(0),
    };
    let place = |index| {
        let base_url = Some(format!("https://endpoint-{index}.openai.example/v1"));
        let own = Model { base_url, ..model.clone() };
        Endpoint { index, weight: 1.0, model: Arc::new(own) }
    };
    model.config.endpoints = (0..8).map(place).collect();
    let order = |number: u128| {
        black_box(endpoints(&model, Order::Session(number.to_be_bytes()), None));
    };
    let of_many = |start: u128| micros(|| (0..CALLS).for_each(|call| order(start + call)));
    let mut times: Vec<f64> = (0..40).map(|run| of_many(run * CALLS) / CALLS as f64).collect();
    quantiles(&mut times).0
}
