//! The cost of a project's own rules: ordinary ones, the worst that are accepted, and those that are not.

use checks::{Policy, hostile_texts, slow_to_save};
use domain::safety::{Action, PolicyRule, Safety};

use crate::judge;
use crate::measure::{micros, quantiles};
use crate::texts::ordinary;

/// Rules as people write them.
const ORDINARY: [&str; 10] = [
    r"(?i)project falcon",
    r"\b[A-Z]{2}\d{6}\b",
    r"(?i)\b(?:confidential|internal only|do not distribute|trade secret)\b",
    r"EMP-[0-9]{5,8}",
    r"https?://[a-z0-9.-]+\.corp\.example(?:/\S*)?",
    r"\b(?:acme|globex|initech|umbrella|hooli|vandelay)\b",
    r"(?i)salary.{0,40}\d{4,6}",
    r"[\w.+-]+@acme\.example",
    r"(?i)kündigung|abmahnung|entlassung",
    r"\bCASE[ -]?\d{4}-\d{4}\b",
];

/// Forms that may be expensive; `N` and `M` are counts.
const FORMS: [&str; 26] = [
    "(a{1,N}){1,M}b",
    "([a-z]{1,N}){1,M}",
    "(.*a){N}",
    r"\w{N}x",
    r"(?i)[a-zà-ü]{1,N}x",
    r"(\pL{1,N}){1,M}x",
    "(a|aa)+$",
    "a[ab]{N}c",
    "(a|b)*a(a|b){N}",
    r"\b\w{1,N}\b.{0,M}secret",
    "(?s)secret.{0,N}token",
    "a.{N}b",
    "(?:a?){N}a{N}",
    "[a-c]*[b-d]*{N}x",
    "((a|b)*c|d){N}e",
    r"(\d+,){N}\d",
    r"(?:\w+\s){N}end",
    "x*y*z*{M}w",
    "(?:ab|ba|aab){N}c",
    "[^b]*b|a",
    "(x[^y]*y)?",
    r"(\s*\S+){N}!",
    "(a+b+){N}c",
    r"(?m)^(.*,){N}x$",
    "(?:[ab]{1,N}[bc]{1,M}){3}d",
    r"(?i)(?:é|e|ê){1,N}(?:a|à){1,M}z",
];

pub fn print() {
    let none = Safety::default();
    let plain = Policy::compile(&none).unwrap();
    let ten = Policy::compile(&with(&ORDINARY)).unwrap();
    println!("| ordinary text | no rules | ten ordinary rules |\n|---|---|---|");
    for (bytes, rounds) in [(2_000, 2_000), (32_000, 200), (100_000, 60)] {
        let texts: Vec<String> = (0..16).map(|n| ordinary(bytes, n)).collect();
        let cost = |policy: &Policy| {
            let texts = texts.iter().cycle().take(rounds);
            quantiles(&mut texts.map(|text| micros(|| judge(policy, text))).collect::<Vec<_>>()).0
        };
        println!("| {} KB | {:.1} µs | {:.1} µs |", bytes / 1000, cost(&plain), cost(&ten));
    }
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for form in FORMS {
        for (n, m) in [
            (2, 2),
            (5, 5),
            (10, 10),
            (20, 5),
            (30, 30),
            (50, 2),
            (50, 50),
            (100, 3),
            (200, 1),
            (400, 1),
        ] {
            let pattern = form.replace('N', &n.to_string()).replace('M', &m.to_string());
            let safety = with(&[&pattern]);
            let Ok(policy) = Policy::compile(&safety) else {
                refused += 1;
                continue;
            };
            if !slow_to_save(&safety, &none, &|| false).is_empty() {
                refused += 1;
                continue;
            }
            let costs = hostile_texts(&pattern).into_iter().map(|(name, text)| {
                let own = |policy: &Policy| {
                    quantiles(
                        &mut (0..3).map(|_| micros(|| judge(policy, &text))).collect::<Vec<_>>(),
                    )
                    .0
                };
                let more = own(&policy) - own(&plain);
                (more * 1e3 / text.len() as f64, name)
            });
            let worst = costs.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            accepted.push((worst.0, pattern, worst.1));
        }
    }
    accepted.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!(
        "\n{} accepted, {refused} refused; the dearest:\n\n| rule | ns a byte | text |\n|---|---|---|",
        accepted.len()
    );
    for (cost, pattern, name) in accepted.iter().take(10) {
        println!("| `{}` | {cost:.0} | {name} |", pattern.replace('|', "\\|"));
    }
    println!(
        "\n| stored before there were bounds | 64 KB until given up, ms | tried at save, ms |\n|---|---|---|"
    );
    for pattern in ["(a{1,50}){1,50}b", "([a-z]{1,100}){1,30}x", "(?:a?){400}a{400}"] {
        let safety = with(&[pattern]);
        let Ok(policy) = Policy::compile(&safety) else {
            println!("| `{pattern}` | not compiled | |");
            continue;
        };
        let tried = micros(|| drop(slow_to_save(&safety, &none, &|| false)));
        let cost = hostile_texts(pattern).into_iter().map(|(_, text)| {
            let text = text.repeat(2);
            micros(|| judge(&policy, &text)) - micros(|| judge(&plain, &text))
        });
        println!("| `{pattern}` | {:.0} | {:.0} |", cost.fold(0.0, f64::max) / 1e3, tried / 1e3);
    }
    println!("\n| 100 rules | compiled, ms |\n|---|---|");
    for pattern in [
        "(a{1,50}){1,50}b",
        r"\w{20}x",
        r"(?i)\w{30}é",
        r"\pL{40}",
        "(?i)falcon",
        r"(((\w{3}){2}){2}){2}",
        r"[\pL--a]{90}",
    ] {
        let all: Vec<String> = (0..100).map(|n| format!("{pattern}{n}")).collect();
        let safety = with(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let compiled = micros(|| drop(Policy::compile(&safety)));
        println!("| `{pattern}` | {:.0} |", compiled / 1e3);
    }
}

fn with(patterns: &[&str]) -> Safety {
    let rule = |pattern: &&str| PolicyRule {
        name: "own".to_owned(),
        pattern: (*pattern).to_owned(),
        action: Action::Flag,
        weight: 0.1,
    };
    Safety { rules: patterns.iter().map(rule).collect(), ..Safety::default() }
}
