//! Bodies of requests: received within a size, a time and the memory that there is, and read as JSON.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use gateway::{BodyCharge, BodyMemory, BodyOwner, Caller, HeldCharge, Member, Share};
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::app::App;
use crate::http::error::{Failure, Result};

/// A whole body must have come within this.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// The bytes charged for a body that comes without its length, until more has arrived.
const UNDECLARED: usize = 16 * 1024;
/// Bytes of memory that a body takes for each of its own while it is received.
const RECEIVING: usize = 2;
/// A message of serde may quote the value at fault; it is cut after this many characters.
pub(crate) const LONGEST_FAULT: usize = 300;
/// The beginning of messages about malformed JSON.
pub(crate) const MALFORMED: &str = "Malformed JSON: ";
/// The message of serde for a tree that would be too deep.
const TOO_DEEP: &str = "recursion limit exceeded";

/// A JSON body, read after authentication, within a size, a time and the memory that there is. Weighed
/// first: types that hold trees of JSON take far more than the bytes that they are read from.
#[derive(Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Reader::of(app, &request).read(request, Holds::Trees).await.map(Self)
    }
}

/// A [`Body`], and its text as it came.
#[derive(Debug)]
pub struct SourceBody<T>(pub T, pub String);

impl<T: DeserializeOwned> FromRequest<App> for SourceBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        let (body, bytes) = Reader::of(app, &request).read_whole(request, Holds::Trees).await?;
        let source = String::from_utf8(bytes.into()).map_err(|_| not_utf8())?;
        Ok(Self(body, source))
    }
}

/// A [`Body`] of a type that holds no trees: it takes no more than its bytes, whatever it contains.
#[derive(Debug)]
pub struct FlatBody<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for FlatBody<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        Reader::of(app, &request).read(request, Holds::Texts).await.map(Self)
    }
}

/// A [`FlatBody`] of which nothing is required: a request without one means the defaults.
#[derive(Debug)]
pub struct FlatBodyIfAny<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<App> for FlatBodyIfAny<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Reader::of(app, &request).read(request, Holds::Texts).await.map(Self)
    }
}

/// Reads a JSON object of at most `most` bytes.
pub async fn read_json<T: DeserializeOwned>(request: Request, app: &App, most: usize) -> Result<T> {
    let reader = Reader::of(app, &request);
    Reader { most: most.min(reader.most), ..reader }.read(request, Holds::Trees).await
}

/// Reads the fields of a form of at most `most` bytes.
pub async fn read_form(request: Request, app: &App, most: usize) -> Result<Vec<(String, String)>> {
    let reader = Reader::of(app, &request);
    let (bytes, _charge) =
        Reader { most: most.min(reader.most), ..reader }.receive(request).await?;
    let fields = form_urlencoded::parse(&bytes);
    Ok(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

/// A body that a layer around the handler has received, with its charge: it is received once.
#[derive(Clone)]
struct ReceivedBody(Arc<Mutex<Option<(Bytes, BodyCharge)>>>);

/// Receives the body of a request for a layer around its handler, which finds it received. Returns the request, and
/// the bytes.
pub async fn received(mut request: Request, app: &App) -> Result<(Request, Bytes)> {
    check_content_type(request.headers())?;
    let reader = Reader::of(app, &request);
    let declared = declared_length(request.headers());
    let body = std::mem::take(request.body_mut());
    let (bytes, charge) = reader.receive_body(declared, body).await?;
    let received = ReceivedBody(Arc::new(Mutex::new(Some((bytes.clone(), charge)))));
    request.extensions_mut().insert(received);
    *request.body_mut() = axum::body::Body::from(bytes.clone());
    Ok((request, bytes))
}

/// The values that a body's type may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Values of any kind.
    Trees,
    /// Texts and numbers under known names; everything else is passed over.
    Texts,
}

/// Reads the body of one request.
struct Reader<'a> {
    bodies: &'a BodyMemory,
    /// The memory that the request holds, to which the charge of the body is added.
    held: Option<HeldCharge>,
    owner: BodyOwner,
    share: Share,
    most: usize,
}

impl<'a> Reader<'a> {
    fn of(app: &'a App, request: &Request) -> Self {
        let caller = request.extensions().get::<Caller>();
        Self {
            bodies: app.gateway.bodies(),
            held: caller.map(|caller| caller.charge.clone()),
            owner: match (caller, request.extensions().get::<Member>()) {
                (Some(caller), _) => BodyOwner::Project(caller.project.id()),
                (None, Some(member)) => {
                    let user = BodyOwner::Member(member.user);
                    member.token.map_or(user, BodyOwner::ServiceToken)
                }
                (None, None) => BodyOwner::Anonymous,
            },
            share: caller.map_or_else(Share::of_control, Caller::share),
            most: app.gateway.max_body_bytes(),
        }
    }

    async fn read<T: DeserializeOwned>(self, request: Request, holds: Holds) -> Result<T> {
        self.read_whole(request, holds).await.map(|(body, _)| body)
    }

