//! The headers that tell a caller what is left of its key's requests: `RateLimit` and `RateLimit-Policy` of the IETF's
//! draft (draft-ietf-httpapi-ratelimit-headers), and the `x-ratelimit-*` headers that OpenAI's clients read.

use std::io::Write as _;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use gateway::RequestQuota;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit-requests");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining-requests");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset-requests");
/// How many they are.
const HEADERS: usize = 5;

/// The largest integer of a structured field (RFC 9651).
const MOST: u64 = 999_999_999_999_999;
/// The longest value: two numbers of 20 digits and some words.
const LONGEST: usize = 80;

/// Adds the headers to an answer; none without a limit.
pub fn add(quota: Option<RequestQuota>, mut response: Response) -> Response {
    let Some(RequestQuota { limit, remaining, reset }) = quota else { return response };
    let (limit, remaining) = (limit.min(MOST), remaining.min(MOST));
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    let window = RequestQuota::WINDOW_SECONDS;
    headers.insert(RATE_LIMIT, value(format_args!("\"requests\";r={remaining};t={reset}")));
    headers.insert(RATE_LIMIT_POLICY, value(format_args!("\"requests\";q={limit};w={window}")));
    headers.insert(LIMIT, limit.into());
    headers.insert(REMAINING, remaining.into());
    headers.insert(RESET, duration(reset));
    response
}

/// Whole seconds as OpenAI writes a duration: `1h0m0s`, `6m0s`, `12s`.
fn duration(seconds: u64) -> HeaderValue {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => value(format_args!("{rest}s")),
        (0, _) => value(format_args!("{minutes}m{rest}s")),
        _ => value(format_args!("{hours}h{minutes}m{rest}s")),
    }
}

/// A value that is written on the stack: all that is allocated is the value itself.
fn value(text: std::fmt::Arguments<'_>) -> HeaderValue {
    let mut written = [0; LONGEST];
    let mut rest = &mut written[..];
    // There is room, and the text is plain ASCII.
    let fits = rest.write_fmt(text).is_ok();
    let length = LONGEST - rest.len();
    let value = HeaderValue::from_bytes(&written[..length]).ok().filter(|_| fits);
    value.unwrap_or(HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn durations_are_written_as_openai_does() {
        for (seconds, text) in
            [(0, "0s"), (1, "1s"), (60, "1m0s"), (360, "6m0s"), (3599, "59m59s"), (3600, "1h0m0s")]
        {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn the_largest_numbers_fit_and_no_limit_has_no_headers() {
        let quota = RequestQuota { limit: u64::MAX, remaining: u64::MAX - 1, reset: u64::MAX };
        let response = add(Some(quota), Response::new(Body::empty()));
        let told = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(told("RateLimit"), format!("\"requests\";r=999999999999999;t={}", u64::MAX));
        assert_eq!(told("RateLimit-Policy"), "\"requests\";q=999999999999999;w=3600");
        assert_eq!(told("x-ratelimit-limit-requests"), "999999999999999");
        assert_eq!(told("x-ratelimit-remaining-requests"), "999999999999999");
        assert!(told("x-ratelimit-reset-requests").ends_with('s'));
        assert!(add(None, Response::new(Body::empty())).headers().is_empty());
    }
}
