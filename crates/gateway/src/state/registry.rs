//! The registry: an immutable snapshot of projects, models and keys, read on the hot path without
//! a lock or a query.
//!
//! Writes go to the store first; then the snapshot is loaded anew and published. Writes of other
//! processes are noticed by a version number that a job polls. A project that cannot be read is not
//! served, and is reported; the others are served.

mod rows;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use aws_lc_rs::hmac;
use checks::Policy;
use domain::ids::{KeyId, ModelId, ProjectId};
use domain::key::{Key, KeyStatus};
use domain::model::Model;
use domain::money::Usd;
use domain::project::{Project, ProjectStatus};
use domain::settings::{Limits, ModelAliases, Settings};
use domain::time::{Clock, HOUR, Timestamp};
use limits::{KeyWindows, MonthSpend};
use store::{SealingKey, Store};
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::state::mcp_servers::Allowed;
use crate::state::session::SessionKey;
use crate::state::stored_model;
use crate::state::verdict_cache::{VerdictCache, VerdictStore};
use rows::Rows;

/// The searches and statistics of one project at a time that look through traces or steps one by one: others
/// find a place beside them.
const SEARCHES_OF_PROJECT: usize = 2;

/// A project as the request path needs it.
#[derive(Debug)]
pub struct ProjectState {
    /// The stored project.
    pub project: Project,
    /// Its settings, read.
    pub settings: Settings,
    /// Its models by identifier.
    pub models: HashMap<String, Arc<Model>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) memory: VerdictCache,
    pub(crate) blocked_terms: checks::BlockedTerms,
    pub(crate) mcp: Allowed,
    pub(crate) sealing: SealingKey,
    pub(crate) print_key: hmac::Key,
    pub(crate) session_key: SessionKey,
    pub(crate) month: Arc<Mutex<MonthSpend>>,
    /// The permits of its searches and statistics that look through traces or steps one by one.
    pub(crate) searches: Arc<Semaphore>,
}

impl ProjectState {
    /// Its id.
    pub fn id(&self) -> ProjectId {
        self.project.id
    }

    /// The project as it would be with other settings and models, for judging what is recorded. It shares
    /// no counts with the project, and calls nothing.
    pub(crate) fn drafted(
        &self,
        project: Project,
        models: HashMap<String, Arc<Model>>,
    ) -> Result<Self> {
        let settings = Settings::parse(&project.settings).map_err(Error::Invalid)?;
        let policy = Policy::compile(&settings.safety).map_err(Error::Invalid)?;
        Ok(Self {
            blocked_terms: checks::BlockedTerms::compile(&settings.blocked_terms),
            policy: Arc::new(policy),
            memory: VerdictCache::new(VerdictStore::new())?,
            mcp: Allowed::default(),
            sealing: self.sealing.clone(),
            print_key: self.print_key.clone(),
            session_key: self.session_key.clone(),
            month: Arc::default(),
            searches: self.searches.clone(),
            project,
            settings,
            models,
        })
    }

    /// Refuses writes while the project is archived.
    pub(crate) fn check_active(&self) -> Result<()> {
        match self.project.status {
            ProjectStatus::Active => Ok(()),
            ProjectStatus::Archived => Err(Error::invalid("Project is archived")),
        }
    }

    /// Its spend in this calendar month.
    pub fn month_spend(&self, now: Timestamp) -> Usd {
        lock(&self.month).total(now)
    }

    /// The model that a caller names: a registered one, else that of an alias.
    pub(crate) fn model(&self, name: &str) -> Result<&Arc<Model>> {
        self.model_or_alias(name, ModelAliases::resolve)
    }

    /// The model that a caller names for embeddings or images. A pattern stands for conversations: a
    /// model that it gives could do neither.
    pub(crate) fn model_of_one_purpose(&self, name: &str) -> Result<&Arc<Model>> {
        self.model_or_alias(name, ModelAliases::exact)
    }

    /// All models of the project.
    pub(crate) fn all_models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.models.values()
    }

    /// A registered model, else that of the alias that `find` gives.
    fn model_or_alias(
        &self,
        name: &str,
        find: for<'a> fn(&'a ModelAliases, &str) -> Option<&'a str>,
    ) -> Result<&Arc<Model>> {
        let by_alias = || self.models.get(find(&self.settings.model_aliases, name)?);
        self.models.get(name).or_else(by_alias).ok_or_else(|| Error::model_not_found(name))
    }
}

/// A project that cannot be read, by this version at least.
#[derive(Debug)]
struct Unreadable {
    why: String,
    /// Its spend continues to count for the time when it can be read.
    month: Arc<Mutex<MonthSpend>>,
}

