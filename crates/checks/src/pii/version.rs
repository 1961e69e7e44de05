//! Numbers of versions and of sections, which are written like addresses of a network.

use crate::pii::context;
use crate::pii::view::{View, before};
use crate::text::words::{free_after, is_hump, is_one_of};
use crate::vocabulary::contexts::Context;

/// Words that lead up to the address of a machine. They end the names of fields, too: `client_ip`, `remoteAddr`.
#[rustfmt::skip]
const ADDRESSES: &[&str] = &[
    "ip", "ips", "ipv", "addr", "address", "addresses", "host", "hosts", "hostname", "server", "servers",
    "node", "router", "gateway", "dns", "nameserver", "resolver", "subnet", "network", "cidr",
    "range", "mask", "netmask", "ping", "traceroute", "curl", "wget", "ssh", "telnet", "nslookup", "dig",
    "proxy", "client", "peer", "inet", "default", "localhost", "broadcast", "block", "blocked",
    "allow", "deny", "denied", "ban", "banned", "drop", "dropped", "listen", "bind", "source", "src",
    "dst", "dest", "destination", "remote", "local", "machine", "reach", "visit", "connect", "add",
    "login", "get", "post", "mx", "root", "admin", "user", "attacker", "visitor", "request", "requests",
    "endpoint", "device", "interface", "route", "forwarded", "dirección", "adresse", "indirizzo",
    "endereço", "adres", "адрес", "地址", "主机", "服务器",
];
/// Prepositions that lead up to machines, unless what changes from one version to the next was spoken of.
const PLACES: &[&str] =
    &["from", "to", "at", "on", "via", "von", "an", "auf", "desde", "da", "depuis", "od", "z"];
/// Words that do not name what follows: those before do.
#[rustfmt::skip]
const SMALL: &[&str] = &[
    "is", "was", "are", "of", "for", "by", "and", "or", "the", "in", "with", "through", "into", "use",
    "using", "number", "no", "as", "ist", "es", "est",
];
/// Words that are used of versions, by their beginning.
#[rustfmt::skip]
const CHANGES: &[&str] = &[
    "version", "upgrad", "updat", "downgrad", "bump", "migrat", "chang", "fix", "introduc", "deprecat", "standards",
    "compat",
];
/// Things numbered by their versions alone, however large: no machine is called so.
const VERSIONED: &[&str] = &["firmware", "fw", "bios", "uefi", "kernel", "rev", "revision"];
/// Words that a version follows only near the mention of a change; they may stand on machines, too.
const CHANGED: &[&str] = &["build", "driver", "drivers"];
/// Products whose versions begin with 10, as do addresses of private networks.
#[rustfmt::skip]
const TENTH: &[&str] = &[
    "macos", "osx", "os", "x", "ios", "windows", "oracle", "database", "mariadb", "postgresql", "solaris",
];

/// Whether what is written like an address is rather the number of a version or of a section, told by what leads up to
/// it. One with a port or the length of a prefix is `sure` not to be, but for the word right before it.
pub(super) fn is_numbering(view: &View<'_>, start: usize, text: &str, sure: bool) -> bool {
    let bytes = view.bytes;
    // "v1.2.3.4", or a "v" that ends a word just in front.
    let marked = (start.saturating_sub(3)..=start)
        .any(|end| end > 0 && matches!(bytes[end - 1], b'v' | b'V') && free_after(bytes, end));
    let stuck = start >= 2 && bytes[start - 2].is_ascii_alphanumeric();
    if marked
        || stuck && bytes[start - 1] == b'.'
        || context::leads(view.scan, Context::Version, start, 3)
    {
        return true;
    }
    let near = before(view.text, start, 64);
    let line = &near[memchr::memrchr(b'\n', near.as_bytes()).map_or(0, |at| at + 1)..];
    let lead = line.trim_end_matches(is_mark);
    let word = lead.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if ends_with_version(word) {
        return true;
    }
    let word = last_part(word);
    let named = word.starts_with(char::is_alphabetic);
    let is = |list: &[&str]| named && is_one_of(word, list);
    let marks = &line[lead.len()..];
    let local = text.starts_with("192.168.") || text.starts_with("127.");
    if !sure
        && !local
        && (is(VERSIONED)
            || is(CHANGED) && says(near, is_change)
            || word.eq_ignore_ascii_case("to") && is_upgraded(lead))
    {
        return true;
    }
    if sure || is(ADDRESSES) || marks.is_empty() && !line.is_empty() || marks.ends_with("//") {
        return false;
    }
    // `12:01:22 5.9.12.3`: a time is no product.
    let timed = lead.len() >= 5 && lead.as_bytes()[lead.len() - 3] == b':';
    if timed && word.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    if word.is_empty() {
        // A heading, but not where the text begins: that may be all that is said.
        let heads = lead.is_empty() && line.len() < near.len() && !text.starts_with("10.");
        // The first field of a server's log is no heading.
        let is_logged = view.text[start + text.len()..].starts_with(" - ");
        let heads = heads && !is_logged && !line.contains('"') && !says(near, is_address);
        return is_small(text) && (heads || lead.ends_with('§'));
    }
    let private = text.starts_with("10.") && !is(TENTH);
    if is(PLACES) {
        return is_small(text) && !private && says(lead, is_change);
    }
    if is(SMALL) {
        return is_small(text) && !private && !says(lead, is_address);
    }
    !private
        && (is_small(text)
            || text.ends_with(".0.0.0") && !text.starts_with('0') && !text.starts_with("127"))
}

/// "firmware upgraded to"
fn is_upgraded(lead: &str) -> bool {
    let before = lead[..lead.len() - 2].trim_end();
    let change = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    is_change(change) && says(before, |word| is_one_of(word, VERSIONED))
}

/// Whether a sign may stand between a name and its value, or in front of a heading.
fn is_mark(sign: char) -> bool {
    matches!(
        sign,
        ' ' | '\t'
            | '\r'
            | '"'
            | '\''
            | '`'
            | '('
            | '['
            | '<'
            | '>'
            | '='
            | ':'
            | '@'
            | '/'
            | '-'
            | '_'
            | '~'
            | '^'
            | '*'
            | '#'
    )
}

/// Whether all numbers are as small as those of versions are, and it is no known resolver.
fn is_small(text: &str) -> bool {
    !matches!(text, "0.0.0.0" | "1.1.1.1" | "8.8.8.8" | "9.9.9.9")
        && text.split('.').all(|part| part.len() < 2 || part.len() == 2 && part < "32")
}

fn ends_with_version(word: &str) -> bool {
    let at = word.len().saturating_sub("version".len());
    word.get(at..).is_some_and(|end| end.eq_ignore_ascii_case("version"))
}

/// The last part of a name, without its number: of `remoteAddr`, of `server1`.
fn last_part(word: &str) -> &str {
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let name = if name.is_empty() { word } else { name };
    let hump = (1..name.len()).rfind(|&at| is_hump(name.as_bytes(), at));
    &name[hump.unwrap_or_default()..]
}

/// Whether one of the words of a text is of a kind.
fn says(text: &str, is_of_kind: fn(&str) -> bool) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| is_of_kind(last_part(word)))
}

fn is_address(word: &str) -> bool {
    is_one_of(word, ADDRESSES)
}

fn is_change(word: &str) -> bool {
    let begins =
        |begin: &&str| word.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin));
    CHANGES.iter().any(begins)
}
