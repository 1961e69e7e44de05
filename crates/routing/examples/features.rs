//! Prints the features that `routing::measure` counts, for `train/train.py`.
//!
//! In: per text, a line with its length in bytes, the text, a line break. Out: the names of the
//! features, then per text one line with their values, a bar, and the indices of its words in the
//! tables.

use std::io::{self, BufRead, Read, Write};

fn main() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut output = io::BufWriter::new(io::stdout().lock());
    writeln!(output, "{}", routing::NAMES.join(" "))?;
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let length: usize = line.trim().parse().map_err(io::Error::other)?;
        let mut text = vec![0; length + 1];
        input.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text[..length]);
        let shape = routing::Shape { turns: 1, total_chars: text.len(), tools: 0 };
        let features = routing::measure(&text, &shape);
        let values: Vec<String> = features.values.iter().map(f32::to_string).collect();
        let places: Vec<String> = features.places().map(|place| place.to_string()).collect();
        writeln!(output, "{} | {}", values.join(" "), places.join(" "))?;
        line.clear();
    }
    Ok(())
}
