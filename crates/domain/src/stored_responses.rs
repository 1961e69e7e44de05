//! What a vendor keeps between two requests, for the account that made them: responses, and the items
//! of their outputs.

/// The most items of one response that are remembered.
pub const MOST_ITEMS: usize = 256;
/// The most references of one request: each is looked up.
pub const MOST_REFERENCES: usize = 512;
/// The longest id of a vendor's, in bytes.
pub const LONGEST_ID: usize = 128;

/// A response that a vendor keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Its id at the vendor.
    pub id: String,
    /// The ids of the items of its output.
    pub items: Vec<String>,
}

/// The kind of something that a vendor keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKind {
    /// A response, which a request continues.
    Response,
    /// An item of a response, which a request refers to instead of sending it.
    Item,
    /// An item that a request sends without its content. Translations leave it out.
    Hint,
}

/// A reference in a request to something that a vendor keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptReference {
    /// Its kind.
    pub kind: KeptKind,
    /// Its id at the vendor.
    pub id: String,
}

/// How a request continues what a vendor keeps, and whether the vendor is to keep its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// Whether the request leaves its answer with the vendor.
    pub stores: bool,
    /// Everything kept that it refers to.
    pub references: Vec<KeptReference>,
    /// The account that keeps all of it, by its fingerprint, once that is known.
    pub account: Option<i64>,
    /// The tokens that the vendor adds to the prompt, as far as they are known.
    pub tokens: u64,
    /// The model that has counted them; `None` if some are not known, or were counted by several: then
    /// nothing but the context window bounds them.
    pub counted_by: Option<String>,
    /// The session of the call that is continued.
    pub session: Option<[u8; 16]>,
    /// The placeholders that stand in what is continued, with their originals.
    pub placeholders: Vec<(String, String)>,
}

impl Continuation {
    /// Whether only one account can answer: the others have not what the request refers to.
    pub fn is_bound(&self) -> bool {
        self.references.iter().any(|reference| reference.kind != KeptKind::Hint)
    }
}
