//! The handle to the counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::ids::{NodeId, ProjectId};
use domain::time::{Clock, micros};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failures::Untold;
use crate::held::Table;
use crate::link::{Link, Live};
use crate::near::{Nearest, One};
use crate::target::{Address, Target};
use crate::topology::{Topology, slot_of};
use crate::{DECISION_TIMEOUT, Failure, Unusable, connect};

/// How long a decision may take on the fixed clock of a test, however busy its machine is.
const UNHURRIED: Duration = Duration::from_secs(10);
/// A node whose servers have all been away for so long is not ready.
const UNREADY_AFTER: Duration = Duration::from_secs(1);

/// The settings of counters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The Redis.
    pub target: Target,
    /// The name of the installation: those that share a Redis have different ones.
    pub installation: String,
    /// This node.
    pub node: NodeId,
    /// The machine's clock leaves time to the server; a fixed one, of a test, is the time.
    pub clock: Clock,
}

/// The counters of all projects, behind one cheap handle.
#[derive(Clone, Debug)]
pub struct Counters(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) topology: Topology,
    /// Notified when slots may have moved.
    pub(crate) moved: Notify,
    pub(crate) held: Table,
    pub(crate) untold: Untold,
    next: AtomicU64,
    /// How often this node may have been taken for gone.
    pub(crate) absences: AtomicU64,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    began: Instant,
}

impl Counters {
    /// Finds and checks the servers, and keeps connections to them until [`Counters::close`].
    pub async fn open(settings: Settings) -> Result<Self, Unusable> {
        let counters = Self::quiet(settings).await?;
        counters.keep();
        Ok(counters)
    }

    /// Like [`Counters::open`], without work of its own: nothing happens but by [`Counters::beat`].
    pub async fn quiet(settings: Settings) -> Result<Self, Unusable> {
        let target = &settings.target;
        let unusable =
            |why: String| Unusable(format!("Redis at {target}: {why}. See SLUICE_REDIS_URL"));
        let topology = Topology::find(target).await.map_err(unusable)?;
        for link in topology.links().iter() {
            let address = address_of(target, link.address.as_ref()).await.map_err(unusable)?;
            let found = connect::connect(target, &address).await;
            let found = found.map_err(|why| {
                let why = match target.hosts.len() {
                    1 => why,
                    _ => format!("{}: {why}", crate::target::shown(&address)),
                };
                Unusable(format!("Redis at {target}: {why}. See SLUICE_REDIS_URL"))
            })?;
            link.set_live(Live::new(found.connection, found.epoch));
        }
        let counters = Self(Arc::new(Shared {
            topology,
            moved: Notify::new(),
            held: Table::default(),
            untold: Untold::default(),
            next: AtomicU64::new(1),
            absences: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            began: Instant::now(),
            settings,
        }));
        counters.beat().await;
        Ok(counters)
    }

    /// Whether any server is reached, or was a moment ago: while one of several fails over, the projects of the
    /// others go on. The error names one that is not.
    pub fn check(&self) -> Result<(), String> {
        let links = self.0.topology.links();
        if links.iter().any(|link| link.down() < UNREADY_AFTER) {
            return Ok(());
        }
        let down = links.first().map(|link| link.name()).unwrap_or_default();
        Err(format!("Redis does not answer ({down})"))
    }

    /// Whether the server of a project is reached.
    pub fn is_reached(&self, project: ProjectId) -> bool {
        self.0.link(project).is_ok_and(|link| link.is_well())
    }

    /// The reservations that this node holds.
    pub fn held(&self) -> usize {
        self.0.held.count()
    }

