//! Random values behind names that announce a secret: `api_key = "..."`, `<token>...</token>`, `password is ...`.

use crate::scan::Scan;
use crate::secrets::assignment_operator::{Join, joined};
use crate::secrets::value_span;
use crate::secrets::value_span::{MAX_PASSWORD, MAX_VALUE, value_end, whole_end, without_marks};
use crate::secrets::{Secret, distant_assignment, false_positives};
use crate::text::words::floor;
use crate::vocabulary::dummy_values;
use crate::vocabulary::secret_names::{is_password, is_psk};

/// Longer passwords are no words.
const MAX_CHOSEN: usize = 64;
/// Behind how many names with a value it is looked in a run without spaces, quotes and brackets: more are not written in
/// one, and each may read all the rest of it.
const NAMES_IN_RUN: u32 = 5;
/// How far in front of a name the words are that make something else of it.
const LEAD: usize = 40;

/// Looks behind each name. Returns how many values were judged.
pub(super) fn find(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) -> usize {
    let (mut done, mut run_end, mut names) = (0, 0, 0);
    let mut judged = Judged::default();
    let most = found.len() + limit;
    for &(start, end) in &scan.names {
        let (start, end) = (start as usize, end as usize);
        if end <= done || found.len() >= most {
            continue;
        }
        if start >= run_end {
            run_end = value_span::run_end(text.as_bytes(), end);
            names = 0;
        }
        if names == NAMES_IN_RUN {
            continue;
        }
        let name = Name::read(text, start, end);
        names += u32::from(name.is_some());
        let near = name.and_then(|name| behind(text, &name, &mut judged));
        if let Some(secret) = near.or_else(|| distant_assignment::find(text, start, end)) {
            done = secret.bytes.end;
            found.push(secret);
        }
    }
    judged.count
}

/// A name that is joined to a value.
struct Name<'t> {
    /// The part of it that announces a secret.
    keyword: &'t str,
    /// The start of that part, and the end of the whole name.
    start: usize,
    end: usize,
    /// The start of the value, and how it is joined.
    value: usize,
    join: Join,
}

impl<'t> Name<'t> {
    /// Reads the name that a keyword from `start` to `end` is a part of.
    fn read(text: &'t str, start: usize, end: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let keyword = &text[start..end];
        let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b"_-.[]".contains(b);
        let at = end + bytes[end..].iter().take(24).take_while(is_part).count();
        let lead = &text[floor(text, start.saturating_sub(LEAD))..end];
        let (value, join) = joined(bytes, lead, at)?;
        let is_bare_key = || {
            keyword.eq_ignore_ascii_case("key")
                && text[..start].ends_with(|c: char| c.is_ascii_alphabetic())
        };
        let is_other = join == Join::Spaced && at == end && is_bare_key()
            || false_positives::is_other_name(lead, keyword, &text[start..at])
            || crate::secrets::is_in_base64(bytes, start)
            || crate::secrets::is_below_base64(bytes, start) && !is_separated(&bytes[at..]);
        (!is_other).then_some(Self { keyword, start, end: at, value, join })
    }
}

/// Whether a sign that base64 does not have stands behind a name, or a space and more. It may be padded by `=`.
fn is_separated(behind: &[u8]) -> bool {
    let gap = behind.iter().take(4).take_while(|b| b" \t\"'".contains(b)).count();
    match behind.get(gap) {
        Some(b':') => true,
        Some(b'=') => {
            let value = behind[gap + 1..].iter().take(4).find(|b| !b" \"'".contains(b));
            value.is_some_and(|b| b.is_ascii_graphic() && !b"=\\,;+)".contains(b))
        }
        Some(b) => behind[0] == b' ' && b.is_ascii_alphanumeric(),
        None => false,
    }
}

/// The judgements of the last few values: several names lead to one, as the three in `api_key` do.
#[derive(Default)]
struct Judged {
    last: [Option<(Value, Option<f64>)>; 4],
    next: usize,
    /// How many values were judged.
    count: usize,
}

/// A value as it is judged: where it begins and ends, whether it is a password, how it is joined.
type Value = (usize, usize, bool, Join);

