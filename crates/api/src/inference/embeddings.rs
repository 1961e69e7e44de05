//! Embeddings.

use std::fmt;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::ids::StepId;
use gateway::{CallRecord, Caller, EmbeddingRequest, Embeddings, MOST_TEXTS, Refusal};
use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{OneOfBuilder, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::{GuardBody, Result};

/// Texts to embed.
#[derive(Deserialize, ToSchema)]
pub struct EmbeddingBody {
    /// An open trace of this key's project.
    trace_id: String,
    /// A text, or an array of texts: at most 2,048.
    input: InputBody,
    /// The identifier of a registered model; `text-embedding-3-small` by default.
    #[serde(default)]
    model: Option<String>,
    /// The length of each vector, if the model supports a choice.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 65_536)]
    dimensions: Option<u64>,
    /// `float`, or `base64`: each vector as the bytes of its float32 numbers, least significant first.
    #[serde(default)]
    #[schema(value_type = Option<Format>)]
    encoding_format: Option<String>,
}

/// The texts; of too many, only enough to detect that.
pub(crate) struct InputBody(Vec<String>);

impl PartialSchema for InputBody {
    fn schema() -> RefOr<Schema> {
        OneOfBuilder::new().item(String::schema()).item(Vec::<String>::schema()).into()
    }
}

impl ToSchema for InputBody {}

impl<'de> Deserialize<'de> for InputBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = InputBody;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("input to be a text or an array of texts")
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<InputBody, E> {
                Ok(InputBody(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<InputBody, A::Error> {
                let mut texts = Vec::new();
                while let Some(TextItem(text)) = seq.next_element()? {
                    texts.push(text);
                    if texts.len() > MOST_TEXTS {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        break;
                    }
                }
                Ok(InputBody(texts))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

/// The remedy for an input of token ids, which `LangChain`'s `OpenAIEmbeddings` sends unless it is set
/// otherwise.
const TOKENS_REFUSED: &str = "input holds token ids, which safety cannot read: send texts \
    (OpenAIEmbeddings of LangChain: check_embedding_ctx_length=False)";

/// A text of an array.
struct TextItem(String);

impl<'de> Deserialize<'de> for TextItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = TextItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("input to be a text or an array of texts")
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<TextItem, E> {
                Ok(TextItem(text.to_owned()))
            }

            // Only a vocabulary for each model could turn tokens into the text that safety reads.
            fn visit_u64<E: de::Error>(self, _: u64) -> std::result::Result<TextItem, E> {
                Err(E::custom(TOKENS_REFUSED))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> std::result::Result<TextItem, A::Error> {
                Err(de::Error::custom(TOKENS_REFUSED))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// How vectors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "lowercase")]
pub(crate) enum Format {
    Float,
    Base64,
}

/// Vectors.
#[derive(Debug, Serialize, ToSchema)]
pub struct VectorsBody {
    /// One for each text, in their order: an array of numbers, or a text if base64 was requested.
    embeddings: Vec<VectorBody>,
    /// The identifier of the model that made them.
    model: String,
    /// The tokens of the texts.
    usage_tokens: u64,
    /// The step that records it.
    #[schema(value_type = i64)]
    step_id: StepId,
}

/// A vector.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum VectorBody {
    Numbers(Vec<f32>),
    Base64(String),
}

/// Turn texts into vectors. Texts with credentials are refused, and those with highly sensitive
/// personal data if the model is public.
#[utoipa::path(post, path = "/api/v1/embeddings", tag = "Executions", request_body = EmbeddingBody,
    responses((status = 200, body = VectorsBody),
        (status = 403, body = GuardBody, description = "Blocked by the anti-leak guardrail, or the address may not call")))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(body): FlatBody<EmbeddingBody>,
) -> Result<Response> {
    let EmbeddingBody { trace_id, input, model, dimensions, encoding_format } = body;
    let (trace_id, user) = (Some(trace_id), None);
    let texts = Texts { trace_id, input, model, dimensions, encoding_format, user };
    Ok(match embed(&app, &caller, texts).await? {
        Ok(EmbeddedTexts { vectors, model, tokens, record }) => {
            let (embeddings, step_id) = (vectors, record.step);
            Json(VectorsBody { embeddings, model, usage_tokens: tokens, step_id }).into_response()
        }
        Err(refusal) => GuardBody {
            error: "Blocked by anti-leak guardrail",
            reason: Some(refusal.reason),
            violations: Vec::new(),
            step_id: refusal.step,
        }
        .into_response(),
    })
}

/// Texts to embed, in whichever dialect they came.
pub(crate) struct Texts {
    pub(crate) trace_id: Option<String>,
    pub(crate) input: InputBody,
    pub(crate) model: Option<String>,
    pub(crate) dimensions: Option<u64>,
    pub(crate) encoding_format: Option<String>,
    pub(crate) user: Option<String>,
}

/// Their vectors, as they are written.
pub(crate) struct EmbeddedTexts {
    pub(crate) vectors: Vec<VectorBody>,
    pub(crate) model: String,
    pub(crate) tokens: u64,
    pub(crate) record: CallRecord,
}

/// Has texts embedded, or refused by safety.
pub(crate) async fn embed(
    app: &App,
    caller: &Caller,
    texts: Texts,
) -> Result<std::result::Result<EmbeddedTexts, Refusal>> {
    let Texts { trace_id, input: InputBody(texts), model, dimensions, encoding_format, user } =
        texts;
    let model = model.filter(|model| !model.is_empty());
    let format = match encoding_format.as_deref() {
        None | Some("float") => Format::Float,
        Some("base64") => Format::Base64,
        Some(_) => {
            return Err(gateway::Error::invalid("encoding_format must be float or base64").into());
        }
    };
    let request = EmbeddingRequest { trace_id, model, texts, dimensions, user };
    Ok(match app.gateway.embed(caller, request).await? {
        Embeddings::Vectors { vectors, model, tokens, record } => {
            let vectors = vectors.into_iter().map(|vector| written(vector, format)).collect();
            Ok(EmbeddedTexts { vectors, model, tokens, record })
        }
        Embeddings::Blocked(refusal) => Err(refusal),
    })
}

fn written(vector: Vec<f32>, format: Format) -> VectorBody {
    match format {
        Format::Float => VectorBody::Numbers(vector),
        Format::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            VectorBody::Base64(STANDARD.encode(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(json: &str) -> std::result::Result<Vec<String>, String> {
        let body = serde_json::from_str::<InputBody>(json).map_err(|error| error.to_string());
        body.map(|InputBody(texts)| texts)
    }

    #[test]
    fn an_input_is_a_text_or_texts() {
        assert_eq!(texts(r#""a\n""#).unwrap(), ["a\n"]);
        assert_eq!(texts(r#"["a", ""]"#).unwrap(), ["a", ""]);
        assert!(texts("[]").unwrap().is_empty());
        for wrong in ["1", "null", "[1]", r#"[["a"]]"#, r#"{"a": 1}"#] {
            assert!(texts(wrong).is_err(), "{wrong}");
        }
        for tokens in ["[1, 2]", "[[1, 2], [3]]", "[[]]"] {
            let fault = texts(tokens).unwrap_err();
            assert!(fault.contains("check_embedding_ctx_length=False"), "{tokens}: {fault}");
        }
        // An input with too many texts is read to its end, but not kept.
        let many = json!(vec!["a"; 5000]).to_string();
        assert_eq!(texts(&many).unwrap().len(), MOST_TEXTS + 1);
    }

    #[test]
    fn vectors_are_numbers_or_their_bytes() {
        let write = |format| serde_json::to_string(&written(vec![1.0, -2.5, 0.1], format)).unwrap();
        assert_eq!(write(Format::Float), "[1.0,-2.5,0.1]");
        assert_eq!(write(Format::Base64), r#""AACAPwAAIMDNzMw9""#);
    }
}
