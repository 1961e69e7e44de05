//! Tokens of one-time links: 256 random bits, signed for one purpose. No I/O.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::secret::Secret;
use store::LinkPurpose;
use subtle::ConstantTimeEq as _;

use crate::admission::admit::hash_secret;
use crate::error::Result;

/// The random characters of a token, and those of its signature.
const RANDOM: usize = 43;
const SIGNATURE: usize = 22;

/// A new token.
pub(crate) fn new(pepper: &[u8; 32], purpose: LinkPurpose) -> Result<Secret> {
    let random = URL_SAFE_NO_PAD.encode(store::random::<32>()?);
    let signature = signature(pepper, purpose, &random);
    Ok(Secret::new(format!("{random}.{signature}")))
}

/// Whether a token was made here for a purpose. Whether it is still good, the database knows.
pub(crate) fn is_ours(pepper: &[u8; 32], purpose: LinkPurpose, token: &str) -> bool {
    let Some((random, given)) = token.split_once('.') else { return false };
    random.len() == RANDOM
        && signature(pepper, purpose, random).as_bytes().ct_eq(given.as_bytes()).into()
}

fn signature(pepper: &[u8; 32], purpose: LinkPurpose, random: &str) -> String {
    let tag = hash_secret(pepper, &format!("link:{}:{random}", purpose.as_str()));
    let mut signature = URL_SAFE_NO_PAD.encode(tag);
    signature.truncate(SIGNATURE);
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_purpose() {
        let pepper = [7; 32];
        let token = new(&pepper, LinkPurpose::Invitation).unwrap();
        let token = token.expose();
        assert_eq!(token.len(), RANDOM + 1 + SIGNATURE);
        assert!(is_ours(&pepper, LinkPurpose::Invitation, token));
        assert!(!is_ours(&pepper, LinkPurpose::Password, token));
        assert!(!is_ours(&[8; 32], LinkPurpose::Invitation, token));
        let (random, signature) = token.split_once('.').unwrap();
        let other = new(&pepper, LinkPurpose::Invitation).unwrap();
        let other = other.expose().split_once('.').unwrap().1;
        for changed in [
            String::new(),
            ".".to_owned(),
            random.to_owned(),
            format!("{random}."),
            format!("{random}.{other}"),
            format!("{random}.{signature}A"),
            format!("x{token}"),
        ] {
            assert!(!is_ours(&pepper, LinkPurpose::Invitation, &changed), "{changed}");
        }
    }
}
