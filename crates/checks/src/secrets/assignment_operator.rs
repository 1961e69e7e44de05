//! The text between the name of a secret and its value: signs, words of many languages, tags.

use memchr::memmem;

/// How a name and its value are joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Join {
    /// `=`, `:`, `=>`, quotes, brackets, tags.
    Assigned,
    /// "is" or "was", or a quote right behind the word.
    Said,
    /// Only a space.
    Spaced,
}

/// Words that join a name and its value, with the space behind them where their script has such.
const SAID: &[&str] = &[
    "is ", "as ", "was ", "ist ", "est ", "lautet ", "è ", "é ", "es ", "er ", "är ", "on ", "to ",
    "jest ", "là ", "は", "是", "为", "為", "은 ", "는 ",
];

/// Signs of other scripts than ASCII that stand in front of a value: an arrow, quotes.
const SIGNS: &[&str] = &["→", "“", "„", "«", "‘", "‚"];

/// Types that stand between a name and its value.
const TYPES: &[&str] = &["string ", "&str ", "&'static str ", "str ", "&[u8] "];

/// Letters that make a string of another kind of what is in the quotes behind them.
const STRING_KINDS: &[u8] = b"bBrRuUfF@";

/// How far behind its name a value begins, but for tags and blocks.
const MAX_JOINT: usize = 24;
/// How far behind its name the default of a variable of Terraform begins.
const MAX_BLOCK: usize = 160;

/// Returns the start of the value behind a name that ends at `from`, and their join. `lead` is the name and the text in
/// front of it.
pub(super) fn joined(bytes: &[u8], lead: &str, from: usize) -> Option<(usize, Join)> {
    if bytes[from..].starts_with(b"</") {
        return next_element(bytes, from).map(|at| (at, Join::Assigned));
    }
    if let Some(at) = value_field(bytes, from) {
        return Some((at, Join::Assigned));
    }
    let mut at = from;
    let mut join = Join::Spaced;
    while at < bytes.len() && at - from < MAX_JOINT {
        let rest = &bytes[at..];
        match bytes[at] {
            b'=' | b':' | b'>' | b'(' | b'?' | b'|' => join = Join::Assigned,
            b'"' | b'\'' | b'`' if join == Join::Spaced => join = Join::Said,
            b' ' | b'\t' | b'"' | b'\'' | b'`' | b'{' | b'[' | b']' => {}
            // Base64 has the first, and its lines are joined by the second and an `n`.
            b'+' if join != Join::Spaced => {}
            b'\\' => match rest.get(1) {
                Some(b'"' | b'\'' | b'\\') => {}
                Some(b't') => at += 1,
                Some(b'n' | b'r') if join == Join::Assigned => at += 1,
                _ if join == Join::Assigned => {}
                _ => return None,
            },
            b',' if join == Join::Said => join = Join::Assigned,
            b'*' if closes_emphasis(&bytes[at - 1..]) => {}
            b'<' | b'@' | b'#' | b'-' if at > from => {}
            b'\n' | b'\r' if join == Join::Assigned => {}
            _ if let Some((word, length)) = said(rest) => {
                if !fits(word, lead) {
                    return None;
                }
                join = Join::Said;
                at += length - 1;
            }
            0x80..
                if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) =>
            {
                join = if sign.starts_with('→') { Join::Assigned } else { Join::Said };
                at += sign.len() - 1;
            }
            _ if let Some(name) = TYPES.iter().find(|name| begins_with(rest, name)) => {
                at += name.len() - 1;
            }
            b if STRING_KINDS.contains(&b)
                && join == Join::Assigned
                && matches!(rest.get(1), Some(b'"' | b'\'')) => {}
            b if at > from && (b.is_ascii_alphanumeric() || b.is_ascii_punctuation()) => {
                return Some((at, join));
            }
            _ => return None,
        }
        at += 1;
    }
    None
}

/// The word of those that join that a text begins with, and how much of the text it takes: a sign may stand behind it in
/// place of the space, as in "the password is: ...".
fn said(text: &[u8]) -> Option<(&'static str, usize)> {
    let &first = text.first()?;
    let candidates = SAID.iter().filter(|word| word.as_bytes()[0] == first);
    candidates.copied().find_map(|word| {
        let bare = word.trim_ascii_end();
        let is_signed =
            || bare.len() < word.len() && matches!(text.get(bare.len()), Some(b':' | b'='));
        if text.starts_with(word.as_bytes()) {
            Some((word, word.len()))
        } else {
            (text.starts_with(bare.as_bytes()) && is_signed()).then_some((word, bare.len()))
        }
    })
}

fn begins_with(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|lead| lead.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a word joins a name to its value: some are ordinary words of another language.
fn fits(word: &str, lead: &str) -> bool {
    let lead = lead.to_ascii_lowercase();
    let is_set = || {
        let verbs = ["set", "change", "changed", "changing", "reset", "update", "updated"];
        lead.split(|c: char| !c.is_ascii_alphabetic()).any(|word| verbs.contains(&word))
    };
    match word {
        "on " => lead.ends_with("salasana"),
        "to " => is_set(),
        "is " | "was " => true,
        // "All tests pass as ..."
        _ => !lead.ends_with("pass"),
    }
}

/// Whether asterisks end the emphasis of a name, by what stands in front of them and behind: no value begins with them.
fn closes_emphasis(bytes: &[u8]) -> bool {
    let rest = bytes.iter().skip(1).take(4).find(|&&b| b != b'*');
    !matches!(bytes[0], b'"' | b'\'') && rest.is_some_and(|rest| b" :=-".contains(rest))
}

/// Returns the start of the text of the next element behind the end of one: `<key>Token</key><string>...`,
/// `<td>Password</td><td>...`.
fn next_element(bytes: &[u8], from: usize) -> Option<usize> {
    const HOLDERS: [&[u8]; 7] = [b"td", b"dd", b"string", b"code", b"value", b"b", b"span"];
    let tag_end = |at: usize| bytes[at..].iter().take(60).position(|&b| b == b'>');
    let mut at = from + tag_end(from)? + 1;
    for _ in 0..3 {
        at += bytes[at..].iter().take(40).take_while(|b| b.is_ascii_whitespace()).count();
        let Some(b'<') = bytes.get(at) else { break };
        let name = &bytes[at + 1..];
        let name = &name[..name.iter().take(8).take_while(|b| b.is_ascii_alphanumeric()).count()];
        if !HOLDERS.iter().any(|holder| holder.eq_ignore_ascii_case(name)) {
            return None;
        }
        at += tag_end(at)? + 1;
    }
    bytes.get(at).filter(|&&b| b.is_ascii_graphic() && b != b'<').map(|_| at)
}

/// Returns the start of the value when the name is itself a value, and the next field holds the secret:
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
    let word = [&b"value"[..], b"default"].into_iter().find(is).filter(|_| field > from);
    let behind = match word {
        Some(word) => field + word.len(),
        None => default(bytes, from, field)?,
    };
    let join = gap(behind, b"\"'");
    matches!(bytes.get(join), Some(b':' | b'=')).then(|| gap(join + 1, b"\"'"))
}

/// Returns the end of the word "default" in the block that begins between a name and its first field.
fn default(bytes: &[u8], from: usize, field: usize) -> Option<usize> {
    memchr::memchr(b'{', &bytes[from..field])?;
    let block = &bytes[field..bytes.len().min(field + MAX_BLOCK)];
    let block = &block[..memchr::memchr(b'}', block).unwrap_or(block.len())];
    memmem::find(block, b"default").map(|at| field + at + b"default".len())
}
