use domain::model::{Model, Provider};
use domain::secret::Secret;
use http::HeaderMap;
use serde_json::json;

use super::*;
use crate::testing;
use http::header::AUTHORIZATION;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn model(key: &str) -> Model {
    let mut model = testing::model(Provider::Bedrock, None);
    model.api_key = Some(Secret::new(key.to_owned()));
    model.config.all.insert("region".to_owned(), json!("us-east-1"));
    model
}

fn authenticated(key: &str, uri: &'static str) -> Result<HeaderMap, Error> {
    let kind = HeaderValue::from_static("application/json");
    let mut call = Call {
        uri: http::Uri::from_static(uri),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, kind)]),
        body: br#"{"messages":[]}"#.to_vec(),
    };
    let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
    authenticate(&model(key), &mut call, now)?;
    Ok(call.headers)
}

/// The expected values are what botocore 1.44.5 signs.
#[test]
fn requests_are_signed_as_the_official_client_signs_them() {
    let headers = authenticated(
        &format!("AKIAIOSFODNN7EXAMPLE:{SECRET}"),
        "https://bedrock-runtime.us-east-1.amazonaws.com\
         /model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse",
    )
    .unwrap();
    assert_eq!(headers["x-amz-date"], "20261121T120000Z");
    assert!(!headers.contains_key("x-amz-security-token"));
    assert_eq!(
        headers[AUTHORIZATION],
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261121/us-east-1/bedrock/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date, \
         Signature=51f308a095fce7b05e8c258db3de2234f8b9d9ceeec243fffbac610dfb002d06"
    );
    assert!(headers[AUTHORIZATION].is_sensitive());
}

#[test]
fn session_tokens_and_odd_ports_are_signed_too() {
    let headers = authenticated(
        &format!(" ASIAIOSFODNN7EXAMPLE:{SECRET}:token/with+chars== "),
        "http://127.0.0.1:9404/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ax%2Fy/converse-stream",
    )
    .unwrap();
    assert_eq!(headers["x-amz-security-token"], "token/with+chars==");
    assert!(headers["x-amz-security-token"].is_sensitive());
    assert_eq!(
        headers[AUTHORIZATION],
        "AWS4-HMAC-SHA256 Credential=ASIAIOSFODNN7EXAMPLE/20261121/us-east-1/bedrock/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, \
         Signature=45aec74332292b0471a6d1b3adea2926ed6322a438e60f12727522d021d66fce"
    );
}

#[test]
fn every_other_key_is_a_bearer_key() {
    for key in
        ["ABSKQmVkcm9jaw==", "bedrock-api-key-sim", "a:b:c", "akiaiosfodnn7example:x", "AKIA:x"]
    {
        let headers = authenticated(key, "https://x.example/model/a/converse").unwrap();
        assert_eq!(headers[AUTHORIZATION], format!("Bearer {key}"));
        assert!(!headers.keys().any(|name| name.as_str().starts_with("x-amz-")));
    }
    let headers = authenticated(" ", "https://x.example/model/a/converse").unwrap();
    assert_eq!(headers.len(), 1);
}

#[test]
fn half_a_key_is_told_apart_and_not_shown() {
    for (key, says) in [
        ("AKIAIOSFODNN7EXAMPLE", "lacks its secret"),
        ("AKIAIOSFODNN7EXAMPLE:", "lacks its secret"),
        ("ASIAIOSFODNN7EXAMPLE:my-secret-part", "session token"),
        ("bad\nkey", "cannot be sent"),
    ] {
        let error = authenticated(key, "https://x.example/model/a/converse").unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.to_string().contains("my-secret-part"));
    }
}
