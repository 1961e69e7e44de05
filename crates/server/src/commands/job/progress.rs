//! The progress of a job on a terminal: a bar that is drawn anew in its line.

use std::io::{IsTerminal as _, Write as _};

/// The cells of the bar.
const WIDTH: u64 = 30;
/// Goes to the begin of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// A bar on the standard error output, if that is a terminal.
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { is_shown: std::io::stderr().is_terminal() }
    }

    /// Draws the bar, with the words for its parts.
    pub(crate) fn show(&self, done: u64, total: u64, parts: &str) {
        if self.is_shown {
            let bar = bar(done, total);
            draw(&format!("{CLEAR}{bar} {done}/{total} {parts}"));
        }
    }

    /// Clears the line for others.
    pub(crate) fn clear(&self) {
        if self.is_shown {
            draw(CLEAR);
        }
    }
}

fn draw(text: &str) {
    let mut terminal = std::io::stderr().lock();
    // A bar that cannot be drawn is not missed.
    let _ = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
}

fn bar(done: u64, total: u64) -> String {
    let cells = (done.min(total) * WIDTH).checked_div(total).unwrap_or(0);
    let cells = usize::try_from(cells).unwrap_or(0);
    let rest = usize::try_from(WIDTH).unwrap_or(0).saturating_sub(cells);
    format!("[{}{}]", "#".repeat(cells), ".".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        assert_eq!(bar(0, 0), format!("[{}]", ".".repeat(30)));
        assert_eq!(bar(1, 2), format!("[{}{}]", "#".repeat(15), ".".repeat(15)));
        assert_eq!(bar(9, 3), format!("[{}]", "#".repeat(30)));
    }
}
