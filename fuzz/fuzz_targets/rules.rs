//! Any rules of a project: they are refused or they work.

#![no_main]

use checks::{Part, Policy};
use domain::safety::{Action, Checksum, Origin, PolicyRule, Recognizer, Safety};
use libfuzzer_sys::fuzz_target;

const CHECKSUMS: [Checksum; 6] = [
    Checksum::None,
    Checksum::Luhn,
    Checksum::Verhoeff,
    Checksum::Mod97,
    Checksum::Iban,
    Checksum::Mod11_10,
];

fuzz_target!(|input: (&str, &str, &str, u8)| {
    let (pattern, word, text, checksum) = input;
    let recognizer = Recognizer {
        name: "own".to_owned(),
        pattern: pattern.to_owned(),
        checksum: CHECKSUMS[usize::from(checksum) % CHECKSUMS.len()],
        context: if word.is_empty() { Vec::new() } else { vec![word.to_owned()] },
        score: 0.5,
    };
    let rule = PolicyRule {
        name: "own".to_owned(),
        pattern: pattern.to_owned(),
        action: Action::Block,
        weight: 0.5,
    };
    let safety = Safety { rules: vec![rule], recognizers: vec![recognizer], ..Safety::default() };
    if let Ok(policy) = Policy::compile(&safety) {
        for finding in policy.inspect(&[Part { origin: Origin::User, text }]).findings {
            assert!(text.get(finding.bytes).is_some());
        }
    }
});
