//! Random values behind names that announce a secret: `api_key = "..."`, `<token>...</token>`, `password is ...`.

use crate::scan::Scan;
use crate::secrets::assignment_operator::{Join, joined};
use crate::secrets::score::{is_quoted, judge};
use crate::secrets::secret::Secret;
use crate::secrets::value_span::{self, MAX_VALUE, value_end, whole_end, without_marks};
use crate::secrets::{distant_assignment, false_positives, label, surroundings};
use crate::text::words::floor;
use crate::text::{randomness, source_code};
use crate::vocabulary::dummy_values;
use crate::vocabulary::secret_names::{is_password, is_psk};

/// The most names that are examined in one run without spaces, quotes and brackets: each may read the rest of the run.
const NAMES_IN_RUN: u32 = 5;
/// The bytes before a name that are searched for words that change its meaning.
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
            || surroundings::is_in_base64(bytes, start)
            || surroundings::is_below_base64(bytes, start) && !is_separated(&bytes[at..]);
        (!is_other).then_some(Self { keyword, start, end: at, value, join })
    }
}

/// Whether a character outside the base64 alphabet follows a name, or a space and more. `=` may be padding.
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
        let cut = surroundings::is_cut(&bytes[to..])
            && !value.is_empty()
            && !(password && join == Join::Said && pauses(&bytes[to..]));
        if dummy_values::is_encrypted(&text[from..]) {
            return None;
        }
        let judged = if cut || identifier && randomness::is_uuid(value) {
            None
        } else {
            known.judge(text, (inner, to_inner, password, join))
        };
        let judged = judged.map(|score| (inner, to_inner, score));
        let found =
            judged.or_else(|| quoted(bytes, from, to, join).map(|(to, score)| (from, to, score)));
        if let Some((from, to, score)) = found {
            let whole = floor(text, start.saturating_sub(24));
            // The name is that of a page, and its first parameter has one of its own: `/keys?cursor=...`.
            let is_page = &bytes[at..value_at] == b"?" && bytes[..from].ends_with(b"=");
            if is_page
                || false_positives::by_name(&text[whole..at], &text[at..from], &text[from..to])
                || label::is_reference(&text[whole..at], keyword)
                || false_positives::by_surroundings(bytes, at, from, to)
                || keyword.eq_ignore_ascii_case("pass")
                    && join == Join::Spaced
                    && randomness::is_numbered(&text[from..to])
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
        && randomness::entropy(value) >= 3.5
        && !value.contains("://")
        && !source_code::is_template(value)
        && (signs >= 4 && has(u8::is_ascii_digit) >= 4 || !source_code::is_expression(value))
        && !dummy_values::is_stand_in(value);
    live.then_some((from + length, 0.75))
}