impl Judged {
    fn judge(&mut self, text: &str, value: Value) -> Option<f64> {
        if let Some((_, score)) = self.last.iter().flatten().find(|known| known.0 == value) {
            return *score;
        }
        let (from, to, password, join) = value;
        let score = judge(text, from, &text[from..to], password, join);
        self.last[self.next] = Some((value, score));
        self.next = (self.next + 1) % self.last.len();
        self.count += 1;
        score
    }
}

/// The value of a name, if it is a credential.
fn behind(text: &str, name: &Name, known: &mut Judged) -> Option<Secret> {
    let &Name { keyword, start, end: at, value: value_at, join } = name;
    let bytes = text.as_bytes();
    let password = is_password(keyword);
    if is_psk(keyword) && !is_shared_key(&bytes[..start], &bytes[at..], &text[value_at..]) {
        return None;
    }
    let named_id = ["id", "Id", "ID"].iter().any(|id| keyword.contains(id));
    let identifier = !named_id && at >= 2 && bytes[at - 2..at].eq_ignore_ascii_case(b"id");
    let mut from = value_at;
    // The value may follow a scheme or a short wrapper: `Bearer ...`, `{AQAAABAAA ...}`.
    for field in 0..3 {
        let to = value_end(bytes, from, password);
        let (inner, to_inner) = without_marks(bytes, from, to, password);
        let value = &text[inner..to_inner];
        let cut = crate::secrets::is_cut(&bytes[to..])
            && !value.is_empty()
            && !(password && join == Join::Said && pauses(&bytes[to..]));
        if dummy_values::is_encrypted(&text[from..]) {
            return None;
        }
        let judged = if cut || identifier && dummy_values::is_uuid(value) {
            None
        } else {
            known.judge(text, (inner, to_inner, password, join))
        };
        let judged = judged.map(|score| (inner, to_inner, score));
        let found =
            judged.or_else(|| quoted(bytes, from, to, join).map(|(to, score)| (from, to, score)));
        if let Some((from, to, score)) = found {
            let whole = floor(text, start.saturating_sub(24));
            if false_positives::by_name(&text[whole..at], &text[at..from], &text[from..to])
                || false_positives::by_surroundings(bytes, at, from, to)
                || keyword.eq_ignore_ascii_case("pass")
                    && join == Join::Spaced
                    && dummy_values::is_numbered(&text[from..to])
            {
                return None;
            }
            let kind = if password { "password" } else { "assigned_secret" };
            return Some(Secret { kind, bytes: from..whole_end(bytes, from, to), score });
        }
        let is_closed = !value.is_empty() && is_quoted(bytes, from, to);
        let opened = &bytes[at..value_at];
        let is_argument = field == 0 && opened.contains(&b'(') && bytes.get(to + 1) == Some(&b',');
        let is_many = bytes[at - 1].eq_ignore_ascii_case(&b's') && opened.contains(&b'{');
        if value.len() > 12
            || to >= bytes.len()
            || join == Join::Spaced
            || password && !(is_closed && is_argument)
            || is_closed && !is_argument && !is_many
        {
            return None;
        }
        let gap = bytes[to..].iter().take(4).take_while(|b| b" \"'{(,:=|".contains(b)).count();
        if gap == 0 {
            return None;
        }
        from = to + gap;
    }
    None
}

/// Whether a name in `psk` names a key, and not how keys are agreed on: `WPA2-PSK`, `"psk": "WPA2-PSK"`.
fn is_shared_key(before: &[u8], behind: &[u8], value: &str) -> bool {
    const CIPHERS: &[&str] = &["wpa", "wep", "aes", "sha", "tkip", "ccmp", "gcmp"];
    let gap = behind.iter().take(3).take_while(|b| b" \"'".contains(b)).count();
    let is_signed = matches!(behind.get(gap), Some(b'=' | b':'));
    let lead: Vec<u8> = before.iter().rev().take(6).rev().map(u8::to_ascii_lowercase).collect();
    let is_protocol = [&b"wpa-"[..], b"wpa2-", b"wpa3-", b"wpa2", b"wpa3", b"wpa2_", b"wpa3_"]
        .iter()
        .any(|name| lead.ends_with(name));
    let is_cipher =
        |name: &&str| value.get(..name.len()).is_some_and(|v| v.eq_ignore_ascii_case(name));
    is_signed && !is_protocol && !CIPHERS.iter().any(is_cipher)
}

