//! The last ways in, which stay: of an account, and of the owners.

use domain::ids::{OrgId, SignOnProviderId, UserId};
use domain::project::Role;
use store::Tx;

use crate::error::{Error, Result};

/// Refuses what the transaction has done if it leaves its own user without a way in.
pub(crate) async fn check_way_left(tx: &mut Tx, org: OrgId, user: UserId) -> Result<()> {
    if has_way_left(tx, org, user).await? {
        return Ok(());
    }
    // So an owner who keeps a way in is one who gets in while passwords are disabled.
    Err(last_way_in())
}

/// The fault of whoever would shut themselves out.
pub(crate) fn last_way_in() -> Error {
    Error::invalid("This is your last way in: set a password or add a passkey first")
}

/// Whether a user has a way in.
pub(crate) async fn has_way_left(tx: &mut Tx, org: OrgId, user: UserId) -> Result<bool> {
    let person = tx.person(org, user).await?.ok_or(Error::NotFound)?;
    let is_disabled = tx.is_password_login_disabled(org).await?;
    let by_passkey = person.passkeys > 0
        && (!is_disabled || person.role == Role::Owner || !tx.comes_by_provider(org, user).await?);
    Ok((person.has_password && !is_disabled) || by_passkey || person.identities > 0)
}

/// Refuses what the transaction has done if passwords are disabled and no owner gets in any more. Providers
/// other than `but` count.
pub(crate) async fn check_owners_get_in(
    tx: &mut Tx,
    org: OrgId,
    but: Option<SignOnProviderId>,
) -> Result<()> {
    if !tx.is_password_login_disabled(org).await?
        || tx.count_owners_without_password(org, but).await? > 0
    {
        return Ok(());
    }
    Err(Error::invalid(
        "No owner could sign in any more while settings.security.disable_password_login is true: link another \
         owner to another provider, or allow passwords first",
    ))
}

/// Refuses where passwords are disabled and users whom a sign-on has made, or who have no password, are left with no
/// provider that knows them: they could not come back to be linked to another.
pub(crate) async fn check_made_get_in(tx: &mut Tx, org: OrgId, issuer: &str) -> Result<()> {
    if !tx.is_password_login_disabled(org).await? {
        return Ok(());
    }
    match tx.count_made_at_alone(org, issuer).await? {
        0 => Ok(()),
        1 => Err(made_stay_out("1 user comes")),
        count => Err(made_stay_out(&format!("{count} users come"))),
    }
}

fn made_stay_out(who: &str) -> Error {
    Error::invalid(format!(
        "{who} by this issuer alone, and passwords are disabled: allow passwords until they are linked to another \
         provider, or remove them first"
    ))
}
