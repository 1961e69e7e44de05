//! Usage by user, session, tag, model, key, tier or endpoint.

use std::collections::HashMap;

use domain::ids::{KeyId, ProjectId};
use domain::time::{HOUR, SECOND, Timestamp};
use store::{Arrived, Dimension, GroupRow, Grouped, MadeKey};

use crate::bounded_read::{bounded, bounded_holding};
use crate::error::Result;
use crate::evidence::stats::{Period, project_of_key};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::member::Member;
use crate::state::registry::ProjectState;
use crate::state::usage_asks::Since;

/// A step is on disk within this time, and clocks of other gateways differ by less, in microseconds. A step that comes
/// later is in the tables of an overview once its hour is summed.
pub(crate) const OVERLAP: i64 = 30 * SECOND;
/// Nearly all steps are on disk within this time, in microseconds.
const QUICK: i64 = 3 * SECOND;
/// The most groups that are told apart, the dearest first.
pub(crate) const MOST_GROUPS: usize = 1_000;

/// The usage of a project over a period, by one dimension.
#[derive(Debug)]
pub struct Usage {
    /// The period, from the beginning of an hour on.
    pub period: Period,
    /// The dearest groups, dearest first. Calls without a value are one of them.
    pub groups: Vec<UsageGroup>,
    /// All other groups together, if there are any.
    pub rest: Option<GroupRow>,
    /// All usage.
    pub total: GroupRow,
}

/// A group.
#[derive(Debug)]
pub struct UsageGroup {
    /// Its value; `None` for calls without one.
    pub value: Option<String>,
    /// The name of a key, if that is what it is.
    pub name: Option<String>,
    /// Its usage.
    pub usage: GroupRow,
}

impl Gateway {
    /// Usage for a key: that of its own project.
    pub async fn usage_for_key(
        &self,
        caller: &Caller,
        project: Option<ProjectId>,
        period: Period,
        dimension: &Dimension,
    ) -> Result<Usage> {
        self.usage(project_of_key(caller, project)?, period, dimension).await
    }

    /// Usage for a signed-in user: that of a project that is theirs to see, or of the first of those.
    pub async fn usage_for_member(
        &self,
        member: &Member,
        project: Option<ProjectId>,
        period: Period,
        dimension: &Dimension,
    ) -> Result<Usage> {
        self.usage(&*self.project_of_member(member, project)?, period, dimension).await
    }

