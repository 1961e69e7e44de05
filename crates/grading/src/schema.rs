//! Whether a value fits a JSON Schema (draft 2020-12), as tools declare their arguments.
//!
//! Schemas come from callers, and a reference may lead round in circles or branch without end: the work
//! is bounded, and what is left undone passes. So does what this does not know: `format`, which only
//! describes, `unevaluated...`, references out of the schema, patterns that are no linear-time regular
//! expression.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// A schema nested deeper than this is not looked into.
const MAX_DEPTH: usize = 64;
/// How often a value is held against a schema.
const MAX_STEPS: u32 = 20_000;
/// What a new pattern counts for in steps.
const PATTERN_STEPS: u32 = 100;
/// How large a pattern may become, in bytes.
const PATTERN_SIZE: usize = 64 * 1024;

/// Whether a value fits a schema.
pub(crate) fn fits(schema: &Value, value: &Value) -> bool {
    let check = Check { root: schema, left: Cell::new(MAX_STEPS), patterns: RefCell::default() };
    check.fits(schema, value, 0) || check.left.get() == 0
}

struct Check<'a> {
    root: &'a Value,
    /// The steps that are left. Once there are none, whatever was found does not count.
    left: Cell<u32>,
    /// Those met so far; `None` where one cannot be used.
    patterns: RefCell<HashMap<String, Option<Regex>>>,
}

impl Check<'_> {
    fn fits(&self, schema: &Value, value: &Value, depth: usize) -> bool {
        let Value::Object(rules) = schema else { return schema != &Value::Bool(false) };
        self.take(if depth > MAX_DEPTH { MAX_STEPS } else { 1 });
        if self.left.get() == 0 {
            return true;
        }
        let inner = |schema: &Value| self.fits(schema, value, depth + 1);
        let list = |key: &str| rules.get(key).and_then(Value::as_array);
        let referred = rules.get("$ref").and_then(|to| self.referred(to.as_str()?));
        referred.is_none_or(inner)
            && rules.get("type").is_none_or(|kind| has_type(kind, value))
            && list("enum").is_none_or(|values| values.iter().any(|one| equal(one, value)))
            && rules.get("const").is_none_or(|only| equal(only, value))
            && list("anyOf").is_none_or(|any| any.iter().any(inner))
            && list("oneOf").is_none_or(|one| one.iter().filter(|one| inner(one)).count() == 1)
            && list("allOf").is_none_or(|all| all.iter().all(inner))
            && rules.get("not").is_none_or(|not| !inner(not))
            && branch(rules, inner)
            && match value {
                Value::Object(members) => self.members_fit(rules, members, value, depth),
                Value::Array(items) => self.items_fit(rules, items, depth),
                Value::String(text) => self.text_fits(rules, text),
                Value::Number(number) => {
                    number.as_f64().is_none_or(|number| number_fits(rules, number))
                }
                Value::Null | Value::Bool(_) => true,
            }
    }

    fn take(&self, steps: u32) {
        self.left.set(self.left.get().saturating_sub(steps));
    }

    fn compiled(&self, pattern: &str) -> Option<Regex> {
        if let Some(known) = self.patterns.borrow().get(pattern) {
            return known.clone();
        }
        self.take(PATTERN_STEPS);
        let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().ok();
        self.patterns.borrow_mut().insert(pattern.to_owned(), compiled.clone());
        compiled
    }

    /// What a reference within the schema leads to: a JSON pointer (RFC 6901) behind a `#`.
    fn referred(&self, to: &str) -> Option<&Value> {
        self.root.pointer(to.strip_prefix('#')?)
    }

    fn members_fit(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        whole: &Value,
        depth: usize,
    ) -> bool {
        let object = |key: &str| rules.get(key).and_then(Value::as_object);
        let patterns: Vec<_> = object("patternProperties")
            .into_iter()
            .flatten()
            .filter_map(|(pattern, rule)| Some((self.compiled(pattern)?, rule)))
            .collect();
        let others = rules.get("additionalProperties");
        let member_fits = |(name, member): (&String, &Value)| {
            let own = object("properties").and_then(|known| known.get(name));
            let matching = patterns.iter().filter(|(pattern, _)| pattern.is_match(name));
            let mut known = own.into_iter().chain(matching.map(|(_, rule)| *rule)).peekable();
            let rest = if known.peek().is_none() { others } else { None };
            known.chain(rest).all(|rule| self.fits(rule, member, depth + 1))
        };
        let has_all = |names: &Value| {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.into_iter().all(|name| members.contains_key(name))
        };
        let present = |(name, rule)| members.contains_key::<String>(name).then_some(rule);
        let is_name = |rule: &Value| {
            let name_fits = |name: &String| self.fits(rule, &name.as_str().into(), depth + 1);
            members.keys().all(name_fits)
        };
        rules.get("required").is_none_or(has_all)
            && members.iter().all(member_fits)
            && within(rules, "minProperties", "maxProperties", members.len())
            && object("dependentRequired")
                .is_none_or(|needs| needs.iter().filter_map(present).all(has_all))
            && object("dependentSchemas").is_none_or(|needs| {
                needs.iter().filter_map(present).all(|rule| self.fits(rule, whole, depth + 1))
            })
            && rules.get("propertyNames").is_none_or(is_name)
    }

    fn items_fit(&self, rules: &Map<String, Value>, items: &[Value], depth: usize) -> bool {
        let first = rules.get("prefixItems").and_then(Value::as_array).map_or(&[][..], |f| f);
        let rest = items.get(first.len()..).unwrap_or_default();
        let fits = |rule: &Value, item: &Value| self.fits(rule, item, depth + 1);
        let is_unique = || {
            let twice = |(at, item)| items[..at].iter().any(|before| equal(before, item));
            items.len() > 1000 || !items.iter().enumerate().any(twice)
        };
        let contains = |rule: &Value| {
            let found = items.iter().filter(|item| fits(rule, item)).count();
            found >= rules.get("minContains").map_or(1, count)
                && rules.get("maxContains").is_none_or(|most| found <= count(most))
        };
        first.iter().zip(items).all(|(rule, item)| fits(rule, item))
            && rules.get("items").is_none_or(|rule| rest.iter().all(|item| fits(rule, item)))
            && within(rules, "minItems", "maxItems", items.len())
            && (rules.get("uniqueItems") != Some(&Value::Bool(true)) || is_unique())
            && rules.get("contains").is_none_or(contains)
    }

    fn text_fits(&self, rules: &Map<String, Value>, text: &str) -> bool {
        let pattern = rules.get("pattern").and_then(Value::as_str);
        within(rules, "minLength", "maxLength", text.chars().count())
            && pattern
                .and_then(|pattern| self.compiled(pattern))
                .is_none_or(|pattern| pattern.is_match(text))
    }
}

