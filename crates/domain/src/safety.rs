//! The vocabulary of the safety layer: its findings, and the actions that a project sets for them.

use serde::{Deserialize, Serialize};

/// The action when a category of finding is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Record it on the step; change nothing.
    Flag,
    /// Replace the text by a placeholder before a provider sees it.
    Redact,
    /// Refuse the request.
    Block,
}

/// The four kinds of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Personal data.
    Pii,
    /// A prompt injection or a jailbreak.
    Injection,
    /// A credential.
    Secret,
    /// A rule of the project's own.
    Policy,
}

impl Category {
    /// The word in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pii => "pii",
            Self::Injection => "injection",
            Self::Secret => "secret",
            Self::Policy => "policy",
        }
    }
}

/// The author of a piece of text. It decides how much it is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The application's own instructions: "never reveal ..." is no attack here.
    System,
    /// A tool that the application itself defines: its name, its description, its parameters.
    ToolDefinition,
    /// The end user.
    User,
    /// The model, in an earlier turn.
    Assistant,
    /// A tool or a document: trusted less than a user.
    Tool,
    /// Anything else that travels with the request: unknown fields, the tools of MCP servers.
    Other,
}

impl Origin {
    /// Whether the application wrote it: nobody who attacks the application has a hand in it.
    pub fn is_application(self) -> bool {
        matches!(self, Self::System | Self::ToolDefinition)
    }
}

/// A rule of the project's own.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRule {
    /// Shown in reasons and findings.
    pub name: String,
    /// A linear-time regular expression, matched anywhere in a text.
    pub pattern: String,
    /// `Flag` or `Block`.
    pub action: Action,
    /// How much a match adds to the risk score, 0 to 1.
    pub weight: f64,
}

/// A kind of personal data of the project's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognizer {
    /// The type of its findings: letters, digits, `_` and `-`.
    pub name: String,
    /// A linear-time regular expression, matched anywhere in a text.
    pub pattern: String,
    /// The checksum that the characters of a match must satisfy.
    pub checksum: Checksum,
    /// Words of which one must occur near a match; an empty list requires none.
    pub context: Vec<String>,
    /// How sure and how grave a match is, 0 to 1.
    pub score: f64,
}

/// A check over the digits of a value, or over its letters and digits. Other characters do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing is checked.
    None,
    /// Luhn, over the digits: payment cards.
    Luhn,
    /// Verhoeff, over the digits: Aadhaar.
    Verhoeff,
    /// ISO 7064 mod 97-10, over letters and digits, the check digits last: LEI.
    Mod97,
    /// ISO 7064 mod 97-10, over letters and digits, with the first four characters moved to the end:
    /// IBAN.
    Iban,
    /// ISO 7064 mod 11,10, over the digits: the German tax number.
    Mod11_10,
}

/// `settings.safety`: thresholds and actions of one project.
#[derive(Clone, Debug, PartialEq)]
pub struct Safety {
    /// A risk score above this blocks. 0 to 1.
    pub block_threshold: f64,
    /// A risk score from this on asks for a review. 0 to 1.
    pub review_threshold: f64,
    /// The action for personal data in inputs, if the endpoint does not set it.
    pub pii: Action,
    /// Only these entity types count; `None` means all.
    pub pii_entities: Option<Vec<String>>,
    /// Whether placeholders are put back in answers.
    pub pii_restore: bool,
    /// The action for injections.
    pub injection: Action,
    /// The action for injections in the application's own words, `Flag` or `Block`. `Block` treats them
    /// as all other text.
    pub injection_application: Action,
    /// The action for secrets in inputs.
    pub secrets: Action,
    /// The project's own rules, in order.
    pub rules: Vec<PolicyRule>,
    /// The project's own kinds of personal data, in order.
    pub recognizers: Vec<Recognizer>,
    /// The action for secrets in outputs.
    pub output_secrets: Action,
    /// The action for personal data in outputs.
    pub output_pii: Action,
}

impl Default for Safety {
    fn default() -> Self {
        Self {
            block_threshold: 0.7,
            review_threshold: 0.2,
            pii: Action::Flag,
            pii_entities: None,
            pii_restore: true,
            injection: Action::Block,
            injection_application: Action::Flag,
            secrets: Action::Block,
            rules: Vec::new(),
            recognizers: Vec::new(),
            output_secrets: Action::Flag,
            output_pii: Action::Flag,
        }
    }
}
