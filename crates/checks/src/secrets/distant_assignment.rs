//! Values some words behind their name: "the password for the database is ...", "API key [dev]: ...".

use crate::secrets::assignment_operator::Join;
use crate::secrets::false_positives;
use crate::secrets::label::{self, Key};
use crate::secrets::score::judge;
use crate::secrets::secret::Secret;
use crate::secrets::surroundings::is_cut;
use crate::secrets::value_span::value_end;
use crate::text::words::{floor, is_one_of};
use crate::text::{randomness, source_code};
use crate::vocabulary::dummy_values;
use crate::vocabulary::secret_names::{is_password, is_psk};

/// How far behind its name a value may begin, and behind how many words.
const REACH: usize = 80;
const MOST_WORDS: usize = 6;
/// The longest word in between, and the longest remark in brackets.
const LONGEST: usize = 40;
/// Names of what is drawn by chance that sentences speak of.
#[rustfmt::skip]
const DRAWN: &[&str] = &[
    "token", "secret", "api key", "apikey", "api_key", "api-key", "access key", "access-key", "accesskey", "key", "credential",
    "clé", "schlüssel",
];
/// Words in front of a value: verbs, and what it is changed from and to.
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "is", "was", "be", "to", "ist", "war", "lautet", "est", "es", "è", "é", "är", "er", "jest",
];
/// Things that have an identifier: it stands behind them, and not a secret.
#[rustfmt::skip]
const OWNERS: &[&str] = &[
    "user", "client", "account", "tenant", "customer", "order", "request", "session", "device", "project", "org",
    "organization", "team", "member", "id", "uuid", "subscription", "job", "run", "build", "commit", "hash", "checksum",
    "fingerprint", "revision", "version", "file", "object", "resource", "trace", "app", "application", "pod", "node",
    "instance", "event", "page", "item", "record",
];
/// Environments in which a credential is used: these stand between its name and its value without more.
const ENVIRONMENTS: &[&str] =
    &["production", "prod", "staging", "dev", "development", "test", "live", "sandbox"];
/// Words that introduce the purpose of a credential.
#[rustfmt::skip]
const FOR: &[&str] = &[
    "for", "of", "für", "von", "vom", "du", "de", "del", "des", "pour", "para", "per", "di", "da", "voor", "van", "för", "til",
];
/// Words that call a credential known, and stand in front of it.
const KNOWN: &[&str] = &["leaked", "exposed", "compromised"];
/// Words that end the name of something else: what a credential is called by, or what is said of it.
#[rustfmt::skip]
const NOUNS: &[&str] = &[
    "id", "ids", "uuid", "guid", "version", "count", "type", "reset", "length", "hint", "rule", "rules", "hash", "policy", "link",
];

/// The credential some words behind a name that begins at `start` and ends at `end`. More is asked of it than right
/// behind one.
pub(super) fn find(text: &str, start: usize, end: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let is_word = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
    // A sign behind the space joins what is near.
    let goes_on = match bytes.get(end..end + 2) {
        Some([b' ', next]) => next.is_ascii_alphanumeric() || *next >= 0x80 || b"([".contains(next),
        _ => false,
    };
    // Most names are talked about, without a digit near.
    let near = || &bytes[end..bytes.len().min(end + REACH + LONGEST)];
    // All bytes are checked at once, which is faster than to stop at the first.
    let has_digit = || near().iter().fold(false, |any, b| any | b.is_ascii_digit());
    if !goes_on || !is_word || !has_digit() {
        return None;
    }
    let keyword = &text[start..end];
    let password = is_password(keyword);
    if !password && !is_one_of(keyword, DRAWN) {
        return None;
    }
    // `WPA2-PSK (AES-128)`
    if is_psk(keyword) {
        return None;
    }
    let joint = Joint::read(text, end, password)?;
    let from = joint.value;
    let to = value_end(bytes, from, password);
    let value = text.get(from..to)?;
    if is_cut(&bytes[to..]) || matches!(bytes.get(to), Some(b'(' | b'[' | b'{')) {
        return None;
    }
    let lead = &text[floor(text, start.saturating_sub(24))..end];
    let score = if password {
        is_chosen(value).then_some(0.75)
    } else {
        let is_kept = !keyword.eq_ignore_ascii_case("key") || Key::read(lead) == Some(Key::Secret);
        let is_owned = is_one_of(joint.word, OWNERS);
        match randomness::is_hex(value) {
            true if !is_kept
                || is_owned
                || label::is_signing_key(lead) && label::is_fingerprint(value) =>
            {
                None
            }
            true if randomness::is_uuid(value) => Some(0.75),
            _ => judge(text, from, value, false, Join::Said),
        }
    };
    let is_refuted = || {
        false_positives::by_name(lead, "", value)
            || false_positives::by_surroundings(bytes, end, from, to)
    };
    let kind = if password { "password" } else { "assigned_secret" };
    score.filter(|_| !is_refuted()).map(|score| Secret { kind, bytes: from..to, score })
}

