//! Signs that a value behind the name of a secret is none: other names, its composition, the text around it.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::secrets::label::{self, Key};
use crate::text::words::{any_of, floor, is_one_of};
use crate::text::{randomness, source_code};
use crate::vocabulary::dummy_values;

/// Names of checksums and of what is identified by one.
#[rustfmt::skip]
const DIGESTS: &[&str] = &[
    "sha1", "sha256", "sha384", "sha512", "md5", "checksum", "integrity", "commit", "version",
    "revision", "digest", "hash", "cache", "fingerprint", "etag", "h1",
];

/// Words in front of "clave" where it names the secret, and does not mean "main", as in "punto clave". A label of its own
/// has a capital.
#[rustfmt::skip]
const BEFORE_CLAVE: &[&str] = &[
    "la", "las", "mi", "mis", "tu", "tus", "su", "sus", "una", "esta", "esa", "nueva", "nuestra", "y", "o", "con", "de",
    "cuya", "sin",
];

/// Whether a value is known to be something else than a secret, whether it was drawn or chosen. A password in quotes may
/// look like code.
pub(super) fn is_no_secret(text: &str, from: usize, value: &str, is_quoted: bool) -> bool {
    source_code::is_template(value)
        || !is_quoted && source_code::is_expression(value)
        || dummy_values::is_stand_in(value)
        || dummy_values::is_address(value)
        || dummy_values::is_public(value)
        || source_code::is_pattern(value)
        || is_digest(text, from, value)
}

/// Whether a value is known to be something else than one drawn by chance.
pub(super) fn is_no_random_value(text: &str, from: usize, value: &str) -> bool {
    let is_filled_in = value.contains('#') && value.contains("###");
    is_filled_in || dummy_values::is_plain_data(value) || repeats_name(text, from, value)
}

/// Whether the words in front of a name make something else of it. `lead` ends with the name, `name` is all of it.
pub(super) fn is_other_name(lead: &str, keyword: &str, name: &str) -> bool {
    let is_adjective = || {
        let before = &lead[..lead.len() - keyword.len()];
        let word = before.trim_end_matches([' ', '\t']);
        let word = word.rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let word = word.to_lowercase();
        let is_label = || keyword != "clave" && !["palabra", "palabras"].contains(&&*word);
        before.ends_with(' ') && !word.is_empty() && !BEFORE_CLAVE.contains(&&*word) && !is_label()
    };
    // `compat`; but `githubPat`.
    let is_syllable = || {
        let before = lead[..lead.len() - keyword.len()].chars().next_back();
        let is_hump = keyword.starts_with('P') && before.is_some_and(char::is_lowercase);
        before.is_some_and(char::is_alphabetic) && !is_hump
    };
    // Other words are made of these, but only cases in other languages of the longer ones.
    let is_beginning = || is_one_of(keyword, &["auth", "key", "api"]);
    // `--password-stdin`, `aria-keyshortcuts`
    ["-stdin", "shortcut"].iter().any(|part| name.contains(part))
        || keyword.eq_ignore_ascii_case("clave") && is_adjective()
        || keyword.eq_ignore_ascii_case("pat") && is_syllable()
        || is_beginning() && label::goes_on(name, keyword)
}

