//! The connections are kept: each server is asked several times a second whether it is well and still the same,
//! and after a loss it gets the reservations of this node again; so it does when others may have given them back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use domain::ids::ProjectId;
use tokio::time::MissedTickBehavior;

use crate::connect;
use crate::counters::{Counters, address_of};
use crate::held::Settlement;
use crate::link::{Link, Live, Passed, call};
use crate::reply::{at, list, number, text};
use crate::topology::{has, slot_of};
use crate::{DECISION_TIMEOUT, Failure};

/// How often a server is asked.
const BEAT_INTERVAL: Duration = Duration::from_millis(200);
/// The longest that a server may take to answer before decisions do without it.
const BEAT_TIMEOUT: Duration = Duration::from_millis(250);
/// The longest that reservations may be added again in vain before the next beat: more than one project takes that is
/// not answered.
const VAIN_TIMEOUT: Duration = Duration::from_millis(1500);
/// A connection with so many beats in a row without an answer is made anew.
const MOST_MISSED: u32 = 8;
/// How often a cluster is looked at anew.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// The least pause between two looks at a cluster.
const REFRESH_PAUSE: Duration = Duration::from_millis(200);

impl Counters {
    /// Starts what keeps the connections.
    pub(crate) fn keep(&self) {
        for link in self.0.topology.links().iter() {
            self.keep_link(link.clone());
        }
        if self.0.settings.target.mode == crate::target::Mode::Cluster {
            let counters = self.clone();
            self.0.tasks.spawn(async move {
                let stopping = counters.0.stopping.clone();
                stopping.run_until_cancelled(counters.keep_topology()).await;
            });
        }
    }

    fn keep_link(&self, link: Arc<Link>) {
        let counters = self.clone();
        self.0.tasks.spawn(async move {
            let stopping = counters.0.stopping.clone();
            let keeping = link.gone.run_until_cancelled(counters.watch(&link));
            stopping.run_until_cancelled(keeping).await;
        });
    }