/// `if`, `then`, `else`.
fn branch(rules: &Map<String, Value>, fits: impl Fn(&Value) -> bool) -> bool {
    let Some(question) = rules.get("if") else { return true };
    rules.get(if fits(question) { "then" } else { "else" }).is_none_or(fits)
}

fn number_fits(rules: &Map<String, Value>, number: f64) -> bool {
    let bound = |key: &str| rules.get(key).and_then(Value::as_f64);
    let is_multiple = |of: f64| {
        let times = number / of;
        // Tenths are no binary fractions: 0.3 is a multiple of 0.1 all the same.
        of <= 0.0 || (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
    };
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("exclusiveMinimum").is_none_or(|least| number > least)
        && bound("exclusiveMaximum").is_none_or(|most| number < most)
        && bound("multipleOf").is_none_or(is_multiple)
}

/// Whether a count lies between two bounds, where they are given.
fn within(rules: &Map<String, Value>, least: &str, most: &str, found: usize) -> bool {
    rules.get(least).is_none_or(|least| found >= count(least))
        && rules.get(most).is_none_or(|most| found <= count(most))
}

/// A count in a schema, which may be written as `2.0`.
fn count(value: &Value) -> usize {
    value.as_f64().map_or(0, |number| number as usize)
}

/// Whether two values are the same to JSON Schema: `1` and `1.0` are.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(name, one): (&String, &Value)| {
                other.get(name).is_some_and(|other| equal(one, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

fn has_type(kind: &Value, value: &Value) -> bool {
    match kind {
        Value::String(word) => is_a(word, value),
        Value::Array(words) => words.iter().any(|word| has_type(word, value)),
        _ => true,
    }
}

fn is_a(word: &str, value: &Value) -> bool {
    // Some vendors write the types in capitals.
    match word.to_ascii_lowercase().as_str() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        _ => true,
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
