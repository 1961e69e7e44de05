//! Codes of authenticators (RFC 6238): six digits, 30 seconds, SHA-1, which all of them know. No I/O.

use domain::secret::Secret;
use domain::time::Timestamp;
use totp_rs::{Algorithm, Builder, Totp};

use crate::error::{Error, Result};

/// The name of this gateway in an authenticator.
const ISSUER: &str = "Sluice";
/// The digits of a code.
pub(crate) const DIGITS: usize = 6;
/// A code is good for this many steps before and after its own: clocks differ.
const TOLERANCE: u16 = 1;
const STEP_SECONDS: u64 = 30;
/// Bytes of a secret: as many as SHA-1 gives (RFC 4226, section 4).
const SECRET_BYTES: usize = 20;

/// The secret of a new authenticator, in base32.
pub(crate) fn new_secret() -> Result<Secret> {
    let bytes = store::random::<SECRET_BYTES>()?;
    Ok(Secret::new(totp_rs::Secret::from(bytes).to_base32()))
}

/// The step whose code this is, if it is one of now or its neighbours.
pub(crate) fn step_of(secret: &Secret, code: &str, now: Timestamp) -> Result<Option<i64>> {
    let seconds = u64::try_from(now.unix_seconds()).unwrap_or(0);
    let step = totp(secret, "")?.check(code, seconds);
    Ok(step.and_then(|step| i64::try_from(step).ok()))
}

/// The address that an authenticator reads from a QR code.
pub(crate) fn uri(secret: &Secret, email: &str) -> Result<Secret> {
    // A colon divides the name from the issuer, and none may be in either.
    let account = email.replace(':', "_");
    totp(secret, &account)?.to_url().map(Secret::new).map_err(|error| internal(&error))
}

fn totp(secret: &Secret, account: &str) -> Result<Totp> {
    let secret =
        totp_rs::Secret::try_from_base32(secret.expose()).map_err(|error| internal(&error))?;
    Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(DIGITS as u8)
        .with_skew(TOLERANCE)
        .with_step_duration(STEP_SECONDS)
        .with_secret(secret)
        .with_issuer(Some(ISSUER))
        .with_account_name(account)
        .build()
        .map_err(|error| internal(&error))
}

fn internal(error: &impl std::fmt::Display) -> Error {
    Error::Internal(format!("the secret of an authenticator: {error}"))
}

#[cfg(test)]
mod tests {
    use domain::time::SECOND;

    use super::*;

    /// `12345678901234567890`, the secret of RFC 6238, appendix B.
    fn secret() -> Secret {
        Secret::new("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ".to_owned())
    }

    fn step(code: &str, seconds: i64) -> Option<i64> {
        step_of(&secret(), code, Timestamp(seconds * SECOND)).unwrap()
    }

    #[test]
    fn the_vectors_of_the_rfc() {
        // Those for SHA-1, by their last six digits.
        for (seconds, code, t) in [
            (59, "287082", 0x1),
            (1_111_111_109, "081804", 0x0235_23ec),
            (1_111_111_111, "050471", 0x0235_23ed),
            (1_234_567_890, "005924", 0x0273_ef07),
            (2_000_000_000, "279037", 0x03f9_40aa),
            (20_000_000_000, "353130", 0x27bc_86aa),
        ] {
            assert_eq!(step(code, seconds), Some(t), "{seconds}");
        }
    }

    #[test]
    fn a_code_is_good_for_a_step_before_and_after_its_own() {
        let begin = 0x0235_23ed * 30;
        for (seconds, is_good) in [
            (begin - 31, false),
            (begin - 30, true),
            (begin - 1, true),
            (begin, true),
            (begin + 59, true),
            (begin + 60, false),
        ] {
            assert_eq!(step("050471", seconds).is_some(), is_good, "{}", seconds - begin);
        }
    }

    #[test]
    fn what_is_no_code_fits_nothing() {
        for code in
            ["", "50471", "0050471", "+50471", "05047a", "０５０４７１", " 50471", "94287082"]
        {
            assert_eq!(step(code, 1_111_111_111), None, "{code}");
        }
        // A clock before 1970 is no reason to fail.
        assert_eq!(step("050471", -1), None);
    }

    #[test]
    fn every_secret_is_new_and_has_an_address() {
        let (one, two) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one.expose(), two.expose());
        assert_eq!(one.expose().len(), 32);
        let uri = uri(&secret(), "a:b+c@d.test").unwrap();
        assert_eq!(
            uri.expose(),
            "otpauth://totp/Sluice:a_b%2Bc%40d.test?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Sluice"
        );
    }
}
