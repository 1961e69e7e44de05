//! A change of settings as it would be merged, before it is saved.

use aws_lc_rs::digest;
use domain::ids::ProjectId;
use domain::settings::{self, OrganizationSettings};
use serde_json::{Map, Value};

use crate::control::safety_preview::check_new_patterns;
use crate::control::session_tokens::hex;
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// A change as it would be merged.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsPreview {
    /// The values that differ, by their paths in order.
    pub differences: Vec<SettingsDifference>,
    /// The version of the settings that they differ from: a change that has it as its base is saved over these
    /// alone.
    pub base: String,
}

/// A value of settings that a change touches.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsDifference {
    /// Its place: `limits.loop_requests`.
    pub path: String,
    /// Its value today; `None` if it is not set.
    pub before: Option<Value>,
    /// Its value afterwards; `None` if it would not be set.
    pub after: Option<Value>,
}

impl Gateway {
    /// The differences that a patch would make in the settings of a project. Fails as saving would.
    pub async fn preview_settings(
        &self,
        member: &Member,
        id: ProjectId,
        patch: Map<String, Value>,
    ) -> Result<SettingsPreview> {
        let state = self.visible_project(member, id)?;
        member.check_admin()?;
        let mut faults = Faults::default();
        faults.note(check_new_patterns(&state.project.settings, &patch).await);
        let models: Vec<_> = state.models.values().collect();
        let mut project = state.project.clone();
        faults.note(self.merge_settings(&mut project, patch, &models, &state.sealing));
        faults.none()?;
        Ok(preview(&state.project.settings, &project.settings))
    }

    /// The differences that a patch would make in the settings of the organization. Fails if they cannot be
    /// read; whether people could still sign in is judged when it is saved.
    pub async fn preview_organization(
        &self,
        member: &Member,
        patch: Map<String, Value>,
    ) -> Result<SettingsPreview> {
        member.check_admin()?;
        let organization = self.store.organization(member.org).await?.ok_or(Error::NotFound)?;
        let mut after = organization.settings.clone();
        settings::merge(&mut after, patch);
        OrganizationSettings::parse(&after).map_err(Error::Invalid)?;
        Ok(preview(&organization.settings, &after))
    }
}

fn preview(before: &Map<String, Value>, after: &Map<String, Value>) -> SettingsPreview {
    SettingsPreview { differences: differences(before, after), base: version(before) }
}

/// The version of settings, or of other fields: a hash of them.
pub(crate) fn version(settings: &Map<String, Value>) -> String {
    let text = Value::Object(settings.clone()).to_string();
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

/// Refuses a change of settings that are not those of its base any more.
pub(crate) fn check_base(base: Option<&str>, settings: &Map<String, Value>) -> Result<()> {
    match base {
        Some(base) if base != version(settings) => Err(Error::SettingsChanged),
        _ => Ok(()),
    }
}

/// The values that differ, by their paths in order. Lists are values as a whole.
fn differences(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<SettingsDifference> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn compare(
    place: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<SettingsDifference>,
) {
    let none = Map::new();
    let added = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(added) {
        let path = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
        let (old, new) = (before.get(name), after.get(name));
        match (old, new) {
            (old, new) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => compare(&path, old, new, found),
            (None, Some(Value::Object(new))) if !new.is_empty() => {
                compare(&path, &none, new, found);
            }
            (Some(Value::Object(old)), None) if !old.is_empty() => {
                compare(&path, old, &none, found);
            }
            (old, new) => {
                let (before, after) = (old.cloned(), new.cloned());
                found.push(SettingsDifference { path, before, after });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_compared_at_their_depth() {
        let read = |value: Value| value.as_object().cloned().unwrap();
        let before =
            read(json!({"a": {"b": 1, "c": [1]}, "d": 2, "same": {"x": 1}, "gone": {"y": 1}}));
        let after =
            read(json!({"a": {"b": 1, "c": [1, 2]}, "d": "2", "same": {"x": 1}, "new": {"z": {}}}));
        let shown = |value: &Option<Value>| value.as_ref().map(Value::to_string);
        let found = differences(&before, &after);
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.path.as_str(), shown(&found.before), shown(&found.after)))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        let expected = [
            ("a.c", some("[1]"), some("[1,2]")),
            ("d", some("2"), some("\"2\"")),
            ("gone.y", some("1"), None),
            ("new.z", None, some("{}")),
        ];
        assert_eq!(found, expected);
    }
}