    /// Reads a body, and returns its bytes as well: what is charged for it covers them.
    async fn read_whole<T: DeserializeOwned>(
        self,
        request: Request,
        holds: Holds,
    ) -> Result<(T, Bytes)> {
        check_content_type(request.headers())?;
        let (bytes, mut charge) = self.receive(request).await?;
        let weigh = || gateway::json_bytes(&bytes, holds == Holds::Trees);
        let needed = match gateway::offload(self.share, bytes.len(), weigh).await? {
            Ok(needed) => needed,
            Err(refusal) => {
                // Malformed JSON is refused as such. No tree is built to find out.
                let check = || parse::<IgnoredAny>(&bytes).map(drop);
                gateway::offload(self.share, bytes.len(), check).await??;
                return Err(refusal.into());
            }
        };
        charge.raise(needed).await?;
        charge.lower(needed);
        let read = gateway::offload(self.share, bytes.len(), || parse(&bytes)).await?;
        if let Some(held) = self.held {
            held.hold(charge);
        }
        Ok((read?, bytes))
    }

    /// Receives the bytes, which are charged before they come.
    async fn receive(&self, mut request: Request) -> Result<(Bytes, BodyCharge)> {
        if let Some(ReceivedBody(received)) = request.extensions_mut().remove()
            && let Some(received) = received.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            return Ok(received);
        }
        self.receive_body(declared_length(request.headers()), request.into_body()).await
    }

    async fn receive_body(
        &self,
        declared: Option<u64>,
        mut body: axum::body::Body,
    ) -> Result<(Bytes, BodyCharge)> {
        if declared.is_some_and(|length| length > self.most as u64) {
            return Err(too_large(self.most));
        }
        let expected = declared.map_or(UNDECLARED, |length| length as usize).min(self.most);
        // Only a key may reserve memory for bytes announced and not yet sent: the memory is its
        // project's.
        let mut charged = match self.owner {
            BodyOwner::Project(_) => expected,
            _ => 0,
        };
        let bytes = |length: usize| match self.owner {
            // Nothing is done with it before all of it has come.
            BodyOwner::Anonymous => RECEIVING * length,
            _ => gateway::plain_bytes(length),
        };
        let receive = async {
            let mut charge = self.bodies.charge(self.owner, bytes(charged)).await?;
            let kept = if matches!(self.owner, BodyOwner::Project(_)) { expected } else { 0 };
            let mut received = Received { expected: kept, ..Received::default() };
            while let Some(frame) = body.frame().await {
                let frame = frame
                    .map_err(|_| Failure::new(StatusCode::BAD_REQUEST, "The body ended early"))?;
                let Ok(data) = frame.into_data() else { continue };
                let length = received.length() + data.len();
                if length > self.most {
                    return Err(too_large(self.most));
                }
                if length > charged {
                    // It grows by doubling.
                    charged = match declared {
                        Some(_) => (2 * length).min(expected.max(length)),
                        None => (2 * length).min(self.most),
                    };
                    charge.raise(bytes(charged)).await?;
                }
                received.add(data);
            }
            Ok((received.whole(), charge))
        };
        match tokio::time::timeout(BODY_TIMEOUT, receive).await {
            Ok(received) => received,
            Err(_) => {
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive"))
            }
        }
    }
}

/// The received part of a body. One that comes in one piece is not copied.
#[derive(Default)]
struct Received {
    expected: usize,
    first: Bytes,
    all: BytesMut,
}

impl Received {
    fn length(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    fn add(&mut self, data: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(self.expected.max(self.first.len() + data.len()));
            self.all.extend_from_slice(&self.first);
            self.first = Bytes::new();
        }
        self.all.extend_from_slice(&data);
    }

    fn whole(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(most: usize) -> Failure {
    let sentence = format!("The body is larger than {most} bytes");
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, sentence)
}

fn not_utf8() -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, "Malformed JSON: the body is not UTF-8")
}

/// Reads a JSON object.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(bytes).map_err(|_| not_utf8())?;
    // Serde would take an array for an object, field by field.
    let is_object = text.trim_ascii_start().starts_with('{');
    if !text.is_empty() && !is_object && is_json(text) {
        return Err(Failure::new(StatusCode::BAD_REQUEST, "The body must be a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| {
        let stops = error.to_string().contains(TOO_DEEP);
        // Too deep for a tree, or no JSON anyway.
        if stops && is_json(text) { gateway::too_deep().into() } else { malformed(&error) }
    })
}

/// Whether a text is JSON, however deep: no tree of it is built.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
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

/// A message of serde as a sentence for people.
fn malformed(error: &serde_json::Error) -> Failure {
    let said = error.to_string();
    if said.starts_with(MALFORMED) {
        let sentence: String = said.chars().take(MALFORMED.len() + LONGEST_FAULT).collect();
        return Failure::new(StatusCode::BAD_REQUEST, sentence);
    }
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
            format!("{MALFORMED}{}", said.chars().take(LONGEST_FAULT).collect::<String>())
        }
    };
    Failure::new(StatusCode::BAD_REQUEST, sentence)
}

/// The expectation in a message, in the words of JSON instead of our own types.
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Request {
        #[expect(dead_code, reason = "only read to see whether it is there")]
        trace_id: String,
    }

    fn said(json: &str) -> String {
        malformed(&serde_json::from_str::<Request>(json).unwrap_err()).into_body().error
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
