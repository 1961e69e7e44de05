//! The registry: an immutable snapshot of projects, models and keys, read on the hot path without
//! a lock or a query.
//!
//! Writes go to the store first; then the snapshot is loaded anew and published. What other
//! processes write is noticed by a version number that a job polls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use domain::ids::{KeyId, ProjectId};
use domain::key::Key;
use domain::model::Model;
use domain::money::Usd;
use domain::project::{Project, ProjectStatus};
use domain::settings::Settings;
use domain::time::{Clock, HOUR, Timestamp};
use limits::{KeyWindows, MonthSpend};
use store::{SealingKey, Store};

use crate::error::{Error, Result};
use crate::models;

/// A project as the request path needs it.
#[derive(Debug)]
pub struct ProjectState {
    /// The stored project.
    pub project: Project,
    /// Its settings, read.
    pub settings: Settings,
    /// Its models by identifier.
    pub models: HashMap<String, Arc<Model>>,
    pub(crate) policy: checks::Policy,
    pub(crate) sealing: SealingKey,
    pub(crate) print_key: hmac::Key,
    pub(crate) month: Arc<Mutex<MonthSpend>>,
}

impl ProjectState {
    /// Its id.
    pub fn id(&self) -> ProjectId {
        self.project.id
    }

    /// Refuses writes while the project is archived.
    pub(crate) fn check_active(&self) -> Result<()> {
        match self.project.status {
            ProjectStatus::Active => Ok(()),
            ProjectStatus::Archived => Err(Error::invalid("Project is archived")),
        }
    }

    /// What it has spent in this calendar month.
    pub fn month_spend(&self, now: Timestamp) -> Usd {
        lock(&self.month).total(now)
    }

    /// A registered model.
    pub(crate) fn model(&self, identifier: &str) -> Result<&Arc<Model>> {
        self.models.get(identifier).ok_or_else(|| Error::model_not_found(identifier))
    }
}

/// A key as the request path needs it.
#[derive(Debug)]
pub struct KeyState {
    /// The stored key.
    pub key: Key,
    pub(crate) windows: Arc<Mutex<KeyWindows>>,
}

#[derive(Debug, Default)]
struct Snapshot {
    version: i64,
    projects: HashMap<ProjectId, Arc<ProjectState>>,
    keys: HashMap<KeyId, Arc<KeyState>>,
}

/// Projects, models and keys in memory.
#[derive(Debug)]
pub(crate) struct Registry {
    snapshot: ArcSwap<Snapshot>,
    loading: tokio::sync::Mutex<()>,
    pepper: [u8; 32],
}

impl Registry {
    /// Loads everything, with what was spent and counted before a restart.
    pub(crate) async fn load(store: &Store, clock: &Clock) -> Result<Self> {
        let registry = Self {
            snapshot: ArcSwap::default(),
            loading: tokio::sync::Mutex::new(()),
            pepper: store.pepper().await?,
        };
        registry.reload(store).await?;
        registry.recall(store, clock.now()).await?;
        Ok(registry)
    }

    /// Loads projects, models and keys anew and publishes them. Counters live on.
    pub(crate) async fn reload(&self, store: &Store) -> Result<()> {
        let _one = self.loading.lock().await;
        // Read first: what changes while we read is noticed by the next poll.
        let version = store.registry_version().await?;
        // Projects first: whatever belongs to one of them was written with it, and is seen after it.
        let projects = store.projects().await?;
        let (rows, keys, data_keys) =
            tokio::try_join!(store.models(), store.keys(), store.data_keys())?;
        let old = self.snapshot.load();
        let sealing: HashMap<ProjectId, SealingKey> = data_keys.into_iter().collect();
        let mut by_project: HashMap<ProjectId, Vec<store::ModelRow>> = HashMap::new();
        for row in rows {
            by_project.entry(row.project).or_default().push(row);
        }
        let mut states = HashMap::with_capacity(projects.len());
        for project in projects {
            let id = project.id;
            let sealing = sealing
                .get(&id)
                .ok_or_else(|| Error::Internal(format!("project {id} has no data key")))?;
            let rows = by_project.remove(&id).unwrap_or_default();
            let state = self.project_state(project, rows, sealing, old.projects.get(&id))?;
            states.insert(id, Arc::new(state));
        }
        let keys = keys.into_iter().filter_map(|key| {
            let limits = &states.get(&key.project)?.settings.limits;
            let windows = match old.keys.get(&key.id) {
                Some(state) => {
                    let mut windows = lock(&state.windows);
                    windows.set_limits(limits);
                    if key.reset_at != state.key.reset_at {
                        windows.reset();
                    }
                    state.windows.clone()
                }
                None => Arc::new(Mutex::new(KeyWindows::new(limits))),
            };
            Some((key.id, Arc::new(KeyState { key, windows })))
        });
        let keys = keys.collect();
        self.snapshot.store(Arc::new(Snapshot { version, projects: states, keys }));
        Ok(())
    }

