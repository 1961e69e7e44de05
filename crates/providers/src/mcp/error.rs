//! The reasons why a server could not be used.

use domain::secret::Secret;

use crate::credentials::scrub::scrub;

/// The reason why a server could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The egress rules do not let us call there.
    #[error("the egress rules forbid its address")]
    Forbidden,
    /// It could not be connected to, or the connection broke.
    #[error("it could not be reached")]
    Unreachable,
    /// It answered with a status that is no success.
    #[error("it answered with status {0}")]
    Status(u16),
    /// Its message is not MCP.
    #[error("its answer made no sense")]
    Malformed,
    /// It sent more than the bounds allow.
    #[error("{0}")]
    TooMuch(&'static str),
    /// It did not answer in time.
    #[error("it did not answer in time")]
    Late,
    /// It refused the request; the text is its own.
    #[error("it refused the request")]
    Refused(String),
    /// It has forgotten the conversation, and has done nothing.
    #[error("it has forgotten the conversation")]
    Gone,
    /// It requested input that we do not offer.
    #[error("it asked for input that the gateway cannot give")]
    Asks,
}

impl McpError {
    /// Creates the error of a refusal, whose text is the server's own.
    pub(super) fn refused(text: &str, token: Option<&Secret>) -> Self {
        Self::Refused(scrub(text, token))
    }
}
