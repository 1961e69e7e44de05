//! The names and formats of documents in a Converse request.

use std::collections::HashMap;

use crate::chat_form::parts::Document;
use crate::error::Error;

/// Most characters of the caller's in the name of a document.
const MOST_NAME_CHARS: usize = 64;

/// The text beside documents that come without one, since Converse refuses a message with a document
/// and no text, and a blank text. AWS's manual names no text for that: this is the shortest that adds
/// no words.
pub(super) const TEXT_BESIDE: &str = ".";

/// The names of the documents of one request, no two of which may be alike.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, usize>);

impl Names {
    /// Returns the name of the next document as Bedrock takes it: of few characters, and the same in
    /// every request of a conversation. A document that comes again has its ordinal behind it.
    pub(super) fn name(&mut self, file: Document<'_>) -> String {
        let stem = file.name.rsplit_once('.').map_or(file.name, |(stem, _)| stem);
        let legal = stem.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
        let start: String = legal.take(MOST_NAME_CHARS).collect();
        let name = format!("{start}-{:08x}", crc32fast::hash(file.base64.as_bytes()));
        let ordinal = self.0.entry(name.clone()).or_default();
        *ordinal += 1;
        if *ordinal == 1 { name } else { format!("{name}-{ordinal}") }
    }
}

/// Returns Bedrock's word for the type of a document.
pub(super) fn format(mime: &str) -> Result<&'static str, Error> {
    Ok(match mime {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        _ => {
            return Err(Error::unsupported(
                "Bedrock takes documents as PDF, plain text, CSV, HTML or Markdown only",
            ));
        }
    })
}
