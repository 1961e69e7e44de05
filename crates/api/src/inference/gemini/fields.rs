//! Objects of Gemini's format: their names in either case, and the names of those that have no canonical form.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::http::error::Result;
use crate::inference::canonical::members::{Vendor, chooses_model, leave_out, shown};
use crate::inference::canonical::read::{Node, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;

/// Whole numbers beyond this (2^53) are not exact in a JSON number with a fraction.
const MOST_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// An object of the format. The vendor reads its members' names in camel case and in snake case.
pub(crate) fn node(at: String, value: Value) -> Result<Node> {
    Node::of(
        at,
        match value {
            Value::Object(members) => Value::Object(in_camel_case(members)),
            other => other,
        },
    )
}

/// The members under their names in camel case. Their own members stay as they are: some objects have
/// names of the caller's.
pub(crate) fn in_camel_case(members: Map<String, Value>) -> Map<String, Value> {
    if members.keys().any(|name| name.contains('_')) {
        members.into_iter().map(|(name, value)| (camel_case(&name), value)).collect()
    } else {
        members
    }
}

/// A name in camel case.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_').filter(|word| !word.is_empty());
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// A name in snake case.
pub(crate) fn snake_case(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// Whether a name is one of the format's, in whichever spelling: lenient servers read any case.
pub(crate) fn is_named(name: &str, known: &str) -> bool {
    // A letter has at most four times the bytes in another case; most names are shorter.
    name.len() <= 8 * known.len() && letters(name) == letters(known)
}

fn letters(name: &str) -> String {
    name.replace('_', "").to_lowercase().to_uppercase()
}

/// Takes a list.
pub(crate) fn list(node: &mut Node, name: &str) -> Result<Option<Vec<Value>>> {
    let taken = node.take(name);
    read_list(node, name, taken)
}

/// Takes a list of objects. The vendor reads a single object as a list of one.
pub(crate) fn objects(node: &mut Node, name: &str) -> Result<Option<Vec<Value>>> {
    match node.take(name) {
        Some(one @ Value::Object(_)) => Ok(Some(vec![one])),
        taken => read_list(node, name, taken),
    }
}

fn read_list(node: &Node, name: &str, taken: Option<Value>) -> Result<Option<Vec<Value>>> {
    match taken {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(malformed(format!("{} must be an array", node.path(name)))),
    }
}

/// Takes an object of the format.
pub(crate) fn inner(of: &mut Node, name: &str) -> Result<Option<Node>> {
    let at = of.path(name);
    of.take(name).map(|value| node(at, value)).transpose()
}

/// Takes a whole number. The vendor's own packages write some with a fraction of zero.
pub(crate) fn whole(node: &mut Node, name: &str) -> Result<Option<u64>> {
    let Some(value) = node.take(name) else { return Ok(None) };
    let read = match &value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let exact =
                |number: &f64| number.fract() == 0.0 && (0.0..MOST_EXACT_INTEGER).contains(number);
            number.as_f64().filter(exact).and_then(|number| format!("{number:.0}").parse().ok())
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let fault = || malformed(format!("{} must be a whole number, not negative", node.path(name)));
    read.map(Some).ok_or_else(fault)
}

/// The names of the members that were left out.
#[derive(Debug, Default)]
pub(crate) struct Dropped(BTreeSet<String>);

impl Dropped {
    /// Adds a name.
    pub(crate) fn name(&mut self, name: &str) {
        self.0.insert(shown(name));
    }

    /// Adds names that are fit to be shown.
    pub(crate) fn extend(&mut self, names: Vec<String>) {
        self.0.extend(names);
    }

    /// Leaves out the members that nothing has taken.
    pub(crate) fn rest(&mut self, node: Node) {
        for name in node.left() {
            self.name(&name);
        }
    }

    /// Leaves out the parameters that nothing has taken, or refuses one. A request that may go on as it
    /// came may have any but those that choose the model.
    pub(crate) fn parameters(&mut self, node: Node, gaps: &mut TranslationGaps) -> Result<()> {
        for (name, value) in node.into_members() {
            let fate = leave_out(Vendor::Gemini, &name, &value);
            let fate = if chooses_model(&name) { Some(fate?) } else { gaps.allow(fate)? };
            self.0.extend(fate.flatten());
        }
        Ok(())
    }

    /// The names, in order.
    pub(crate) fn names(self) -> Vec<String> {
        self.0.into_iter().collect()
    }
}
