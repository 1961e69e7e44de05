//! One model: its definition, its endpoints.

use askama::Template;

use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::Choice;

/// An endpoint of a model.
#[derive(Clone, Debug)]
pub struct EndpointRow {
    /// Its name: `endpoint 1`.
    pub name: String,
    /// Its address; `None` for the vendor's own.
    pub address: Option<String>,
    /// Its region.
    pub region: String,
    /// Whether its circuit is open: it gets no calls.
    pub is_open: bool,
    /// The outcome of a check: `Ok` if it was reached.
    pub check: Option<Result<(), String>>,
}

/// A model, or the form of a new one.
#[derive(Debug, Template)]
#[template(path = "model.html")]
pub struct ModelPage {
    /// The frame.
    pub frame: Frame,
    /// Its number; `None` for a new one.
    pub id: Option<i64>,
    /// The version of the fields that the form has.
    pub base: String,
    /// Its name.
    pub name: String,
    /// The identifier that callers pass.
    pub identifier: String,
    /// The providers.
    pub providers: Vec<Choice>,
    /// Its address; empty for the vendor's own.
    pub base_url: String,
    /// Whether a credential is stored.
    pub has_key: bool,
    /// Whether it is public.
    pub is_public: bool,
    /// USD per 1,000 prompt tokens.
    pub input_price: String,
    /// USD per 1,000 completion tokens.
    pub output_price: String,
    /// Its region.
    pub region: String,
    /// Days until the data of its calls is deleted.
    pub retention: String,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Its endpoints, and the outcome of a check.
    pub endpoints: Vec<EndpointRow>,
    /// Whether the user may change it.
    pub may_change: bool,
}

impl ModelPage {
    /// The identifier as a value of a query.
    fn encoded(&self) -> String {
        form_urlencoded::byte_serialize(self.identifier.as_bytes()).collect()
    }

    fn action(&self) -> String {
        self.id.map_or_else(|| "/models".to_owned(), |id| format!("/models/{id}"))
    }
}
