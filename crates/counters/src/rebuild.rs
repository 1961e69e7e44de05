//! Spend of the ledger that is put into Redis: after a loss, and when a node finds it lower there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::Timestamp;
use redis::{Cmd, Value};

use crate::Failure;
use crate::counters::Counters;
use crate::decide::LATE;
use crate::link::{Link, Live, call};
use crate::reply::{at, list, money, number, text};

/// The longest that a step of this work may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);
/// The most seconds of an hour in one command.
const SECONDS_AT_ONCE: usize = 500;

/// The figures of a project now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFigures {
    /// Spent in this month.
    pub spent: Usd,
    /// Reserved for calls, of all nodes.
    pub reserved: Usd,
    /// Its keys, as they were asked for.
    pub keys: Vec<KeyFigures>,
}

/// The figures of a key now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFigures {
    /// Spent in the rolling hour.
    pub spent: Usd,
    /// Reserved for calls, of all nodes.
    pub reserved: Usd,
    /// Requests admitted in the rolling hour.
    pub requests: u64,
}

/// The build of a project's counters: another one after each loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    name: String,
    /// The epoch that it is built under.
    epoch: Arc<String>,
}

fn name(generation: Option<&Generation>) -> &str {
    generation.map(|generation| generation.name.as_str()).unwrap_or_default()
}

fn is_done(answer: &Value) -> Result<(), Failure> {
    if number(answer)? == 1 { Ok(()) } else { Err(Failure::Lost) }
}

impl Counters {
    /// Adds the reservations that this node holds in a project. After a loss that closes the project until
    /// [`Counters::open_project`], which the first to come after it makes possible for all others.
    pub async fn join(&self, project: ProjectId) -> Result<Generation, Failure> {
        let (link, live) = self.at(project)?;
        self.join_at(&link, &live, project).await
    }

    pub(crate) async fn join_at(
        &self,
        link: &Link,
        live: &Arc<Live>,
        project: ProjectId,
    ) -> Result<Generation, Failure> {
        let shared = &self.0;
        let alone = tokio::time::timeout(STEP_TIMEOUT, link.joining.write()).await;
        let _alone = alone.map_err(|_| Failure::Away("reservations change".to_owned()))?;
        let mut command = call("join", &shared.base(project));
        let epoch = live.epoch.load_full();
        command.arg(shared.now()).arg(epoch.as_str()).arg(shared.settings.node.0);
        // One that came late would give back what was reserved since.
        command.arg(shared.not_after(link, STEP_TIMEOUT));
        let all = shared.held.of_project(project);
        for (number, held) in &all {
            command.arg(shared.id(*number)).arg(held.key.to_string()).arg(held.amount.0.max(0));
            command.arg(held.generation());
        }
        let parts = list(shared.send(link, live, &command, STEP_TIMEOUT).await?)?;
        match number(at(&parts, 0)?)? {
            1 => {}
            LATE => return Err(Failure::Away(format!("{} was asked too late", link.name()))),
            _ => {
                // Its epoch is newer than the one known here: the next beat asks for one above it.
                link.least.fetch_max(number(at(&parts, 1)?)?, Ordering::Relaxed);
                return Err(Failure::Lost);
            }
        }
        let generation = text(at(&parts, 1)?)?.to_owned();
        let numbers: Vec<u64> = all.into_iter().map(|(number, _)| number).collect();
        shared.held.joined(project, &numbers, &generation);
        let of_ledger = parts.get(2..).unwrap_or_default().iter();
        let of_ledger = of_ledger.filter_map(|id| text(id).ok()?.split_once('.')?.1.parse().ok());
        shared.held.remove(project, &of_ledger.collect::<Vec<u64>>());
        Ok(Generation { name: generation, epoch })
    }

    /// Whether no loss is known since a project was joined: then there is no need to join it again. After one that this
    /// node has not noticed yet the generation cannot be opened.
    pub fn is_current(&self, project: ProjectId, generation: &Generation) -> bool {
        self.at(project).is_ok_and(|(_, live)| *live.epoch.load_full() == *generation.epoch)
    }

    /// The nodes that have added their reservations at the server of a project since its last loss.
    pub async fn rejoined(&self, project: ProjectId) -> Result<Vec<NodeId>, Failure> {
        let (link, live) = self.at(project)?;
        let mut command = call("passed", &self.marker(&link));
        command.arg(self.0.now());
        let nodes = list(self.0.send(&link, &live, &command, STEP_TIMEOUT).await?)?;
        nodes.iter().map(|node| number(node).map(NodeId)).collect()
    }

