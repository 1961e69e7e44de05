//! Reads answers: their head, and bodies of bounded size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use domain::time::Timestamp;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, ErrorDetails};
use crate::net::pool::Body;
use crate::wire::json;

/// Most bytes that are read of an error, and the time limit for reading them.
const MOST_ERROR_BYTES: usize = 64 * 1024;
const ERROR_TIME: Duration = Duration::from_secs(5);

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
        let mut said = if html || status.is_redirection() || is_encoded(response.headers()) {
            ErrorDetails::default()
        } else {
            said(response.into_body(), deadline).await
        };
        said.of_model = error_type.as_deref().is_some_and(|kind| kind.starts_with("Model"));
        said.message = match (error_type, said.message) {
            (Some(error_type), Some(message)) => Some(format!("{error_type}: {message}")),
            (error_type, message) => message.or(error_type),
        };
        return Err(Error::status(status.as_u16(), said, retry_after));
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
        let found = said(response.into_body(), deadline).await.message.unwrap_or_default();
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
        Err(_) => Err(Error::broke_off("The provider did not finish its answer in time")),
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
        let frame = frame.map_err(|error| Incomplete::Broken(Error::reading(&error)))?;
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
async fn said(body: Body, deadline: Instant) -> ErrorDetails {
    let limit = deadline.min(Instant::now() + ERROR_TIME);
    match timeout_at(limit, collect(body, 0, MOST_ERROR_BYTES)).await {
        Ok(Ok(body) | Err(Incomplete::TooLong(body))) => said_in(&body),
        Ok(Err(Incomplete::Broken(_))) | Err(_) => ErrorDetails::default(),
    }
}

fn said_in(body: &[u8]) -> ErrorDetails {
    let parsed = json::value(body);
    // Some gateways wrap their error in a list.
    let first = parsed.as_ref().map(|value| value.get(0).unwrap_or(value));
    let mut said = first.and_then(Value::as_object).map(said_of).unwrap_or_default();
    said.message = said.message.or_else(|| {
        let text = as_text(body)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    });
    said
}

fn said_of(answer: &Map<String, Value>) -> ErrorDetails {
    let error = answer.get("error");
    let spent = error.is_some_and(|error| {
        ["code", "type"]
            .iter()
            .any(|name| error.get(*name).is_some_and(|v| v == "insufficient_quota"))
    });
    let details = error.and_then(|error| error.get("details")?.as_array());
    let detail = |name: &str| {
        details.into_iter().flatten().find_map(|detail| detail.get(name).and_then(Value::as_str))
    };
    let wrong_key = detail("reason") == Some("API_KEY_INVALID");
    let retry_after = detail("retryDelay").and_then(retry_delay);
    ErrorDetails {
        message: message_in(answer),
        spent,
        wrong_key,
        retry_after,
        ..ErrorDetails::default()
    }
}

/// Whether an answer contains an error; some servers put an empty one into a good answer.
pub(crate) fn names_error(answer: &Map<String, Value>) -> bool {
    answer.get("error").is_some_and(|error| match error {
        Value::Null => false,
        Value::Object(object) => !object.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    })
}

/// Returns the error that came in place of an answer, with a status of 200, or of the rest of one. An
/// error that rejects the request or the key is reported with the status that it names.
pub(crate) fn error_within(answer: &Map<String, Value>) -> Error {
    let error = answer.get("error").and_then(Value::as_object).unwrap_or(answer);
    match named_status(error) {
        // 408, 424 and Google's 499 do not reject the request; 429 asks for fewer requests.
        Some(status @ (400..=407 | 409..=423 | 425..=498)) => {
            Error::status(status, said_of(answer), None)
        }
        _ => Error::answered(message_in(answer)),
    }
}

/// Returns the status that an error names: as a number, or by a word of OpenAI's and Anthropic's.
fn named_status(error: &Map<String, Value>) -> Option<u16> {
    let number = |value: &Value| match value {
        Value::Number(number) => number.as_u64()?.try_into().ok(),
        Value::String(digits) => digits.parse().ok(),
        _ => None,
    };
    let word = |value: &Value| match value.as_str()? {
        "invalid_api_key" | "authentication_error" => Some(401),
        "permission_error" => Some(403),
        "model_not_found" | "not_found_error" => Some(404),
        "request_too_large" => Some(413),
        "invalid_request_error" => Some(400),
        _ => None,
    };
    let named = ["code", "type"].map(|name| error.get(name));
    let mut named = named.into_iter().flatten();
    named.clone().find_map(number).or_else(|| named.find_map(word))
}

