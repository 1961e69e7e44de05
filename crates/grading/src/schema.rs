//! Whether a value fits a JSON Schema (draft 2020-12), as tools declare their arguments.
//!
//! Schemas come from callers, and a reference may lead round in circles or branch without end: the work
//! is bounded, and anything left undone passes. Unsupported keywords pass too: `format`, which only
//! describes, `unevaluated...`, references out of the schema, patterns that are long or no linear-time
//! regular expression.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Schemas nested deeper than this are too much work.
const MAX_DEPTH: usize = 64;
/// Most steps of work for the calls of one answer together; a step is a comparison of two values.
const MAX_STEPS: usize = 20_000;
/// Steps that a new pattern costs.
const PATTERN_STEPS: usize = 100;
/// Bytes of a text that are searched per step.
const STEP_BYTES: usize = 16;
/// The longest pattern that is used, in bytes, and the largest size that it may compile to.
const MAX_PATTERN: usize = 256;
const PATTERN_SIZE: usize = 16 * 1024;
/// The longest text that is matched against a pattern, in bytes.
const MAX_SEARCHED: usize = 32 * 1024;

/// The remaining work, in steps.
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// Returns the budget for the calls of one answer.
    pub(crate) fn of_answer() -> Self {
        Self(Cell::new(MAX_STEPS))
    }

    fn take(&self, steps: usize) {
        self.0.set(self.0.get().saturating_sub(steps));
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// Whether a value fits a schema. Once the budget is spent, every value fits.
pub(crate) fn fits(schema: &Value, value: &Value, budget: &Budget) -> bool {
    let (patterns, is_unsure) = (RefCell::default(), Cell::default());
    let check = Check { root: schema, budget, patterns, is_unsure };
    check.fits(schema, value, 0) || budget.is_spent()
}

struct Check<'a> {
    root: &'a Value,
    budget: &'a Budget,
    /// Patterns met so far; `None` for one that cannot be used.
    patterns: RefCell<HashMap<String, Option<Regex>>>,
    /// Whether something has passed because it could not be checked.
    is_unsure: Cell<bool>,
}