/// A key as the request path needs it.
#[derive(Debug)]
pub struct KeyState {
    /// The stored key.
    pub key: Key,
    pub(crate) windows: Arc<Mutex<KeyWindows>>,
}

impl KeyState {
    /// Fails with the reason of the pause if the key is paused.
    pub(crate) fn check_active(&self) -> Result<()> {
        match self.key.status {
            KeyStatus::Active => Ok(()),
            KeyStatus::LoopDetected => Err(Error::LoopDetected),
            KeyStatus::Tripped => Err(Error::SpendCapped { limit: self.key.hourly_limit }),
        }
    }
}

#[derive(Debug, Default)]
struct Snapshot {
    version: i64,
    projects: HashMap<ProjectId, Arc<ProjectState>>,
    unreadable: HashMap<ProjectId, Unreadable>,
    keys: HashMap<KeyId, Arc<KeyState>>,
}

/// Projects, models and keys in memory.
#[derive(Debug)]
pub(crate) struct Registry {
    snapshot: ArcSwap<Snapshot>,
    loading: tokio::sync::Mutex<()>,
    verdicts: VerdictStore,
    pepper: [u8; 32],
}

impl Registry {
    /// Loads everything, with the spend and the counts from before a restart.
    pub(crate) async fn load(store: &Store, clock: &Clock) -> Result<Self> {
        let registry = Self {
            snapshot: ArcSwap::default(),
            loading: tokio::sync::Mutex::new(()),
            verdicts: VerdictStore::new(),
            pepper: store.pepper().await?,
        };
        registry.reload(store).await?;
        registry.recall(store, clock.now()).await?;
        Ok(registry)
    }

    /// Loads projects, models and keys anew and publishes them. Counters live on. Returns the
    /// models that are gone, or reached in another way.
    pub(crate) async fn reload(&self, store: &Store) -> Result<Vec<ModelId>> {
        let _one = self.loading.lock().await;
        // Read first: a change during the read is noticed by the next poll.
        let version = store.registry_version().await?;
        let rows = Rows::read(store).await?;
        let old = self.snapshot.load();
        let mut next = Snapshot { version, ..Snapshot::default() };
        let (mut models, mut keys, mut data_keys) = (rows.models, rows.keys, rows.data_keys);
        for (id, project) in rows.projects {
            let month = old.month(id).unwrap_or_default();
            let of_project = |project: Project| {
                let models = models.remove(&id).unwrap_or_default().all()?;
                let sealing = data_keys.remove(&id).unwrap_or_default().all()?.pop();
                let sealing = sealing.ok_or_else(|| Error::Internal("no data key".to_owned()))?;
                let old = old.projects.get(&id);
                self.project_state(project, models, sealing, month.clone(), old)
            };
            let keys = keys.remove(&id).unwrap_or_default();
            let state = project.map_err(Error::from).and_then(of_project);
            match keys.fault.map_or(state, |fault| Err(fault.into())) {
                Ok(state) => {
                    next.add_keys(keys.rows, Some(&state.settings.limits), &old);
                    next.projects.insert(id, Arc::new(state));
                }
                Err(error) => {
                    next.add_keys(keys.rows, None, &old);
                    next.unreadable.insert(id, Unreadable { why: error.cause(), month });
                }
            }
        }
        next.tell_unreadable(&old);
        let replaced = next.replaced(&old);
        self.snapshot.store(Arc::new(next));
        Ok(replaced)
    }

    /// The version that was read last.
    pub(crate) fn version(&self) -> i64 {
        self.snapshot.load().version
    }

    /// While this is held, nothing is reloaded and so no key is reset.
    pub(crate) async fn steady(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.loading.lock().await
    }

    /// A project, if there is such a one and it can be read.
    pub(crate) fn project(&self, id: ProjectId) -> Result<Option<Arc<ProjectState>>> {
        let snapshot = self.snapshot.load();
        if snapshot.unreadable.contains_key(&id) {
            return Err(Error::ProjectUnreadable);
        }
        Ok(snapshot.projects.get(&id).cloned())
    }