    /// Raises the spend of a project in the month of a time to at least this. With a generation, [`Failure::Lost`] if
    /// it is another one by now.
    pub async fn raise_month(
        &self,
        project: ProjectId,
        generation: Option<&Generation>,
        month: Timestamp,
        least: Usd,
    ) -> Result<(), Failure> {
        // ISO 8601 begins with the year and the month.
        let month: String =
            month.to_string().chars().take(7).filter(char::is_ascii_digit).collect();
        let raised = self.run("raise_month", project, |command| {
            command.arg(name(generation)).arg(format!("m{month}")).arg(least.0.max(0));
        });
        is_done(&raised.await?)
    }

    /// Raises the spend of a key in these seconds to at least this. `reset_at` is the reset that the ledger was
    /// read with. Generations are like those of [`Counters::raise_month`].
    pub async fn raise_hour(
        &self,
        project: ProjectId,
        generation: Option<&Generation>,
        key: KeyId,
        reset_at: Option<Timestamp>,
        seconds: &[(i64, Usd)],
    ) -> Result<(), Failure> {
        for some in seconds.chunks(SECONDS_AT_ONCE) {
            let raised = self.run("raise_hour", project, |command| {
                command.arg(name(generation)).arg(key.to_string());
                command.arg(reset_at.map(|at| at.0.to_string()).unwrap_or_default());
                for (second, least) in some {
                    command.arg(second).arg(least.0.max(0));
                }
            });
            is_done(&raised.await?)?;
        }
        Ok(())
    }

    /// Lets the calls of a project spend whose counters were built: those of its budget, and of these keys' caps.
    /// Returns whether none could before: else calls were settled meanwhile that the ledger may not have had, and what
    /// it was raised to need not be all. [`Failure::Lost`] if what was built is lost again.
    pub async fn open_project(
        &self,
        project: ProjectId,
        generation: &Generation,
        has_budget: bool,
        keys: &[KeyId],
    ) -> Result<bool, Failure> {
        let (link, live) = self.at(project)?;
        let mut command = call("open", &self.0.base(project));
        command.arg(self.0.now()).arg(live.epoch.load().as_str()).arg(&generation.name);
        command.arg(u8::from(has_budget));
        for key in keys {
            command.arg(key.to_string());
        }
        let was_closed = match number(&self.0.send(&link, &live, &command, STEP_TIMEOUT).await?)? {
            0 => return Err(Failure::Lost),
            code => code == 1,
        };
        metrics::counter!("sluice_counter_rebuilds_total").increment(1);
        Ok(was_closed)
    }

    /// The nodes that have reservations in a project.
    pub async fn owners(&self, project: ProjectId) -> Result<Vec<NodeId>, Failure> {
        let nodes = list(self.run("owners", project, |_| ()).await?)?;
        nodes.iter().map(|node| number(node).map(NodeId)).collect()
    }

    /// Gives back all reservations of a node that is gone. Returns how many there were.
    pub async fn forget(&self, project: ProjectId, node: NodeId) -> Result<u64, Failure> {
        let count = self.run("forget", project, |command| {
            command.arg(node.0);
        });
        let count = count.await?;
        Ok(number(&count)?.unsigned_abs())
    }

    /// Returns the figures of a project and some of its keys.
    pub async fn look(
        &self,
        project: ProjectId,
        keys: &[KeyId],
    ) -> Result<ProjectFigures, Failure> {
        let parts = self
            .run("look", project, |command| {
                for key in keys {
                    command.arg(key.to_string());
                }
            })
            .await?;
        let parts = list(parts)?;
        let of_key = |place: usize| {
            let first = 2 + 3 * place;
            Ok(KeyFigures {
                spent: money(&parts, first)?,
                reserved: money(&parts, first + 1)?,
                requests: text(at(&parts, first + 2)?)?.parse().unwrap_or_default(),
            })
        };
        Ok(ProjectFigures {
            spent: money(&parts, 0)?,
            reserved: money(&parts, 1)?,
            keys: (0..keys.len()).map(of_key).collect::<Result<_, Failure>>()?,
        })
    }

    fn at(&self, project: ProjectId) -> Result<(Arc<Link>, Arc<Live>), Failure> {
        let link = self.0.link(project)?;
        let live = link.ready()?;
        Ok((link, live))
    }

    async fn run(
        &self,
        function: &'static str,
        project: ProjectId,
        with: impl FnOnce(&mut Cmd),
    ) -> Result<Value, Failure> {
        let (link, live) = self.at(project)?;
        let mut command = call(function, &self.0.base(project));
        command.arg(self.0.now());
        with(&mut command);
        self.0.send(&link, &live, &command, STEP_TIMEOUT).await
    }
}
