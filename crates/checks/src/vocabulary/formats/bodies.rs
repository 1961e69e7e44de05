//! The form that providers document for the characters behind a beginning.

use crate::text::checksum::{base58check_key, bech32, crc32};
use crate::text::randomness;
use crate::vocabulary::dummy_values;

/// Whether the parts between separators have these lengths; 0 stands for any.
fn parts(body: &str, separator: char, lengths: &[usize]) -> bool {
    let mut rest = lengths.iter();
    body.split(separator).all(|part| {
        rest.next().is_some_and(|&length| !part.is_empty() && (length == 0 || part.len() == length))
    }) && rest.next().is_none()
}

fn is_hex(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

/// Whether the last six characters are the check value of those before: GitHub's and npm's tokens end in a CRC-32 in base
/// 62.
pub(crate) fn crc_fits(body: &str) -> bool {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((random, check)) = body.len().checked_sub(6).and_then(|at| body.split_at_checked(at))
    else {
        return false;
    };
    let mut sum = crc32(random.as_bytes());
    check.bytes().rev().all(|byte| {
        let digit = ALPHABET[(sum % 62) as usize];
        sum /= 62;
        byte == digit
    })
}

/// The length alone decides.
pub(super) fn any(_: &str) -> bool {
    true
}

/// Every key of OpenAI has the company's name in base64 in the middle.
pub(super) fn openai(body: &str) -> bool {
    body.contains("T3BlbkFJ")
}

/// A body that looks random, of any vendor: Anthropic's keys are recognized by more.
pub(super) fn unnamed(body: &str) -> bool {
    !body.starts_with("ant-") && (randomness::is_mixed(body) || randomness::is_counted(body))
}

/// Keys of Anthropic end in the padding of what they encode.
pub(super) fn anthropic(body: &str) -> bool {
    body.ends_with("AA")
}

pub(super) fn sendgrid(body: &str) -> bool {
    let Some((id, secret)) = body.split_once('.') else { return false };
    (20..=22).contains(&id.len()) && (40..=48).contains(&secret.len())
}

/// Eleven digits, then thirty-five letters and digits.
pub(super) fn notion(body: &str) -> bool {
    body.get(..11).is_some_and(is_number)
}

/// The kind of key, an identifier, the secret.
pub(super) fn tailscale(body: &str) -> bool {
    let mut parts = body.split('-');
    let kind = parts.next().unwrap_or_default();
    let known = ["api", "auth", "client", "scim", "webhook", "oidc"].contains(&kind);
    known && parts.clone().count() == 2 && parts.all(|part| part.len() >= 8)
}

/// Numbers of the team and the bot before the secret.
pub(super) fn slack(body: &str) -> bool {
    let mut parts = body.split('-');
    let first = parts.next().unwrap_or_default();
    let last = parts.next_back().unwrap_or_default();
    is_number(first) && last.len() >= 8
}

/// An instance, or `local`, may stand before forty hexadecimal digits.
pub(super) fn sourcegraph(body: &str) -> bool {
    let secret = body.rsplit('_').next().unwrap_or_default();
    secret.len() == 40 && is_hex(secret)
}

/// `HRKU-` is followed by a UUID, or by `AA` and fifty-eight characters.
pub(super) fn heroku(body: &str) -> bool {
    parts(body, '-', &[8, 4, 4, 4, 12]) || body.starts_with("AA")
}

/// A UUID, with a word in front or a code behind in some regions.
pub(super) fn uuid(body: &str) -> bool {
    body.len() == 36 && parts(body, '-', &[8, 4, 4, 4, 12])
}

/// Three letters name the application's secret.
pub(super) fn square(body: &str) -> bool {
    body.get(..4).is_some_and(|lead| {
        lead.ends_with('-') && lead.bytes().take(3).all(|b| b.is_ascii_lowercase())
    })
}

/// Fourteen characters and sixty-four hexadecimal digits.
pub(super) fn airtable(body: &str) -> bool {
    parts(body, '.', &[14, 64]) && body.get(15..).is_some_and(is_hex)
}

/// The encrypted part behind them begins alike in all of them. Lines of certificates begin with `AQE` as well.
pub(super) fn adyen(body: &str) -> bool {
    body.get(..16).is_some_and(|lead| lead.contains("hmf")) && randomness::is_mixed(body)
}

/// Forty-eight small letters, of which words have more vowels.
pub(super) fn siliconflow(body: &str) -> bool {
    body.bytes().all(|b| b.is_ascii_lowercase())
        && !randomness::is_wordy(body)
        && randomness::distinct(body) >= 12
}

/// An identifier, forty hexadecimal digits.
pub(super) fn baidu(body: &str) -> bool {
    body.split_once('/')
        .is_some_and(|(id, secret)| id.len() >= 20 && secret.len() == 40 && is_hex(secret))
}

pub(super) fn configcat(body: &str) -> bool {
    parts(body, '/', &[22, 22])
}

/// An identifier, the secret.
pub(super) fn defined_networking(body: &str) -> bool {
    parts(body, '-', &[26, 52])
}

pub(super) fn close(body: &str) -> bool {
    parts(body, '.', &[22, 22])
}

/// The hash of a certificate, who it is for, the secret.
pub(super) fn k3s(body: &str) -> bool {
    body.split_once("::").is_some_and(|(hash, rest)| {
        let secret = rest.split_once(':').map_or(rest, |(_, secret)| secret);
        hash.len() == 64 && is_hex(hash) && secret.len() >= 16 && randomness::is_mixed(secret)
    })
}

/// An identifier of twenty-six characters, the secret, a check value.
pub(super) fn paddle(body: &str) -> bool {
    parts(body, '_', &[26, 22, 3])
}

/// The URL of a database in base64, with a password. `scheme` is what the beginning stands for.
pub(super) fn encoded_url(scheme: &str, body: &str) -> bool {
    let code = format!("{scheme}{body}");
    let decoded = crate::text::base64::base64(code.as_bytes(), 400);
    let url = String::from_utf8_lossy(&decoded);
    let login = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    login.is_some_and(|(login, _)| login.contains(':') && dummy_values::is_live_login(login))
}

/// Docker's configuration in base64 has a login of a registry, and does not only name the program that keeps it.
pub(super) fn docker(lead: &str, body: &str) -> bool {
    let code = format!("{lead}{body}");
    let decoded = crate::text::base64::base64(code.as_bytes(), 4000);
    let config = String::from_utf8_lossy(&decoded);
    ["\"auth\"", "\"identitytoken\"", "\"password\""].iter().any(|name| {
        config.split(name).skip(1).any(|rest| {
            let value = rest.trim_start().strip_prefix(':').unwrap_or_default();
            let value = value.trim_start().strip_prefix('"').unwrap_or_default();
            value.starts_with(|c: char| c.is_ascii_alphanumeric())
        })
    })
}

/// A merchant, then thirty-two hexadecimal digits.
pub(super) fn braintree(body: &str) -> bool {
    parts(body, '$', &[16, 32])
}

/// An account's number, then the secret in capitals.
pub(super) fn clickup(body: &str) -> bool {
    body.split_once('_').is_some_and(|(id, secret)| is_number(id) && secret.len() == 32)
}

/// Identifier, then sixty-four characters.
pub(super) fn dynatrace(body: &str) -> bool {
    parts(body, '.', &[24, 64])
}

/// Account, token, secret.
pub(super) fn harness(body: &str) -> bool {
    parts(body, '.', &[22, 24, 20])
}

/// Two runs of hexadecimal digits of these lengths.
pub(super) fn postman(body: &str) -> bool {
    parts(body, '-', &[24, 34])
}

pub(super) fn langsmith(body: &str) -> bool {
    ["pt_", "sk_"].iter().any(|kind| body.starts_with(kind)) && parts(&body[3..], '_', &[32, 10])
}

/// The routable form: a payload, two characters for its length, seven of a check value.
pub(super) fn gitlab(body: &str) -> bool {
    body.rsplit_once('.').is_some_and(|(payload, tail)| payload.len() >= 20 && tail.len() == 9)
}

/// An organisation's identifier of fifteen characters, an exclamation mark, the session.
pub(super) fn salesforce(body: &str) -> bool {
    body.split_once('!').is_some_and(|(id, session)| id.len() == 12 && session.len() >= 60)
}

/// A cloud project, then the secret.
pub(super) fn circleci(body: &str) -> bool {
    parts(body, '_', &[22, 40])
}

/// A client, a date, a user and the secret behind dashes.
pub(super) fn mercado_pago(body: &str) -> bool {
    body.split('-').count() >= 4 && body.split('-').next().is_some_and(is_number)
}

/// Eight hexadecimal digits are the check value behind thirty-two characters.
pub(super) fn grafana(body: &str) -> bool {
    parts(body, '_', &[32, 8])
}

/// Numbers of a user, or of an application and a user, a colon, thirty-two hexadecimal digits.
pub(super) fn asana(body: &str) -> bool {
    body.split_once(':').is_some_and(|(ids, secret)| {
        ids.split('/').all(|id| is_number(id) && id.len() >= 10)
            && ids.split('/').count() <= 2
            && secret.len() == 32
            && is_hex(secret)
    })
}

/// A private key of Bitcoin in its import format, of 37 bytes: one that belongs to an uncompressed public key.
pub(super) fn wif(prefix: &str, body: &str) -> bool {
    base58check_key::<37>(prefix, body)
}

/// The same with a byte more, the mark of a compressed public key.
pub(super) fn wif_compressed(prefix: &str, body: &str) -> bool {
    base58check_key::<38>(prefix, body)
}

/// An extended private key, of which all keys of a wallet derive.
pub(super) fn extended(body: &str) -> bool {
    ["xprv", "yprv", "zprv", "tprv"].iter().any(|prefix| base58check_key::<82>(prefix, body))
}

pub(super) fn nostr(body: &str) -> bool {
    bech32(b"nsec", body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values() {
        // The CRC-32 of "123456789" is 0xcbf43926, which is 3jZRME in base 62.
        assert!(crc_fits("1234567893jZRME"));
        assert!(!crc_fits("1234567803jZRME"));
        assert!(!crc_fits("short"));
    }

    #[test]
    fn structures() {
        assert!(tailscale("auth-kAbCdEfGh123-x1y2z3a4b5c6d7e8") && !tailscale("foo"));
        assert!(notion("12345678901abc") && !notion("1234567890Xabc"));
        assert!(airtable(&format!("{}.{}", "a".repeat(14), "0f".repeat(32))));
        assert!(uuid("2f1c7f0e-3b1d-4d8e-9a53-0c6f0a8d7b11") && !uuid("2f1c7f0e"));
        assert!(slack("123456-abcdefgh") && !slack("example-abcdefgh"));
    }
}
