//! The reasons why a server could not be used.

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
    /// It refused the request; the text is its own, and may repeat the credentials that it received.
    #[error("it refused the request")]
    Refused(String),
    /// It has forgotten the conversation, and has done nothing.
    #[error("it has forgotten the conversation")]
    Gone,
    /// It requested input that we do not offer.
    #[error("it asked for input that the gateway cannot give")]
    Asks,
}