impl Check<'_> {
    fn fits(&self, schema: &Value, value: &Value, depth: usize) -> bool {
        let Value::Object(rules) = schema else { return schema != &Value::Bool(false) };
        self.budget.take(if depth > MAX_DEPTH { MAX_STEPS } else { 1 });
        if self.budget.is_spent() {
            return true;
        }
        let inner = |schema: &Value| self.fits(schema, value, depth + 1);
        let surely = |schema: &Value| self.surely_fits(schema, value, depth + 1);
        let list = |key: &str| rules.get(key).and_then(Value::as_array);
        rules.get("$ref").and_then(|to| self.referred(to)).is_none_or(inner)
            && rules.get("type").is_none_or(|kind| self.has_type(kind, value))
            && list("enum").is_none_or(|values| values.iter().any(|one| self.equal(one, value)))
            && rules.get("const").is_none_or(|only| self.equal(only, value))
            && list("anyOf").is_none_or(|any| any.iter().any(inner))
            && list("oneOf").is_none_or(|one| is_one(one.iter().map(surely)))
            && list("allOf").is_none_or(|all| all.iter().all(inner))
            && rules.get("not").is_none_or(|not| surely(not) != Some(true))
            && branch(rules, surely).is_none_or(inner)
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

    /// Whether a value fits a schema; `None` if the result depends on something that passed unchecked.
    fn surely_fits(&self, schema: &Value, value: &Value, depth: usize) -> Option<bool> {
        let before = self.is_unsure.replace(false);
        let fits = self.fits(schema, value, depth);
        let is_unsure = self.is_unsure.replace(before || self.is_unsure.get());
        (!is_unsure).then_some(fits)
    }

    fn has_type(&self, kind: &Value, value: &Value) -> bool {
        self.budget.take(1);
        match kind {
            Value::String(word) => is_a(word, value),
            Value::Array(words) => words.iter().any(|word| {
                self.budget.is_spent() || word.is_array() || self.has_type(word, value)
            }),
            _ => true,
        }
    }

    /// Returns the target of a reference within the schema: a JSON pointer (RFC 6901) behind a `#`.
    fn referred(&self, to: &Value) -> Option<&Value> {
        self.budget.take(to.as_str().map_or(0, str::len) / STEP_BYTES);
        let found = to.as_str().and_then(|to| self.root.pointer(to.strip_prefix('#')?));
        self.is_unsure.set(self.is_unsure.get() || found.is_none());
        found
    }

    fn compiled(&self, pattern: &str) -> Option<Regex> {
        let known = self.patterns.borrow().get(pattern).cloned();
        let compiled = known.unwrap_or_else(|| {
            self.budget.take(PATTERN_STEPS);
            let builder = || RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build().ok();
            let compiled = (pattern.len() <= MAX_PATTERN).then(builder).flatten();
            self.patterns.borrow_mut().insert(pattern.to_owned(), compiled.clone());
            compiled
        });
        self.is_unsure.set(self.is_unsure.get() || compiled.is_none());
        compiled
    }

    fn matches(&self, pattern: &Regex, text: &str) -> bool {
        if text.len() > MAX_SEARCHED {
            self.is_unsure.set(true);
            return true;
        }
        self.budget.take(1 + text.len() / STEP_BYTES);
        self.budget.is_spent() || pattern.is_match(text)
    }

    fn members_fit(
        &self,
        rules: &Map<String, Value>,
        members: &Map<String, Value>,
        whole: &Value,
        depth: usize,
    ) -> bool {
        let object = |key: &str| rules.get(key).and_then(Value::as_object);
        for key in ["patternProperties", "dependentRequired", "dependentSchemas"] {
            self.budget.take(object(key).map_or(0, Map::len));
        }
        if self.budget.is_spent() {
            return true;
        }
        let named = object("patternProperties").into_iter().flatten();
        let patterns: Vec<_> =
            named.map(|(pattern, rule)| (self.compiled(pattern), rule)).collect();
        // The additional members cannot be determined if a pattern cannot be used.
        let others = rules
            .get("additionalProperties")
            .filter(|_| patterns.iter().all(|(pattern, _)| pattern.is_some()));
        let member_fits = |(name, member): (&String, &Value)| {
            let own = object("properties").and_then(|known| known.get(name));
            let is_meant = |pattern: &Option<Regex>| {
                pattern.as_ref().is_some_and(|pattern| self.matches(pattern, name))
            };
            let meant = patterns.iter().filter(|(pattern, _)| is_meant(pattern));
            let mut known = own.into_iter().chain(meant.map(|(_, rule)| *rule)).peekable();
            let rest = if known.peek().is_none() { others } else { None };
            known.chain(rest).all(|rule| self.fits(rule, member, depth + 1))
        };
        let has_all = |names: &Value| {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.into_iter().all(|name| {
                self.budget.take(1);
                members.contains_key(name)
            })
        };
        let present = |(name, rule)| members.contains_key::<String>(name).then_some(rule);
        let is_name = |rule: &Value| {
            let name_fits = |name: &String| self.fits(rule, &name.as_str().into(), depth + 1);
            members.keys().all(name_fits)
        };
        rules.get("required").is_none_or(has_all)
            && members.iter().all(member_fits)
            && within(rules, "minProperties", "maxProperties", || members.len())
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
            let twice = |(at, item)| {
                let mut before = items[..at].iter();
                !self.budget.is_spent() && before.any(|before| self.equal(before, item))
            };
            !items.iter().enumerate().any(twice)
        };
        let contains = |rule: &Value| {
            let found = items.iter().filter(|item| fits(rule, item)).count();
            found >= rules.get("minContains").and_then(count).unwrap_or(1)
                && rules.get("maxContains").and_then(count).is_none_or(|most| found <= most)
        };
        first.iter().zip(items).all(|(rule, item)| fits(rule, item))
            && rules.get("items").is_none_or(|rule| rest.iter().all(|item| fits(rule, item)))
            && within(rules, "minItems", "maxItems", || items.len())
            && (rules.get("uniqueItems") != Some(&Value::Bool(true)) || is_unique())
            && rules.get("contains").is_none_or(contains)
    }

    fn text_fits(&self, rules: &Map<String, Value>, text: &str) -> bool {
        let length = || {
            self.budget.take(text.len() / STEP_BYTES);
            text.chars().count()
        };
        let pattern = rules.get("pattern").and_then(Value::as_str);
        within(rules, "minLength", "maxLength", length)
            && pattern
                .and_then(|pattern| self.compiled(pattern))
                .is_none_or(|pattern| self.matches(&pattern, text))
    }

    /// Whether two values are equal to JSON Schema: `1` and `1.0` are.
    fn equal(&self, one: &Value, other: &Value) -> bool {
        self.budget.take(1);
        if self.budget.is_spent() {
            return true;
        }
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                one == other || one.as_f64() == other.as_f64()
            }
            (Value::Array(one), Value::Array(other)) => {
                let mut pairs = one.iter().zip(other);
                one.len() == other.len() && pairs.all(|(one, other)| self.equal(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                let same = |(name, one): (&String, &Value)| {
                    other.get(name).is_some_and(|other| self.equal(one, other))
                };
                one.len() == other.len() && one.iter().all(same)
            }
            (Value::String(one), Value::String(other)) if one.len() == other.len() => {
                self.budget.take(one.len() / STEP_BYTES);
                one == other
            }
            _ => one == other,
        }
    }
}

/// Whether exactly one fits, as far as can be determined.
fn is_one(fitting: impl Iterator<Item = Option<bool>>) -> bool {
    let all: Vec<Option<bool>> = fitting.collect();
    let sure = all.iter().filter(|fits| **fits == Some(true)).count();
    sure == 1 || (sure == 0 && all.contains(&None))
}

/// Returns the branch of `if` that applies, `then` or `else`; `None` if that cannot be determined.
fn branch(rules: &Map<String, Value>, surely: impl Fn(&Value) -> Option<bool>) -> Option<&Value> {
    let fits = surely(rules.get("if")?)?;
    rules.get(if fits { "then" } else { "else" })
}

fn number_fits(rules: &Map<String, Value>, number: f64) -> bool {
    let bound = |key: &str| rules.get(key).and_then(Value::as_f64);
    let is_multiple = |of: f64| {
        let times = number / of;
        // Tenths are no binary fractions; 0.3 still counts as a multiple of 0.1.
        of <= 0.0 || (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
    };
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("exclusiveMinimum").is_none_or(|least| number > least)
        && bound("exclusiveMaximum").is_none_or(|most| number < most)
        && bound("multipleOf").is_none_or(is_multiple)
}

/// Whether a count lies between two bounds; a missing bound does not limit it.
fn within(rules: &Map<String, Value>, least: &str, most: &str, found: impl Fn() -> usize) -> bool {
    rules.get(least).and_then(count).is_none_or(|least| found() >= least)
        && rules.get(most).and_then(count).is_none_or(|most| found() <= most)
}

/// A count in a schema, which may be written as `2.0`.
fn count(value: &Value) -> Option<usize> {
    value.as_f64().map(|number| number as usize)
}

fn is_a(word: &str, value: &Value) -> bool {
    // Some vendors write the types in capitals. No type is longer than seven bytes.
    if word.len() > 7 {
        return true;
    }
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
