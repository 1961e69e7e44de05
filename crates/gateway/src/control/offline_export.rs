//! Exports by the command line: the file goes to whoever runs the command, with no bound on its size.

use std::collections::HashMap;
use std::io::Write;

use domain::ids::ProjectId;
use domain::project::Project;
use domain::time::Clock;
use export::Exporter;
use store::{SealingKey, Store};

use crate::audit::Event;
use crate::control::command_line::note;
use crate::error::{Error, Result};
use crate::export::reader::{StepReader, facts, file_fault};
use crate::export::selection::ExportRequest;

/// Exports the steps of a project, or of all, beside a gateway that may be running: steps are read a few
/// at a time. Returns how many steps there were.
pub async fn export_offline(
    store: &Store,
    project: Option<ProjectId>,
    request: &ExportRequest,
    clock: &Clock,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
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
    let mut count = 0;
    for (project, sealing) in &projects {
        file.begin_project(facts(store, project).await?).map_err(file_fault)?;
        let mut steps = StepReader::new(store, project.id, selection, sealing);
        loop {
            let written = steps.write_next(&mut file).await?;
            if written == 0 {
                break;
            }
            count += written as u64;
            write(out, &file.take().map_err(file_fault)?)?;
        }
    }
    write(out, &file.finish().map_err(file_fault)?)?;
    Ok(count)
}

fn write(out: &mut (dyn Write + Send), bytes: &[u8]) -> Result<()> {
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::invalid(format!("the output cannot be written: {error}")))
}

/// The projects to export, each with the key that opens its contents.
async fn projects(store: &Store, wanted: Option<ProjectId>) -> Result<Vec<(Project, SealingKey)>> {
    let mut keys = HashMap::new();
    for (project, key) in store.data_keys().await? {
        // Oldest first: the last one seals.
        keys.insert(project, key?);
    }
    let mut found = Vec::new();
    for (id, project) in store.projects().await? {
        if wanted.is_none_or(|wanted| wanted == id) {
            let key = keys.remove(&id).ok_or_else(|| Error::Internal("no data key".to_owned()))?;
            found.push((project?, key));
        }
    }
    match wanted {
        Some(wanted) if found.is_empty() => {
            Err(Error::invalid(format!("there is no project {wanted}")))
        }
        _ => Ok(found),
    }
}