/// Whether a value stands in quotes.
fn is_quoted(bytes: &[u8], from: usize, to: usize) -> bool {
    matches!(bytes[from - 1], b'"' | b'\'') && bytes.get(to) == bytes.get(from - 1)
}

/// Whether dots behind a value are a pause of the sentence.
fn pauses(behind: &[u8]) -> bool {
    behind.strip_prefix(b"...").and_then(<[u8]>::first).is_some_and(u8::is_ascii_whitespace)
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
    if !(16..=128).contains(&length) || from + length <= to || reach[length] != quote {
        return None;
    }
    let value = std::str::from_utf8(&reach[..length]).ok()?;
    let has = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let signs = has(u8::is_ascii_punctuation);
    let live = has(u8::is_ascii_digit) >= 2
        // Django draws fifty of these, without capitals.
        && (has(u8::is_ascii_uppercase) >= 2 || length == 50 && signs >= 4)
        && has(u8::is_ascii_lowercase) >= 2
        && signs * 2 <= length
        && dummy_values::entropy(value) >= 3.5
        && !value.contains("://")
        && !dummy_values::is_template(value)
        && (signs >= 4 && has(u8::is_ascii_digit) >= 4 || !dummy_values::is_expression(value))
        && !dummy_values::is_stand_in(value);
    live.then_some((from + length, 0.75))
}

/// How live a value looks, if at all.
pub(super) fn judge(
    text: &str,
    from: usize,
    value: &str,
    password: bool,
    join: Join,
) -> Option<f64> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    // The cheap tests first: most words behind a name are short and hold no digit, and long values repeat themselves.
    let possible = if password {
        (6..=MAX_PASSWORD).contains(&value.len())
    } else {
        match value.len() {
            // So short a value is one behind few names.
            10..16 => join == Join::Assigned && digits >= 3 && is_strong(text, from),
            16..=MAX_VALUE => dummy_values::distinct(value) >= 6,
            _ => false,
        }
    };
    if !possible || !value.is_ascii() {
        return None;
    }
    let is_quoted = is_quoted(text.as_bytes(), from, from + value.len());
    if dummy_values::is_template(value)
        || !(password && is_quoted) && dummy_values::is_expression(value)
        || dummy_values::is_stand_in(value)
        || dummy_values::is_address(value)
        || dummy_values::is_public(value)
        || false_positives::is_digest(text, from, value)
    {
        return None;
    }
    if password {
        return chosen(value, join);
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let symbols = value.len() - digits - letters;
    if value.contains('#') && value.contains("###")
        || dummy_values::is_plain_data(value)
        || false_positives::repeats_name(text, from, value)
    {
        return None;
    }
    if dummy_values::is_uuid(value) {
        // Version 1 is made of a clock and an address of hardware, not of chance.
        let chance = value.as_bytes()[14] != b'1';
        let named = join == Join::Assigned || is_said(text, from, join);
        return (named && chance).then_some(0.75);
    }
    // Quotes let through more symbols; words of code show themselves by how many there are.
    let charset = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.+/=~!@#$%^*:".contains(&b))
        || symbols * 5 < value.len() && digits >= 3 && value.bytes().all(|b| b.is_ascii_graphic());
    let path = value.contains('/') && value.contains("://")
        || value.matches('/').count() > 2 && symbols * 5 > value.len()
        || value.starts_with(['/', '.', '#'])
        || value.starts_with('-') && (value.starts_with("--") || digits < 3);
    let random = value.len() >= 16
        && !dummy_values::is_versioned(value)
        && dummy_values::entropy(value) >= if digits > 0 { 3.0 } else { 3.4 }
        && !dummy_values::is_wordy(value);
    let long_enough = value.len() >= if join == Join::Assigned { 16 } else { 20 };
    let short = (12..16).contains(&value.len()) && letters >= 4 && dummy_values::is_jumbled(value);
    let number = letters == 0 && value.len() >= 20 && !dummy_values::is_counted(value);
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
        && !dummy_values::is_wordy(value)
        && text[floor(text, from.saturating_sub(16))..from].to_ascii_lowercase().contains("token");
    if header {
        return Some(0.7);
    }
    let chance = charset && !path && random && long_enough;
    (chance && (join != Join::Spaced || digits >= 2) && !dummy_values::spells_words(value))
        .then_some(0.8)
}

