//! Exports by the command line: the file goes to whoever runs the command, with no bound on its size.

use std::collections::{HashMap, HashSet};
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

/// The projects of an export by the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportedProjects {
    /// The only project that there is.
    Only,
    /// This one.
    One(ProjectId),
    /// Every one, after each other.
    All,
}

/// The most projects that an error lists.
const MOST_LISTED: usize = 20;

/// Exports the steps of projects beside a gateway that may be running: steps are read a few at a time. Returns what
/// was written. Fails with a list of the projects if the only one is asked for and there are several.
pub async fn export_offline(
    store: &Store,
    wanted: ExportedProjects,
    request: &ExportRequest,
    clock: &Clock,
    out: &mut (dyn Write + Send),
) -> Result<ExportedSteps> {
    let selection = request.read(clock.now())?;
    let projects = projects(store, wanted).await?;
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
async fn projects(store: &Store, wanted: ExportedProjects) -> Result<Vec<(Project, SealingKey)>> {
    let mut all = store.projects().await?;
    match wanted {
        ExportedProjects::One(wanted) => {
            all.retain(|(id, _)| *id == wanted);
            if all.is_empty() {
                return Err(Error::invalid(format!("there is no project {wanted}")));
            }
        }
        ExportedProjects::Only if all.len() > 1 => return Err(several(&all)),
        ExportedProjects::Only | ExportedProjects::All => {}
    }
    let unreadable = |id: ProjectId, error: &dyn Display| {
        Error::invalid(format!("project {id} cannot be read: {error}"))
    };
    let is_wanted: HashSet<ProjectId> = all.iter().map(|(id, _)| *id).collect();
    let mut keys = HashMap::new();
    for (id, key) in store.data_keys().await?.into_iter().filter(|(id, _)| is_wanted.contains(id)) {
        // Oldest first: the last one seals.
        keys.insert(id, key.map_err(|error| unreadable(id, &error))?);
    }
    let mut found = Vec::new();
    for (id, project) in all {
        let project = project.map_err(|error| unreadable(id, &error))?;
        let key = keys.remove(&id).ok_or_else(|| unreadable(id, &"its data key is missing"))?;
        found.push((project, key));
    }
    Ok(found)
}

/// The error of an export that names none of several projects: each with its name, where it can be read.
fn several(all: &[(ProjectId, store::Result<Project>)]) -> Error {
    let listed = all.iter().take(MOST_LISTED).map(|(id, project)| match project {
        Ok(project) => format!("{id} ({})", project.name),
        Err(_) => id.to_string(),
    });
    let mut listed: Vec<String> = listed.collect();
    if all.len() > MOST_LISTED {
        listed.push(format!("and {} more", all.len() - MOST_LISTED));
    }
    let listed = listed.join(", ");
    Error::invalid(format!("there are several projects: give --project N, or --all: {listed}"))
}
