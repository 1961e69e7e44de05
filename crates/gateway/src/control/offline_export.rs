//! Exports by the command line: the file goes to whoever runs the command, with no bound on its size.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write;

use domain::ids::ProjectId;
use domain::project::Project;
use domain::time::Clock;
use export::Exporter;
use store::{SealingKey, Store};

use crate::audit::Event;
use crate::capacity::offload::hand_over;
use crate::control::command_line::note;
use crate::error::{Error, Result};
use crate::export::reader::{ExportedSteps, PIECE, Pause, StepReader, facts, file_fault};
use crate::export::selection::ExportRequest;

/// Exports the steps of a project, or of all, beside a gateway that may be running: steps are read a few
/// at a time. Returns what was written.
pub async fn export_offline(
    store: &Store,
    project: Option<ProjectId>,
    request: &ExportRequest,
    clock: &Clock,
    out: &mut (dyn Write + Send),
) -> Result<ExportedSteps> {
    let selection = request.read(clock.now())?;
    let projects = projects(store, project).await?;
    for (project, _) in &projects {
        let selected = selection.audited(project.id);
        let mut tx = store.begin().await?;
        let target = ("project", project.id.to_string());
        note(&mut tx, project.org, Event::ExportCreated, target, selected, clock).await?;
        tx.commit().await?;
    }
    let mut file = Exporter::new(selection.format).map_err(file_fault)?;
    let mut exported = ExportedSteps::default();
    for (project, sealing) in &projects {
        file.begin_project(facts(store, project).await?).map_err(file_fault)?;
        let mut steps = StepReader::new(store, project.id, selection, sealing);
        while let Some(mut batch) = steps.next().await? {
            loop {
                // The command has its memory for itself.
                let written = || batch.write(&mut file, usize::MAX, &mut exported);
                let pause = hand_over(PIECE, written)?;
                write(out, &file.take().map_err(file_fault)?)?;
                if pause == Pause::Written {
                    break;
                }
            }
        }
    }
    write(out, &file.finish().map_err(file_fault)?)?;
    Ok(exported)
}

fn write(out: &mut (dyn Write + Send), bytes: &[u8]) -> Result<()> {
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::invalid(format!("the output cannot be written: {error}")))
}

/// The projects to export, each with the key that opens its contents. Rows of other projects may be damaged.
async fn projects(store: &Store, wanted: Option<ProjectId>) -> Result<Vec<(Project, SealingKey)>> {
    let is_wanted = |id: ProjectId| wanted.is_none_or(|wanted| wanted == id);
    let unreadable = |id: ProjectId, error: &dyn Display| {
        Error::invalid(format!("project {id} cannot be read: {error}"))
    };
    let mut keys = HashMap::new();
    for (id, key) in store.data_keys().await?.into_iter().filter(|(id, _)| is_wanted(*id)) {
        // Oldest first: the last one seals.
        keys.insert(id, key.map_err(|error| unreadable(id, &error))?);
    }
    let mut found = Vec::new();
    for (id, project) in store.projects().await?.into_iter().filter(|(id, _)| is_wanted(*id)) {
        let project = project.map_err(|error| unreadable(id, &error))?;
        let key = keys.remove(&id).ok_or_else(|| unreadable(id, &"its data key is missing"))?;
        found.push((project, key));
    }
    match wanted {
        Some(wanted) if found.is_empty() => {
            Err(Error::invalid(format!("there is no project {wanted}")))
        }
        _ => Ok(found),
    }
}
