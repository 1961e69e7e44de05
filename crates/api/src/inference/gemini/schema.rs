//! Schemas in the format's subset of OpenAPI as JSON schemas.

use serde_json::{Map, Value, json};

use crate::inference::gemini::fields::in_camel_case;

/// Hints of the vendor's alone.
const HINTS: [&str; 2] = ["propertyOrdering", "example"];
/// The bounds that the format writes as texts.
const BOUNDS: [&str; 6] =
    ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// The JSON schema of a schema: types in lower case, `nullable` as a type of its own.
pub(super) fn json_schema(schema: Value) -> Value {
    let Value::Object(members) = schema else { return schema };
    let mut nullable = false;
    let mut read = Map::new();
    for (name, value) in in_camel_case(members) {
        let value = match (name.as_str(), value) {
            ("type", Value::String(kind)) if kind == "TYPE_UNSPECIFIED" => continue,
            ("type", Value::String(kind)) => kind.to_ascii_lowercase().into(),
            ("nullable", value) => {
                nullable = value == true;
                continue;
            }
            ("format", Value::String(format)) if format == "enum" => continue,
            ("properties", Value::Object(properties)) => properties
                .into_iter()
                .map(|(name, schema)| (name, json_schema(schema)))
                .collect::<Map<_, _>>()
                .into(),
            ("items" | "additionalProperties", schema) => json_schema(schema),
            ("anyOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.into_iter().map(json_schema).collect()
            }
            (name, Value::String(bound)) if BOUNDS.contains(&name) => match bound.parse::<u64>() {
                Ok(bound) => bound.into(),
                Err(_) => bound.into(),
            },
            (name, _) if HINTS.contains(&name) => continue,
            (_, value) => value,
        };
        read.insert(name, value);
    }
    if nullable {
        admit_null(&mut read);
    }
    Value::Object(read)
}

fn admit_null(schema: &mut Map<String, Value>) {
    if let Some(kind @ Value::String(_)) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.push(json!({"type": "null"}));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_subset_has_its_place() {
        for (theirs, ours) in [
            (json!({"type": "STRING"}), json!({"type": "string"})),
            (json!({"type": "string"}), json!({"type": "string"})),
            (json!({"type": "TYPE_UNSPECIFIED"}), json!({})),
            (json!({"type": "INTEGER", "nullable": true}), json!({"type": ["integer", "null"]})),
            (
                json!({"type": "STRING", "format": "enum", "enum": ["a"], "nullable": true}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (
                json!({"type": "ARRAY", "items": {"type": "NUMBER"}, "min_items": "1", "maxItems": 3}),
                json!({"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3}),
            ),
            (
                json!({"any_of": [{"type": "BOOLEAN"}, {"type": "NULL"}], "nullable": true}),
                json!({"anyOf": [{"type": "boolean"}, {"type": "null"}, {"type": "null"}]}),
            ),
            (
                json!({"type": "OBJECT", "propertyOrdering": ["type"], "required": ["type"],
                    "properties": {"type": {"type": "STRING", "description": "TYPE"},
                        "any_of": {"type": "OBJECT", "title": "T", "default": {"type": "STRING"}}}}),
                json!({"type": "object", "required": ["type"],
                    "properties": {"type": {"type": "string", "description": "TYPE"},
                        "any_of": {"type": "object", "title": "T", "default": {"type": "STRING"}}}}),
            ),
            (json!(true), json!(true)),
        ] {
            assert_eq!(json_schema(theirs.clone()), ours, "{theirs}");
        }
    }
}