    /// Every project that cannot be read, by id, and why.
    pub(crate) fn unreadable(&self) -> Vec<(ProjectId, String)> {
        let snapshot = self.snapshot.load();
        let all = snapshot.unreadable.iter().map(|(id, project)| (*id, project.why.clone()));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Every project that is served, by id.
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
        sealing: SealingKey,
        month: Arc<Mutex<MonthSpend>>,
        old: Option<&Arc<ProjectState>>,
    ) -> Result<ProjectState> {
        let bad = |faults: Vec<String>| Error::Internal(faults.join("; "));
        let settings = Settings::parse(&project.settings).map_err(bad)?;
        // While its safety stays unchanged, a project keeps its policy and its cached verdicts.
        let same = old.filter(|old| *old.policy.safety() == settings.safety);
        let (policy, memory) = match same {
            Some(old) => (old.policy.clone(), old.memory.clone()),
            None => {
                let policy = Policy::compile(&settings.safety).map_err(bad)?;
                (Arc::new(policy), VerdictCache::new(self.verdicts.clone())?)
            }
        };
        let blocked_terms = checks::BlockedTerms::compile(&settings.blocked_terms);
        let mcp = Allowed::open(&project, &settings, &sealing)?;
        let mut models = HashMap::with_capacity(rows.len());
        for row in rows {
            let model = stored_model::open(row, &sealing)?;
            models.insert(model.identifier.clone(), Arc::new(model));
        }
        let pepper = hmac::Key::new(hmac::HMAC_SHA256, &self.pepper);
        let print_key = hmac::sign(&pepper, format!("print:{}", project.id).as_bytes());
        let session_key = hmac::sign(&pepper, format!("session:{}", project.id).as_bytes());
        Ok(ProjectState {
            project,
            settings,
            models,
            policy,
            memory,
            blocked_terms,
            mcp,
            sealing,
            print_key: hmac::Key::new(hmac::HMAC_SHA256, print_key.as_ref()),
            session_key: SessionKey::new(session_key.as_ref()),
            month,
            searches: old.map_or_else(
                || Arc::new(Semaphore::new(SEARCHES_OF_PROJECT)),
                |old| old.searches.clone(),
            ),
        })
    }

    /// Takes back the spend from the ledger, and the counts from checkpoints.
    async fn recall(&self, store: &Store, now: Timestamp) -> Result<()> {
        let (months, seconds, windows) = tokio::try_join!(
            store.spend_by_project(now),
            store.spent_seconds(now.minus_micros(HOUR)),
            store.saved_windows(),
        )?;
        let snapshot = self.snapshot.load();
        for (project, spent) in months {
            if let Some(month) = snapshot.month(project) {
                lock(&month).add(now, spent);
            }
        }
        for (key, bytes) in windows {
            if let Some(state) = snapshot.keys.get(&key) {
                lock(&state.windows).restore(&bytes, state.key.reset_at);
            }
        }
        // Spend that a clock has dated later, before it was put right, does not count.
        let latest = now.plus(Duration::from_hours(1)).unix_seconds();
        for spent in seconds.into_iter().filter(|spent| spent.second <= latest) {
            if let Some(state) = snapshot.keys.get(&spent.key) {
                let at = Timestamp(spent.second * domain::time::SECOND);
                lock(&state.windows).raise_spent(at, spent.cost);
            }
        }
        Ok(())
    }
}

impl Snapshot {
    /// The spend of a project, served or not.
    fn month(&self, id: ProjectId) -> Option<Arc<Mutex<MonthSpend>>> {
        let served = self.projects.get(&id).map(|state| &state.month);
        served.or_else(|| self.unreadable.get(&id).map(|project| &project.month)).cloned()
    }

    /// Adds the keys of a project with their earlier counts. Without limits, if those cannot be
    /// read, they count on under the old ones.
    fn add_keys(&mut self, keys: Vec<Key>, limits: Option<&Limits>, old: &Self) {
        for key in keys {
            let windows = match old.keys.get(&key.id) {
                Some(state) => {
                    let mut windows = lock(&state.windows);
                    if let Some(limits) = limits {
                        windows.set_limits(limits);
                    }
                    if key.reset_at != state.key.reset_at {
                        windows.reset();
                    }
                    state.windows.clone()
                }
                None => {
                    let windows = KeyWindows::new(limits.unwrap_or(&Limits::default()));
                    Arc::new(Mutex::new(windows))
                }
            };
            self.keys.insert(key.id, Arc::new(KeyState { key, windows }));
        }
    }

    /// The models of an older snapshot that are gone, or reached in another way.
    fn replaced(&self, old: &Self) -> Vec<ModelId> {
        let present: HashMap<ModelId, &Arc<Model>> =
            self.models().map(|model| (model.id, model)).collect();
        let stays = |model: &Arc<Model>| {
            present.get(&model.id).is_some_and(|present| present.is_reached_like(model))
        };
        old.models().filter(|model| !stays(model)).map(|model| model.id).collect()
    }

    fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.projects.values().flat_map(|state| state.models.values())
    }

    /// Logs once which projects cannot be read.
    fn tell_unreadable(&self, old: &Self) {
        for (project, Unreadable { why, .. }) in &self.unreadable {
            if old.unreadable.get(project).is_none_or(|known| known.why != *why) {
                tracing::error!(%project, %why, "a project cannot be read and is not served");
            }
        }
    }
}
