//! People: who is signed in and what they may do.

use argon2::password_hash::PasswordVerifier as _;
use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, Version};
use domain::ids::ProjectId;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The least characters of a password.
const SHORTEST_PASSWORD: usize = 8;
/// The most bytes of a password: hashing must not become work for free.
const LONGEST_PASSWORD: usize = 1024;

impl Gateway {
    /// The projects that a member may see, by id.
    pub(crate) fn visible_projects(&self, member: &Member) -> Vec<Arc<ProjectState>> {
        self.registry.projects().into_iter().filter(|project| member.sees(project)).collect()
    }

    /// A project that a member may see.
    pub(crate) fn visible_project(
        &self,
        member: &Member,
        id: ProjectId,
    ) -> Result<Arc<ProjectState>> {
        if !member.may_see(id) {
            return Err(Error::NotFound);
        }
        self.registry.project(id)?.filter(|project| member.sees(project)).ok_or(Error::NotFound)
    }
}

/// An address in the form in which it is stored.
pub(crate) fn clean_email(email: &str) -> Result<String> {
    let email = email.trim().to_lowercase();
    let plausible = email
        .split_once('@')
        .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty() && !host.contains('@'));
    if !plausible || email.len() > 254 || email.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Err(Error::invalid("Email is not an e-mail address"));
    }
    Ok(email)
}

/// Refuses a new password that is too short or too long.
pub(crate) fn check_password(password: &domain::secret::Secret) -> Result<()> {
    let password = password.expose();
    if password.chars().count() < SHORTEST_PASSWORD || password.len() > LONGEST_PASSWORD {
        return Err(Error::invalid(format!(
            "Password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        )));
    }
    Ok(())
}

/// The cost of a hash: 19 MiB and two passes of Argon2id (OWASP Password Storage Cheat Sheet). A
/// debug build uses the least cost: its tests start and sign in hundreds of times.
const HASH_COST: Params = {
    let least = Params::new(Params::MIN_M_COST, Params::MIN_T_COST, Params::MIN_P_COST, None);
    match least {
        Ok(least) if cfg!(debug_assertions) => least,
        _ => Params::DEFAULT,
    }
};

/// The Argon2id hash of a new password, in PHC form. Takes tens of milliseconds.
pub(crate) fn hash_password(password: &domain::secret::Secret) -> Result<String> {
    check_password(password)?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, HASH_COST);
    let hash = hasher.hash_password(password.expose().as_bytes());
    hash.map(|hash| hash.to_string())
        .map_err(|error| Error::Internal(format!("the password cannot be hashed: {error}")))
}

/// A hash of the cost of new ones that is made without hashing, and that no password is known to have: one is
/// compared with it where there is no account, so that it takes as long.
pub(crate) fn hash_of_nobody() -> String {
    let (memory, passes, lanes) = (HASH_COST.m_cost(), HASH_COST.t_cost(), HASH_COST.p_cost());
    let (salt, hash) = ("A".repeat(22), "A".repeat(43));
    format!("$argon2id$v=19$m={memory},t={passes},p={lanes}${salt}${hash}")
}

/// Whether a hash has another cost than new hashes have.
pub(crate) fn is_outdated(hash: &str) -> bool {
    let cost = |params: &Params| (params.m_cost(), params.t_cost(), params.p_cost());
    let hash = argon2::PasswordHash::new(hash).ok();
    let params = hash.and_then(|hash| Params::try_from(&hash).ok());
    params.is_none_or(|params| cost(&params) != cost(&HASH_COST))
}

/// Whether a password fits a hash. Takes tens of milliseconds, also when it does not.
pub(crate) fn verify_password(password: &str, hash: &str) -> bool {
    let Ok(hash) = argon2::PasswordHash::new(hash) else { return false };
    let password = if password.len() > LONGEST_PASSWORD { "" } else { password };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

#[cfg(test)]
mod tests {
    use domain::secret::Secret;

    use super::*;

    #[test]
    fn a_hash_of_another_cost_is_known() {
        let hash = hash_password(&Secret::new("a password".to_owned())).unwrap();
        assert!(verify_password("a password", &hash) && !verify_password("another", &hash));
        assert!(!is_outdated(&hash));
        let more = Params::new(HASH_COST.m_cost() + 8, HASH_COST.t_cost(), 1, None).unwrap();
        let dearer = Argon2::new(Algorithm::Argon2id, Version::V0x13, more);
        let dear = dearer.hash_password(b"a password").unwrap().to_string();
        assert!(verify_password("a password", &dear) && is_outdated(&dear));
        assert!(is_outdated("no hash"));
    }

    #[test]
    fn the_hash_of_nobody_is_one_like_any() {
        let nobody = hash_of_nobody();
        let parts = |hash: &str| -> Vec<usize> { hash.split('$').map(str::len).collect() };
        let hash = hash_password(&Secret::new("a password".to_owned())).unwrap();
        assert_eq!(parts(&nobody), parts(&hash));
        assert!(!is_outdated(&nobody), "it has the cost of new hashes");
        let read = argon2::PasswordHash::new(&nobody).unwrap();
        let hasher = Argon2::default();
        let compared = hasher.verify_password(b"a password", &read).unwrap_err();
        assert!(matches!(compared, argon2::password_hash::Error::PasswordInvalid), "{compared}");
    }
}