    /// Reloads if another process has changed something.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<()> {
        if store.registry_version().await? != self.snapshot.load().version {
            self.reload(store).await?;
        }
        Ok(())
    }

    pub(crate) fn project(&self, id: ProjectId) -> Option<Arc<ProjectState>> {
        self.snapshot.load().projects.get(&id).cloned()
    }

    /// Every project, by id.
    pub(crate) fn projects(&self) -> Vec<Arc<ProjectState>> {
        let mut all: Vec<_> = self.snapshot.load().projects.values().cloned().collect();
        all.sort_by_key(|state| state.id());
        all
    }

    pub(crate) fn key(&self, id: KeyId) -> Option<Arc<KeyState>> {
        self.snapshot.load().keys.get(&id).cloned()
    }

    /// Every key, oldest first.
    pub(crate) fn keys(&self) -> Vec<Arc<KeyState>> {
        let mut all: Vec<_> = self.snapshot.load().keys.values().cloned().collect();
        all.sort_by_key(|state| (state.key.created_at, state.key.id));
        all
    }

    pub(crate) fn pepper(&self) -> &[u8; 32] {
        &self.pepper
    }

    fn project_state(
        &self,
        project: Project,
        rows: Vec<store::ModelRow>,
        sealing: &SealingKey,
        old: Option<&Arc<ProjectState>>,
    ) -> Result<ProjectState> {
        let bad = |faults: Vec<String>| {
            Error::Internal(format!("project {}: {}", project.id, faults.join("; ")))
        };
        let settings = Settings::parse(&project.settings).map_err(bad)?;
        let policy = checks::Policy::compile(&settings.safety).map_err(bad)?;
        let mut models = HashMap::with_capacity(rows.len());
        for row in rows {
            let model = models::open(row, sealing)?;
            models.insert(model.identifier.clone(), Arc::new(model));
        }
        let print_key = hmac::Key::new(hmac::HMAC_SHA256, &self.pepper);
        let print_key = hmac::sign(&print_key, format!("print:{}", project.id).as_bytes());
        Ok(ProjectState {
            project,
            settings,
            models,
            policy,
            sealing: sealing.clone(),
            print_key: hmac::Key::new(hmac::HMAC_SHA256, print_key.as_ref()),
            month: old.map(|old| old.month.clone()).unwrap_or_default(),
        })
    }

    /// Takes back from the ledger what was spent, and from checkpoints what was counted.
    async fn recall(&self, store: &Store, now: Timestamp) -> Result<()> {
        let (months, seconds, windows) = tokio::try_join!(
            store.spend_by_project(now.month_start().minute()),
            store.spent_seconds(now.minus_micros(HOUR)),
            store.saved_windows(),
        )?;
        let snapshot = self.snapshot.load();
        for (project, spent) in months {
            if let Some(state) = snapshot.projects.get(&project) {
                lock(&state.month).add(now, spent);
            }
        }
        for (key, bytes) in windows {
            if let Some(state) = snapshot.keys.get(&key) {
                lock(&state.windows).restore(&bytes, state.key.reset_at);
            }
        }
        for spent in seconds {
            if let Some(state) = snapshot.keys.get(&spent.key) {
                let at = Timestamp(spent.second * domain::time::SECOND);
                lock(&state.windows).settle(at, spent.cost);
            }
        }
        Ok(())
    }
}

/// A mutex whose holder panicked still guards plain numbers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
