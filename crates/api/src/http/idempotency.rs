//! Requests with an `Idempotency-Key`, on every endpoint that spends, and forms of the console that call a model:
//! carried out once, answered alike whenever they come again. The gateway decides; here the header is read, and answers
//! become bytes and come back.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use gateway::{
    AnswerBytes, AnswerEnd, Caller, ClaimedRequest, Error, HashedRequest, IdempotentRequest,
    KeptAnswer, Once, RequestEnd,
};
use http_body_util::BodyExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::app::App;
use crate::http::body;
use crate::http::error::{Failure, Result, SHOULD_RETRY};
use crate::http::vendor_errors::{self, OUR_ID, THEIR_ID};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Marks an answer that was given before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key, in characters.
const LONGEST_KEY: usize = 255;
/// The pieces of a streamed answer that wait for its caller: few answers have more, so that one who reads slowly does
/// not hold those up who wait for the answer.
const PIECES: usize = 4096;

/// The headers of an answer that belong to one request, or to its connection.
const OF_ONE_REQUEST: [HeaderName; 6] =
    [OUR_ID, THEIR_ID, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, DATE];

/// Whether a request that spends is to be carried out once.
pub fn is_asked_for(request: &Request) -> bool {
    request.headers().contains_key(IDEMPOTENCY_KEY) && request.method() == Method::POST
}

/// The fate of the work on a request whose caller hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangUp {
    /// It goes on: the answer is there when they ask again.
    GoesOn,
    /// It ends, and costs no more. A request that has left is not sent once more either.
    Ends,
}

/// Carries a request out, or answers it as it was answered before.
pub async fn once(app: App, caller: Caller, mut request: Request, next: Next) -> Result<Response> {
    let idempotency_key = key_of(request.headers())?;
    // The memory for the body is the caller's.
    request.extensions_mut().insert(caller.clone());
    let (mut request, bytes) = body::received(request, &app).await?;
    let path = request.uri().path().to_owned();
    let query = query_of(request.uri());
    let asked = IdempotentRequest {
        idempotency_key: &idempotency_key,
        path: &path,
        query: &query,
        body: &bytes,
    };
    let asked = asked.hashed(&caller).await?;
    let work = move |caller: Caller| {
        let id = request.headers().get(OUR_ID).cloned();
        request.extensions_mut().insert(caller);
        async move {
            let response = next.run(request).await;
            // As it leaves, so that it comes again in the same form.
            vendor_errors::in_form_of(&path, id, response)
        }
    };
    once_of(&app, &caller, asked, HangUp::GoesOn, work).await.map_err(Failure::from)
}

/// Carries the work on a request out, for the caller that it is given, or answers as it was answered before.
pub async fn once_of<W>(
    app: &App,
    caller: &Caller,
    asked: HashedRequest,
    hang_up: HangUp,
    work: impl FnOnce(Caller) -> W,
) -> std::result::Result<Response, Error>
where
    W: Future<Output = Response> + Send + 'static,
{
    let claimed = match app.gateway.once(caller, asked).await? {
        Once::Again(answer) => return Ok(replayed(*answer)),
        Once::First(claimed) => claimed,
    };
    let work = work(claimed.caller());
    let (answer, response) = oneshot::channel();
    spawn(claimed, hang_up, work, answer);
    // There is none if a defect has ended the task.
    response.await.map_err(|_| Error::Internal("a request was given up".to_owned()))
}

/// The key of a request. Refuses one that cannot be meant.
fn key_of(headers: &HeaderMap) -> Result<String> {
    let refusal = |fault: &str| {
        let sentence = format!("The header Idempotency-Key {fault}");
        Failure::new(StatusCode::BAD_REQUEST, sentence)
    };
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = keys.next().map(HeaderValue::as_bytes).unwrap_or_default();
    if keys.next().is_some() {
        return Err(refusal("is there twice"));
    }
    let key = std::str::from_utf8(key).map_err(|_| refusal("is not UTF-8"))?;
    if key.is_empty() {
        return Err(refusal("is empty"));
    }
    if key.chars().count() > LONGEST_KEY {
        return Err(refusal("has more than 255 characters"));
    }
    if key.chars().any(char::is_control) {
        return Err(refusal("has a control character"));
    }
    Ok(key.to_owned())
}

