//! Reads answers: their head, and bodies of bounded size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use domain::time::Timestamp;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, ErrorDetails};
use crate::net::pool::Body;
use crate::wire::error_body::details_in;

/// Most bytes that are read of an error, and the time limit for reading them.
const MOST_ERROR_BYTES: usize = 64 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts an answer if its body is what the adapter reads; makes an error of every other.
pub(crate) async fn accept(
    response: Response<Body>,
    expected: &str,
    deadline: Instant,
    now: Timestamp,
) -> Result<Response<Body>, Error> {
    let status = response.status();
    let kind = content_type(response.headers());
    let html = kind.eq_ignore_ascii_case("text/html");
    if !status.is_success() {
        let retry_after = retry_after(response.headers(), now);
        let error_type = error_type(response.headers());
        let mut details = if html || status.is_redirection() || is_encoded(response.headers()) {
            ErrorDetails::default()
        } else {
            read_details(response.into_body(), deadline).await
        };
        details.of_model = error_type.as_deref().is_some_and(|kind| kind.starts_with("Model"));
        details.message = match (error_type, details.message) {
            (Some(error_type), Some(message)) => Some(format!("{error_type}: {message}")),
            (error_type, message) => message.or(error_type),
        };
        return Err(Error::status(status.as_u16(), details, retry_after));
    }
    if is_encoded(response.headers()) {
        return Err(Error::foreign("it is compressed although nobody asked for that"));
    }
    if html {
        return Err(Error::foreign("it is an HTML page"));
    }
    // Only a stream must be labelled: JSON is verified by reading it.
    let streamed = expected != JSON;
    if streamed && !kind.is_empty() && !kind.eq_ignore_ascii_case(expected) {
        let found = read_details(response.into_body(), deadline).await.message.unwrap_or_default();
        return Err(Error::foreign(format_args!("it is no stream; {found}")));
    }
    Ok(response)
}

/// The content type of whole answers.
pub(crate) const JSON: &str = "application/json";

/// Returns the content type without its parameters; empty when there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Whether the body is compressed or otherwise encoded.
fn is_encoded(headers: &HeaderMap) -> bool {
    let encoding = headers.get(CONTENT_ENCODING);
    encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Returns the kind of error, if a header names it, as AWS does.
fn error_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("x-amzn-errortype")?.to_str().ok()?;
    let name = value.split(':').next().unwrap_or_default().trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Reads a whole body of at most `most` bytes.
pub(crate) async fn whole(
    response: Response<Body>,
    deadline: Instant,
    most: usize,
) -> Result<Bytes, Error> {
    let too_long =
        || Error::malformed(format_args!("it is longer than {} MiB", most / (1024 * 1024)));
    let declared = response
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    if declared > most {
        return Err(too_long());
    }
    let reading = collect(response.into_body(), declared, most);
    match timeout_at(deadline, reading).await {
        Err(_) => {
            Err(Error::broke_off("The provider did not finish its answer in time").timed_out())
        }
        Ok(Err(Incomplete::Broken(error))) => Err(error),
        Ok(Err(Incomplete::TooLong(_))) => Err(too_long()),
        Ok(Ok(body)) => Ok(body),
    }
}

enum Incomplete {
    Broken(Error),
    TooLong(Bytes),
}

/// Reads a body to its end. A body that comes in one piece is not copied.
async fn collect(mut body: Body, declared: usize, most: usize) -> Result<Bytes, Incomplete> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Incomplete::Broken(error.into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.reserve(declared.max(first.len() + data.len()));
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        if first.len().max(all.len()) > most {
            let read = if all.is_empty() { first } else { all.freeze() };
            return Err(Incomplete::TooLong(read));
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads the details in the body of an error.
async fn read_details(body: Body, deadline: Instant) -> ErrorDetails {
    let limit = deadline.min(Instant::now() + ERROR_TIMEOUT);
    match timeout_at(limit, collect(body, 0, MOST_ERROR_BYTES)).await {
        Ok(Ok(body) | Err(Incomplete::TooLong(body))) => details_in(&body),
        Ok(Err(Incomplete::Broken(_))) | Err(_) => ErrorDetails::default(),
    }
}

/// Returns the wait that the provider asks for: seconds, a date, or the milliseconds that OpenAI sends
/// beside them.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |value: &http::HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    let number = |text: String| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    let millis = headers.get("retry-after-ms").and_then(text).and_then(number);
    if let Some(millis) = millis {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let value = headers.get(RETRY_AFTER).and_then(text)?;
    if let Some(seconds) = number(value.clone()) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(&value).ok()?.timestamp();
    let wait = Timestamp(date.as_microsecond()).since(now);
    Some(Duration::from_micros(wait.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_retry_after_is_read() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        for (name, value, seconds) in [
            ("retry-after", "7", Some(7.0)),
            ("retry-after", " 0.5 ", Some(0.5)),
            ("retry-after", "Sat, 21 Nov 2026 12:00:30 GMT", Some(30.0)),
            ("retry-after", "Sat, 21 Nov 2026 11:00:30 GMT", Some(0.0)),
            ("retry-after-ms", "250", Some(0.25)),
            ("retry-after", "-3", None),
            ("retry-after", "soon", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(retry_after(&headers, now).map(|d| d.as_secs_f64()), seconds, "{value}");
        }
    }

    #[test]
    fn the_kind_of_an_error_is_read_from_its_header() {
        for (value, kind) in [
            ("ValidationException", Some("ValidationException")),
            ("ThrottlingException:http://internal.amazon.com/coral/", Some("ThrottlingException")),
            (":", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-amzn-errortype", value.parse().unwrap());
            assert_eq!(error_type(&headers).as_deref(), kind);
        }
        assert_eq!(error_type(&HeaderMap::new()), None);
    }
}
