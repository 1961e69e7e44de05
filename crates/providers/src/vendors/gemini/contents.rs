//! The turns of a conversation as contents.

use std::borrow::Cow;

use domain::json_weight::InnerJson;
use domain::model::Model;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::chat_form::ids;
use crate::chat_form::parts::{Audio, Document, Image, Part, Speaker, ToolResult, Turn};
use crate::error::Error;
use crate::vendors::gemini::is_recent;

/// Replacement for the signature of a function call that this model has not made itself, because the
/// history comes from another model or the caller did not keep it. Without any, models of the third
/// generation refuse the history. From Google's page on thought signatures.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whole numbers beyond this (2^53) do not survive in Google's `Struct`, whose numbers are doubles.
const MOST_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) parts: Vec<Piece<'a>>,
}

/// A part of a content.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(super) enum Piece<'a> {
    /// A part as the model itself wrote it.
    Own(&'a Value),
    Text {
        text: &'a str,
    },
    /// An image, a document or a recording.
    Image {
        inline_data: Blob<'a>,
    },
    Call {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    Result {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob<'a> {
    mime_type: Cow<'a, str>,
    data: &'a str,
}

/// A call without an id: other models' ids mean nothing here, and without ids the results are matched
/// by name and order.
#[derive(Debug, Serialize)]
pub(super) struct FunctionCall<'a> {
    name: &'a str,
    args: &'a Value,
}

#[derive(Debug, Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
}

/// The result of a tool, which must be an object here.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Response<'a> {
    Object(Map<String, Value>),
    /// Google's names for the result of a function, and for its error.
    Output {
        output: Output<'a>,
    },
    Error {
        error: Output<'a>,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Texts(&'a [&'a str]),
}

/// A call of the turn before that requires a result.
struct Asked<'a> {
    /// The id that the caller has, unless it is an invented one.
    id: Option<&'a str>,
    /// The provider's id.
    own_id: Option<&'a str>,
    name: &'a str,
    /// Its index among the calls of its message.
    index: usize,
    answered: bool,
}

pub(super) fn contents<'a>(
    turns: &'a [Turn<'a>],
    model: &Model,
) -> Result<Vec<Content<'a>>, Error> {
    let signs = is_recent(model);
    let mut asked = Vec::new();
    let mut contents = Vec::with_capacity(turns.len());
    let mut inner = InnerJson::default();
    for turn in turns {
        contents.push(match turn.speaker {
            Speaker::Model => {
                asked.clear();
                Content { role: Some("model"), parts: model_parts(turn, signs, &mut asked)? }
            }
            Speaker::User => {
                Content { role: Some("user"), parts: user_parts(turn, &mut asked, &mut inner)? }
            }
        });
    }
    Ok(contents)
}

fn model_parts<'a>(
    turn: &'a Turn<'a>,
    signs: bool,
    asked: &mut Vec<Asked<'a>>,
) -> Result<Vec<Piece<'a>>, Error> {
    let mut pieces = Vec::with_capacity(turn.parts.len());
    for part in &turn.parts {
        match part {
            Part::ProviderBlock(part, index) => {
                pieces.push(Piece::Own(part));
                asked.extend(own_call(part, *index));
            }
            Part::Call(call) => {
                // Only the first of parallel calls is signed.
                let first = asked.is_empty();
                asked.push(Asked {
                    id: Some(call.id),
                    own_id: None,
                    name: call.name,
                    index: asked.len(),
                    answered: false,
                });
                pieces.push(Piece::Call {
                    function_call: FunctionCall { name: call.name, args: &call.arguments },
                    thought_signature: (signs && first).then_some(NO_SIGNATURE),
                });
            }
            // The provider caches prompts by itself.
            Part::Breakpoint(_) => {}
            part => pieces.push(piece_of(part)?),
        }
    }
    Ok(pieces)
}