/// The query of a request without its credential, which may have been replaced since the first one.
fn query_of(uri: &Uri) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.starts_with("key=")).collect::<Vec<_>>().join("&")
}

/// Does the work on a request in a task of the gateway, and passes its answer on while its caller is there.
fn spawn(
    claimed: ClaimedRequest,
    hang_up: HangUp,
    work: impl Future<Output = Response> + Send + 'static,
    mut caller: oneshot::Sender<Response>,
) {
    let bytes = claimed.answer_bytes();
    claimed.spawn(async move {
        let response = match hang_up {
            HangUp::GoesOn => work.await,
            HangUp::Ends => tokio::select! {
                response = work => response,
                () = caller.closed() => return broken_off(),
            },
        };
        let (parts, body) = response.into_parts();
        let has_succeeded = parts.status.is_success();
        let head = KeptAnswer::new(parts.status.as_u16(), kept_headers(&parts.headers));
        if body.size_hint().exact().is_some() {
            let (answer, leaves) = whole((parts, body), (head, bytes), caller).await;
            return RequestEnd { has_succeeded, answer, leaves };
        }
        let answer = streamed((parts, body), (head, bytes), caller, hang_up).await;
        RequestEnd { has_succeeded, answer, leaves: Box::new(|| {}) }
    });
}

/// The end of a request whose caller has gone, and with them all work on it.
fn broken_off() -> RequestEnd {
    RequestEnd { has_succeeded: false, answer: AnswerEnd::BrokenOff, leaves: Box::new(|| {}) }
}

/// A whole answer, and what sends it.
async fn whole(
    (parts, body): (Parts, Body),
    (head, mut kept): (KeptAnswer, AnswerBytes),
    caller: oneshot::Sender<Response>,
) -> (AnswerEnd, Box<dyn FnOnce() + Send>) {
    // A body whose size is known is in memory, and does not break off.
    let Ok(bytes) = body.collect().await else { return (AnswerEnd::BrokenOff, Box::new(|| {})) };
    let bytes = bytes.to_bytes();
    let answer = if kept.add(&bytes) { AnswerEnd::Whole(head, kept) } else { AnswerEnd::TooLarge };
    let leaves = move || {
        // The caller may have gone.
        let _ = caller.send(Response::from_parts(parts, Body::from(bytes)));
    };
    (answer, Box::new(leaves))
}

/// A piece of a streamed answer on its way to the caller; `None` is its end.
type Passed = Option<std::result::Result<Bytes, axum::Error>>;

/// Passes a streamed answer on piece by piece, and returns what of it is kept.
async fn streamed(
    (parts, mut body): (Parts, Body),
    (head, kept): (KeptAnswer, AnswerBytes),
    caller: oneshot::Sender<Response>,
    hang_up: HangUp,
) -> AnswerEnd {
    let (pieces, waiting) = mpsc::channel(PIECES);
    let has_come = caller.send(Response::from_parts(parts, passed_body(waiting))).is_ok();
    let mut caller = has_come.then_some(pieces);
    let (mut kept, mut is_broken) = (Some(kept), false);
    loop {
        let frame = match (&caller, hang_up) {
            (_, HangUp::GoesOn) => body.frame().await,
            (None, HangUp::Ends) => return AnswerEnd::BrokenOff,
            (Some(pieces), HangUp::Ends) => tokio::select! {
                frame = body.frame() => frame,
                () = pieces.closed() => return AnswerEnd::BrokenOff,
            },
        };
        let Some(frame) = frame else { break };
        let piece = match frame {
            Ok(frame) => match frame.into_data() {
                Ok(data) => Ok(data),
                Err(_) => continue,
            },
            Err(error) => Err(error),
        };
        match &piece {
            Ok(data) => kept = kept.take().and_then(|mut kept| kept.add(data).then_some(kept)),
            Err(_) => is_broken = true,
        }
        // A caller who has gone gets the answer when they ask again.
        if let Some(pieces) = &caller
            && pieces.send(Some(piece)).await.is_err()
        {
            caller = None;
        }
    }
    if let Some(pieces) = &caller {
        // A caller that has gone needs no end.
        let _ = pieces.send(None).await;
    }
    match kept {
        _ if is_broken => AnswerEnd::BrokenOff,
        Some(kept) => AnswerEnd::Whole(head, kept),
        None => AnswerEnd::TooLarge,
    }
}

