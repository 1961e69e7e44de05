//! Any prompt: a complexity between 0 and 1 with a reason, which more around it never lowers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use routing::{Shape, classify};

fuzz_target!(|input: (&str, u16, u16)| {
    let (text, turns, tools) = input;
    let alone = Shape { turns: 1, total_chars: text.len(), tools: 0 };
    let around = Shape {
        turns: 1 + usize::from(turns),
        total_chars: text.len() + usize::from(turns) * 100,
        tools: usize::from(tools),
    };
    let (alone, around) = (classify(text, &alone), classify(text, &around));
    assert!((0.0..=1.0).contains(&alone.complexity));
    assert!(!alone.reasons.is_empty());
    assert!(around.complexity >= alone.complexity);
});
