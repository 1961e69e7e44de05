//! Credentials recognized by their structure: key blocks, signed tokens, URLs and connection strings with passwords.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use memchr::memmem;
use regex::Regex;

use crate::scan::{Scan, runs};
use crate::secrets::assignment_operator::Join;
use crate::secrets::score::chosen;
use crate::secrets::secret::Secret;
use crate::secrets::{key_block, url};
use crate::text::randomness;
use crate::text::spans::Span;
use crate::text::words::{ceil, floor, is_name};
use crate::vocabulary::contexts::Context;
use crate::vocabulary::credential_rules::{LOGIN, RULES, Rule, Seek, seek};
use crate::vocabulary::dummy_values;

/// A search for the mark of each rule, and its expression once the mark was met: most never are.
static COMPILED: LazyLock<Vec<(memmem::Finder<'static>, OnceLock<Option<Regex>>)>> =
    LazyLock::new(|| {
        RULES.iter().map(|rule| (memmem::Finder::new(rule.mark), OnceLock::new())).collect()
    });

/// Finds all of them.
pub(super) fn find(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) {
    let marked = |index: usize| scan.marks >> index & 1 == 1;
    if marked(RULES.len()) {
        key_block::find(text, found, limit);
    }
    if marked(RULES.len() + 1) {
        url::find(text, found, limit);
    }
    if scan.long_runs {
        wallet_keys(text, scan, found, limit);
        dotted_tokens(text, found, limit);
        piped_tokens(text, found, limit);
    }
    let possible =
        |&index: &usize| if seek(index) == Seek::Run { scan.long_runs } else { marked(index) };
    for index in (0..RULES.len()).filter(possible) {
        by_rule(text, index, found, limit);
    }
}

/// Finds what one rule describes near its marks.
fn by_rule(text: &str, index: usize, found: &mut Vec<Secret>, limit: usize) {
    let (rule, (finder, pattern)) = (&RULES[index], &COMPILED[index]);
    let most = found.len() + limit;
    let near = |at: usize| {
        let end = (at + rule.mark.len() + rule.after).min(text.len());
        floor(text, at.saturating_sub(rule.before))..ceil(text, end)
    };
    let mut marks = finder.find_iter(text.as_bytes()).peekable();
    while let Some(at) = marks.next() {
        if rule.before > 1 && !(at > 0 && is_token(text.as_bytes()[at - 1])) {
            continue;
        }
        if rule.mark == "identified "
            && !is_statement(&text[floor(text, at.saturating_sub(120))..at])
        {
            continue;
        }
        let Some(pattern) = pattern.get_or_init(|| Regex::new(rule.pattern).ok()) else { return };
        let Range { start, mut end } = near(at);
        if !rule.pattern.starts_with('^') {
            while let Some(next) = marks.next_if(|&next| near(next).start <= end) {
                end = near(next).end;
            }
        }
        let reach = &text[start..end];
        let mut from = 0;
        let value = |from| pattern.captures_at(reach, from).and_then(|c| c.get(1).or(c.get(2)));
        while let Some(value) = value(from) {
            if let Some(score) = liveness(rule, value.as_str()) {
                let bytes = start + value.start()..start + value.end();
                found.push(Secret { kind: rule.kind, bytes, score });
            }
            // A mark in front announces one value; where it is a part of the value the next one has its own.
            let behind = value.end();
            let next = if rule.before > 0 {
                Some(behind)
            } else {
                finder.find(&reach.as_bytes()[behind..]).map(|at| behind + at)
            };
            let Some(next) = next.filter(|_| found.len() < most) else { break };
            from = next;
        }
        if found.len() >= most {
            return;
        }
    }
}

/// Whether a statement of SQL is under way that gives a user a password; in small letters sentences have the same words.
fn is_statement(lead: &str) -> bool {
    const VERBS: [&str; 3] = ["create", "alter", "grant"];
    let lead = lead.rsplit(';').next().unwrap_or_default();
    let lead = lead.rsplit(". ").next().unwrap_or_default().to_ascii_lowercase();
    let has = |words: &[&str]| lead.split_ascii_whitespace().any(|word| words.contains(&word));
    has(&VERBS) && has(&["user", "role", "to"])
}

/// Whether a byte may stand in front of a mark that is in the middle of a credential.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_+/".contains(&byte)
}

/// How live the value of a rule looks.
fn liveness(rule: &Rule, value: &str) -> Option<f64> {
    // The line of a registry's configuration names it, whatever it is filled with.
    if rule.kind == "npm_token" && value.starts_with("npm_") {
        return Some(if dummy_values::is_masked(&value[4..]) { 0.55 } else { rule.score });
    }
    is_live(rule.kind, value).then_some(rule.score)
}

/// Words that tests of programs make passwords of, with a number behind them.
#[rustfmt::skip]
const SAMPLES: [&str; 20] = [
    "test", "testpass", "testuser", "testing", "foo", "bar", "baz", "foobar", "pass", "user", "username", "admin", "secret", "demo",
    "guest", "root", "qwerty", "abc", "mypass", "newpass",
];
const CHARSETS: [&str; 5] = ["utf8", "utf-8", "latin1", "iso-8859", "iso8859"];

