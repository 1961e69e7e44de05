//! Errors in the bodies of answers, in any of the shapes that servers use.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::codes::FaultCode;
use crate::error::{Error, ErrorDetails};
use crate::wire::json;

/// Reads the details in the body of an error.
pub(crate) fn details_in(body: &[u8]) -> ErrorDetails {
    let parsed = json::value(body);
    // Some gateways wrap their error in a list.
    let first = parsed.as_ref().map(|value| value.get(0).unwrap_or(value));
    let mut details = first.and_then(Value::as_object).map(details_of).unwrap_or_default();
    details.message = details.message.or_else(|| {
        let text = as_text(body)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    });
    details
}

fn details_of(answer: &Map<String, Value>) -> ErrorDetails {
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
    let code = error.and_then(|error| error.get("code")?.as_str());
    ErrorDetails {
        message: message_in(answer),
        code: code.and_then(FaultCode::named),
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
            Error::status(status, details_of(answer), None)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let error = Error::status(status, details_in(&body), None).sealed(None);
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
            let error = Error::status(status, details_in(body.as_bytes()), None).sealed(None);
            prop_assert!(error.to_string().chars().count() <= 500);
            prop_assert_eq!(error.provider_status(), Some(status));
        }
    }
}
