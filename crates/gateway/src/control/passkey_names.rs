//! Passkeys as the API and the audit name them. No I/O.

use aws_lc_rs::digest;
use serde_json::{Map, Value};
use store::StoredPasskey;

use crate::audit::Event;
use crate::control::session_tokens::hex;

/// The id of a passkey, by which it is named.
pub(crate) fn passkey_id(credential_id: &[u8]) -> String {
    hex(&digest::digest(&digest::SHA256, credential_id).as_ref()[..8])
}

/// The event of a passkey that somebody else has removed.
pub(crate) fn removed_passkey(
    passkey: &StoredPasskey,
    email: &str,
) -> (Event, (&'static str, String), Map<String, Value>) {
    let name = ("name".to_owned(), Value::from(passkey.name.as_str()));
    let metadata = Map::from_iter([("email".to_owned(), Value::from(email)), name]);
    (Event::PasskeyRemoved, ("passkey", passkey_id(&passkey.credential_id)), metadata)
}
