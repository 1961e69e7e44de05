//! Exports of recorded steps.

use crate::tier::words;

words!(
    /// The format of an export.
    ExportFormat {
        /// JSON Lines: a step a line.
        Jsonl = "jsonl",
        /// Parquet: a step a row.
        Parquet = "parquet",
        /// CSV in the columns of FOCUS 1.2: the costs of a day by key, model, user and tags.
        Focus = "focus",
    }
);

impl ExportFormat {
    /// The media type of a file.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Focus => "text/csv; charset=utf-8",
        }
    }

    /// The extension of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Parquet => "parquet",
            Self::Focus => "csv",
        }
    }
}
