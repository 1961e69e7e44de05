//! The settings of an organization: all keys are known.

use serde_json::{Map, Value};

use super::reader::Reader;
use crate::project::Role;

/// The settings of an organization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrganizationSettings {
    /// `security`.
    pub security: Security,
}

/// `settings.security` of an organization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// `require_mfa`: without a second factor a session is good for nothing but to set one up.
    pub require_mfa: bool,
    /// `default_role`: the role of people who come by single sign-on when no rule gives them one. `None`
    /// refuses them.
    pub default_role: Option<Role>,
    /// `disable_password_login`: nobody signs in with a password.
    pub disable_password_login: bool,
}

impl OrganizationSettings {
    /// Reads the settings; null counts as absent. Every fault is a sentence that names the key.
    pub fn parse(raw: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let mut reader = Reader::new(raw, "settings", &mut errors);
        reader.only(&["security"]);
        let security = reader.object("security", Security::read).unwrap_or_default();
        if errors.is_empty() { Ok(Self { security }) } else { Err(errors) }
    }
}

impl Security {
    fn read(r: &mut Reader<'_>) -> Self {
        // Nobody becomes an owner without an owner's doing.
        const ROLES: [(&str, Role); 3] =
            [("admin", Role::Admin), ("member", Role::Member), ("viewer", Role::Viewer)];
        r.only(&["require_mfa", "default_role", "disable_password_login"]);
        Self {
            require_mfa: r.flag("require_mfa").unwrap_or_default(),
            default_role: r.one_of("default_role", &ROLES),
            disable_password_login: r.flag("disable_password_login").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(settings: &Value) -> Result<OrganizationSettings, Vec<String>> {
        OrganizationSettings::parse(settings.as_object().unwrap())
    }

    #[test]
    fn what_is_not_set_is_off() {
        for settings in [
            json!({}),
            json!({"security": null}),
            json!({"security": {"require_mfa": null, "default_role": null}}),
        ] {
            assert_eq!(parse(&settings), Ok(OrganizationSettings::default()), "{settings}");
        }
        let settings = parse(&json!({"security": {"require_mfa": true, "default_role": "viewer"}}));
        let security = settings.unwrap().security;
        assert!(security.require_mfa && !security.disable_password_login);
        assert_eq!(security.default_role, Some(Role::Viewer));
    }

    #[test]
    fn every_fault_names_its_key() {
        for (settings, fault) in [
            (json!({"security": []}), "settings.security must be an object"),
            (json!({"secure": {}}), "settings.secure is not known: it is one of security"),
            (
                json!({"security": {"require_mfa": "yes"}}),
                "settings.security.require_mfa must be true or false",
            ),
            (
                json!({"security": {"default_role": "owner"}}),
                "settings.security.default_role must be one of admin, member, viewer",
            ),
            (
                json!({"security": {"mfa": true}}),
                "settings.security.mfa is not known: it is one of require_mfa, default_role, \
                 disable_password_login",
            ),
        ] {
            assert_eq!(parse(&settings), Err(vec![fault.to_owned()]), "{settings}");
        }
    }
}
