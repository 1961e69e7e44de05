//! The similarity of two JSON values.

use std::hash::{DefaultHasher, Hash, Hasher};

use domain::json_weight::InnerJson;
use serde_json::Value;

use super::numbers::{Decimal, Numbers};
use super::{ALMOST_SAME, text};

/// The part of a scalar that is different but of the same kind, in the same place.
const SHAPE: f64 = 0.2;
/// The most pairs of items that are looked at to find items that two lists share. Items of further lists
/// are compared by their position.
const MAX_PAIRS: usize = 1 << 18;

/// A JSON value with what its comparison needs.
pub(super) struct Tree {
    /// Equal for values that are the same.
    hash: u64,
    /// Scalars in it, and at least 1: its weight in the whole.
    leaves: usize,
    kind: Kind,
}

enum Kind {
    Null,
    Bool,
    Number,
    Text(String),
    List(Vec<Tree>),
    /// Sorted by name.
    Object(Vec<(String, Tree)>),
}

impl Tree {
    pub(super) fn of(value: &Value) -> Self {
        Self::read(value, &mut Numbers::none(), &mut Some(InnerJson::default()))
    }

    /// A value that was read from a text: its numbers have all digits of the text.
    pub(super) fn of_text(value: &Value, text: &str) -> Self {
        Self::read(value, &mut Numbers::of(text, value), &mut Some(InnerJson::default()))
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Reads JSON in its strings (arguments of tool calls are) with `inner`, once.
    fn read(value: &Value, numbers: &mut Numbers<'_>, inner: &mut Option<InnerJson>) -> Self {
        let mut hasher = DefaultHasher::new();
        let (kind, leaves) = match value {
            Value::Null => (Kind::Null, 1),
            Value::Bool(is_true) => {
                (1_u8, is_true).hash(&mut hasher);
                (Kind::Bool, 1)
            }
            Value::Number(number) => {
                let decimal = match numbers.next() {
                    Some(written) => Decimal::of(written),
                    None => Decimal::of(&number.to_string()),
                };
                (2_u8, decimal).hash(&mut hasher);
                (Kind::Number, 1)
            }
            Value::String(text) => {
                if let Some(value) = inner.as_mut().and_then(|reader| container(text, reader)) {
                    return Self::read(&value, &mut Numbers::of(text, &value), &mut None);
                }
                (3_u8, text).hash(&mut hasher);
                (Kind::Text(text.clone()), 1)
            }
            Value::Array(items) => {
                let items = items.iter();
                let items: Vec<Self> = items.map(|item| Self::read(item, numbers, inner)).collect();
                4_u8.hash(&mut hasher);
                for item in &items {
                    item.hash.hash(&mut hasher);
                }
                let leaves = items.iter().map(|item| item.leaves).sum();
                (Kind::List(items), leaves)
            }
            Value::Object(members) => {
                let members = members.iter();
                let read = |(name, value): (&String, &Value)| {
                    (name.clone(), Self::read(value, numbers, inner))
                };
                let mut members: Vec<(String, Self)> = members.map(read).collect();
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                5_u8.hash(&mut hasher);
                for (name, value) in &members {
                    (name, value.hash).hash(&mut hasher);
                }
                let leaves = members.iter().map(|(_, value)| value.leaves).sum();
                (Kind::Object(members), leaves)
            }
        };
        Self { hash: hasher.finish(), leaves: leaves.max(1), kind }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self.kind, Kind::List(_) | Kind::Object(_))
    }
}

/// The list or object that a string holds as JSON.
fn container(text: &str, reader: &mut InnerJson) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| reader.read(text))?
}

/// Returns how alike two values are, from 0 to 1; 1 only if they are the same.
pub(super) fn similarity(one: &Tree, other: &Tree) -> f64 {
    if one.hash == other.hash {
        return 1.0;
    }
    alike(one, other, &mut MAX_PAIRS.clone()).min(ALMOST_SAME)
}

fn alike(one: &Tree, other: &Tree, pairs: &mut usize) -> f64 {
    if one.hash == other.hash {
        return 1.0;
    }
    match (&one.kind, &other.kind) {
        (Kind::Text(one), Kind::Text(other)) => text::similarity(one, other),
        (Kind::List(one), Kind::List(other)) => lists(one, other, pairs),
        (Kind::Object(one), Kind::Object(other)) => objects(one, other, pairs),
        _ => 0.0,
    }
}

