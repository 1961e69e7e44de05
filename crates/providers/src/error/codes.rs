//! The codes by which programs tell the faults of their requests apart.

/// The codes by which OpenAI and compatible servers name the faults of a request that programs handle:
/// <https://platform.openai.com/docs/guides/error-codes>, and the codes in the answers of its API.
const CODES: [&str; 20] = [
    "array_above_max_length",
    "context_length_exceeded",
    "empty_array",
    "image_content_policy_violation",
    "integer_above_max_value",
    "integer_below_min_value",
    "invalid_base64_image",
    "invalid_encrypted_content",
    "invalid_function_parameters",
    "invalid_image_format",
    "invalid_json_schema",
    "invalid_prompt",
    "invalid_type",
    "invalid_value",
    "missing_required_parameter",
    "previous_response_not_found",
    "string_above_max_length",
    "unknown_parameter",
    "unsupported_parameter",
    "unsupported_value",
];

/// One of the codes, by its place among them: a server can put no other text into a caller's `code`, and
/// an error stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCode(u8);

impl FaultCode {
    /// The code of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let index = CODES.iter().position(|known| *known == name)?;
        u8::try_from(index).ok().map(Self)
    }

    /// Its name.
    pub fn name(self) -> Option<&'static str> {
        CODES.get(usize::from(self.0)).copied()
    }
}
