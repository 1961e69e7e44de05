//! `sluice export`: the steps or the costs of projects, as a file. It reads the database itself, beside a
//! gateway that may be running, and so has no bound on the size of the file.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::ids::ProjectId;
use domain::time::Clock;
use gateway::{ExportRequest, export_offline};

use super::{Failure, say, visit};
use crate::config::Config;

#[derive(Args)]
pub(crate) struct ExportCommand {
    /// The project to export
    #[arg(long, value_name = "N", required_unless_present = "all", conflicts_with = "all")]
    project: Option<i64>,
    /// Export every project
    #[arg(long)]
    all: bool,
    /// `jsonl` or `parquet` for steps; `focus` for costs as CSV in the columns of FOCUS 1.2
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// The first moment: a date, a time, or an age such as 7d or 12h
    #[arg(long, value_name = "WHEN")]
    since: String,
    /// The moment after the last, likewise [default: now]
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Export inputs and outputs too, where they are stored
    #[arg(long)]
    content: bool,
    /// The file to write, readable for its owner alone [default: the standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) async fn run(config: &Config, command: ExportCommand) -> Result<(), Failure> {
    let ExportCommand { project, format, since, until, content, output, .. } = command;
    let request = ExportRequest { format, since, until, content };
    let project = project.map(ProjectId);
    let clock = Clock::system();
    let mut store = visit(config).await?;
    store.release_claim().await;
    let done = match &output {
        None => {
            export_offline(&store, project, &request, &clock, &mut io::stdout()).await.map(drop)?;
            Ok(())
        }
        Some(path) => {
            let part = part_of(path);
            let mut file = open(&part).map_err(|error| fault(&part, &error))?;
            let exported = export_offline(&store, project, &request, &clock, &mut file).await;
            let count = exported.inspect_err(|_| drop(std::fs::remove_file(&part)))?;
            // A reader finds the whole file or none.
            let moved = file.sync_all().and_then(|()| std::fs::rename(&part, path));
            moved.map_err(|error| fault(path, &error))?;
            say(&format!("{count} steps were exported to {}.", path.display()))
        }
    };
    store.close().await;
    done
}

/// The file that is written until it is whole.
fn part_of(path: &Path) -> PathBuf {
    let mut part = OsString::from(path);
    part.push(".part");
    part.into()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn fault(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("{} cannot be written: {error}", path.display()))
}