/// The body of a streamed answer. It breaks off if its pieces stop without an end, since it must not seem whole.
fn passed_body(waiting: mpsc::Receiver<Passed>) -> Body {
    let next = |waiting: Option<mpsc::Receiver<Passed>>| async move {
        let mut waiting = waiting?;
        match waiting.recv().await {
            Some(Some(piece)) => Some((piece, Some(waiting))),
            Some(None) => None,
            None => Some((Err(axum::Error::new("the answer broke off")), None)),
        }
    };
    Body::from_stream(stream::unfold(Some(waiting), next))
}

/// The headers of an answer that are kept.
fn kept_headers(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let kept = headers.iter().filter(|(name, _)| !OF_ONE_REQUEST.contains(*name));
    kept.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// An answer that was given before.
fn replayed(answer: KeptAnswer) -> Response {
    let KeptAnswer { status, headers, body, .. } = answer;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let kept = headers.into_iter().filter_map(|(name, value)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    });
    for (name, value) in kept {
        response.headers_mut().append(name, value);
    }
    if !response.status().is_success() {
        // The same key gives the same answer.
        response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_meant_is_refused() {
        let told = |keys: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(key).unwrap());
            }
            key_of(&headers)
                .map_err(|failure| (failure.status().as_u16(), failure.into_body().error))
        };
        for key in ["a", "stainless-python-retry-3f0c", "ключ", &"é".repeat(255)] {
            assert_eq!(told(&[key.as_bytes()]).unwrap(), key);
        }
        let long = "x".repeat(256);
        for (keys, fault) in [
            (&[&b""[..]][..], "is empty"),
            (&[long.as_bytes()], "more than 255"),
            (&[b"a\tb"], "control"),
            (&["a\u{85}b".as_bytes()], "control"),
            (&[b"\xff"], "UTF-8"),
            (&[b"a", b"b"], "twice"),
        ] {
            let (status, error) = told(keys).unwrap_err();
            assert!(status == 400 && error.contains(fault), "{error}");
        }
    }

    #[tokio::test]
    async fn an_answer_whose_pieces_stop_does_not_seem_whole() {
        let piece = || Some(Ok(Bytes::from_static(b"a")));
        let (pieces, waiting) = mpsc::channel(4);
        pieces.send(piece()).await.unwrap();
        pieces.send(None).await.unwrap();
        let whole = passed_body(waiting).collect().await.unwrap().to_bytes();
        assert_eq!(whole, "a");
        let (pieces, waiting) = mpsc::channel(4);
        pieces.send(piece()).await.unwrap();
        drop(pieces);
        assert!(passed_body(waiting).collect().await.is_err());
    }

    #[test]
    fn a_credential_is_no_part_of_the_query() {
        for (uri, query) in [
            ("/a", ""),
            ("/a?key=k&alt=sse", "alt=sse"),
            ("/a?alt=sse&monkey=1", "alt=sse&monkey=1"),
        ] {
            assert_eq!(query_of(&uri.parse().unwrap()), query);
        }
    }
}
