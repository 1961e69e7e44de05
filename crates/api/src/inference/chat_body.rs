//! The body of a chat completion request.
//!
//! Read by hand where a derived reader would hold it twice: `serde(flatten)` keeps every unknown field in
//! a form of its own before it becomes a tree.

use std::fmt::{self, Formatter};

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::extract::Object;

/// A chat completion request: the standard fields and `trace_id`.
#[derive(Default, ToSchema)]
pub struct ChatBody {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well.
    pub(crate) trace_id: Option<String>,
    /// A registered model; without one the request is routed.
    pub(crate) model: Option<String>,
    /// The conversation, oldest first.
    pub(crate) messages: Vec<MessageBody>,
    /// Answer with server-sent events.
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    /// The most completion tokens.
    #[schema(minimum = 1)]
    pub(crate) max_tokens: Option<u64>,
    /// The newer name of `max_tokens`.
    #[schema(minimum = 1)]
    pub(crate) max_completion_tokens: Option<u64>,
    /// Every other parameter goes to providers of the same format as it is, but for those by which a
    /// caller would choose another model, such as `models` and `provider`: they are refused.
    #[schema(value_type = Object)]
    pub(crate) params: Map<String, Value>,
}

/// How to stream.
#[derive(Deserialize, ToSchema)]
pub struct StreamOptions {
    /// Whether a last chunk reports the usage.
    #[serde(default)]
    pub(crate) include_usage: Option<bool>,
}

/// One message.
#[derive(ToSchema)]
pub struct MessageBody {
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub(crate) role: String,
    /// A text, an array of content parts, or null.
    #[schema(value_type = Option<Value>)]
    pub(crate) content: Option<ContentBody>,
    #[schema(value_type = Object)]
    pub(crate) extra: Map<String, Value>,
}

/// The content of a message.
pub(crate) enum ContentBody {
    Text(String),
    Parts(Vec<Value>),
}

impl<'de> Deserialize<'de> for ChatBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = ChatBody;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChatBody, A::Error> {
                let mut body = ChatBody::default();
                let mut messages = None;
                let mut known = Once::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "trace_id" => body.trace_id = known.next("trace_id", &mut map)?,
                        "model" => body.model = known.next("model", &mut map)?,
                        "messages" => messages = Some(known.next("messages", &mut map)?),
                        "stream" => body.stream = known.next("stream", &mut map)?,
                        "stream_options" => {
                            let options: Option<Object<_>> =
                                known.next("stream_options", &mut map)?;
                            body.stream_options = options.map(|Object(options)| options);
                        }
                        "max_tokens" => body.max_tokens = known.next("max_tokens", &mut map)?,
                        "max_completion_tokens" => {
                            body.max_completion_tokens =
                                known.next("max_completion_tokens", &mut map)?;
                        }
                        _ => {
                            let value = map.next_value()?;
                            body.params.insert(name, value);
                        }
                    }
                }
                body.messages = messages.ok_or_else(|| de::Error::missing_field("messages"))?;
                Ok(body)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for MessageBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = MessageBody;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessageBody, A::Error> {
                let (mut role, mut content, mut extra) = (None, None, Map::new());
                let mut known = Once::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "role" => role = Some(known.next("role", &mut map)?),
                        "content" => content = known.next("content", &mut map)?,
                        _ => {
                            let value = map.next_value()?;
                            extra.insert(name, value);
                        }
                    }
                }
                let role = role.ok_or_else(|| de::Error::missing_field("role"))?;
                Ok(MessageBody { role, content, extra })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// Reads each known field once.
#[derive(Default)]
struct Once(Vec<&'static str>);

impl Once {
    fn next<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
        &mut self,
        name: &'static str,
        map: &mut A,
    ) -> Result<T, A::Error> {
        if self.0.contains(&name) {
            return Err(de::Error::duplicate_field(name));
        }
        self.0.push(name);
        map.next_value()
    }
}

// An untagged enum would copy every prompt once more.
impl<'de> Deserialize<'de> for ContentBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = ContentBody;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("content to be a text, an array of parts or null")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<ContentBody, E> {
                Ok(ContentBody::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<ContentBody, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(ContentBody::Parts)
            }
        }

        deserializer.deserialize_any(Either)
    }
}