/// Whether a name, with what leads up to it, marks a value as none: that it is public, an identifier, a file, an
/// element of a form, a type, or of another length than the forty characters of a secret key of AWS. `between` is what
/// stands between the name and the value: there may be a name in it as well.
pub(super) fn by_name(lead: &str, between: &str, value: &str) -> bool {
    let last_word = |text: &str| {
        let word = text.rsplit(|c: char| c.is_whitespace() || "\"',;{(".contains(c)).next();
        word.unwrap_or_default().to_ascii_lowercase()
    };
    let is_joint = |c: char| "=\"'".contains(c) || c.is_alphabetic();
    let label = lead.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    let key = Key::read(label);
    let is_number = randomness::is_hex(value);
    if match key {
        Some(Key::Public) => true,
        Some(Key::Stored) => is_number,
        Some(Key::Secret) | None => {
            label::is_signing_key(label)
                && label::is_fingerprint(value)
                && !between.contains(['"', '\''])
        }
    } || label::is_manner(label)
        || label::is_package(label, between, value)
    {
        return true;
    }
    let lead = lead.to_ascii_lowercase();
    let name = last_word(&lead);
    let nearest = last_word(between.trim_end_matches([' ', '"', '\'', ':', '=']));
    let public = ["public", "publishable", "site_key", "site-key", "sitekey"];
    public.iter().any(|word| name.contains(word))
        // `AWS::KMS::ReplicaKey`
        || name.matches("::").count() > 1
        || is_identifier(&name, value) && key != Some(Key::Secret)
        || !nearest.is_empty() && is_identifier(&nearest, value)
        // `token::Base64Decoder`
        || between == "::" && is_type_name(value)
        // "The key is", `key=` and quotes announce more than a bare `key:` of a list does.
        || name == "key"
            && !between.contains(is_joint)
            && !lead.strip_suffix("key").is_some_and(|before| before.ends_with(['"', '\'']))
            && is_number
            && key != Some(Key::Secret)
        || dummy_values::is_file(&name)
        || is_beside_a_secret(&name)
        || name.ends_with("dsn") && value.contains("host=")
        || lead.contains("for=\"")
        || lead.contains("aws_secret_access_key") && value.len() != 40
        || name.ends_with("key") && key != Some(Key::Secret) && is_cache_key(value)
        || is_listed_file(&name, between, value)
        || name == "pass" && value.get(..4).is_some_and(|lead| lead.eq_ignore_ascii_case("test"))
}

/// Whether a name is that of something which a secret has: its policy, the field it is typed into, the entry of a store
/// that keeps it.
fn is_beside_a_secret(name: &str) -> bool {
    const THINGS: [&str; 4] = ["policy", "field", "hasher", "validator"];
    let name =
        ["_id", "-id", "id", "s"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    THINGS.iter().any(|thing| name.ends_with(thing)) || name.contains("existingsecret")
}

/// Whether a name and a value go together in an identifier: UUIDs and hexadecimal numbers of one.
fn is_identifier(name: &str, value: &str) -> bool {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    let number = name.contains("key") && name.ends_with("id")
        || ends(&["client_id", "client-id", "clientid"]);
    let uuid = ["key", "id"].contains(&name) || ends(&["_id", "-id"]) || name.contains("idempot");
    number && randomness::is_hex(value) || uuid && randomness::is_uuid(value)
}

/// Whether a value is written as the names of types are: in words that begin with capitals.
fn is_type_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_uppercase())
        && value.bytes().all(|b| b.is_ascii_alphanumeric())
        && !randomness::is_jumbled(value)
}

/// Whether a value is the key of a build's cache: words, and the hash of what it was built from.
fn is_cache_key(value: &str) -> bool {
    value.rsplit_once('-').is_some_and(|(words, hash)| {
        words.contains('-') && hash.len() >= 16 && randomness::is_hex(hash)
    })
}

/// Whether what stands around a value shows that it is code, or no value of this name: an argument or the name of a call,
/// an account of a provider of identities (`auth0|...`), user and password as documentation writes them.
pub(super) fn by_surroundings(bytes: &[u8], name_end: usize, from: usize, to: usize) -> bool {
    let is_named = |b: &u8| b.is_ascii_alphanumeric() || b"_.:*&".contains(b);
    let called = bytes.get(to) == Some(&b'(') && bytes[from..to].iter().all(is_named);
    let account = bytes.get(name_end) == Some(&b'|')
        && [&b"auth0"[..], b"oauth2"].iter().any(|name| bytes[..name_end].ends_with(name));
    let basic = bytes[..from]
        .last_chunk()
        .is_some_and(|lead: &[u8; 6]| lead.eq_ignore_ascii_case(b"basic "));
    // In a sentence, too, a value may stand in brackets: alone, behind a space.
    let in_brackets = bytes[..from].ends_with(b" (") && bytes.get(to) == Some(&b')');
    let opened = bytes[..from].trim_ascii_end();
    let in_template = [b"#{", b"${", b"{{", b"%{", b"[[", b"<<", b"@@"]
        .iter()
        .any(|mark| opened.ends_with(*mark));
    bytes[from - 1] == b'(' && !in_brackets
        || in_template
        || is_resource(bytes, name_end)
        || is_user(bytes, name_end, from, to)
        || called
        || account
        || basic && dummy_values::is_stock_login(&bytes[from..to])
}

