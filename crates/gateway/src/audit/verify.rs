//! The check of a file of exported audit events.

use std::io::BufRead;

use store::{ChainCheck, ChainReport};

use crate::audit::line;
use crate::error::{Error, Result};

/// The longest line of a file, in bytes.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Checks the events of an exported file. One that was `filtered` may lack events; those that it has are
/// checked all the same.
pub fn verify_audit_lines(file: &mut dyn BufRead, filtered: bool) -> Result<ChainReport> {
    let mut check = ChainCheck::new(filtered);
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        let read = std::io::Read::take(&mut *file, LONGEST_LINE).read_until(b'\n', &mut text);
        let read =
            read.map_err(|error| Error::invalid(format!("the file cannot be read: {error}")))?;
        if read == 0 {
            break;
        }
        let record = line::read(&text).map_err(|fault| {
            Error::invalid(format!("line {number} is no exported event: {fault}"))
        })?;
        check.see(&record);
    }
    Ok(check.end(None))
}