/// The joint between a name and a value that is further away.
struct Joint<'t> {
    /// The last word in front of it.
    word: &'t str,
    /// The start of the value.
    value: usize,
}

impl<'t> Joint<'t> {
    /// Reads the words and remarks in brackets that follow a name, up to a sign or a verb in front of a value. No sentence
    /// ends between, but for one that asks. In front of a sign the words must say where or for what the credential is used.
    fn read(text: &'t str, end: usize, password: bool) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut at = end;
        // How many words ago it was said what the credential is for, if the first one did.
        let mut introduced = None;
        for count in 0..=MOST_WORDS {
            if bytes.get(at) != Some(&b' ') || at - end > REACH {
                return None;
            }
            at += 1;
            let word = unit(text, at)?;
            at += word.len();
            let is_remark = word.starts_with(['(', '[']);
            let is_one = |words: &[&str]| is_one_of(word, words);
            let ends = label::last_word(word).to_ascii_lowercase();
            if !is_remark && NOUNS.contains(&&*ends) {
                return None;
            }
            // "from" says of a password what it was changed by as well.
            introduced = match introduced {
                Some(words) => Some(words + 1),
                None if count == 0 && (is_one(FOR) || !password && word == "from") => Some(0),
                None if !password && word == "from" && bytes[at..].starts_with(b" the ") => Some(0),
                None => None,
            };
            let spaced = at + usize::from(bytes.get(at) == Some(&b' '));
            let rest = &bytes[spaced..];
            let signed = match rest.first()? {
                b':' | b'=' => Some(spaced + 1),
                b'?' if spaced == at => Some(spaced + 1),
                _ => rest.starts_with("→".as_bytes()).then_some(spaced + "→".len()),
            };
            if let Some(value) = signed {
                let is_owner = introduced.is_some_and(|words| (1..=3).contains(&words))
                    && !(password && is_one(&["user", "username", "device"]));
                let leads = is_remark || is_owner || is_one(ENVIRONMENTS) || is_one(KNOWN);
                if !leads && rest[0] != b'?' {
                    return None;
                }
                return value_from(bytes, value).map(|value| Self { word, value });
            }
            // Behind a verb the sentence may go on: a value has digits.
            let leads = spaced > at && (is_remark || VERBS.contains(&word));
            if leads && rest.iter().take_while(|b| b.is_ascii_graphic()).any(u8::is_ascii_digit) {
                return value_from(bytes, at).map(|value| Self { word: "", value });
            }
        }
        None
    }
}

