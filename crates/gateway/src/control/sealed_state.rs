//! State that a browser keeps: sealed, so that no row is written for it, and good for a while.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::secret::Secret;
use domain::time::Timestamp;
use store::SealingKey;

use crate::admission::admit::hash_secret;
use crate::error::{Error, Result};

/// Longer values are not opened: a browser keeps no cookie of more than 4 KiB.
const LONGEST: usize = 4 * 1024;
const TIME_BYTES: usize = 8;

/// A state that was opened.
pub(crate) struct Opened {
    pub(crate) state: String,
    /// The time from which on it is no longer good.
    pub(crate) expires_at: Timestamp,
}

/// Seals a state for one purpose.
pub(crate) fn seal(
    pepper: &[u8; 32],
    purpose: &str,
    state: &str,
    now: Timestamp,
    good_for: Duration,
) -> Result<Secret> {
    let mut plain = now.plus(good_for).0.to_be_bytes().to_vec();
    plain.extend_from_slice(state.as_bytes());
    let sealed = key(pepper)?.seal(purpose, &plain)?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(sealed)))
}

/// Opens a state that was sealed here for a purpose; `None` if it was not, or is no longer good.
pub(crate) fn open(
    pepper: &[u8; 32],
    purpose: &str,
    sealed: &str,
    now: Timestamp,
) -> Result<Option<Opened>> {
    let sealed = (sealed.len() <= LONGEST).then(|| URL_SAFE_NO_PAD.decode(sealed).ok()).flatten();
    let Some(sealed) = sealed else { return Ok(None) };
    let Ok(mut plain) = key(pepper)?.open(purpose, &sealed) else { return Ok(None) };
    if plain.len() < TIME_BYTES {
        return Ok(None);
    }
    let state = String::from_utf8(plain.split_off(TIME_BYTES));
    let (Ok(time), Ok(state)) = (plain.try_into(), state) else { return Ok(None) };
    let expires_at = Timestamp(i64::from_be_bytes(time));
    Ok((now < expires_at).then_some(Opened { state, expires_at }))
}

/// A key of its own: what it seals is nothing that the database keeps.
fn key(pepper: &[u8; 32]) -> Result<SealingKey> {
    SealingKey::of_cookies(&hash_secret(pepper, "state of browsers")).map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use domain::time::MINUTE;

    use super::*;

    const PEPPER: [u8; 32] = [7; 32];

    fn opened(pepper: [u8; 32], purpose: &str, sealed: &str, at: i64) -> Option<String> {
        let opened = open(&pepper, purpose, sealed, Timestamp(at)).unwrap();
        opened.map(|opened| opened.state)
    }

    #[test]
    fn a_state_is_good_for_its_purpose_and_its_time() {
        let five = Duration::from_mins(5);
        let sealed = seal(&PEPPER, "one", "the state", Timestamp(MINUTE), five).unwrap();
        let sealed = sealed.expose();
        assert!(!sealed.contains("the"));
        assert_eq!(opened(PEPPER, "one", sealed, 6 * MINUTE - 1).as_deref(), Some("the state"));
        assert_eq!(opened(PEPPER, "one", sealed, 6 * MINUTE), None);
        assert_eq!(opened(PEPPER, "two", sealed, MINUTE), None);
        assert_eq!(opened([8; 32], "one", sealed, MINUTE), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            // The last character has bits that stand for nothing; they have to be zero.
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(opened(PEPPER, "one", &changed, MINUTE), None, "{at}");
        }
        for other in ["", "AAAA", "not base64 at all", &"A".repeat(5_000)] {
            assert_eq!(opened(PEPPER, "one", other, MINUTE), None);
        }
    }
}
