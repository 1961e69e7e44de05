//! Requests read: JSON bodies, queries and path segments, every fault as JSON.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use domain::ids::{KeyId, ModelId, ProjectId};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};

use crate::App;
use crate::error::{Failure, Result};

/// A whole body must have come within this.
const BODY_TIME: Duration = Duration::from_mins(1);
/// What serde says about a value may quote it; no more of it than this comes back.
const LONGEST_FAULT: usize = 300;

/// A JSON body. Bodies are read after authentication, within a size and a time.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        read_json(request, app.gateway.max_body_bytes()).await.map(Self)
    }
}

/// A JSON body of which nothing is required: a request without one asks for the defaults.
#[derive(Debug)]
pub struct BodyIfAny<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for BodyIfAny<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        read_json(request, app.gateway.max_body_bytes()).await.map(Self)
    }
}

/// Reads a JSON object of so many bytes at the most.
pub async fn read_json<T: DeserializeOwned>(request: Request, most: usize) -> Result<T> {
    check_content_type(request.headers())?;
    let bytes = read(request, most).await?;
    // Serde would take an array for an object, field by field.
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|first| *first != b'{')
        && serde_json::from_slice::<IgnoredAny>(&bytes).is_ok()
    {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "The body must be a JSON object"));
    }
    let read = gateway::beside(bytes.len(), || serde_json::from_slice(&bytes)).await;
    read.map_err(|error| malformed(&error))
}

fn check_content_type(headers: &HeaderMap) -> Result<()> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media == "application/json"
        || (media.starts_with("application/") && media.ends_with("+json"))
    {
        return Ok(());
    }
    Err(Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "The body must be JSON, sent with the header Content-Type: application/json",
    ))
}

async fn read(request: Request, most: usize) -> Result<Bytes> {
    let limited = Limited::new(request.into_body(), most).collect();
    match tokio::time::timeout(BODY_TIME, limited).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is larger than {most} bytes"),
        )),
        Ok(Err(_)) => Err(Failure::new(StatusCode::BAD_REQUEST, "The body ended early")),
        Err(_) => {
            Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive"))
        }
    }
}

/// What serde says, as a sentence for people.
fn malformed(error: &serde_json::Error) -> Failure {
    let said = error.to_string();
    let missing = said.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let sentence = match missing {
        Some(field) => format!("Missing required parameter: {field}"),
        None if error.is_data() => {
            format!(
                "Invalid request body: {}",
                in_json(&said).chars().take(LONGEST_FAULT).collect::<String>()
            )
        }
        None => {
            format!("Malformed JSON: {}", said.chars().take(LONGEST_FAULT).collect::<String>())
        }
    };
    Failure::new(StatusCode::BAD_REQUEST, sentence)
}

/// What was expected, in the words of JSON instead of our own types.
fn in_json(said: &str) -> String {
    let Some((found, expected)) = said.rsplit_once(", expected ") else { return said.to_owned() };
    let (expected, place) = expected.rsplit_once(" at line ").unwrap_or((expected, ""));
    let expected = match expected {
        "i64" | "u64" => "a whole number",
        "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "an object",
        own if own.starts_with("struct ") => "an object",
        plain => plain,
    };
    let place = if place.is_empty() { String::new() } else { format!(" at line {place}") };
    format!("{found}, expected {expected}{place}")
}

/// A query string.
#[derive(Debug)]
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let query = Query::from_request_parts(parts, app).await;
        query.map(|Query(query)| Self(query)).map_err(|rejection: QueryRejection| {
            let said = rejection.body_text();
            let missing =
                said.split("missing field `").nth(1).and_then(|rest| rest.split('`').next());
            let sentence = match missing {
                Some(field) => format!("Missing required parameter: {field}"),
                None => said.chars().take(LONGEST_FAULT).collect(),
            };
            Failure::new(StatusCode::BAD_REQUEST, sentence)
        })
    }
}

/// The segments of a path. One that is no id of the right form names nothing that exists.
#[derive(Debug)]
pub struct Segments(Vec<(String, String)>);

impl FromRequestParts<App> for Segments {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let params =
            RawPathParams::from_request_parts(parts, app).await.map_err(|_| not_found())?;
        Ok(Self(params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()))
    }
}

impl Segments {
    /// A segment as it stands.
    pub fn text(&self, name: &str) -> Result<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str()).ok_or_else(not_found)
    }

    /// The project that the path names.
    pub fn project(&self, name: &str) -> Result<ProjectId> {
        self.text(name)?.parse().map_err(|_| not_found())
    }

    /// The model that the path names.
    pub fn model(&self) -> Result<ModelId> {
        self.text("model_id")?.parse().map_err(|_| not_found())
    }

    /// The key that the path names.
    pub fn key(&self) -> Result<KeyId> {
        self.text("id")?.parse().map_err(|_| not_found())
    }
}

fn not_found() -> Failure {
    gateway::Error::NotFound.into()
}

/// An object that is no array: serde would take one for the other, field by field.
pub fn object<'de, D, T>(deserializer: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Object::deserialize(deserializer).map(|Object(value)| value)
}

/// [`object`], or none at all.
pub fn object_if_any<'de, D, T>(deserializer: D) -> std::result::Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

/// A list of [`object`]s, or none at all.
pub fn objects<'de, D, T>(deserializer: D) -> std::result::Result<Option<Vec<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
}

/// Tells a field that is null from one that is not there.
pub fn given<'de, D, T>(deserializer: D) -> std::result::Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// A text that may be left out but not be null: null is read as an empty text, which no such field
/// takes.
pub fn not_null<'de, D>(deserializer: D) -> std::result::Result<Option<String>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Option::<String>::deserialize(deserializer).map(|text| Some(text.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Ask {
        #[expect(dead_code, reason = "only read to see whether it is there")]
        trace_id: String,
    }

    fn said(json: &str) -> String {
        malformed(&serde_json::from_str::<Ask>(json).unwrap_err()).into_body().error
    }

    #[test]
    fn faults_are_sentences() {
        assert_eq!(said("{}"), "Missing required parameter: trace_id");
        assert!(
            said(r#"{"trace_id": 1}"#).starts_with("Invalid request body: invalid type: integer")
        );
        assert_eq!(
            in_json("invalid type: integer `1`, expected struct ToolResultBody at line 1 column 7"),
            "invalid type: integer `1`, expected an object at line 1 column 7"
        );
        assert_eq!(in_json("no line: `x`, expected u64"), "no line: `x`, expected a whole number");
        assert!(said("{").starts_with("Malformed JSON: EOF"));
        assert!(said(r#"{"trace_id": "\ud800"}"#).starts_with("Malformed JSON"));
        assert!(said(&"[".repeat(1000)).len() < 400);
    }
}
