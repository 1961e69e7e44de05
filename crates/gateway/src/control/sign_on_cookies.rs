//! What a browser keeps of a sign-on, sealed: nothing is stored for anybody who is not signed in. No I/O.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::{SignOnProviderId, UserId};
use domain::secret::Secret;
use domain::time::{MINUTE, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::SealingKey;

use crate::admission::admit::hash_secret;
use crate::error::{Error, Result};

/// A sign-on, and the confirmation of a link, may take this long, in microseconds.
pub const SIGN_ON_LASTS: i64 = 10 * MINUTE;
/// The longest cookie that is opened.
const LONGEST: usize = 8 * 1024;

/// A kind of cookie: one is never taken for the other.
pub(crate) trait Kept: Serialize + DeserializeOwned {
    /// Its place, which its seal is bound to.
    const PLACE: &'static str;
    /// The time from which on it is no longer good.
    fn until(&self) -> Timestamp;
}

/// A sign-on whose user is at the issuer.
#[derive(Serialize, Deserialize)]
pub(crate) struct FlowCookie {
    pub(crate) provider: SignOnProviderId,
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// The path to go to afterwards.
    pub(crate) next: String,
    pub(crate) until: i64,
}

/// A user of an issuer, with the address of an account whose owner has not confirmed that it is theirs.
#[derive(Serialize, Deserialize)]
pub(crate) struct LinkCookie {
    pub(crate) provider_name: String,
    pub(crate) issuer: String,
    pub(crate) subject: String,
    pub(crate) email: String,
    pub(crate) user: UserId,
    /// The path to go to afterwards.
    pub(crate) next: String,
    pub(crate) until: i64,
}

impl Kept for FlowCookie {
    const PLACE: &'static str = "sign_on_flow";

    fn until(&self) -> Timestamp {
        Timestamp(self.until)
    }
}

impl Kept for LinkCookie {
    const PLACE: &'static str = "sign_on_link";

    fn until(&self) -> Timestamp {
        Timestamp(self.until)
    }
}

/// Seals a cookie.
pub(crate) fn seal<T: Kept>(pepper: &[u8; 32], cookie: &T) -> Result<Secret> {
    let plain = serde_json::to_vec(cookie).map_err(|error| Error::Internal(error.to_string()))?;
    let sealed = key(pepper)?.seal(T::PLACE, &plain)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(sealed)))
}

/// Opens a cookie that is still good.
pub(crate) fn open<T: Kept>(pepper: &[u8; 32], cookie: &str, now: Timestamp) -> Option<T> {
    let sealed = (cookie.len() <= LONGEST).then(|| URL_SAFE_NO_PAD.decode(cookie).ok())??;
    let plain = key(pepper).ok()?.open(T::PLACE, &sealed).ok()?;
    let cookie: T = serde_json::from_slice(&plain).ok()?;
    (now < cookie.until()).then_some(cookie)
}

fn key(pepper: &[u8; 32]) -> Result<SealingKey> {
    Ok(SealingKey::of_cookies(&hash_secret(pepper, "cookies of sign-on"))?)
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
            next: "/".to_owned(),
            until: SIGN_ON_LASTS,
        };
        let sealed = seal(&pepper, &flow).unwrap();
        let sealed = sealed.expose();
        let opened: FlowCookie = open(&pepper, sealed, Timestamp(SIGN_ON_LASTS - 1)).unwrap();
        assert_eq!((opened.state.as_str(), opened.provider), ("s", SignOnProviderId(1)));
        assert!(open::<FlowCookie>(&pepper, sealed, Timestamp(SIGN_ON_LASTS)).is_none());
        assert!(open::<LinkCookie>(&pepper, sealed, Timestamp(0)).is_none());
        assert!(open::<FlowCookie>(&[8; 32], sealed, Timestamp(0)).is_none());
        for changed in ["", "AAAA", "not base64!", &sealed[1..], &"A".repeat(9_000)] {
            assert!(open::<FlowCookie>(&pepper, changed, Timestamp(0)).is_none(), "{changed}");
        }
    }
}
