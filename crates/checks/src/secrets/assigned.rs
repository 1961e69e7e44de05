//! Random values behind names that announce a secret: `api_key = "..."`, `<token>...</token>`, `password is ...`.

use super::{Secret, placeholder};
use crate::scan::Scan;
use crate::words::floor;

/// Parts of names. `~` in front: may stand inside a word.
#[rustfmt::skip]
pub(crate) const NAMES: &[&str] = &[
    "~secret", "~token", "~password", "~passwd", "~passwort", "~passphrase", "~contraseña",
    "~mot de passe", "~pwd", "~apikey", "~api_key", "~api-key", "api key", "~accesskey", "~access_key",
    "~access-key", "~key", "~credential", "~login", "~api", "~auth", "bearer$", "client_id",
    "~clientid", "~access_id", "~accessid", "~clé", "~schlüssel", "~webhook", "~session", "~license_k",
    "~pat$", "~dsn", "pass$", "~_pass$", "senha", "hasło", "пароль", "密码", "密碼", "密钥", "密鑰", "令牌",
    "トークン", "キー", "kennwort", "wachtwoord", "lösenord", "adgangskode", "heslo", "jelszó", "parola",
    "şifre", "Şifre", "비밀번호", "パスワード", "mật khẩu", "kata sandi", "clave", "pw$",
];

/// Those of them that announce what a person has chosen.
#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "pass", "pw", "contra", "mot", "_pass", "senha", "hasło", "пароль", "密码", "密碼", "kennwort",
    "wachtwoord", "lösenord", "adgangskode", "heslo", "jelszó", "parola", "şifre", "Şifre", "비밀번호",
    "パスワード", "mật", "kata", "clave",
];

/// Words that join a name and its value, with the space behind them where their script has such.
const SAID: &[&str] = &[
    "is ", "as ", "was ", "ist ", "est ", "lautet ", "è ", "é ", "es ", "er ", "är ", "on ", "to ",
    "jest ", "là ", "は", "是", "为", "為", "은 ", "는 ",
];

/// The longest value that is looked at.
const MAX_VALUE: usize = 512;

/// Names of checksums and of what is told by one.
#[rustfmt::skip]
const DIGESTS: &[&str] = &[
    "sha1", "sha256", "sha384", "sha512", "md5", "checksum", "integrity", "commit", "version",
    "revision", "digest", "hash", "cache", "fingerprint", "etag", "h1",
];

/// How a name and its value are joined.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    /// `=`, `:`, `=>`, quotes, brackets.
    Assigned,
    /// "is" or "was", or a quote right behind the word.
    Said,
    /// Only a space.
    Spaced,
}

/// Looks behind each name.
pub(super) fn find(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) {
    let mut done = 0;
    let mut count = 0;
    for &(start, end) in &scan.names {
        if end <= done || count >= limit {
            continue;
        }
        if let Some(secret) = behind(text, start, end) {
            done = secret.bytes.end;
            count += 1;
            found.push(secret);
        }
    }
}

fn behind(text: &str, start: usize, end: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let mut at = end;
    // The rest of the name.
    while at < bytes.len()
        && at - end < 24
        && (bytes[at].is_ascii_alphanumeric()
            || matches!(bytes[at], b'_' | b'-' | b'.' | b'[' | b']'))
    {
        at += 1;
    }
    let (value_at, join) = joined(bytes, at)?;
    let name = &text[start..end];
    let is =
        |word: &str| name.get(..word.len()).is_some_and(|lead| lead.eq_ignore_ascii_case(word));
    let password = PASSWORDS.iter().any(|word| is(word));
    let weak = is("key")
        && start > 0
        && bytes[start - 1].is_ascii_alphabetic()
        && at == end
        && join == Join::Spaced;
    if weak {
        return None;
    }
    let named_id = ["id", "Id", "ID"].iter().any(|id| name.contains(id));
    let identifier = !named_id && at >= 2 && bytes[at - 2..at].eq_ignore_ascii_case(b"id");
    let mut from = value_at;
    // The value may follow a scheme or a short wrapper: `Bearer ...`, `{AQAAABAAA ...}`.
    for _ in 0..3 {
        let to = value_end(bytes, from, password);
        let value = &text[from..to];
        let cut = super::is_cut(&bytes[to..]) && !value.is_empty();
        let judged = if cut || identifier && placeholder::is_uuid(value) {
            None
        } else {
            judge(text, from, value, password, join)
        };
        let found = judged.map(|score| (to, score)).or_else(|| quoted(bytes, from, to, join));
        if let Some((to, score)) = found {
            let whole = floor(text, start.saturating_sub(24));
            if misfits(&text[whole..at], &text[from..to]) || is_code_around(bytes, at, from, to) {
                return None;
            }
            let kind = if password { "password" } else { "assigned_secret" };
            return Some(Secret { kind, bytes: from..to, score });
        }
        let is_closed =
            matches!(bytes[from - 1], b'"' | b'\'') && bytes.get(to) == bytes.get(from - 1);
        if value.len() > 12
            || to >= bytes.len()
            || join == Join::Spaced
            || password
            || is_closed && !value.is_empty()
        {
            return None;
        }
        let gap = bytes[to..]
            .iter()
            .take(4)
            .take_while(|b| {
                matches!(b, b' ' | b'"' | b'\'' | b'{' | b'(' | b',' | b':' | b'=' | b'|')
            })
            .count();
        if gap == 0 {
            return None;
        }
        from = to + gap;
    }
    None
}

