//! The session that acts and the account behind it, as they are within a transaction: whatever has ended them
//! since the request was let in counts.

use store::{Account, Tx};

use crate::error::{Error, Result};
use crate::state::member::Member;

/// Holds the member's own account until the transaction ends, before a way in of it is added, changed or removed.
/// Refuses if it was changed since it was read, or the session that asks has ended since: an account without a
/// password and a second factor looks the same after an owner has ended every way in, and its session does not.
/// `new` is the hash of another password.
pub(crate) async fn hold_account(
    tx: &mut Tx,
    member: &Member,
    account: &Account,
    new: Option<&str>,
) -> Result<()> {
    if !tx.confirm_password(account, new).await? {
        return Err(Error::invalid("The account was changed meanwhile: try again"));
    }
    check_session(tx, member).await
}

/// Refuses a member whose session has ended since the request was let in. A service token has none.
pub(crate) async fn check_session(tx: &mut Tx, member: &Member) -> Result<()> {
    match &member.session {
        Some(session) if !tx.has_session(member.user, session).await? => Err(Error::Unauthorized),
        _ => Ok(()),
    }
}
