//! Requests read beside their bodies: queries, path segments, and forms of fields. Every fault is JSON.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query as AxumQuery, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use domain::ids::{
    InsightId, KeyId, ModelId, ProjectId, ServiceTokenId, SignOnProviderId, StepId, UserId,
};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};

use crate::app::App;
use crate::http::body::LONGEST_FAULT;
use crate::http::error::{Failure, Result};

/// A query string.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let query = AxumQuery::from_request_parts(parts, app).await;
        query.map(|AxumQuery(query)| Self(query)).map_err(|rejection: QueryRejection| {
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

/// The segments of a path. A segment that is no id of the right form names nothing that exists.
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
    /// A segment, unparsed.
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

    /// The step that the path names.
    pub fn step(&self) -> Result<StepId> {
        self.text("step_id")?.parse().map_err(|_| not_found())
    }

    /// The insight that the path names.
    pub fn insight(&self) -> Result<InsightId> {
        self.text("insight_id")?.parse().map_err(|_| not_found())
    }

    /// The user that the path names.
    pub fn user(&self) -> Result<UserId> {
        self.text("user_id")?.parse().map_err(|_| not_found())
    }

    /// The provider of single sign-on that the path names.
    pub fn sign_on_provider(&self) -> Result<SignOnProviderId> {
        self.text("provider_id")?.parse().map_err(|_| not_found())
    }

    /// The service token that the path names.
    pub fn service_token(&self) -> Result<ServiceTokenId> {
        self.text("id")?.parse().map_err(|_| not_found())
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

/// A list of [`object`]s, or none at all.
pub fn objects<'de, D, T>(deserializer: D) -> std::result::Result<Option<Vec<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    let list = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|Object(value)| value).collect()))
}

/// An object of a type that is read by its fields' names alone.
pub(crate) struct Object<T>(pub(crate) T);

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

/// Distinguishes a null field from an absent one.
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
