//! Exports: recorded steps in, the bytes of a file out, as JSON Lines, as Parquet, or as the costs of
//! chargeback in the columns of FOCUS.
//!
//! Pure: no I/O and no clock. Steps are read and files are kept elsewhere. Bytes that have been written can be
//! taken at any time, so that neither the steps nor the file are ever held whole.

mod cell;
mod focus;
mod parquet_file;
mod record;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use domain::export::ExportFormat;
use domain::ids::{KeyId, OrgId, ProjectId, StepId};

use focus::FocusFile;
use parquet_file::ParquetFile;
use record::Line;

pub use cell::text as cell_text;
pub use record::{ContentFault, DamagedStep, Record, RecordedContent, TraceFacts};

/// Why a file could not be written. The file is in memory, so that all but [`UnknownCost`](Self::UnknownCost)
/// are defects of ours.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line of JSON.
    #[error("a line of JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A row of CSV.
    #[error("a row of CSV: {0}")]
    Csv(#[from] csv::Error),
    /// A part of a Parquet file.
    #[error("a Parquet file: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// Costs of which a part is not known.
    #[error("step {0} is damaged, and its cost is not known: a file of costs would be too low")]
    UnknownCost(StepId),
    /// A buffer.
    #[error("a buffer: {0}")]
    Buffer(#[from] std::io::Error),
}

/// The result of writing.
pub type Result<T> = std::result::Result<T, Error>;

/// The project that steps belong to, as an export names it.
#[derive(Clone, Debug)]
pub struct ProjectFacts {
    /// The project.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// The organization that owns it.
    pub org: OrgId,
    /// The names of its keys, revoked ones included.
    pub keys: HashMap<KeyId, String>,
}

/// A file that is being written.
#[derive(Debug)]
pub struct Exporter(File);

#[derive(Debug)]
enum File {
    Jsonl(Vec<u8>),
    Parquet(Box<ParquetFile>),
    Focus(Box<FocusFile>),
}

impl Exporter {
    /// A file without steps.
    pub fn new(format: ExportFormat) -> Result<Self> {
        Ok(Self(match format {
            ExportFormat::Jsonl => File::Jsonl(Vec::new()),
            ExportFormat::Parquet => File::Parquet(Box::new(ParquetFile::new()?)),
            ExportFormat::Focus => File::Focus(Box::new(FocusFile::new()?)),
        }))
    }

    /// Has the steps that follow belong to a project.
    pub fn begin_project(&mut self, project: ProjectFacts) -> Result<()> {
        match &mut self.0 {
            File::Jsonl(_) | File::Parquet(_) => Ok(()),
            File::Focus(file) => file.begin_project(project),
        }
    }

    /// Writes a step. The steps of a project come in the order in which they ended.
    pub fn write(&mut self, record: &Record<'_>) -> Result<()> {
        match &mut self.0 {
            File::Jsonl(lines) => write_line(lines, &record.line()),
            File::Parquet(file) => file.write(&record.line()),
            File::Focus(file) => file.write(record.step),
        }
    }

    /// Marks a step that cannot be read, in its place. A file of costs fails with
    /// [`UnknownCost`](Error::UnknownCost).
    pub fn write_damaged(&mut self, step: &DamagedStep) -> Result<()> {
        match &mut self.0 {
            File::Jsonl(lines) => write_line(lines, &step.line()),
            File::Parquet(file) => file.write(&step.line()),
            File::Focus(_) => Err(Error::UnknownCost(step.id)),
        }
    }

    /// About how many bytes can be taken. Rows that wait for the others of their group or day do not count.
    pub fn ready(&self) -> usize {
        match &self.0 {
            File::Jsonl(lines) => lines.len(),
            File::Parquet(file) => file.ready(),
            File::Focus(file) => file.ready(),
        }
    }

    /// Takes what is written so far.
    pub fn take(&mut self) -> Result<Vec<u8>> {
        match &mut self.0 {
            File::Jsonl(lines) => Ok(std::mem::take(lines)),
            File::Parquet(file) => file.take(),
            File::Focus(file) => file.take(),
        }
    }

    /// Ends the file, and returns what was not taken yet.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.0 {
            File::Jsonl(lines) => Ok(lines),
            File::Parquet(file) => file.finish(),
            File::Focus(file) => file.finish(),
        }
    }
}

fn write_line(lines: &mut Vec<u8>, line: &Line<'_>) -> Result<()> {
    serde_json::to_writer(&mut *lines, line)?;
    lines.push(b'\n');
    Ok(())
}
