//! Forms that call a model. One that is sent again as it was, by a reload, a second click or a connection that broke,
//! is answered as before, or with the words that its answer is not there: no model is called, and nothing is spent.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use gateway::{Caller, Error, IdempotencyFault, IdempotentRequest};

use crate::app::App;
use crate::console::visit::Visit;
use crate::http::dialect::Dialect;
use crate::http::error::Failure;
use crate::http::idempotency::{HangUp, once_of};
use crate::inference::chat::ChatCompletions;
use crate::inference::chat_body::ChatBody;
use crate::inference::format;

/// The field of a form that holds its one-time value.
pub(super) const FIELD: &str = "once";

/// The longest value, in characters: those of our pages have 32 at the most.
const LONGEST_VALUE: usize = 64;

/// A form that was sent.
#[derive(Debug)]
pub(super) struct Sent<'a> {
    /// Its one-time value. Without any it is carried out however often it comes.
    pub(super) value: Option<&'a str>,
    /// The path that it was sent to.
    pub(super) path: &'a str,
    /// The question to the model: another one is another call, also in the same form.
    pub(super) content: String,
    /// The fate of the call if nobody waits for its answer any more.
    pub(super) hang_up: HangUp,
}

/// Calls a model for a form, by chat completions, or answers the form as before.
pub(super) async fn called(
    app: &App,
    visit: &Visit,
    caller: Caller,
    sent: Sent<'_>,
    body: ChatBody,
) -> std::result::Result<Response, Failure> {
    let asked = app.clone();
    let work = move |caller: Caller| async move {
        let (headers, dialect) = (HeaderMap::new(), Dialect::Vendor);
        let answer = format::answer::<ChatCompletions>(&asked, &caller, &headers, body, dialect);
        answer.await.unwrap_or_else(IntoResponse::into_response)
    };
    let Sent { value, path, content, hang_up } = sent;
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        drop(content);
        return Ok(work(caller).await);
    };
    if value.chars().count() > LONGEST_VALUE {
        return Err(Error::invalid(visit.t.words.once_too_long).into());
    }
    // Nobody gets the answer to a form of somebody else, whoever may use the key.
    let path = format!("{path} {} {value}", visit.member().user.0);
    let body = content.as_bytes();
    let asked = IdempotentRequest { idempotency_key: &content, path: &path, query: "", body };
    let asked = asked.hashed(&caller).await?;
    // The call has what is asked, and takes its time.
    drop(content);
    let answered = once_of(app, &caller, asked, hang_up, work).await;
    answered.map_err(|error| {
        let sentence = match error {
            Error::Idempotency(IdempotencyFault::Running) => visit.t.words.sent_and_runs,
            Error::Idempotency(_) => visit.t.words.sent_without_answer,
            other => return other.into(),
        };
        Failure::new(StatusCode::CONFLICT, sentence)
    })
}
