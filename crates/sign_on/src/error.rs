//! Why a sign-on, or the discovery of an issuer, fails.

use openidconnect::{ClaimsVerificationError, SignatureVerificationError};

/// Why a sign-on, or the discovery of an issuer, fails. None of it repeats what an issuer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignOnError {
    /// The egress rules forbid one of its addresses, or it is not https.
    #[error("an address of the issuer must not be called: it is private or not https")]
    Forbidden,
    /// It does not answer.
    #[error("the issuer does not answer")]
    Unreachable,
    /// It was not asked: too many requests of ours wait for it.
    #[error("too many sign-ons wait for the issuer")]
    Busy,
    /// It answers with another status than it should. Redirects are never followed.
    #[error("the issuer answers with an error or a redirect")]
    Status,
    /// Its metadata, or its keys, cannot be read.
    #[error("the issuer's metadata cannot be read")]
    Metadata,
    /// Its metadata is that of another issuer.
    #[error("the issuer's metadata names another issuer")]
    OtherIssuer,
    /// It does not exchange the code for a token.
    #[error("the issuer refuses the code")]
    Code,
    /// Its answer to a code cannot be read, or has no identity token.
    #[error("the issuer's token cannot be read")]
    Malformed,
    /// The token is of another issuer.
    #[error("the token is of another issuer")]
    TokenIssuer,
    /// The token is not for this client, or not for it alone.
    #[error("the token is for another client")]
    TokenAudience,
    /// The token has expired, or is of the future.
    #[error("the token has expired, or is not valid yet")]
    TokenTime,
    /// The token belongs to another sign-on.
    #[error("the token belongs to another sign-on")]
    TokenNonce,
    /// The token is not signed, or by an algorithm that is not accepted.
    #[error("the token is not signed by an algorithm that is accepted")]
    TokenAlgorithm,
    /// The issuer has no such key.
    #[error("the token is signed with a key that the issuer does not publish")]
    TokenKey,
    /// The signature does not fit.
    #[error("the signature of the token is wrong")]
    TokenSignature,
    /// The user's claims cannot be read, or are those of another user.
    #[error("the issuer's answer about the user cannot be read")]
    UserInfo,
}

impl SignOnError {
    /// Whether the code, or the token that came for it, is at fault, and not the issuer.
    pub fn is_of_code(self) -> bool {
        match self {
            Self::Code
            | Self::TokenIssuer
            | Self::TokenAudience
            | Self::TokenTime
            | Self::TokenNonce
            | Self::TokenAlgorithm
            | Self::TokenKey
            | Self::TokenSignature => true,
            Self::Forbidden
            | Self::Unreachable
            | Self::Busy
            | Self::Status
            | Self::Metadata
            | Self::OtherIssuer
            | Self::Malformed
            | Self::UserInfo => false,
        }
    }

    /// The fault as a word, for the audit.
    pub fn word(self) -> &'static str {
        match self {
            Self::Forbidden => "issuer_forbidden",
            Self::Unreachable => "issuer_unreachable",
            Self::Busy => "issuer_busy",
            Self::Status => "issuer_status",
            Self::Metadata => "issuer_metadata",
            Self::OtherIssuer => "issuer_other",
            Self::Code => "code_refused",
            Self::Malformed => "token_malformed",
            Self::TokenIssuer => "token_issuer",
            Self::TokenAudience => "token_audience",
            Self::TokenTime => "token_time",
            Self::TokenNonce => "token_nonce",
            Self::TokenAlgorithm => "token_algorithm",
            Self::TokenKey => "token_key",
            Self::TokenSignature => "token_signature",
            Self::UserInfo => "user_info",
        }
    }
}

impl From<ClaimsVerificationError> for SignOnError {
    fn from(error: ClaimsVerificationError) -> Self {
        use ClaimsVerificationError as Claims;
        use SignatureVerificationError as Signature;
        match error {
            Claims::Expired(_) => Self::TokenTime,
            Claims::InvalidAudience(_) => Self::TokenAudience,
            Claims::InvalidIssuer(_) => Self::TokenIssuer,
            Claims::InvalidNonce(_) => Self::TokenNonce,
            Claims::SignatureVerification(fault) => match fault {
                Signature::DisallowedAlg(_)
                | Signature::NoSignature
                | Signature::UnsupportedAlg(_) => Self::TokenAlgorithm,
                Signature::NoMatchingKey | Signature::AmbiguousKeyId(_) => Self::TokenKey,
                _ => Self::TokenSignature,
            },
            _ => Self::Malformed,
        }
    }
}
