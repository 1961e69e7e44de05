//! Objects of a request, taken apart member by member. Every fault names its path.

use gateway::Error;
use serde_json::{Map, Value};

use crate::http::error::{Failure, Result};

/// The most characters of a value of the caller's that are quoted.
const LONGEST_QUOTE: usize = 40;

/// An object of a request, with its path.
#[derive(Debug)]
pub(crate) struct Node {
    at: String,
    members: Map<String, Value>,
}

impl Node {
    /// The object at a path.
    pub(crate) fn of(at: String, value: Value) -> Result<Self> {
        match value {
            Value::Object(members) => Ok(Self { at, members }),
            _ => Err(malformed(format!("{at} must be an object"))),
        }
    }

    /// The objects of a list.
    pub(crate) fn all(at: &str, list: Vec<Value>) -> impl Iterator<Item = Result<Self>> {
        let items = list.into_iter().enumerate();
        items.map(move |(index, item)| Self::of(format!("{at}[{index}]"), item))
    }

    /// Takes a member; null is none.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a required text.
    pub(crate) fn text(&mut self, name: &str) -> Result<String> {
        let text = self.maybe_text(name)?;
        text.ok_or_else(|| malformed(format!("Missing required parameter: {}", self.path(name))))
    }

    /// Takes a text.
    pub(crate) fn maybe_text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(format!("{} must be a string", self.path(name)))),
        }
    }

    /// Takes an object.
    pub(crate) fn maybe_node(&mut self, name: &str) -> Result<Option<Self>> {
        let at = self.path(name);
        self.take(name).map(|value| Self::of(at, value)).transpose()
    }

    /// Takes a flag; an absent one is false.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(malformed(format!("{} must be a boolean", self.path(name)))),
        }
    }

    /// Ignores members that have no effect here: clients send back the members of answers.
    pub(crate) fn pass_over(&mut self, names: &[&str]) {
        for name in names {
            self.members.remove(*name);
        }
    }

    /// Whether no member is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.values().all(Value::is_null)
    }

    /// The path of the object itself.
    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    /// The path of a member.
    pub(crate) fn path(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Takes a member that may only hold the value that applies anyway.
    pub(crate) fn idle(&mut self, name: &str, idle: &Value) -> Result<()> {
        match self.take(name) {
            Some(value) if value != *idle => Err(self.unknown(name)),
            _ => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let name: String = name.chars().take(LONGEST_QUOTE).collect();
        invalid(format!("{} is not supported", self.path(&name)))
    }

    /// Ends the taking: every member that is left is refused by its name.
    pub(crate) fn end(self) -> Result<()> {
        match self.members.iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => Err(self.unknown(name)),
            None => Ok(()),
        }
    }

    /// Ends the taking: the names of the members that are left.
    pub(crate) fn left(self) -> impl Iterator<Item = String> {
        self.members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name)
    }

    /// Ends the taking: the members that are left.
    pub(crate) fn into_members(self) -> Map<String, Value> {
        self.members
    }

    /// The value is valid, but not supported here.
    pub(crate) fn unsupported(&self, what: &str, kind: &str) -> Failure {
        let kind: String = kind.chars().take(LONGEST_QUOTE).collect();
        invalid(format!("{}: {what} of type '{kind}' is not supported", self.at))
    }
}

/// A malformed request.
pub(crate) fn malformed(what: String) -> Failure {
    Error::Malformed(what).into()
}

/// A valid request that cannot be carried out.
pub(crate) fn invalid(what: impl Into<String>) -> Failure {
    Error::invalid(what).into()
}