/// Whether a name, with what leads up to it, says that a value is none: that it is public, an identifier, a file, an
/// element of a form, a type, or of another length than the forty characters of a secret key of AWS.
fn misfits(lead: &str, value: &str) -> bool {
    let lead = lead.to_ascii_lowercase();
    let name = lead.rsplit(|c: char| c.is_whitespace() || "\"',;{(".contains(c)).next();
    let name = name.unwrap_or_default();
    let public = ["public", "publishable", "site_key", "site-key", "sitekey"];
    let identifier = name.ends_with("id") && name.contains("key");
    let is_bare = ["key", "id"].contains(&name) || name.ends_with("_id") || name.ends_with("-id");
    public.iter().any(|word| name.contains(word))
        || name.contains("::")
        || identifier && placeholder::is_hex(value)
        || (is_bare || name.contains("idempot")) && placeholder::is_uuid(value)
        || placeholder::is_file(name)
        || name.ends_with("dsn") && value.contains("host=")
        || lead.contains("for=\"")
        || lead.contains("aws_secret_access_key") && value.len() != 40
}

/// Whether what stands around a value shows that it is code, or no value of this name: an argument or the name of a call,
/// an account of a provider of identities (`auth0|...`), user and password as documentation writes them.
fn is_code_around(bytes: &[u8], name_end: usize, from: usize, to: usize) -> bool {
    let is_named = |b: &u8| b.is_ascii_alphanumeric() || b"_.:*&".contains(b);
    let called = bytes.get(to) == Some(&b'(') && bytes[from..to].iter().all(is_named);
    let account = bytes.get(name_end) == Some(&b'|') && bytes[name_end - 1].is_ascii_digit();
    let basic = bytes[..from]
        .last_chunk()
        .is_some_and(|lead: &[u8; 6]| lead.eq_ignore_ascii_case(b"basic "));
    // In a sentence, too, a value may stand in brackets: alone, behind a space.
    let in_brackets = bytes[..from].ends_with(b" (") && bytes.get(to) == Some(&b')');
    bytes[from - 1] == b'(' && !in_brackets
        || called
        || account
        || basic && placeholder::is_stock_login(&bytes[from..to])
}

/// A value in quotes that holds more signs than a bare one may, up to the quote that closes it: where it ends, and its
/// score. `to` is where a bare value would end.
fn quoted(bytes: &[u8], from: usize, to: usize, join: Join) -> Option<(usize, f64)> {
    let quote = *bytes.get(from.checked_sub(1)?)?;
    if join == Join::Spaced || !matches!(quote, b'"' | b'\'') {
        return None;
    }
    let reach = &bytes[from..bytes.len().min(from + MAX_VALUE)];
    let length = reach.iter().position(|b| *b == quote || !b.is_ascii_graphic())?;
    let value = std::str::from_utf8(&reach[..length]).ok()?;
    let has = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let live = reach[length] == quote
        && from + length > to
        && (16..=128).contains(&length)
        && has(u8::is_ascii_digit) >= 2
        && has(u8::is_ascii_uppercase) >= 2
        && has(u8::is_ascii_lowercase) >= 2
        && has(u8::is_ascii_punctuation) * 2 <= length
        && placeholder::entropy(value) >= 3.5
        && !value.contains("://")
        && !placeholder::is_code(value)
        && !placeholder::is_stand_in(value);
    live.then_some((from + length, 0.75))
}

