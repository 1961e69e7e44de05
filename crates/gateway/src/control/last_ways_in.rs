//! The last ways in, which stay: of an account, and of the owners.

use domain::ids::{OrgId, SignOnProviderId, UserId};
use domain::project::Role;
use store::Tx;

use crate::error::{Error, Result};

/// Refuses what the transaction has done if it leaves a user without a way in.
pub(crate) async fn check_way_left(tx: &mut Tx, org: OrgId, user: UserId) -> Result<()> {
    let person = tx.person(org, user).await?.ok_or(Error::NotFound)?;
    let organization = tx.organization(org).await?.ok_or(Error::NotFound)?;
    let is_disabled = organization.read_settings()?.security.disable_password_login;
    let by_passkey = person.passkeys > 0
        && (!is_disabled || person.role == Role::Owner || !person.made_by_sign_on);
    if (person.has_password && !is_disabled) || by_passkey || person.identities > 0 {
        return Ok(());
    }
    // So an owner who keeps a way in is one who gets in while passwords are disabled.
    Err(Error::invalid("This is your last way in: set a password or add a passkey first"))
}

/// Refuses what the transaction has done if passwords are disabled and no owner gets in any more. Providers
/// other than `but` count.
pub(crate) async fn check_owners_get_in(
    tx: &mut Tx,
    org: OrgId,
    but: Option<SignOnProviderId>,
) -> Result<()> {
    let organization = tx.organization(org).await?.ok_or(Error::NotFound)?;
    if !organization.read_settings()?.security.disable_password_login
        || tx.count_owners_without_password(org, but).await? > 0
    {
        return Ok(());
    }
    Err(Error::invalid(
        "No owner could sign in any more while settings.security.disable_password_login is true: link another \
         owner to another provider, or allow passwords first",
    ))
}
