//! Responses that a vendor stores for the account that requested them, and the items of their outputs.
//! Later requests continue them.

use serde_json::Value;

/// The most items of one response that are remembered.
pub const MOST_ITEMS: usize = 256;
/// The most references of one request: each is looked up.
pub const MOST_REFERENCES: usize = 512;
/// The longest id of a vendor's, in bytes.
pub const LONGEST_ID: usize = 128;
/// The types of items that add tools to those of a request.
const ADDS_TOOLS: [&str; 2] = ["additional_tools", "tool_search_output"];

/// The parts of a response that a vendor stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredResponse {
    /// Its id at the vendor.
    pub id: String,
    /// Whether it is stored itself.
    pub is_stored: bool,
    /// The items of its output.
    pub items: Vec<StoredItem>,
    /// The ids of the containers that its code ran in. They outlive a response that is not stored.
    pub containers: Vec<String>,
}

/// An item of a response that a vendor stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredItem {
    /// Its id at the vendor.
    pub id: String,
    /// The tools that the vendor runs among those that it adds to the conversation, reduced to what their
    /// charges depend on.
    pub tools: Vec<Value>,
}

/// The kind of something that a vendor stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// A response, which a request continues.
    Response,
    /// An item of a response, which a request refers to instead of sending it.
    Item,
    /// A container, which a request names again. Its content is not part of the prompt.
    Container,
    /// An item that a request has by its id alone and that its answer can do without, such as a
    /// `reasoning` item without `encrypted_content`. A vendor that stores it reads it; translations leave
    /// it out.
    OptionalItem,
}

/// A reference in a request to something that a vendor stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReference {
    /// Its kind.
    pub kind: StoredKind,
    /// Its id at the vendor.
    pub id: String,
}

/// The stored responses and items that a request continues, and whether its own answer is to be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// Whether the vendor is asked to store the answer (`store`).
    pub asks_to_store: bool,
    /// All stored responses and items that it refers to.
    pub references: Vec<StoredReference>,
    /// The account that stores all of them, by its fingerprint, once that is known.
    pub account: Option<i64>,
    /// The tokens that the vendor adds to the prompt, as far as they are known.
    pub tokens: u64,
    /// The model that counted them; `None` if some are not known, or were counted by several: then
    /// nothing but the context window bounds them.
    pub counted_by: Option<String>,
    /// The session of the call that is continued.
    pub session: Option<[u8; 16]>,
    /// The placeholders that stand in what is continued, with their originals.
    pub placeholders: Vec<(String, String)>,
}

/// The tools that an item adds to those of the request, as it has them; `None` if it is no such item.
pub fn added_tools(item: &Value) -> Option<&Value> {
    let kind = item.get("type").and_then(Value::as_str)?;
    item.get("tools").filter(|tools| ADDS_TOOLS.contains(&kind) && !tools.is_null())
}

impl Continuation {
    /// Whether only the storing account can answer: other accounts lack what the request refers to.
    pub fn is_bound(&self) -> bool {
        self.references.iter().any(|reference| reference.kind != StoredKind::OptionalItem)
    }

    /// Whether it refers to parts of the conversation that it does not send: no translation has them.
    pub fn has_contents(&self) -> bool {
        let is_content = |kind| matches!(kind, StoredKind::Response | StoredKind::Item);
        self.references.iter().any(|reference| is_content(reference.kind))
    }

    /// Whether what it refers to adds to the prompt.
    pub fn adds_tokens(&self) -> bool {
        self.references.iter().any(|reference| reference.kind != StoredKind::Container)
    }
}