fn user_parts<'a>(
    turn: &'a Turn<'a>,
    asked: &mut [Asked<'a>],
    inner: &mut InnerJson,
) -> Result<Vec<Piece<'a>>, Error> {
    let mut results = Vec::new();
    let mut others = Vec::new();
    for part in &turn.parts {
        match part {
            Part::Result(result) => results.push(answer(result, asked, inner)),
            Part::Breakpoint(_) => {}
            part => others.push(piece_of(part)?),
        }
    }
    // Results are in the order of the calls, which distinguishes those without ids.
    results.sort_by_key(|(place, _)| *place);
    let mut pieces: Vec<_> = results.into_iter().map(|(_, piece)| piece).collect();
    pieces.append(&mut others);
    Ok(pieces)
}

/// Returns a result, and the index of the call that it answers.
fn answer<'a>(
    result: &'a ToolResult<'a>,
    asked: &mut [Asked<'a>],
    inner: &mut InnerJson,
) -> (usize, Piece<'a>) {
    let invented = ids::index_of(result.id);
    let place = asked.iter().position(|call| {
        let named = match call.id {
            Some(id) => id == result.id,
            None => invented == Some(call.index),
        };
        named && !call.answered && call.name == result.name
    });
    let id = place.and_then(|place| {
        asked[place].answered = true;
        asked[place].own_id
    });
    let response = response(result, inner);
    let function_response = FunctionResponse { id, name: result.name, response };
    (place.unwrap_or(usize::MAX), Piece::Result { function_response })
}

fn response<'a>(result: &'a ToolResult<'a>, inner: &mut InnerJson) -> Response<'a> {
    let output = match result.texts.as_slice() {
        [] => Output::Text(""),
        [text] => Output::Text(text),
        texts => Output::Texts(texts),
    };
    if result.is_error {
        return Response::Error { error: output };
    }
    let object = match &output {
        Output::Text(text) => inner.read::<Map<String, Value>>(text),
        Output::Texts(_) => None,
    };
    match object {
        Some(object) if object.values().all(is_exact) => Response::Object(object),
        _ => Response::Output { output },
    }
}

/// Whether every number keeps its value on Google's side: long ids often do not.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_f64().is_some_and(|number| number.abs() < MOST_EXACT_INTEGER)
        }
        Value::Array(list) => list.iter().all(is_exact),
        Value::Object(object) => object.values().all(is_exact),
        _ => true,
    }
}

fn piece_of<'a>(part: &Part<'a>) -> Result<Piece<'a>, Error> {
    match part {
        Part::Text(text) => Ok(Piece::Text { text }),
        Part::Image(Image::Data { mime, base64 }) => {
            Ok(Piece::Image { inline_data: Blob { mime_type: (*mime).into(), data: base64 } })
        }
        Part::Document(Document { mime, base64, .. })
            if *mime == "application/pdf" || mime.starts_with("text/") =>
        {
            Ok(Piece::Image { inline_data: Blob { mime_type: (*mime).into(), data: base64 } })
        }
        Part::Audio(Audio { format, base64 }) => {
            let mime_type = format!("audio/{format}").into();
            Ok(Piece::Image { inline_data: Blob { mime_type, data: base64 } })
        }
        Part::Document(_) => {
            Err(Error::unsupported("Gemini models take documents as PDF or text only"))
        }
        Part::Image(Image::Url(_)) => Err(Error::unsupported(
            "Gemini models do not fetch images: send image_url as a data: URL",
        )),
        // Calls and results occur only in the turns of their speakers.
        Part::Call(_) | Part::Result(_) | Part::ProviderBlock(..) | Part::Breakpoint(_) => {
            Err(Error::unsupported("A message holds what its role cannot say"))
        }
    }
}

/// Returns the call in a part that the model itself wrote.
fn own_call(part: &Value, index: usize) -> Option<Asked<'_>> {
    let call = part.get("functionCall")?;
    let text = |name| call.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let id = text("id");
    let name = text("name").unwrap_or_default();
    Some(Asked { id, own_id: id, name, index, answered: false })
}
