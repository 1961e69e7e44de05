//! The organization: its name and its settings.

use domain::ids::OrgId;
use domain::settings::{self, OrganizationSettings};
use serde_json::{Map, Value, json};
use store::Organization;

use crate::audit::Event;
use crate::control::people::hold_people;
use crate::control::projects::{audited, clean_name};
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
}

/// The fields that a request changes; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct OrganizationChange {
    /// A new name.
    pub name: Option<String>,
    /// Settings to merge; a null sets one back.
    pub settings: Option<Map<String, Value>>,
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
        member.check_admin()?;
        let mut faults = Faults::default();
        let name = change.name.and_then(|name| faults.note(clean_name(&name)));
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member).await?;
        let mut organization = tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        let before = shown(&organization);
        if let Some(name) = name {
            organization.name = name;
        }
        if let Some(patch) = change.settings {
            settings::merge(&mut organization.settings, patch);
            faults.note(check_organization(&organization.settings));
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

/// Refuses settings of an organization that cannot hold.
pub(crate) fn check_organization(settings: &Map<String, Value>) -> Result<()> {
    let read = OrganizationSettings::parse(settings).map_err(Error::Invalid)?;
    if read.security.disable_password_login {
        // It would lock everybody out.
        return Err(Error::invalid(
            "settings.security.disable_password_login needs a provider of single sign-on, and none is configured",
        ));
    }
    Ok(())
}

fn view(organization: Organization) -> Result<OrganizationView> {
    let settings = organization.read_settings()?;
    Ok(OrganizationView { id: organization.id, name: organization.name, settings })
}

/// The values that the audit compares.
fn shown(organization: &Organization) -> Value {
    json!({"name": organization.name, "settings": organization.settings})
}
