//! The caller's place in a distributed trace, as W3C Trace Context describes it.

use std::fmt;
use std::sync::Arc;

use crate::ids::{StepId, TraceId};

/// The bytes of a `traceparent`.
pub const TRACEPARENT_BYTES: usize = 55;
/// The most bytes of a `tracestate` that is passed on.
pub const MOST_TRACESTATE_BYTES: usize = 512;

/// The most entries of a `tracestate`.
const MOST_ENTRIES: usize = 32;
/// The most characters of a key or a value of a `tracestate`.
const MOST_CHARACTERS: usize = 256;
/// The flags that the standard defines: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 0b01;

/// A trace, and the span in it that a request came from. Both ids are never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    parent: u64,
    flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`. `None` if it is not valid, to the letter: then it is as if it were not there.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != TRACEPARENT_BYTES {
            return None;
        }
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            u128::from_str_radix(part, 16).ok().filter(|_| is_hex)
        };
        let (version, trace) = (hex(2)?, hex(32)?);
        let parent = u64::try_from(hex(16)?).ok()?;
        let flags = u8::try_from(hex(2)?).ok()? & KNOWN_FLAGS;
        let is_valid = version != 0xff && trace != 0 && parent != 0 && parts.next().is_none();
        is_valid.then_some(Self { trace, parent, flags })
    }

    /// The context of the steps of a trace whose caller named none: the distributed trace has the id of
    /// the trace, and the parent is the span of the trace as a whole.
    pub fn of_trace(trace: TraceId) -> Self {
        let trace = trace.0.as_u128();
        let parent = mixed((trace >> 64) as u64 ^ trace as u64).max(1);
        Self { trace, parent, flags: SAMPLED }
    }

    /// The id of the trace as a number.
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// The id of the span that the request came from, as a number.
    pub fn parent(&self) -> u64 {
        self.parent
    }

    /// The flags.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether the caller records this trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The id of the span that the request came from: 16 hexadecimal digits.
    pub fn parent_id(&self) -> String {
        format!("{:016x}", self.parent)
    }

    /// The context for the calls of a step: the same trace, and the step's own span as the parent. The
    /// span follows from the step and its own parent, so that it need not be stored, and differs
    /// between gateways that serve the same trace.
    #[must_use]
    pub fn of_step(&self, step: StepId) -> Self {
        let half = (self.trace >> 64) as u64 ^ self.trace as u64;
        let span = mixed(mixed(half ^ self.parent).wrapping_add(step.0.unsigned_abs()));
        Self { parent: span.max(1), ..*self }
    }
}

/// Spreads the bits of a number (the last step of `SplitMix64`).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.parent, self.flags)
    }
}

/// The context of a request, with what other systems have noted in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerTrace {
    /// The `traceparent`.
    pub context: TraceContext,
    /// The `tracestate`, if it is valid: it is passed on as it came.
    pub state: Option<Arc<str>>,
}

impl CallerTrace {
    /// The headers for the calls of a step.
    #[must_use]
    pub fn of_step(&self, step: StepId) -> Self {
        Self { context: self.context.of_step(step), state: self.state.clone() }
    }
}

/// Whether a `tracestate` is valid, and short enough to be passed on.
pub fn is_tracestate(text: &str) -> bool {
    if text.len() > MOST_TRACESTATE_BYTES {
        return false;
    }
    let entries = || text.split(',').map(|entry| entry.trim_matches([' ', '\t']));
    let named = || entries().filter(|entry| !entry.is_empty());
    let key = |entry: &str| entry.split('=').next().map(str::to_owned);
    let keys: std::collections::BTreeSet<_> = named().map(key).collect();
    let count = named().count();
    (1..=MOST_ENTRIES).contains(&count) && keys.len() == count && named().all(is_entry)
}

fn is_entry(entry: &str) -> bool {
    let Some((key, value)) = entry.split_once('=') else { return false };
    let in_key =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    let begins = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let tenants = key.split('@').count() <= 2 && key.split('@').all(begins);
    let in_value = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    key.len() <= MOST_CHARACTERS
        && tenants
        && key.bytes().all(in_key)
        && (1..=MOST_CHARACTERS).contains(&value.len())
        && value.bytes().all(in_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_parent_is_read_and_written_as_it_was() {
        let context = TraceContext::parse(VALID).unwrap();
        assert_eq!(context.to_string(), VALID);
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent_id(), "00f067aa0ba902b7");
        // Newer versions are read as far as this one goes, and unknown flags are cleared.
        let newer = VALID.replacen("00-", "cc-", 1).replace("-01", "-fd");
        assert_eq!(TraceContext::parse(&newer), Some(context));
    }

    #[test]
    fn anything_else_is_none() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        for text in [
            "",
            "00",
            &VALID.to_uppercase(),
            &format!("{VALID}-"),
            &format!(" {VALID}"),
            &VALID.replacen("00-", "ff-", 1),
            &VALID.replacen("00-", "+0-", 1),
            &VALID.replace(trace, &"0".repeat(32)),
            &VALID.replace(span, &"0".repeat(16)),
            &VALID.replace('-', "_"),
            &VALID.replace("4bf92", "4bf9\u{e9}"),
            &VALID.replace("4bf9", "4-f9"),
            &VALID.replace("-01", "-0x"),
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn steps_have_spans_of_their_own() {
        let context = TraceContext::parse(VALID).unwrap();
        let (one, other) = (context.of_step(StepId(1)), context.of_step(StepId(2)));
        assert_eq!((one.trace_id(), one.flags), (context.trace_id(), context.flags));
        assert_eq!(one, context.of_step(StepId(1)));
        assert_ne!(one.parent, other.parent);
        // A gateway behind a gateway, with the same number for its step.
        assert_ne!(one.of_step(StepId(1)).parent, one.parent);
        assert_eq!(TraceContext::parse(&one.to_string()), Some(one));
    }

    #[test]
    fn a_trace_without_a_caller_has_a_context_of_its_own() {
        let trace: TraceId = "01a1fe4e-57c4-731b-a4e9-4b060946c0d9".parse().unwrap();
        let context = TraceContext::of_trace(trace);
        assert_eq!(context.trace_id(), "01a1fe4e57c4731ba4e94b060946c0d9");
        assert!(context.is_sampled() && context == TraceContext::of_trace(trace));
        let step = context.of_step(StepId(1));
        assert_eq!(step.trace(), context.trace());
        assert_ne!(step.parent(), context.parent());
        let unsampled = VALID.replace("-01", "-02");
        assert!(!TraceContext::parse(&unsampled).unwrap().is_sampled());
    }

    #[test]
    fn states_are_checked_to_the_letter() {
        let many = |count: usize| {
            let entries: Vec<String> = (0..count).map(|n| format!("k{n}=v")).collect();
            entries.join(",")
        };
        let long = "a".repeat(256);
        for state in [
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "a=1, b@c=2 3,\t,d-_*/=!~",
            &format!("{long}=v"),
            &format!("k={long}"),
            &many(32),
        ] {
            assert!(is_tracestate(state), "{state}");
        }
        for state in [
            "",
            " , ",
            "a",
            "a=",
            "=1",
            "A=1",
            "_a=1",
            "a@=1",
            "a@b@c=1",
            "a=1=2",
            "a=1,a=2",
            "a=\u{e9}",
            "a=1\n",
            &format!("a{long}=v"),
            &format!("k=v{long}"),
            &many(33),
            &format!("a={0},b={0},c=1", "v".repeat(253)),
        ] {
            assert!(!is_tracestate(state), "{state}");
        }
    }
}
