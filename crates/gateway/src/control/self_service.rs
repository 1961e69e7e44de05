//! Keys that members make, rotate and revoke themselves, within the project's settings.

use std::collections::BTreeMap;

use domain::ids::{ProjectId, UserId};
use domain::key::Key;
use domain::money::Usd;
use domain::project::Role;
use domain::settings::{SelfService, Settings};
use domain::time::{HOUR, Timestamp};
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use store::{MadeKey, Tx};
use tokio::time::timeout;

use crate::bounded_read::{READ_BOUND, took_too_long};
use crate::control::people::member_of_now;
use crate::error::{Error, Faults, Result};
use crate::evidence::stats::Period;
use crate::evidence::usage::UsageGroup;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most projects whose usage is read for one user.
const MOST_PROJECTS: usize = 100;
/// Those of them that are read at the same time: fewer than the places that all searches and statistics share.
const PROJECTS_AT_ONCE: usize = 2;
/// The most keys of one user whose usage is read, the latest.
const MOST_KEYS: usize = 10_000;

/// The usage of one's own keys over a period.
#[derive(Debug)]
pub struct OwnUsage {
    /// The period, from the beginning of an hour on.
    pub period: Period,
    /// The keys that were used, with their projects, dearest first in each project.
    pub keys: Vec<(ProjectId, UsageGroup)>,
    /// Whether keys or projects were left out, since there are too many.
    pub is_partial: bool,
}

impl OwnUsage {
    /// The cost of all calls with these keys.
    pub fn cost(&self) -> Usd {
        self.keys.iter().map(|(_, group)| group.usage.cost()).sum()
    }
}

impl Gateway {
    /// Whether a member names the cap of a key that they make in a project.
    pub fn may_cap_keys(&self, member: &Member, project: ProjectId) -> bool {
        let project = self.visible_project(member, project);
        let has_rules = project.is_ok_and(|project| project.settings.self_service.is_some());
        member.role.is_admin() || (member.role.may_manage_keys() && has_rules)
    }

    /// The usage of the keys that the member has made, in one project or in all that they may see. Revoked keys
    /// count as well.
    pub async fn own_usage(
        &self,
        member: &Member,
        period: Period,
        project: Option<ProjectId>,
    ) -> Result<OwnUsage> {
        let user = member.person().ok_or(Error::Forbidden)?;
        if let Some(project) = project {
            self.visible_project(member, project)?;
        }
        match timeout(READ_BOUND, self.usage_of_own_keys(member, user, period, project)).await {
            Ok(usage) => usage,
            Err(_) => Err(took_too_long()),
        }
    }

    async fn usage_of_own_keys(
        &self,
        member: &Member,
        user: UserId,
        period: Period,
        project: Option<ProjectId>,
    ) -> Result<OwnUsage> {
        let mut made = self.store.keys_made_by(user, project, MOST_KEYS + 1).await?;
        let mut is_partial = made.len() > MOST_KEYS;
        made.truncate(MOST_KEYS);
        let mut own: BTreeMap<ProjectId, Vec<MadeKey>> = BTreeMap::new();
        for key in made {
            own.entry(key.project).or_default().push(key);
        }
        let visible = |(project, keys)| Some((self.visible_project(member, project).ok()?, keys));
        let mut own: Vec<_> = own.into_iter().filter_map(visible).collect();
        is_partial |= own.len() > MOST_PROJECTS;
        own.truncate(MOST_PROJECTS);
        let reads = own.into_iter().map(|(project, keys)| {
            let period = period.clone();
            async move {
                let usage = self.usage_of_keys(&project, period, keys).await;
                usage.map(|(read, groups)| (project.id(), read, groups))
            }
            .boxed()
        });
        let mut reads = stream::iter(reads).buffered(PROJECTS_AT_ONCE);
        let mut all = OwnUsage { period: period.clone(), keys: Vec::new(), is_partial };
        while let Some((project, read, groups)) = reads.try_next().await? {
            all.period = read;
            all.keys.extend(groups.into_iter().map(|group| (project, group)));
        }
        Ok(all)
    }
}

