//! Credentials: by the format a provider gives them, by where they stand, by the name they are assigned to.

#[cfg(test)]
mod anywhere_tests;
mod assigned;
#[cfg(test)]
mod assigned_tests;
mod assignment_operator;
mod distant_assignment;
mod false_positives;
mod formatted;
pub(crate) mod key_block;
mod label;
#[cfg(test)]
mod reference_tests;
mod score;
pub(crate) mod secret;
mod structured;
#[cfg(test)]
mod structured_tests;
mod surroundings;
#[cfg(test)]
pub(crate) mod tests;
mod url;
mod value_span;

use crate::pattern::watch::Watch;
use crate::scan::Scan;
use secret::Secret;

/// All credentials of a text, in order, without overlaps.
pub(crate) fn find(text: &str, scan: &Scan, limit: usize, watch: &Watch<'_>) -> Vec<Secret> {
    let mut found = Vec::new();
    formatted::find(text, scan, &mut found, limit);
    if !watch.is_over() {
        structured::find(text, scan, &mut found, limit);
    }
    if !watch.is_over() {
        assigned::find(text, scan, &mut found, limit);
    }
    apart(text, found, limit)
}

/// Returns the secrets in order, without overlaps: the surer one stays, and the other keeps only its part in front of
/// it, if that is long enough to be a credential alone.
fn apart(text: &str, mut found: Vec<Secret>, limit: usize) -> Vec<Secret> {
    found.sort_by(|a, b| a.bytes.start.cmp(&b.bytes.start).then(b.bytes.end.cmp(&a.bytes.end)));
    let mut kept: Vec<Secret> = Vec::new();
    for secret in found {
        match kept.last_mut() {
            Some(last) if last.bytes.end > secret.bytes.start => {
                if secret.score > last.score {
                    last.bytes.end = secret.bytes.start;
                    if !stands_alone(&text[last.bytes.clone()]) {
                        kept.pop();
                    }
                    kept.push(secret);
                }
            }
            _ => kept.push(secret),
        }
    }
    kept.truncate(limit);
    kept
}

/// Whether the beginning of a value is a password of its own: `Kd92mQx1Lp` of `Kd92mQx1Lp@db/x,AKIA...`.
fn stands_alone(value: &str) -> bool {
    let has = |class: fn(&u8) -> bool| value.bytes().any(|b| class(&b));
    value.len() >= 6 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}
