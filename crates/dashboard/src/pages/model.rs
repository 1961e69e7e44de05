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

/// The prompt of a test call.
pub const CALL_PROMPT: &str = "Hi";

/// The outcome of a test call.
#[derive(Clone, Debug)]
pub struct TestCall {
    /// Whether the model has answered.
    pub is_answered: bool,
    /// Whether it was made before, for the same form.
    pub is_repeated: bool,
    /// The status of the reply.
    pub status: u16,
    /// Its answer, or what is wrong in the provider's words.
    pub words: String,
    /// Its figures.
    pub fields: Vec<String>,
    /// The address of its trace.
    pub href: Option<String>,
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
    /// The keys that can pay for a test call.
    pub keys: Vec<Choice>,
    /// The one-time value of the form of a test call.
    pub once: String,
    /// A test call that was made.
    pub called: Option<TestCall>,
    /// Whether the user may change it.
    pub may_change: bool,
}

impl ModelPage {
    /// The identifier as a value of a query.
    fn encoded(&self) -> String {
        form_urlencoded::byte_serialize(self.identifier.as_bytes()).collect()
    }

    /// The address that a test call is asked for at, if a key can pay for it.
    fn call(&self) -> Option<String> {
        let id = self.id.filter(|_| !self.keys.is_empty())?;
        Some(self.frame.href(&format!("/models/{id}/call")))
    }

    fn action(&self) -> String {
        self.id.map_or_else(|| "/models".to_owned(), |id| format!("/models/{id}"))
    }
}
