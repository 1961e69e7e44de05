//! `sluice export`: the steps or the costs of projects, as a file. It reads the database itself, beside a
//! gateway that may be running, and so has no bound on the size of the file.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use domain::ids::ProjectId;
use domain::time::Clock;
use gateway::{ExportRequest, ExportedProjects, ExportedSteps, export_offline};
use tempfile::NamedTempFile;
use tokio::signal::unix::SignalKind;

use super::{Failure, complain, say, visit, watch};
use crate::config::Config;

#[derive(Args)]
pub(crate) struct ExportCommand {
    /// The project to export [default: the only one that there is]
    #[arg(long, value_name = "N", conflicts_with = "all")]
    project: Option<i64>,
    /// Export every project
    #[arg(long)]
    all: bool,
    /// `jsonl` or `parquet` for steps; `focus` for costs as CSV in the columns of FOCUS 1.2
    #[arg(long, value_name = "FORMAT")]
    format: String,
    /// The first moment: a date, a time, or an age such as 7d, 12h or 90m
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
    let ExportCommand { project, all, format, since, until, content, output } = command;
    let request = ExportRequest { format, since, until, content };
    let projects = match project {
        Some(project) => ExportedProjects::One(ProjectId(project)),
        None if all => ExportedProjects::All,
        None => ExportedProjects::Only,
    };
    let clock = Clock::system();
    let mut store = visit(config).await?;
    store.release_claim().await;
    let exported = match &output {
        None => export_offline(&store, projects, &request, &clock, &mut io::stdout()).await?,
        Some(path) => {
            let fault = |error| Failure(format!("{} cannot be written: {error}", path.display()));
            // Before there is a file that a signal would leave behind.
            let mut interrupt = watch(SignalKind::interrupt())?;
            let mut terminate = watch(SignalKind::terminate())?;
            let mut hang_up = watch(SignalKind::hangup())?;
            let mut file = begin(path).map_err(fault)?;
            let exporting = export_offline(&store, projects, &request, &clock, &mut file);
            let exported = tokio::select! {
                exported = exporting => exported?,
                _ = interrupt.recv() => return Err(Failure("interrupted".to_owned())),
                _ = terminate.recv() => return Err(Failure("terminated".to_owned())),
                _ = hang_up.recv() => return Err(Failure("the terminal is gone".to_owned())),
            };
            file.as_file().sync_all().map_err(fault)?;
            file.persist(path).map_err(|error| fault(error.error))?;
            exported
        }
    };
    store.close().await;
    let ExportedSteps { steps, content_errors, step_errors } = exported;
    if step_errors > 0 {
        complain(&Failure(format!(
            "warning: steps cannot be read, and the file has no more than their ids: {step_errors}"
        )));
    }
    if content_errors > 0 {
        complain(&Failure(format!(
            "warning: the file lacks contents that cannot be read: {content_errors}"
        )));
    }
    output
        .map_or(Ok(()), |path| say(&format!("{steps} steps were exported to {}.", path.display())))
}

/// A new file in the folder of the one that it becomes once it is whole. Nobody else can have made or opened
/// it: it has a name of its own until then, and mode 0600. It is deleted if it is dropped.
fn begin(path: &Path) -> io::Result<NamedTempFile> {
    // A device or a pipe would be replaced, and not written to; so would a link to one, as `/dev/stdout` is.
    // A link to a file is replaced itself.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is not a regular file"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(".sluice-export-")
        .tempfile_in(folder.unwrap_or_else(|| Path::new(".")))
}