/// Holds a key that a member makes within the bounds of its project: what it leaves open is the bound.
pub(crate) fn bound(rules: &SelfService, key: &mut Key) -> Result<()> {
    let mut faults = Faults::default();
    if let Some(most) = rules.max_hourly_limit {
        let limit = *key.hourly_limit.get_or_insert(most);
        if limit > most {
            faults.add(format!(
                "hourly_limit must be at most {}: settings.self_service of the project allows no more",
                most.dollars()
            ));
        }
    }
    if let Some(models) = &rules.models {
        let allowed = key.allowed_models.get_or_insert_with(|| models.clone());
        if let Some(other) = allowed.iter().find(|name| !models.contains(name)) {
            faults.add(format!(
                "allowed_models names {other}, which settings.self_service of the project does not allow"
            ));
        }
    }
    faults.none()
}

/// The bounds of the keys that a member makes in a project, which the transaction holds: two requests do not
/// both find room, and a node that has not heard of new bounds keeps to them. None hold for admins. The role
/// is that of now: the request may have begun a while ago.
pub(crate) async fn held_rules(
    tx: &mut Tx,
    member: &Member,
    project: ProjectId,
    now: Timestamp,
) -> Result<(Role, Option<SelfService>)> {
    let member = member_of_now(tx, member, now).await?;
    let role = member.role;
    if !role.may_manage_keys() || !member.may_see(project) {
        return Err(Error::Forbidden);
    }
    let project = tx.project(project).await?.ok_or(Error::NotFound)?;
    if role.is_admin() {
        return Ok((role, None));
    }
    let settings = Settings::parse(&project.settings).map_err(Error::Invalid)?;
    if settings.self_service.is_some() && member.token.is_some() {
        return Err(Error::invalid(
            "settings.self_service of the project bounds the keys of each person: only service tokens with the \
             role admin make keys there",
        ));
    }
    Ok((role, settings.self_service))
}

/// Refuses one key more than a member may have in a project. A key with a cap counts for an hour after
/// it is revoked: a new one would begin with a fresh cap.
pub(crate) async fn check_room(
    tx: &mut Tx,
    rules: &SelfService,
    member: &Member,
    project: ProjectId,
    now: Timestamp,
) -> Result<()> {
    let most = rules.max_keys;
    if tx.count_keys_of(project, member.user, now.minus_micros(HOUR)).await? < most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "You have {most} keys in this project, which is all that settings.self_service allows; one with a cap \
         counts for an hour after it is revoked. Rotate a key to replace its secret"
    )))
}

/// Whether a key is a member's own: admins stand for everybody, and the secrets of others are not theirs.
pub(crate) fn is_own(member: &Member, key: &Key) -> bool {
    let is_maker = member.person().is_some_and(|user| key.owner == Some(user));
    member.role.is_admin() || (member.role == Role::Member && is_maker)
}

#[cfg(test)]
mod tests {
    use domain::ids::UserId;

    use super::*;
    use crate::control::keys::mint;

    fn key() -> Key {
        let (key, _) = mint(&[7; 32], ProjectId(1), "k".into(), Timestamp(0)).unwrap();
        Key { owner: Some(UserId(1)), ..key }
    }

    fn usd(dollars: f64) -> Option<Usd> {
        Usd::from_dollars(dollars)
    }

    #[test]
    fn a_key_of_a_member_keeps_within_the_bounds() {
        let models = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let rules =
            SelfService { max_keys: 2, max_hourly_limit: usd(5.0), models: models(&["a", "b"]) };
        let of = |hourly_limit, allowed_models| {
            let mut key = Key { hourly_limit, allowed_models, ..key() };
            bound(&rules, &mut key).map(|()| (key.hourly_limit, key.allowed_models))
        };
        assert_eq!(of(None, None).unwrap(), (usd(5.0), models(&["a", "b"])));
        let within = of(usd(0.0), models(&["b"])).unwrap();
        assert_eq!(within, (usd(0.0), models(&["b"])));
        assert_eq!(of(usd(5.0), models(&[])).unwrap(), (usd(5.0), models(&[])));
        for (limit, names, fault) in [
            (usd(5.01), None, "hourly_limit must be at most 5:"),
            (None, models(&["a", "c"]), "allowed_models names c,"),
        ] {
            let error = of(limit, names).unwrap_err().to_string();
            assert!(error.starts_with(fault), "{error}");
        }
        let open = SelfService { max_keys: 2, max_hourly_limit: None, models: None };
        let mut free = Key { allowed_models: models(&["z"]), ..key() };
        bound(&open, &mut free).unwrap();
        assert_eq!((free.hourly_limit, free.allowed_models), (None, models(&["z"])));
    }
}
