//! Embeddings: the request, its result, and the interface of a vendor that makes them.

use domain::model::Model;
use domain::trace_context::CallerTrace;
use http::HeaderMap;

use crate::adapter::request::Outgoing;
use crate::error::Error;

/// Texts to embed.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingRequest<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// At least one text.
    pub inputs: &'a [String],
    /// Number of components of each vector, if the model lets one choose.
    pub dimensions: Option<u64>,
    /// The trace that the call belongs to; `None` sends none.
    pub trace: Option<&'a CallerTrace>,
}

/// Vectors, in the order of the texts.
#[derive(Debug, Default, PartialEq)]
pub struct Embedded {
    /// One for each text.
    pub vectors: Vec<Vec<f32>>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The tokens of the texts, if the provider reported them.
    pub tokens: Option<u64>,
    /// Whether the tokens are those of only a part of the texts: the others were not counted.
    pub is_part: bool,
}

/// One vendor's way to make embeddings.
pub(crate) trait Embedder: Send + Sync {
    /// Returns the requests; their answers are joined in order.
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// Reads the vectors of one answer.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error>;
}
