//! The organization: its name and its settings.

use domain::ids::OrgId;
use domain::settings::{self, OrganizationSettings};
use serde_json::{Map, Value, json};
use store::{Organization, Tx};

use crate::audit::Event;
use crate::control::people::hold_people;
use crate::control::projects::{audited, clean_name};
use crate::control::settings_preview::{check_base, version};
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// An organization as its members see it.
#[derive(Clone, Debug)]
pub struct OrganizationView {
    /// Its number.
    pub id: OrgId,
    /// Its name.
    pub name: String,
    /// Its settings, with the default where nothing is set.
    pub settings: OrganizationSettings,
    /// The version of its settings: a change that has it as its base is saved over these alone.
    pub base: String,
}

/// The fields that a request changes; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    /// A new name.
    pub name: Option<String>,
    /// Settings to merge; a null sets one back.
    pub settings: Option<Map<String, Value>>,
    /// The version of the settings that the change was previewed with, if it is for these alone.
    pub base: Option<String>,
}

impl Gateway {
    /// The organization of a member.
    pub async fn organization(&self, member: &Member) -> Result<OrganizationView> {
        view(self.store.organization(member.org).await?.ok_or(Error::NotFound)?)
    }

    /// Changes the organization; its settings are merged at every depth. It counts from the next request of
    /// every session on.
    pub async fn update_organization(
        &self,
        member: &Member,
        change: OrganizationChange,
    ) -> Result<OrganizationView> {
        member.check_person()?;
        member.check_admin()?;
        let mut faults = Faults::default();
        let name = change.name.and_then(|name| faults.note(clean_name(&name)));
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        let mut organization = tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        check_base(change.base.as_deref(), &organization.settings)?;
        let before = shown(&organization);
        if let Some(name) = name {
            organization.name = name;
        }
        if let Some(patch) = change.settings {
            let was_disabled = OrganizationSettings::parse(&organization.settings)
                .is_ok_and(|read| read.security.disable_password_login);
            settings::merge(&mut organization.settings, patch);
            let read = faults
                .note(OrganizationSettings::parse(&organization.settings).map_err(Error::Invalid));
            let is_disabled = read.is_some_and(|read| read.security.disable_password_login);
            if is_disabled != was_disabled {
                // It is the owners who could be locked out, and who have decided who gets in how.
                member.check_owner()?;
            }
            if is_disabled && !was_disabled {
                faults.note(check_ways_in(&mut tx, member.org).await?);
            }
        }
        faults.none()?;
        tx.save_organization(&organization).await?;
        let metadata = audited(&before, &shown(&organization));
        let target = ("organization", organization.id.to_string());
        self.note_act(&mut tx, member, Event::OrganizationUpdated, target, metadata).await?;
        tx.commit().await?;
        view(organization)
    }
}

/// Refuses to disable passwords where that would lock the owners out.
async fn check_ways_in(tx: &mut Tx, org: OrgId) -> Result<Result<()>> {
    let what = if tx.count_sign_on_providers(org).await? == 0 {
        "a provider of single sign-on, and none is configured"
    } else if tx.count_linked_owners(org).await? == 0 {
        "an owner who is linked to a provider of single sign-on, and none is"
    } else {
        return Ok(Ok(()));
    };
    let needs = "settings.security.disable_password_login needs";
    Ok(Err(Error::invalid(format!("{needs} {what}"))))
}

fn view(organization: Organization) -> Result<OrganizationView> {
    let settings = organization.read_settings()?;
    let base = version(&organization.settings);
    Ok(OrganizationView { id: organization.id, name: organization.name, settings, base })
}

/// The values that the audit compares.
fn shown(organization: &Organization) -> Value {
    json!({"name": organization.name, "settings": organization.settings})
}
