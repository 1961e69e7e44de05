//! Credentials of a request: a signature (`SigV4`) by AWS's own crate, or a bearer key.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use domain::model::Model;
use domain::time::Timestamp;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::adapter::request::{Call, key_of};
use crate::error::Error;
use crate::vendors::bedrock::region;

/// The service name in the scope of signatures; the host's first label is another.
const SERVICE: &str = "bedrock";

/// Puts the credential on a request. A model's `api_key` is `ACCESS_KEY_ID:SECRET[:SESSION_TOKEN]`,
/// or else a Bedrock API key. Without one nothing is sent, for servers in between that sign.
pub(super) fn authenticate(model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error> {
    let Some(key) = key_of(model) else { return Ok(()) };
    match access_key(key)? {
        Some(credentials) => signed(model, call, credentials, now),
        None => call.set_bearer(key),
    }
}

/// Parses an access key; `None` if the key is of another kind.
fn access_key(key: &str) -> Result<Option<Credentials>, Error> {
    let mut parts = key.splitn(3, ':').map(str::trim);
    let id = parts.next().unwrap_or_default();
    let temporary = id.starts_with("ASIA");
    let is_id = id.len() >= 16 && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if !is_id || !(temporary || id.starts_with("AKIA")) {
        return Ok(None);
    }
    let secret = parts.next().filter(|secret| !secret.is_empty());
    let token = parts.next().filter(|token| !token.is_empty()).map(str::to_owned);
    match secret {
        Some(_) if temporary && token.is_none() => Err(Error::misconfigured(
            "The model's key is temporary and lacks its session token: \
             write ACCESS_KEY_ID:SECRET:SESSION_TOKEN",
        )),
        Some(secret) => Ok(Some(Credentials::new(id, secret, token, None, "sluice"))),
        None => Err(Error::misconfigured(
            "The model's key lacks its secret: write ACCESS_KEY_ID:SECRET[:SESSION_TOKEN]",
        )),
    }
}

fn signed(
    model: &Model,
    call: &mut Call,
    credentials: Credentials,
    now: Timestamp,
) -> Result<(), Error> {
    let unsigned = || Error::misconfigured("The request cannot be signed with the model's key");
    let uri = call.uri.to_string();
    let region = region(model, call.uri.host().unwrap_or_default())?;
    let identity = credentials.into();
    // The defaults are those of every service but S3: the path is encoded again, the time and the
    // session token are headers, and the host is signed as it is sent.
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(SystemTime::UNIX_EPOCH + Duration::from_micros(now.0.unsigned_abs()))
        .settings(SigningSettings::default())
        .build()
        .map_err(|_| unsigned())?
        .into();
    let kind = call.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let headers = kind.into_iter().map(|kind| (CONTENT_TYPE.as_str(), kind));
    let body = SignableBody::Bytes(&call.body);
    let request = SignableRequest::new("POST", uri, headers, body).map_err(|_| unsigned())?;
    let (instructions, _) = sign(request, &params).map_err(|_| unsigned())?.into_parts();
    for header in instructions.into_parts().0 {
        let mut value = HeaderValue::try_from(header.value()).map_err(|_| unsigned())?;
        value.set_sensitive(true);
        call.headers.insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