    async fn watch(&self, link: &Link) {
        let mut ticks = tokio::time::interval(BEAT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missed = 0;
        let mut is_warned = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = link.lost.notified() => {}
            }
            if let Ok(left) = self.beat_at(link).await {
                missed = 0;
                if let (Some(why), false) = (&left, is_warned) {
                    tracing::warn!(
                        server = link.name(),
                        why,
                        "reservations that other gateways may have given back cannot be added again"
                    );
                }
                is_warned = left.is_some();
                continue;
            }
            missed += 1;
            if missed >= MOST_MISSED
                && let Some(live) = link.live()
            {
                missed = 0;
                link.give_up(&live);
                self.0.moved.notify_one();
            }
        }
    }

    async fn keep_topology(&self) {
        loop {
            tokio::time::sleep(REFRESH_PAUSE).await;
            let waiting = self.0.moved.notified();
            // It is time, or slots have moved.
            let _ = tokio::time::timeout(REFRESH_INTERVAL, waiting).await;
            match self.0.topology.refresh(&self.0.settings.target).await {
                Ok(added) => added.into_iter().for_each(|link| self.keep_link(link)),
                Err(why) => tracing::warn!(%why, "the cluster of Redis cannot be looked at"),
            }
        }
    }

    /// Asks every server once.
    pub async fn beat(&self) {
        for link in self.0.topology.links().iter() {
            // The cause is logged there, and decisions meet it.
            let _ = self.beat_at(link).await;
        }
    }

    /// Asks a server. Returns why reservations are left to the next beat that others may have given back, if some are.
    async fn beat_at(&self, link: &Link) -> Result<Option<String>, Failure> {
        let beaten = match self.try_beat(link).await {
            Ok(_) if !link.is_quick() => Err(Failure::Away(format!("{} is too slow", link.name()))),
            other => other,
        };
        link.set_well(beaten.is_ok());
        let links = self.0.topology.links();
        let all_well = links.iter().all(|link| link.is_well());
        metrics::gauge!("sluice_counters_up").set(f64::from(u8::from(all_well)));
        tell(link, beaten.as_ref().err());
        if beaten.is_ok() {
            if let Err(error) = self.catch_up(link).await {
                tracing::debug!(%error, "reservations are given back later");
            }
            self.take_back_again(link, BEAT_TIMEOUT).await;
        }
        beaten
    }

    async fn try_beat(&self, link: &Link) -> Result<Option<String>, Failure> {
        let shared = &self.0;
        let live = match link.live() {
            Some(live) => live,
            None => {
                let target = &shared.settings.target;
                let away = |why: String| Failure::Away(format!("{}: {why}", link.name()));
                let address = address_of(target, link.address.as_ref()).await.map_err(away)?;
                let found = connect::connect(target, &address).await.map_err(away)?;
                link.set_live(Live::new(found.connection, found.epoch));
                link.live().ok_or_else(|| away("the connection is lost".to_owned()))?
            }
        };
        live.near.forget_idle(shared.elapsed());
        let marker = self.marker(link);
        // Before anything is added: after an absence that ends meanwhile it is all added once more.
        let absences = shared.absences.load(Ordering::Acquire);
        let asked = shared.elapsed();
        let mut beat = call("beat", &marker);
        beat.arg(shared.now()).arg(&live.run).arg(link.least.load(Ordering::Relaxed));
        let parts = list(shared.send(link, &live, &beat, BEAT_TIMEOUT).await?)?;
        let loss = text(at(&parts, 0)?)?.to_owned();
        let theirs = number(at(&parts, 1)?)?;
        link.note_time(asked, theirs, shared.elapsed());
        let under = Passed { marker, number: loss, absences };
        if live.has_passed(&under) {
            return Ok(None);
        }
        match self.add_again(link, &live, &under).await {
            Ok(()) => {
                live.note_passed(under);
                Ok(None)
            }
            // The counters are whole but for what others may have given back: calls go on, and the next beat tries it
            // again.
            Err(Failure::Away(why)) if live.has_passed_loss(&under) && link.has(&live) => {
                Ok(Some(why))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Adds all reservations of this node at a server, and says so there. A project whose reservations cannot be added
    /// keeps no other from it, and the next attempt leaves out those that are added.
    async fn add_again(
        &self,
        link: &Link,
        live: &Arc<Live>,
        under: &Passed,
    ) -> Result<(), Failure> {
        let shared = &self.0;
        {
            // A reservation of before has ended by now, so it is among those that are added; so is one of later, or it
            // is refused, by every project that is not built under this epoch.
            let _alone = tokio::time::timeout(BEAT_TIMEOUT, link.joining.write())
                .await
                .map_err(|_| Failure::Away("reservations change".to_owned()))?;
            live.epoch.store(Arc::new(format!("{}:{}", live.run, under.number)));
        }
        let mut projects = shared.held.projects();
        let mut added = live.added(under);
        projects.retain(|project| {
            !added.contains(project)
                && shared.link(*project).is_ok_and(|of| std::ptr::eq(&raw const *of, link))
        });
        // The first that fails is the same one each time, and so is what is logged.
        projects.sort_unstable();
        let (mut failed, mut in_vain) = (None, Duration::ZERO);
        for project in projects {
            let began = Instant::now();
            match self.join_at(link, live, project).await {
                Ok(_) => {
                    added.insert(project);
                }
                Err(Failure::Away(why)) => {
                    failed.get_or_insert_with(|| format!("project {project}: {why}"));
                    in_vain += began.elapsed();
                    // It may be the server that does not answer.
                    if in_vain >= VAIN_TIMEOUT || !link.has(live) {
                        break;
                    }
                }
                // The next beat begins under another number.
                Err(Failure::Lost) => return Err(Failure::Lost),
            }
        }
        live.note_added(under, added);
        if let Some(why) = failed {
            return Err(Failure::Away(why));
        }
        let mut pass = call("pass", &under.marker);
        pass.arg(shared.now()).arg(&under.number).arg(shared.settings.node.0);
        match number(&shared.send(link, live, &pass, BEAT_TIMEOUT).await?)? {
            1 => Ok(()),
            _ => Err(Failure::Lost),
        }
    }

    /// Does at a server what could not be done before: gives back what it may hold for nobody, and settles again what
    /// it has lost. None of this says whether the server is well.
    async fn catch_up(&self, link: &Link) -> Result<(), Failure> {
        let held = &self.0.held;
        held.sweep();
        let is_here = |project: ProjectId| {
            self.0.link(project).is_ok_and(|of| std::ptr::eq(&raw const *of, link))
        };
        for (project, numbers) in held.doubtful() {
            if is_here(project) {
                self.give_back(project, &numbers, BEAT_TIMEOUT).await?;
            }
        }
        for (number, cost, settlement) in held.unsettled() {
            let Settlement { bounds, ended, at, .. } = &settlement;
            if !is_here(bounds.project) {
                continue;
            }
            let settled =
                self.settle_numbers(bounds, &[number], &[number], cost, *ended, at.elapsed()).await;
            match settled {
                // Nobody has built the project anew since. The ledger has the call when somebody does.
                Err(Failure::Lost) if settlement.is_old() => {
                    held.doubt(bounds.project, &[number]);
                }
                Ok(_) | Err(Failure::Lost) => {}
                Err(away) => return Err(away),
            }
        }
        Ok(())
    }

    /// The key at a server that its nodes share: its tag is one whose slot the server has.
    pub(crate) fn marker(&self, link: &Link) -> String {
        let ranges = link.ranges.load();
        let tag = (0..1_000_000).map(|number| format!("f{number}"));
        let tag = tag.into_iter().find(|tag| has(&ranges, slot_of(tag))).unwrap_or_default();
        format!("sluice:{}:{{{tag}}}", self.0.settings.installation)
    }
}

/// Logs how a server is, when that has changed.
fn tell(link: &Link, failure: Option<&Failure>) {
    let why = failure.map(ToString::to_string);
    let mut told = link.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *told != why {
        match &why {
            Some(why) => tracing::warn!(%why, "limits cannot be counted with the other gateways"),
            None => tracing::info!(server = link.name(), "limits are counted in Redis again"),
        }
        *told = why;
    }
}

const _: () = assert!(BEAT_TIMEOUT.as_millis() > DECISION_TIMEOUT.as_millis());