/// How far in front of the name the name of a resource begins that it is a part of.
const RESOURCE: usize = 120;

/// Whether a name is a part of the name of a resource of AWS: `arn:aws:secretsmanager:us-east-1:...:secret:prod/db`.
fn is_resource(bytes: &[u8], name_end: usize) -> bool {
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b":/_.-".contains(b);
    let run = bytes[..name_end].iter().rev().take(RESOURCE).take_while(is_part).count();
    bytes[name_end - run..name_end].starts_with(b"arn:")
}

/// Whether a name is the user of a URL, whose password is judged by its place: `https://api-key:...@host`.
fn is_user(bytes: &[u8], name_end: usize, from: usize, to: usize) -> bool {
    const MOST_USER_BYTES: usize = 64;
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-%".contains(b);
    let user = bytes[..name_end].iter().rev().take(MOST_USER_BYTES).take_while(is_part).count();
    bytes.get(name_end) == Some(&b':')
        && bytes[..name_end - user].ends_with(b"://")
        && bytes[from..bytes.len().min(to + 1)].contains(&b'@')
}

/// Whether a value is the checksum behind the name of a file: `secret.bin 9b74c989...`.
fn is_listed_file(name: &str, between: &str, value: &str) -> bool {
    const DIGEST_LENGTHS: [usize; 7] = [8, 16, 32, 40, 64, 96, 128];
    // `app.token` is a setting.
    const SETTINGS: [&str; 6] = ["token", "secret", "password", "key", "pass", "auth"];
    let is_extension = |end: &str| {
        end.len() <= 8
            && end.starts_with(|c: char| c.is_ascii_lowercase())
            && !SETTINGS.contains(&end)
    };
    between.bytes().all(|b| matches!(b, b' ' | b'\t'))
        && name.rsplit_once('.').is_some_and(|(_, end)| is_extension(end))
        && DIGEST_LENGTHS.contains(&value.len())
        && randomness::is_hex(value)
}

/// Whether the value ends as its name does: `key_length = Cipher.key_length`.
fn repeats_name(text: &str, from: usize, value: &str) -> bool {
    let tail = value.rsplit(['.', ':', '_']).next().unwrap_or_default();
    let lead = &text[floor(text, from.saturating_sub(48))..from];
    let lead = lead.rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    tail.len() >= 2
        && tail.bytes().all(|b| b.is_ascii_alphabetic())
        && lead.trim_end_matches([' ', '=', ':', '"', '\'']).ends_with(&tail.to_ascii_lowercase())
}

/// Whether the value is announced or shaped as a checksum.
fn is_digest(text: &str, from: usize, value: &str) -> bool {
    // Most values have none of the names in front.
    static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| any_of(DIGESTS));
    let lead = floor(text, from.saturating_sub(24));
    let lead = text[lead..from].rsplit('\n').next().unwrap_or_default();
    let is_named = || {
        let lead = lead.to_ascii_lowercase();
        lead.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
            let stem = ["sum", "id", "s", "value"].iter().find_map(|end| word.strip_suffix(end));
            let is_name =
                |name: &&str| word.ends_with(name) || stem.is_some_and(|stem| stem.ends_with(name));
            DIGESTS.iter().any(is_name)
        })
    };
    let named = NAMES.as_ref().is_none_or(|names| names.is_match(lead)) && is_named();
    let shapes = ["sha256-", "sha512-", "sha256:", "sha1-"];
    let begins = |shape: &&str| {
        value.get(..shape.len()).is_some_and(|lead| lead.eq_ignore_ascii_case(shape))
    };
    named || shapes.iter().any(begins)
}
