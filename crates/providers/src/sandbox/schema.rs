//! Example values for JSON schemas, as far as a simple schema goes.

use serde_json::{Map, Value, json};

const MOST_LEVELS: usize = 8;
const MOST_ITEMS: u64 = 16;

/// Returns a value for the schema: constants, defaults and examples if it names them, else the least
/// that its type and bounds allow. Only required properties are filled in.
pub(super) fn example(schema: &Value) -> Value {
    value(schema, schema, "", 0)
}

fn value(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    if depth > MOST_LEVELS {
        return Value::Null;
    }
    if let Some(known) = named(schema) {
        return known;
    }
    if let Some(target) = reference(schema, root) {
        return value(target, root, name, depth + 1);
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(choice).and_then(|list| list.get(0)) {
            return value(first, root, name, depth + 1);
        }
    }
    match kind(schema) {
        "object" => object(schema, root, depth),
        "array" => array(schema, root, name, depth),
        "integer" => json!(least(schema).ceil() as i64),
        "number" => json!(least(schema)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => json!(text(schema, name)),
    }
}

/// Returns a value that the schema itself names.
fn named(schema: &Value) -> Option<Value> {
    let first = |name: &str| schema.get(name)?.get(0).cloned();
    let single = |name: &str| schema.get(name).cloned();
    single("const")
        .or_else(|| single("default"))
        .or_else(|| first("enum"))
        .or_else(|| first("examples").or_else(|| single("example")))
}

fn reference<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let any = json!({});
    let fill = |name: &str| {
        let property = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&any);
        (name.to_owned(), value(property, root, name, depth + 1))
    };
    Value::Object(required.filter_map(Value::as_str).map(fill).collect::<Map<_, _>>())
}

fn array(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    let items = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1).clamp(1, MOST_ITEMS);
    let any = json!({});
    let item = value(schema.get("items").unwrap_or(&any), root, name, depth + 1);
    Value::Array((0..items).map(|_| item.clone()).collect())
}

/// Returns 1, or the next number that the bounds allow.
fn least(schema: &Value) -> f64 {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let low = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|low| low + 1.0));
    let high = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|high| high - 1.0));
    1f64.max(low.unwrap_or(1.0)).min(high.unwrap_or(f64::MAX))
}

fn text(schema: &Value, name: &str) -> String {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let word = match format {
        "date" => "2026-01-01",
        "date-time" => "2026-01-01T00:00:00Z",
        "time" => "00:00:00Z",
        "email" => "user@example.com",
        "uri" | "url" => "https://example.com",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        _ if name.contains("city") || name.contains("location") => "Paris",
        _ if name.contains("email") => "user@example.com",
        _ if name.contains("url") => "https://example.com",
        _ if name.contains("date") => "2026-01-01",
        _ => "example",
    };
    let length = |name: &str| schema.get(name)?.as_u64().map(|n| n.min(256) as usize);
    let mut word = word.to_owned();
    while word.len() < length("minLength").unwrap_or(0) {
        word.push('x');
    }
    word.truncate(length("maxLength").unwrap_or(word.len()));
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_fit_their_schema() {
        let schema = json!({
            "type": "object",
            "required": ["city", "unit", "days", "tags", "who", "ratio", "maybe", "code"],
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 3},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
                "who": {"$ref": "#/$defs/person"},
                "ratio": {"type": "number", "maximum": 0.5},
                "maybe": {"type": ["null", "boolean"]},
                "code": {"type": "string", "maxLength": 3},
                "left_out": {"type": "string"},
            },
            "$defs": {"person": {
                "type": "object",
                "required": ["email", "friend"],
                "properties": {
                    "email": {"type": "string"},
                    "friend": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/person"}]},
                },
            }},
        });
        assert_eq!(
            example(&schema),
            json!({
                "city": "Paris",
                "unit": "celsius",
                "days": 3,
                "tags": ["example", "example"],
                "who": {"email": "user@example.com", "friend": null},
                "ratio": 0.5,
                "maybe": true,
                "code": "exa",
            }),
        );
    }

    #[test]
    fn a_schema_that_never_ends_does_end() {
        let schema = json!({"type": "array", "items": {"$ref": "#"}});
        assert!(example(&schema).is_array());
        assert_eq!(example(&json!({})), json!("example"));
        assert_eq!(example(&json!({"type": "object"})), json!({}));
    }
}