/// Returns bytes as a text, if they are UTF-8. Its last character may be cut off.
fn as_text(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Parses a duration as Google writes it in the details of an error: seconds, as in `1.5s`.
fn retry_delay(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

/// Returns the message of an error object, in any of the shapes that servers use.
pub(crate) fn message_in(answer: &Map<String, Value>) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(inner) => inner.get("message").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    ["error", "message", "detail", "Message"]
        .iter()
        .filter_map(|name| answer.get(*name))
        .find_map(text)
        .filter(|text| !text.is_empty())
}

/// Returns the wait that the provider asks for: seconds, a date, or the milliseconds that OpenAI sends
/// beside them.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
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
    use proptest::prelude::*;

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

    #[test]
    fn delays_in_the_details_of_an_error_are_read() {
        for (text, seconds) in
            [("7s", Some(7.0)), ("34.5s", Some(34.5)), ("-1s", None), ("1", None), ("soons", None)]
        {
            assert_eq!(retry_delay(text).map(|d| d.as_secs_f64()), seconds, "{text}");
        }
    }

    #[test]
    fn a_text_may_end_within_a_character() {
        for (bytes, text) in [
            (&b"plain"[..], Some("plain")),
            ("é".as_bytes(), Some("é")),
            (&b"cut \xc3"[..], Some("cut ")),
            (&b"\x1f\x8b\x08"[..], None),
            (&b"a\xffb"[..], None),
        ] {
            assert_eq!(as_text(bytes), text);
        }
    }

    #[test]
    fn messages_are_found_in_every_shape() {
        for body in [
            r#"{"error":{"message":"no","type":"x"}}"#,
            r#"{"error":"no"}"#,
            r#"{"message":"no"}"#,
            r#"{"object":"error","message":"no"}"#,
            r#"{"detail":"no"}"#,
        ] {
            assert_eq!(message_in(&serde_json::from_str(body).unwrap()).unwrap(), "no", "{body}");
        }
        assert_eq!(message_in(&Map::new()), None);
    }

    #[test]
    fn what_an_error_within_an_answer_finds_fault_with() {
        for (error, status) in [
            (r#"{"code":400,"message":"no","status":"INVALID_ARGUMENT"}"#, Some(400)),
            (r#"{"code":"404","message":"no"}"#, Some(404)),
            (r#"{"type":"invalid_request_error","code":"context_length_exceeded"}"#, Some(400)),
            (r#"{"type":"invalid_request_error","code":"invalid_api_key"}"#, Some(401)),
            (r#"{"type":"permission_error"}"#, Some(403)),
            (r#"{"type":"BadRequestError","code":422}"#, Some(422)),
            (r#"{"type":"requests","code":429}"#, Some(429)),
            (r#"{"code":499,"status":"CANCELLED"}"#, None),
            (r#"{"code":408}"#, None),
            (r#"{"type":"server_error","code":null}"#, None),
            (r#"{"type":"overloaded_error"}"#, None),
            (r#"{"code":200}"#, None),
            (r#"{"code":-400}"#, None),
            (r#""no""#, None),
        ] {
            let answer = serde_json::from_str(&format!(r#"{{"error":{error}}}"#)).unwrap();
            let told = error_within(&answer);
            assert_eq!(told.provider_status(), status, "{error}");
            let is_refused = matches!(told.kind, crate::error::ErrorKind::Rejected { .. });
            assert_eq!(is_refused, status.is_some_and(|status| status != 429), "{error}");
        }
        // Some servers write no `error` object around it.
        let bare = r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#;
        let told = error_within(&serde_json::from_str(bare).unwrap());
        assert_eq!(
            told.kind,
            crate::error::ErrorKind::Rejected { status: 400, message: "too long".to_owned() }
        );
        let key =
            r#"{"error":{"code":400,"message":"no","details":[{"reason":"API_KEY_INVALID"}]}}"#;
        assert!(error_within(&serde_json::from_str(key).unwrap()).fallback_helps());
    }

    proptest! {
        /// Any bytes can be read as an error, and its message is short.
        #[test]
        fn any_bytes_are_an_error(
            text in "\\PC{0,2000}",
            tail in proptest::collection::vec(any::<u8>(), 0..4),
            status in 300..600u16,
        ) {
            let body = [text.as_bytes(), &tail].concat();
            let error = Error::status(status, said_in(&body), None).sealed(None);
            prop_assert!(error.to_string().chars().count() <= 500, "{error}");
        }

        #[test]
        fn anything_that_looks_like_an_error_is_one(
            name in "error|message|detail|Message|code",
            inner in r#"null|1|"no"|\[\]|\[\{"message":1\}\]|\{"message":"no","code":1,"details":(null|\[\{"retryDelay":"-?[0-9]{1,30}s","reason":"API_KEY_INVALID"\}\])\}"#,
            wrapped: bool,
            status in 300..600u16,
        ) {
            let body = format!(r#"{{"{name}":{inner}}}"#);
            let body = if wrapped { format!("[{body}]") } else { body };
            let error = Error::status(status, said_in(body.as_bytes()), None).sealed(None);
            prop_assert!(error.to_string().chars().count() <= 500);
            prop_assert_eq!(error.provider_status(), Some(status));
        }
    }
}
