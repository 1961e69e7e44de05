//! The headers of a conversation: its trace, its session, and the parameters that were left out.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use domain::ids::{StepId, TraceId};
use domain::money::Usd;
use gateway::{HeaderAttributes, Mode};

/// Names the trace, in requests and in answers.
pub(crate) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// Name the session, in requests: the gateway's own header, and those of clients.
const SESSION: [HeaderName; 4] = [
    HeaderName::from_static("x-sluice-session"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("x-session-id"),
];

/// Name the user and the tags of a call, in requests.
const USER: HeaderName = HeaderName::from_static("x-sluice-user");
const TAGS: HeaderName = HeaderName::from_static("x-sluice-tags");

/// Names the attributes that are not kept.
const DROPPED_ATTRIBUTES: HeaderName = HeaderName::from_static("x-sluice-dropped-attributes");
/// The most characters of a name of theirs.
const LONGEST_NAMED: usize = 64;

/// Names the parameters that were left out.
const DROPPED: HeaderName = HeaderName::from_static("x-sluice-dropped-params");

/// Names the step that records a call.
const STEP_ID: HeaderName = HeaderName::from_static("x-sluice-step-id");

/// The cost of a call in US dollars.
const COST: HeaderName = HeaderName::from_static("x-sluice-cost");
/// The headers by which vendors' clients turn on features of the vendor's that are no release yet. No
/// other provider has them.
const BETA_NAMES: [&str; 2] = ["anthropic-beta", "openai-beta"];
/// The longest value of theirs that goes on, in bytes.
const LONGEST_BETA: usize = 1024;

/// Says which way a call took.
const MODE: HeaderName = HeaderName::from_static("x-sluice-mode");

/// The most parameters that are named: a header has its limits.
const MOST_NAMED: usize = 64;

/// The names of the vendors' headers that a request has, and that go nowhere.
pub fn betas_of(headers: &HeaderMap) -> impl Iterator<Item = String> {
    BETA_NAMES.into_iter().filter(|name| headers.contains_key(*name)).map(str::to_owned)
}

/// The vendors' headers that go on with a request as it came: those that can stand in a header again,
/// and are no longer than any client's.
pub fn passing_headers(headers: &HeaderMap) -> Vec<(&'static str, String)> {
    let read = |name: &str| {
        let values = headers.get_all(name).iter().map(|value| value.to_str().ok());
        let value = values.collect::<Option<Vec<_>>>()?.join(",");
        let fits = !value.is_empty()
            && value.len() <= LONGEST_BETA
            && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        fits.then_some(value)
    };
    BETA_NAMES.into_iter().filter_map(|name| Some((name, read(name)?))).collect()
}

/// The trace that a request's headers name.
pub fn trace_of(headers: &HeaderMap) -> Option<String> {
    headers.get(TRACE_ID).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The session that a request's headers name.
pub fn session_of(headers: &HeaderMap) -> Option<&str> {
    let texts = SESSION.into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    texts.map(str::trim).find(|name| !name.is_empty())
}

/// The attributes that a request's headers name; `None` if they name none. A text that is not UTF-8 comes
/// with replacement characters, which no attribute has.
pub fn attributes_of(headers: &HeaderMap) -> Option<HeaderAttributes> {
    let all = |name| {
        let values = headers.get_all(name).iter();
        let values =
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
        values.filter(|value| !value.is_empty())
    };
    // A proxy may repeat the user. Tags of several headers are one list.
    let user = all(USER).next();
    let tags = Some(all(TAGS).collect::<Vec<_>>().join(",")).filter(|tags| !tags.is_empty());
    let attributes = HeaderAttributes { user, tags };
    (attributes != HeaderAttributes::default()).then_some(attributes)
}

/// Adds to an answer the names of the attributes that are not kept.
pub fn name_dropped_attributes(names: &[String], headers: &mut HeaderMap) {
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let shown = |name: &String| name.chars().take(LONGEST_NAMED).map(printable).collect();
    let names: Vec<String> = names.iter().map(shown).collect();
    if let Ok(value) = HeaderValue::try_from(list(&names)) {
        headers.insert(DROPPED_ATTRIBUTES, value);
    }
}

/// Adds to an answer the headers of its trace and of the parameters that were left out because the
/// endpoint or the model does not support them.
pub fn with_trace_headers(trace: TraceId, dropped: &[String], mut response: Response) -> Response {
    let headers = response.headers_mut();
    if !dropped.is_empty()
        && let Ok(names) = HeaderValue::try_from(list(dropped))
    {
        headers.insert(DROPPED, names);
    }
    if let Ok(value) = HeaderValue::from_str(&trace.to_string()) {
        headers.insert(TRACE_ID, value);
    }
    response
}

/// Adds to an answer the headers of its step and of its cost, which is not known at the beginning of a
/// stream.
pub fn with_step_headers(step: StepId, cost: Option<Usd>, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(step.to_string()) {
        headers.insert(STEP_ID, value);
    }
    let amount = cost.map(|cost| cost.to_string().replacen('$', "", 1));
    if let Some(Ok(value)) = amount.map(HeaderValue::try_from) {
        headers.insert(COST, value);
    }
    response
}

/// Adds to an answer the header of the way that its call took.
pub fn with_mode(mode: Mode, mut response: Response) -> Response {
    response.headers_mut().insert(MODE, HeaderValue::from_static(mode.as_str()));
    response
}

fn list(dropped: &[String]) -> String {
    let (named, rest) = dropped.split_at(dropped.len().min(MOST_NAMED));
    let names = named.join(", ");
    if rest.is_empty() { names } else { format!("{names}, and {} more", rest.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn betas_are_named_and_a_long_list_is_counted() {
        let mut headers = HeaderMap::new();
        headers
            .insert("anthropic-beta", HeaderValue::from_static("interleaved-thinking-2025-05-14"));
        assert_eq!(betas_of(&headers).collect::<Vec<_>>(), ["anthropic-beta"]);
        assert_eq!(
            passing_headers(&headers),
            [("anthropic-beta", "interleaved-thinking-2025-05-14".to_owned())]
        );
        headers.append("anthropic-beta", HeaderValue::from_static("two"));
        headers.insert("openai-beta", HeaderValue::from_bytes(b"a\tb").unwrap());
        let both = "interleaved-thinking-2025-05-14,two".to_owned();
        assert_eq!(passing_headers(&headers), [("anthropic-beta", both)]);
        headers.insert("anthropic-beta", HeaderValue::try_from("x".repeat(1025)).unwrap());
        assert_eq!(passing_headers(&headers), []);
        let dropped: Vec<String> = (0..MOST_NAMED + 2).map(|n| n.to_string()).collect();
        assert!(list(&dropped).ends_with(", 63, and 2 more"));
        assert_eq!(list(&dropped[..2]), "0, 1");
    }
}