/// Where the value begins when the name is itself a value, and the next field holds the secret:
/// `"name": "DB_PASSWORD", "value": "..."`, `<add key="ApiKey" value="..."/>`, `variable "token" { default = "..." }`.
fn value_field(bytes: &[u8], from: usize) -> Option<usize> {
    let gap = |at: usize, signs: &[u8]| {
        let rest = bytes[at..].iter().take(40);
        at + rest.take_while(|b| b.is_ascii_whitespace() || signs.contains(b)).count()
    };
    let field = gap(from, b"\"',-{");
    let is = |word: &&[u8]| {
        bytes.get(field..field + word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word))
    };
    let word = [&b"value"[..], b"default"].into_iter().find(is).filter(|_| field > from)?;
    let join = gap(field + word.len(), b"\"'");
    matches!(bytes.get(join), Some(b':' | b'=')).then(|| gap(join + 1, b"\"'"))
}

/// Where the value behind a name begins, and what joins them.
fn joined(bytes: &[u8], from: usize) -> Option<(usize, Join)> {
    if let Some(at) = value_field(bytes, from) {
        return Some((at, Join::Assigned));
    }
    let mut at = from;
    let mut join = Join::Spaced;
    while at < bytes.len() && at - from < 24 {
        match bytes[at] {
            b'=' | b':' | b'>' | b'(' | b'?' | b'|' => join = Join::Assigned,
            b'"' | b'\'' | b'`' if join == Join::Spaced => join = Join::Said,
            b' ' | b'\t' | b'"' | b'\'' | b'`' | b'{' | b'[' | b']' | b'\\' | b'+' => {}
            b',' if join == Join::Said => join = Join::Assigned,
            b'*' if closes_emphasis(&bytes[at - 1..]) => {}
            b'<' | b'@' | b'#' | b'-' if at > from => {}
            b'\n' | b'\r' if join == Join::Assigned => {}
            _ if let Some(word) =
                SAID.iter().find(|word| bytes[at..].starts_with(word.as_bytes())) =>
            {
                join = Join::Said;
                at += word.len() - 1;
            }
            _ if bytes[at..].starts_with(b"string ") || bytes[at..].starts_with(b"String ") => {
                at += 6;
            }
            b if at > from && (b.is_ascii_alphanumeric() || b.is_ascii_punctuation()) => {
                return Some((at, join));
            }
            _ => return None,
        }
        at += 1;
    }
    None
}

/// Whether asterisks end the emphasis of a name, by what stands in front of them and behind: no value begins with them.
fn closes_emphasis(bytes: &[u8]) -> bool {
    let rest = bytes.iter().skip(1).take(4).find(|&&b| b != b'*');
    !matches!(bytes[0], b'"' | b'\'') && rest.is_some_and(|rest| b" :=-".contains(rest))
}

fn value_end(bytes: &[u8], from: usize, password: bool) -> usize {
    let stop = |b: u8| {
        // From `0xe2` on: punctuation and letters of scripts in which no credential is written.
        b <= b' '
            || b >= 0xe2
            || matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b'|')
            || !password
                && matches!(b, b',' | b';' | b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'&' | b'\\')
    };
    let mut end = from;
    let mut equals = 0;
    while end < bytes.len() && end - from < MAX_VALUE && !stop(bytes[end]) {
        equals += usize::from(bytes[end] == b'=');
        // `a=b=c=d` is a list of names, not one value; without this each of them would be read to its end.
        if equals > 2 {
            break;
        }
        end += 1;
    }
    while end > from && matches!(bytes[end - 1], b'.' | b',' | b';' | b':' | b')' | b'}') {
        end -= 1;
    }
    while end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
        end += 1;
    }
    end
}