    /// Usage by several dimensions of a project that is a member's to see.
    pub async fn usages_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        period: Period,
        dimensions: Vec<Dimension>,
    ) -> Result<Vec<Usage>> {
        self.usages(&*self.visible_project(member, project)?, period, dimensions).await
    }

    pub(crate) async fn usages(
        &self,
        project: &ProjectState,
        period: Period,
        dimensions: Vec<Dimension>,
    ) -> Result<Vec<Usage>> {
        let (period, hour) = from_whole_hour(period);
        for dimension in &dimensions {
            self.expect_again(project.id(), dimension, &period);
        }
        let place = self.search_place(project).await?;
        let (gateway, id, by) = (self.clone(), project.id(), dimensions.clone());
        let now = self.clock.now();
        let arrived =
            Arrived { complete: now.minus_micros(OVERLAP), nearly: now.minus_micros(QUICK) };
        let times = (period.end, arrived);
        let read =
            async move { gateway.store.usage_by_each(id, &by, hour, times, MOST_GROUPS).await };
        let grouped = bounded_holding(&self.tasks, place, read).await?;
        let mut usages = Vec::with_capacity(dimensions.len());
        for (by, grouped) in dimensions.iter().zip(grouped) {
            usages.push(self.named(id, period.clone(), by, grouped).await?);
        }
        Ok(usages)
    }

    /// The usage of some keys of a project, dearest first, and the period that was read; keys without usage are
    /// left out.
    pub(crate) async fn usage_of_keys(
        &self,
        project: &ProjectState,
        period: Period,
        keys: Vec<MadeKey>,
    ) -> Result<(Period, Vec<UsageGroup>)> {
        let (period, hour) = from_whole_hour(period);
        let place = self.search_place(project).await?;
        let (gateway, id, end) = (self.clone(), project.id(), period.end);
        let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
        let read = async move { gateway.store.usage_of_keys(id, &ids, hour, end).await };
        let rows = bounded_holding(&self.tasks, place, read).await?;
        let keys: HashMap<i64, MadeKey> =
            keys.into_iter().map(|key| (key.id.to_i64(), key)).collect();
        let named = |usage: GroupRow| {
            let key = usage.value.parse().ok().and_then(|id: i64| keys.get(&id));
            let value = key.map(|key| key.id.to_string());
            UsageGroup { value, name: key.map(|key| key.name.clone()), usage }
        };
        Ok((period, rows.into_iter().map(named).collect()))
    }

    async fn usage(
        &self,
        project: &ProjectState,
        period: Period,
        dimension: &Dimension,
    ) -> Result<Usage> {
        let (period, hour) = from_whole_hour(period);
        self.expect_again(project.id(), dimension, &period);
        let place = self.search_place(project).await?;
        let (gateway, id, by, end) = (self.clone(), project.id(), dimension.clone(), period.end);
        let read = async move { gateway.store.usage_by(id, &by, hour, end, MOST_GROUPS).await };
        let grouped = bounded_holding(&self.tasks, place, read).await?;
        self.named(id, period, dimension, grouped).await
    }

    /// Notes that a question is asked, unless it is about a past that is over: its sums stay.
    fn expect_again(&self, project: ProjectId, dimension: &Dimension, period: &Period) {
        let now = self.clock.now();
        let [start, end, hour] = [period.start, period.end, now].map(Timestamp::hour);
        let since = if period.slides { Since::HoursAgo(end - start) } else { Since::Hour(start) };
        if end >= hour {
            self.usage_asks.note(project, dimension, since, now);
        }
    }

    /// The names of the keys that are groups, revoked ones too.
    async fn names_of_keys(
        &self,
        project: ProjectId,
        groups: &[GroupRow],
    ) -> Result<HashMap<KeyId, String>> {
        let ids = groups.iter().filter_map(|usage| usage.value.parse().ok());
        let (mut names, mut revoked) = (HashMap::new(), Vec::new());
        for id in ids.map(KeyId::from_i64) {
            match self.registry.key(id).filter(|state| state.key.project == project) {
                Some(state) => {
                    names.insert(id, state.key.name.clone());
                }
                None => revoked.push(id),
            }
        }
        names.extend(bounded(self.store.names_of_keys(project, &revoked)).await?);
        Ok(names)
    }

    /// Usage with the names of keys, and calls without a value in their place among the groups.
    async fn named(
        &self,
        project: ProjectId,
        period: Period,
        dimension: &Dimension,
        grouped: Grouped,
    ) -> Result<Usage> {
        let Grouped { groups, without, rest, total } = grouped;
        let are_keys = *dimension == Dimension::Key;
        let keys =
            if are_keys { self.names_of_keys(project, &groups).await? } else { HashMap::new() };
        let named = |usage: GroupRow| {
            let value = usage.value.clone();
            let Some(id) = value.parse().ok().filter(|_| are_keys) else {
                return UsageGroup { value: Some(value), name: None, usage };
            };
            let id = KeyId::from_i64(id);
            UsageGroup { value: Some(id.to_string()), name: keys.get(&id).cloned(), usage }
        };
        let mut groups: Vec<UsageGroup> = groups.into_iter().map(named).collect();
        if !without.is_empty() {
            let dearer = |group: &UsageGroup| group.usage.cost() >= without.cost();
            let place = groups.iter().take_while(|group| dearer(group)).count();
            groups.insert(place, UsageGroup { value: None, name: None, usage: without });
        }
        let rest = Some(rest).filter(|rest| !rest.is_empty());
        Ok(Usage { period, groups, rest, total })
    }
}

/// A period from the beginning of its first hour on, and that hour: hours that are over are sums, and the first
/// one counts in full.
fn from_whole_hour(period: Period) -> (Period, i64) {
    let hour = period.start.hour();
    (Period { start: Timestamp(hour * HOUR), ..period }, hour)
}