    /// Has the next beat add all reservations of this node again at every server: it may have been taken for gone, and
    /// others may have given them back ([`Counters::forget`]). What is there stays as it is, and a call that counts
    /// already is not reserved again.
    pub fn note_absence(&self) {
        self.0.absences.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends all work. Reservations stay until another node gives them back.
    pub async fn close(&self) {
        self.0.stopping.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// The address of a server, which Sentinels may have to say.
pub(crate) async fn address_of(
    target: &Target,
    address: Option<&Address>,
) -> Result<Address, String> {
    match address {
        Some(address) => Ok(address.clone()),
        None => connect::ask_sentinels(target).await,
    }
}

/// Another connection to a server that is known by its run id.
async fn again(
    target: &Target,
    address: Option<&Address>,
    run: &str,
) -> Result<MultiplexedConnection, String> {
    let found = connect::connect(target, &address_of(target, address).await?).await?;
    if found.epoch == run { Ok(found.connection) } else { Err("it is another server".to_owned()) }
}

impl Shared {
    /// The number of a new reservation.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A reservation as the server names it.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.settings.node.0)
    }

    /// The base of the keys of a project.
    pub(crate) fn base(&self, project: ProjectId) -> String {
        format!("sluice:{}:{{p{}}}", self.settings.installation, project.0)
    }

    /// The server that has a project.
    pub(crate) fn link(&self, project: ProjectId) -> Result<Arc<Link>, Failure> {
        self.link_of(slot_of(&format!("p{}", project.0)))
    }

    /// The server that has a slot.
    pub(crate) fn link_of(&self, slot: u16) -> Result<Arc<Link>, Failure> {
        self.topology.link(slot).ok_or_else(|| {
            self.moved.notify_one();
            Failure::Away("no server has the slot".to_owned())
        })
    }

    /// The time as functions take it: a test's, or nothing for that of the server.
    pub(crate) fn now(&self) -> String {
        self.settings.clock.fixed_at().map(|at| at.0.to_string()).unwrap_or_default()
    }

    /// Microseconds since this handle was made.
    pub(crate) fn elapsed(&self) -> i64 {
        micros(self.began.elapsed())
    }

    /// How long a decision may take. On a clock that stands still none is late.
    pub(crate) fn patience(&self) -> Duration {
        match self.settings.clock.fixed_at() {
            Some(_) => UNHURRIED,
            None => DECISION_TIMEOUT,
        }
    }

    /// The time of a server after which a command that leaves now, and is waited for so long, must have no effect.
    pub(crate) fn not_after(&self, link: &Link, within: Duration) -> String {
        if self.settings.clock.fixed_at().is_some() {
            return String::new();
        }
        let offset = link.offset.load(Ordering::Relaxed);
        (self.elapsed() + offset + micros(within)).to_string()
    }

    /// Sends a command, over the nearest connection.
    pub(crate) async fn send(
        &self,
        link: &Link,
        live: &Arc<Live>,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, Failure> {
        let asked = self.elapsed();
        // A connection with TLS reads the certificates of the system, which other calls of a loop would wait for.
        let nearest =
            if self.settings.target.tls { Nearest::Keepers } else { live.near.nearest(asked) };
        let keepers = || (live.connection.clone(), None);
        let way = match nearest {
            Nearest::Own(one, connection) => (connection, Some(one)),
            Nearest::Keepers => keepers(),
            Nearest::ToBeMade(one) => {
                self.make_near(link, live.clone(), one);
                keepers()
            }
        };
        link.send(live, way, command, (asked, within), &self.moved).await
    }

    /// Makes a connection of this runtime to a server.
    fn make_near(&self, link: &Link, live: Arc<Live>, one: Arc<One>) {
        let (target, address) = (self.settings.target.clone(), link.address.clone());
        let began = self.began;
        let making = async move {
            match again(&target, address.as_ref(), &live.run).await {
                Ok(connection) => one.set(connection),
                Err(why) => {
                    tracing::debug!(why, "a loop does without a connection to Redis of its own");
                    live.near.forget(&one, micros(began.elapsed()));
                }
            }
        };
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move { stopping.run_until_cancelled(making).await });
    }
}