/// How live a value looks that a person may have chosen.
pub(super) fn chosen(value: &str, join: Join) -> Option<f64> {
    let count = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let symbols = value.len() - digits - letters;
    let random = letters >= 12
        && letters == value.len()
        && upper.min(lower) * 4 >= letters
        && join != Join::Spaced
        && !dummy_values::is_wordy(value);
    // A value drawn from one kind of sign, perhaps behind a word or two that name its owner: `acme_live_...`.
    let tail = value.rsplit(['_', '-']).next().unwrap_or(value);
    let uniform = tail.len() >= 16
        && join == Join::Assigned
        && (letters == 0 || !dummy_values::is_wordy(tail))
        // Ten digits can hold no more than 3.3 bits, and those of a short number hold less.
        && dummy_values::entropy(tail) >= if letters == 0 { 2.6 } else { 3.0 }
        && !dummy_values::is_counted(tail);
    let mixed = random
        || uniform
        || digits > 0 && letters > 0
        || symbols > 0 && letters > 0 && value.bytes().any(|b| b"!@#$%^&*?~+".contains(&b));
    let plain = upper > 0 || digits >= 2 || symbols > 0;
    // A value that was drawn and encoded: no person has chosen it.
    let drawn = value.len() >= 16
        && join == Join::Assigned
        && digits.min(upper).min(lower) >= 2
        && dummy_values::is_scrambled(value.as_bytes())
        && !dummy_values::is_wordy(value);
    let path = value.contains('/') && !value.contains('!') && !drawn || value.contains("://");
    let other = dummy_values::is_measure(value) || dummy_values::is_type(value);
    let sure = mixed
        && plain
        && !path
        && !other
        && !(join == Join::Spaced && digits == 0)
        && (value.len() <= MAX_CHOSEN || drawn);
    sure.then_some(if join == Join::Assigned { 0.85 } else { 0.75 })
}

/// Whether a sentence gives a UUID as a secret: behind the last word of its name, in quotes, behind a verb or on request.
fn is_said(text: &str, from: usize, join: Join) -> bool {
    const OTHERS: &[&str] = &[
        "next",
        "page",
        "continuation",
        "request",
        "csrf",
        "xsrf",
        "sync",
        "cancellation",
        "cursor",
    ];
    let lead = text[floor(text, from.saturating_sub(64))..from].to_ascii_lowercase();
    let lead = lead.rsplit('\n').next().unwrap_or_default();
    let words: Vec<&str> =
        lead.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let is_joint = |word: &&&str| ["is", "was", "to", "as", "on"].contains(*word);
    let end = words.len() - words.iter().rev().take(2).take_while(is_joint).count();
    let Some(&last) = words[..end].last() else { return false };
    let before = if end > 1 { words[end - 2] } else { "" };
    let is_named = ["token", "secret", "apikey", "accesskey"].iter().any(|n| last.ends_with(n))
        || last == "key" && ["api", "access"].contains(&before);
    let is_asked =
        || words[..end].iter().any(|w| ["set", "setx", "use", "using", "export"].contains(w));
    is_named && !OTHERS.contains(&before) && (join != Join::Spaced || is_asked())
}

/// Whether the name in front leaves no doubt that a secret follows, however short.
fn is_strong(text: &str, from: usize) -> bool {
    let lead = text[floor(text, from.saturating_sub(24))..from].bytes();
    // `api key`, `api_key`, `api-key`, `apiKey`
    let lead: Vec<u8> =
        lead.filter(|b| !b" _-".contains(b)).map(|b| b.to_ascii_lowercase()).collect();
    let has = |name: &[u8]| lead.windows(name.len()).any(|part| part == name);
    [&b"token"[..], b"secret", b"apikey", b"accesskey", b"accessid"].into_iter().any(has)
}
