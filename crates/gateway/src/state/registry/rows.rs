//! The stored rows of every project, sorted by project, with the faults of those that cannot be
//! read.

use std::collections::HashMap;

use domain::ids::ProjectId;
use domain::key::Key;
use domain::project::Project;
use store::{ModelRow, PerProject, SealingKey, Store};

use crate::error::Result;

/// All that a snapshot is made of.
pub(super) struct Rows {
    /// By id.
    pub(super) projects: PerProject<Project>,
    pub(super) models: HashMap<ProjectId, Of<ModelRow>>,
    pub(super) keys: HashMap<ProjectId, Of<Key>>,
    /// Oldest first.
    pub(super) data_keys: HashMap<ProjectId, Of<SealingKey>>,
}

/// The rows of one project in one table.
pub(super) struct Of<T> {
    /// Those that can be read.
    pub(super) rows: Vec<T>,
    /// Why another one cannot.
    pub(super) fault: Option<store::Error>,
}

impl Rows {
    pub(super) async fn read(store: &Store) -> Result<Self> {
        // Projects first: rows that belong to one of them were written with it, and are seen after
        // it.
        let projects = store.projects().await?;
        let (models, keys, data_keys) =
            tokio::try_join!(store.models(), store.keys(), store.data_keys())?;
        let (models, keys, data_keys) = (sort(models), sort(keys), sort(data_keys));
        Ok(Self { projects, models, keys, data_keys })
    }
}

impl<T> Of<T> {
    /// The rows, if all can be read.
    pub(super) fn all(self) -> Result<Vec<T>> {
        self.fault.map_or(Ok(self.rows), |fault| Err(fault.into()))
    }
}

impl<T> Default for Of<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), fault: None }
    }
}

fn sort<T>(rows: PerProject<T>) -> HashMap<ProjectId, Of<T>> {
    let mut sorted: HashMap<ProjectId, Of<T>> = HashMap::new();
    for (project, row) in rows {
        let of = sorted.entry(project).or_default();
        match row {
            Ok(row) => of.rows.push(row),
            Err(fault) => of.fault = Some(fault),
        }
    }
    sorted
}
