//! Prints what the injection model reads of each text: JSON Lines `{"text"}` in, features of each block out.
//! `scripts/train-injection` runs it, so that training and judging count alike.

use std::io::{BufRead as _, Write as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let text = line["text"].as_str().ok_or("a line has no text")?;
        let features = checks::injection_features(text);
        let answer = serde_json::json!({
            "blocks": features.blocks,
            "words": features.words,
            "rules": features.rules,
        });
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