fn is_live(kind: &str, value: &str) -> bool {
    let is_like = match kind {
        LOGIN => {
            let lower = value.to_ascii_lowercase();
            // As tests of programs and documentation write them.
            let stem = lower.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            let is_setting = value.split_once('=').is_some_and(|(name, rest)| {
                name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_')
                    && rest.starts_with(|c: char| c.is_ascii_alphanumeric())
            });
            let is_sample = ["password", "passwd", "anonymous"].iter().any(|w| lower.contains(w))
                || SAMPLES.contains(&stem)
                || CHARSETS.iter().any(|set| lower.contains(set))
                || is_setting;
            value.is_ascii() && !is_sample && chosen(value, Join::Said).is_some()
        }
        "basic_auth" => value.contains(':') || randomness::is_mixed(value),
        _ => true,
    };
    let clock = kind == "npm_token" && randomness::is_uuid(value) && !is_random_uuid(value);
    is_like && !clock && dummy_values::is_live_login(value)
}

/// UUIDs of version 1 carry a clock: not made to be secret.
fn is_random_uuid(value: &str) -> bool {
    value.as_bytes().get(14) == Some(&b'4')
}

/// Keys of wallets, sixty-four hexadecimal digits, near a word that names one. Hashes of transactions look the same: they
/// have a word of their own in front.
fn wallet_keys(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) {
    let most = found.len() + limit;
    let mut done = 0;
    let wallets = scan.contexts.iter().filter(|hit| hit.meaning == Context::Wallet);
    for Range { start, end } in wallets.map(Span::range) {
        if found.len() >= most {
            break;
        }
        let from = floor(text, start.saturating_sub(160).max(done));
        let to = floor(text, (end + 160).min(text.len()));
        done = done.max(to);
        for at in memmem::find_iter(text.get(from..to).unwrap_or_default().as_bytes(), b"0x") {
            let begin = from + at;
            let key = &text.as_bytes()[begin + 2..];
            let length = key.iter().take(65).take_while(|b| b.is_ascii_hexdigit()).count();
            if length != 64 || !begins(text.as_bytes(), begin) {
                continue;
            }
            let lead = text[floor(text, begin.saturating_sub(24))..begin].to_ascii_lowercase();
            let other = ["tx", "hash", "transaction", "block", "root", "sign"];
            if !other.iter().any(|word| lead.contains(word)) {
                let bytes = begin..begin + 66;
                found.push(Secret { kind: "wallet_private_key", bytes, score: 0.55 });
            }
        }
    }
}

/// Whether no name in code runs into `at` from the left.
fn begins(text: &[u8], at: usize) -> bool {
    at == 0 || !is_name(text[at - 1])
}

/// Tokens of parts joined by dots: JWTs (`eyJ...`) and Discord bot tokens.
fn dotted_tokens(text: &str, found: &mut Vec<Secret>, limit: usize) {
    let bytes = text.as_bytes();
    let url = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let run = |from: usize| {
        bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|b| url(b)).count())
    };
    let mut done = 0;
    let most = found.len() + limit;
    for dot in memchr::memchr_iter(b'.', bytes) {
        if dot < done || found.len() >= most {
            continue;
        }
        let first = bytes[done..dot].iter().rev().take(2000).take_while(|b| url(b)).count();
        let start = dot - first;
        if first < runs::LONG_RUN as usize {
            continue;
        }
        // Something may be joined to it: `ghs_123_eyJ...`, `token-eyJ...`, a line's end written as `\n`.
        let lead = memmem::find(&bytes[start..dot], b"eyJ").map_or(start, |at| start + at);
        let start = if lead > start && bytes[lead - 1] == b'_' { start } else { lead };
        let second = run(dot + 1);
        let third =
            if bytes.get(dot + 1 + second) == Some(&b'.') { run(dot + 2 + second) } else { 0 };
        let end = if third > 0 { dot + 2 + second + third } else { dot + 1 + second };
        done = dot + 1;
        if bytes[lead..].starts_with(b"eyJ") && second >= 10 && is_json_head(&bytes[lead..dot]) {
            found.push(Secret { kind: "jwt", bytes: start..end, score: 0.9 });
        } else if (23..=30).contains(&first)
            && second == 6
            && (27..=40).contains(&third)
            && b"MNO".contains(&bytes[start])
            && begins(bytes, start)
            && bytes[start..dot].iter().any(u8::is_ascii_digit)
            && !bytes.get(end).is_some_and(|&b| is_name(b))
        {
            found.push(Secret { kind: "discord_bot_token", bytes: start..end, score: 0.9 });
        }
    }
}

/// Tokens of applications of Facebook: an identifier of fifteen or sixteen digits, a bar, twenty-seven characters.
fn piped_tokens(text: &str, found: &mut Vec<Secret>, limit: usize) {
    let bytes = text.as_bytes();
    let most = found.len() + limit;
    for bar in memchr::memchr_iter(b'|', bytes) {
        let digits = bytes[..bar].iter().rev().take(17).take_while(|b| b.is_ascii_digit()).count();
        if !matches!(digits, 15 | 16) || !begins(bytes, bar - digits) || found.len() >= most {
            continue;
        }
        let is_part = |b: &&u8| is_name(**b) || **b == b'-';
        let length = bytes[bar + 1..].iter().take(28).take_while(is_part).count();
        let end = bar + 1 + length;
        if length == 27 && randomness::is_mixed(&text[bar + 1..end]) {
            let bytes = bar - digits..end;
            found.push(Secret { kind: "facebook_app_token", bytes, score: 0.9 });
        }
    }
}

/// Whether base64 decodes to the beginning of a JSON object that names an algorithm or a type.
fn is_json_head(encoded: &[u8]) -> bool {
    let decoded = crate::text::base64::base64(encoded, 400);
    let names = ["\"alg\"", "\"typ\"", "\"enc\"", "\"kid\""];
    decoded.starts_with(b"{\"")
        && names.iter().any(|name| memmem::find(&decoded, name.as_bytes()).is_some())
}