/// Two values in the same place of two containers.
fn in_place(one: &Tree, other: &Tree, pairs: &mut usize) -> f64 {
    let alike = alike(one, other, pairs);
    let same_kind = std::mem::discriminant(&one.kind) == std::mem::discriminant(&other.kind);
    if one.is_scalar() && same_kind { SHAPE + (1.0 - SHAPE) * alike } else { alike }
}

/// A mean, by weight.
#[derive(Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, weight: usize, figure: f64) {
        self.sum += weight as f64 * figure;
        self.weight += weight as f64;
    }

    fn pair(&mut self, one: &Tree, other: &Tree, pairs: &mut usize) {
        self.add(one.leaves.max(other.leaves), in_place(one, other, pairs));
    }

    fn value(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }
}

fn objects(one: &[(String, Tree)], other: &[(String, Tree)], pairs: &mut usize) -> f64 {
    let mut mean = Mean::default();
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    loop {
        match (one.peek(), other.peek()) {
            (Some((left, a)), Some((right, b))) if left == right => {
                mean.pair(a, b, pairs);
                one.next();
                other.next();
            }
            (Some((left, a)), Some((right, _))) if left < right => {
                mean.add(a.leaves, 0.0);
                one.next();
            }
            (Some((_, a)), None) => {
                mean.add(a.leaves, 0.0);
                one.next();
            }
            (_, Some((_, b))) => {
                mean.add(b.leaves, 0.0);
                other.next();
            }
            (None, None) => return mean.value(),
        }
    }
}

/// Compares two lists in their order: items that both have are the anchors, the items between two anchors
/// are compared by their position.
fn lists(one: &[Tree], other: &[Tree], pairs: &mut usize) -> f64 {
    let same = |(a, b): &(&Tree, &Tree)| a.hash == b.hash;
    let mut mean = Mean::default();
    let begin = one.iter().zip(other).take_while(same).count();
    let ((first, one), other) = (one.split_at(begin), &other[begin..]);
    let end = one.iter().rev().zip(other.iter().rev()).take_while(same).count();
    let (one, last) = one.split_at(one.len() - end);
    for item in first.iter().chain(last) {
        mean.add(item.leaves, 1.0);
    }
    let other = &other[..other.len() - end];
    let (mut left, mut right) = (0, 0);
    for (a, b) in shared(one, other, pairs) {
        between(&one[left..a], &other[right..b], &mut mean, pairs);
        mean.add(one[a].leaves, 1.0);
        (left, right) = (a + 1, b + 1);
    }
    between(&one[left..], &other[right..], &mut mean, pairs);
    mean.value()
}

fn between(one: &[Tree], other: &[Tree], mean: &mut Mean, pairs: &mut usize) {
    let both = one.len().min(other.len());
    one.iter().zip(other).for_each(|(a, b)| mean.pair(a, b, pairs));
    one[both..].iter().chain(&other[both..]).for_each(|item| mean.add(item.leaves, 0.0));
}

/// The positions of a longest common subsequence of two lists; none if it would take too long to find.
fn shared(one: &[Tree], other: &[Tree], pairs: &mut usize) -> Vec<(usize, usize)> {
    let cells = one.len().saturating_mul(other.len());
    if cells > *pairs {
        return Vec::new();
    }
    *pairs -= cells;
    let width = other.len() + 1;
    // The length of the longest subsequence of what follows each pair of positions.
    let mut longest = vec![0_u32; (one.len() + 1) * width];
    for a in (0..one.len()).rev() {
        for b in (0..other.len()).rev() {
            let next = (a + 1) * width + b;
            longest[a * width + b] = if one[a].hash == other[b].hash {
                longest[next + 1] + 1
            } else {
                longest[next].max(longest[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b, mut found) = (0, 0, Vec::new());
    while a < one.len() && b < other.len() {
        if one[a].hash == other[b].hash {
            found.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if longest[(a + 1) * width + b] >= longest[a * width + b + 1] {
            a += 1;
        } else {
            b += 1;
        }
    }
    found
}