/// The word or the remark in brackets at a place.
fn unit(text: &str, at: usize) -> Option<&str> {
    let bytes = &text.as_bytes()[at..];
    let close = match bytes.first()? {
        b'(' => b')',
        b'[' => b']',
        _ => {
            let is_part =
                |b: &&u8| b.is_ascii_alphanumeric() || **b >= 0x80 || b"'_-@./".contains(b);
            let length = bytes.iter().take(LONGEST).take_while(is_part).count();
            let word = text.get(at..at + length)?;
            return (length > 0 && !word.ends_with('.')).then_some(word);
        }
    };
    let length = bytes.iter().take(LONGEST).position(|&b| b == close || b == b'\n')?;
    (bytes[length] == close).then(|| text.get(at..=at + length))?
}

/// Returns the start of a value behind its joint: behind white space, with quotes or marks of emphasis around it or none.
fn value_from(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let gap = rest.iter().take(3).take_while(|b| b.is_ascii_whitespace()).count();
    let marks = rest[gap..].iter().take(3).take_while(|b| b"\"'`*".contains(b)).count();
    let value = at + gap + marks;
    (gap > 0 && bytes.get(value).is_some_and(u8::is_ascii_graphic)).then_some(value)
}

/// Whether a value can only be a password: digits among letters of both cases, or digits and a sign that words have not.
fn is_chosen(value: &str) -> bool {
    let count = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let is_signed = digits >= 2 && value.contains(['!', '#', '$', '%', '^', '&', '@']);
    let is_mixed =
        upper.min(lower) >= 1 && value.len() >= 8 && randomness::changes(value) * 2 >= value.len();
    let is_mail = || value.split_once('@').is_some_and(|(_, host)| host.contains('.'));
    (6..=64).contains(&value.len())
        && value.is_ascii()
        && digits >= 1
        && letters >= 2
        && (is_signed || is_mixed)
        && !value.starts_with(['#', '$', '@', '&', '/', '.'])
        && !value.contains("://")
        && !source_code::is_code(value)
        && !dummy_values::is_stand_in(value)
        && !dummy_values::is_encrypted(value)
        && !is_mail()
}

#[cfg(test)]
mod tests {
    use crate::secrets::tests::secrets;

    #[test]
    fn words_in_between_lead_to_a_value_or_to_none() {
        for text in [
            "What is the API key for?",
            "The API key for production is stored in the vault under prod/api.",
            "The password for the database is rotated every 90 days.",
            "my password should be at least 12 characters long, right?",
            "The token for the bot is missing from the environment.",
            "API key for the weather = see item weather-prod-2024",
            "password of the admin account: see vault entry INFRA-1234",
            "The secret key of HS256 should have 256 bits.",
            "temporary password for bob@corp.example: sent by mail on 2024-05-11",
            "the password goes to bob2@corp.example",
            "password (min. 8 characters): ________",
            "The session token for user 42 is valid until 2025-01-01T00:00:00Z",
            "the password for that is in Office365",
            "password for the phone: iPhone15",
            "access token from the portal: valid 3600s",
            "access token for the user: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "The key of this commit is 152c189b8182c1ad13b648ba44a3c0d67db08629",
            "the password for the database. Kd92mQx1Lp is a product",
            "password for the shop: https://user2.Example.org/Reset",
            "The password of one is not that of the other, as said on page A1b2C3d4",
            "Invalid API key, requestId: 9b74c9897bac770ffc029102a200c5de",
            "Invalid API key for requestId: 9b74c9897bac770ffc029102a200c5de",
            "authentication token, correlationId: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "token refresh failed, trace_id = 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "token for app: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
            "The secret used by pod: payments-api-7d9f8c6b54-x2x9k",
            "Incorrect API key provided, request: req_011CSHoEeqs5C35K2UUqR7Fy",
            "token count: gpt4Turbo128kContext",
            "password changed from device: iPhone14,2",
            "password reset link: A1b2C3d4",
            "The password length is 12characters!",
            "The password is from KeePass2XC",
            "Password for user: admin1A2bX",
            "Security: WPA2-PSK (AES-128)",
            "a token for every one of the seven hundred words: 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
        ] {
            assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
        }
    }
}