/// How live a value looks, if at all.
fn judge(text: &str, from: usize, value: &str, password: bool, join: Join) -> Option<f64> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    // The cheap test first: most words behind a name are short and hold no digit.
    if !password && (value.len() < 10 || value.len() < 16 && digits == 0) {
        return None;
    }
    if value.len() < 6
        || value.len() > MAX_VALUE
        || placeholder::is_code(value)
        || placeholder::is_stand_in(value)
        || placeholder::is_address(value)
        || !value.is_ascii()
        || is_digest(text, from, value)
    {
        return None;
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let symbols = value.len() - digits - letters;
    if password {
        let count = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
        let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
        let random = letters >= 12
            && letters == value.len()
            && upper.min(lower) * 4 >= letters
            && join != Join::Spaced
            && !placeholder::is_wordy(value);
        let mixed = random
            || digits > 0 && letters > 0
            || symbols > 0 && letters > 0 && value.bytes().any(|b| b"!@#$%^&*?~+".contains(&b));
        let path = value.contains('/') && !value.contains('!') || value.contains("://");
        let plain = value.bytes().any(|b| b.is_ascii_uppercase()) || digits >= 2 || symbols > 0;
        let sure =
            mixed && plain && !path && !(join == Join::Spaced && digits == 0) && value.len() <= 64;
        return sure.then_some(if join == Join::Assigned { 0.85 } else { 0.75 });
    }
    if value.contains("###") || placeholder::is_plain_data(value) || repeats_name(text, from, value)
    {
        return None;
    }
    if placeholder::is_uuid(value) {
        // Version 1 is made of a clock and an address of hardware, not of chance.
        let chance = value.as_bytes()[14] != b'1';
        return (join == Join::Assigned && chance).then_some(0.75);
    }
    // Quotes let through more symbols; words of code show themselves by how many there are.
    let charset = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.+/=~!@#$%^*:".contains(&b))
        || symbols * 5 < value.len() && digits >= 3 && value.bytes().all(|b| b.is_ascii_graphic());
    let path = value.contains("://")
        || value.matches('/').count() > 2 && symbols * 5 > value.len()
        || value.starts_with(['/', '.', '#'])
        || value.starts_with('-') && (value.starts_with("--") || digits < 3);
    let random = value.len() >= 16
        && !placeholder::is_versioned(value)
        && placeholder::entropy(value) >= if digits > 0 { 3.0 } else { 3.4 }
        && !placeholder::is_wordy(value);
    let long_enough = value.len() >= if join == Join::Assigned { 16 } else { 20 };
    let short = (12..16).contains(&value.len()) && letters >= 4 && placeholder::is_jumbled(value);
    let number = letters == 0 && value.len() >= 20 && !placeholder::is_counted(value);
    if join == Join::Assigned
        && symbols == 0
        && digits >= 3
        && (short || number)
        && is_strong(text, from)
    {
        return Some(0.6);
    }
    let header = join == Join::Assigned
        && (10..16).contains(&value.len())
        && symbols == 0
        && digits >= 3
        && letters >= 4
        && value.bytes().any(|b| b.is_ascii_uppercase())
        && value.bytes().any(|b| b.is_ascii_lowercase())
        && !placeholder::is_wordy(value)
        && text[floor(text, from.saturating_sub(16))..from].to_ascii_lowercase().contains("token");
    if header {
        return Some(0.7);
    }
    let chance = charset && !path && random && long_enough;
    (chance && (join != Join::Spaced || digits >= 2) && !placeholder::spells_words(value))
        .then_some(0.8)
}

/// Whether the name in front leaves no doubt that a secret follows, however short.
fn is_strong(text: &str, from: usize) -> bool {
    let lead = text[floor(text, from.saturating_sub(24))..from].to_ascii_lowercase();
    ["token", "secret", "api_key", "apikey", "accessid", "access_id", "access_key"]
        .iter()
        .any(|name| lead.contains(name))
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
    let lead = floor(text, from.saturating_sub(24));
    let lead = text[lead..from].rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    let named = lead.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        let stem = ["sum", "id", "s", "value"].iter().find_map(|end| word.strip_suffix(end));
        DIGESTS.iter().any(|name| word.ends_with(name) || stem.is_some_and(|s| s.ends_with(name)))
    });
    named
        || value.starts_with("sha256-")
        || value.starts_with("sha512-")
        || value.starts_with("sha256:")
        || value.starts_with("sha1-")
}
