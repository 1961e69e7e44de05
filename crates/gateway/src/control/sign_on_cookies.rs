//! The cookies of a sign-on, sealed: nothing is stored for anybody who is not signed in. No I/O.

use std::time::Duration;

use domain::ids::{SignOnProviderId, UserId};
use domain::secret::Secret;
use domain::time::{MINUTE, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::control::sealed_state;
use crate::control::sessions::SESSION_ABSOLUTE;
use crate::error::{Error, Result};

/// A sign-on, and the confirmation of a link, may take this long, in microseconds.
pub const SIGN_ON_LASTS: i64 = 10 * MINUTE;

/// A kind of cookie: one is never taken for the other.
pub(crate) trait Kept: Serialize + DeserializeOwned {
    /// The purpose that its seal is bound to.
    const PURPOSE: &'static str;
    /// How long it is good for, in microseconds.
    const LASTS: i64 = SIGN_ON_LASTS;
}

/// A sign-on whose user is at the issuer.
#[derive(Serialize, Deserialize)]
pub(crate) struct FlowCookie {
    pub(crate) provider: SignOnProviderId,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// When it was begun, if the user is to sign in at the issuer once more.
    #[serde(default)]
    pub(crate) anew_since: Option<i64>,
    /// The path to go to afterwards.
    pub(crate) next: String,
    /// The hash of the invitation whose link the browser came by.
    #[serde(default)]
    pub(crate) invitation: Option<[u8; 32]>,
}

/// A user of an issuer, with the address of an account whose owner has not confirmed that it is theirs.
#[derive(Serialize, Deserialize)]
pub(crate) struct LinkCookie {
    pub(crate) provider: SignOnProviderId,
    /// Our id there: another client may know the same person by another subject.
    pub(crate) client_id: String,
    pub(crate) provider_name: String,
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) email: String,
    pub(crate) user: UserId,
    /// The path to go to afterwards.
    pub(crate) next: String,
}

/// The token that a user signed in with, which shows at the sign-out whose session at the issuer is to end.
#[derive(Serialize, Deserialize)]
pub(crate) struct HintCookie {
    /// The user it belongs to: another host of the domain may set the cookie of somebody else.
    pub(crate) user: UserId,
    pub(crate) token: String,
}

impl Kept for FlowCookie {
    const PURPOSE: &'static str = "sign_on_flow";
}

impl Kept for LinkCookie {
    const PURPOSE: &'static str = "sign_on_link";
}

impl Kept for HintCookie {
    const PURPOSE: &'static str = "sign_out_hint";
    const LASTS: i64 = SESSION_ABSOLUTE;
}

/// Seals a cookie.
pub(crate) fn seal<T: Kept>(pepper: &[u8; 32], cookie: &T, now: Timestamp) -> Result<Secret> {
    let state =
        serde_json::to_string(cookie).map_err(|error| Error::Internal(error.to_string()))?;
    let good_for = Duration::from_micros(T::LASTS.unsigned_abs());
    sealed_state::seal(pepper, T::PURPOSE, &state, now, good_for)
}

/// Opens a cookie that is still good.
pub(crate) fn open<T: Kept>(pepper: &[u8; 32], cookie: &str, now: Timestamp) -> Option<T> {
    let opened = sealed_state::open(pepper, T::PURPOSE, cookie, now).ok()??;
    serde_json::from_str(&opened.state).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_kind_and_its_time() {
        let pepper = [7; 32];
        let flow = FlowCookie {
            provider: SignOnProviderId(1),
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            verifier: "v".to_owned(),
            anew_since: None,
            next: "/".to_owned(),
            invitation: Some([9; 32]),
        };
        let sealed = seal(&pepper, &flow, Timestamp(0)).unwrap();
        let sealed = sealed.expose();
        let opened: FlowCookie = open(&pepper, sealed, Timestamp(SIGN_ON_LASTS - 1)).unwrap();
        assert_eq!((opened.state.as_str(), opened.provider), ("s", SignOnProviderId(1)));
        assert_eq!(opened.invitation, Some([9; 32]));
        assert!(open::<FlowCookie>(&pepper, sealed, Timestamp(SIGN_ON_LASTS)).is_none());
        assert!(open::<LinkCookie>(&pepper, sealed, Timestamp(0)).is_none());
        assert!(open::<FlowCookie>(&[8; 32], sealed, Timestamp(0)).is_none());
        let hint = HintCookie { user: UserId(1), token: "t".to_owned() };
        let hint = seal(&pepper, &hint, Timestamp(0)).unwrap();
        let opened = |at| open::<HintCookie>(&pepper, hint.expose(), Timestamp(at));
        assert_eq!(opened(SESSION_ABSOLUTE - 1).unwrap().token, "t", "as long as the session");
        assert!(opened(SESSION_ABSOLUTE).is_none());
        for changed in ["", "AAAA", "not base64!", &sealed[1..], &"A".repeat(9_000)] {
            assert!(open::<FlowCookie>(&pepper, changed, Timestamp(0)).is_none(), "{changed}");
        }
    }
}
