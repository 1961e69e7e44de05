use serde_json::json;

use super::*;

fn fits(schema: &Value, value: &Value) -> bool {
    super::fits(schema, value, &Budget::of_answer())
}

#[test]
fn every_keyword_refuses_what_it_should() {
    for (schema, fitting, wrong) in [
        (json!({"maximum": 5}), json!(5), json!(9)),
        (json!({"exclusiveMinimum": 0}), json!(0.1), json!(0)),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.25)),
        (json!({"minLength": 2, "maxLength": 3}), json!("äöü"), json!("ä")),
        (json!({"pattern": "^[A-Z]"}), json!("Bern"), json!("bern")),
        (json!({"maxItems": 1}), json!([1]), json!([1, 2])),
        (json!({"uniqueItems": true}), json!([1, 2]), json!([1, 1.0])),
        (json!({"contains": {"type": "null"}}), json!([1, null]), json!([1])),
        (json!({"contains": {"const": 1}, "maxContains": 1}), json!([1, 2]), json!([1, 1])),
        (
            json!({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}),
            json!(["a", 1]),
            json!(["a", "b"]),
        ),
        (json!({"enum": [1, "a"]}), json!(1.0), json!(2)),
        (json!({"const": {"a": [1]}}), json!({"a": [1.0]}), json!({"a": [2]})),
        (json!({"not": {"type": "string"}}), json!(1), json!("a")),
        (json!({"oneOf": [{"type": "number"}, {"minimum": 5}]}), json!(1), json!(7)),
        (json!({"anyOf": [{"type": "number"}, {"type": "null"}]}), json!(null), json!("a")),
        (
            json!({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}),
            json!(null),
            json!(""),
        ),
        (json!({"required": ["a"]}), json!({"a": null}), json!({"b": 1})),
        (json!({"minProperties": 1.0}), json!({"a": 1}), json!({})),
        (json!({"propertyNames": {"maxLength": 1}}), json!({"a": 1}), json!({"ab": 1})),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"b": 1}), json!({"a": 1})),
        (
            json!({"dependentSchemas": {"a": {"maxProperties": 1}}}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
        ),
        (
            json!({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false}),
            json!({"x-a": "b"}),
            json!({"y": "b"}),
        ),
        (
            json!({"patternProperties": {"^x-": {"type": "string"}}, "properties": {"x-a": {}}}),
            json!({"x-a": "b"}),
            json!({"x-a": 1}),
        ),
        (
            json!({"properties": {"where": {"$ref": "#/$defs/Place"}},
                "$defs": {"Place": {"type": "object", "required": ["city"]}}}),
            json!({"where": {"city": "Bern"}}),
            json!({"where": "Bern"}),
        ),
        (json!({"type": ["INTEGER", "null"]}), json!(2.0), json!(2.5)),
    ] {
        assert!(fits(&schema, &fitting), "{fitting} does not fit {schema}");
        assert!(!fits(&schema, &wrong), "{wrong} fits {schema}");
    }
}

#[test]
fn what_is_not_known_passes() {
    for schema in [
        json!(true),
        json!({"pattern": "(?=look)"}),
        json!({"format": "date"}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#/nowhere"}),
        json!({"type": "thing", "enum": "no list", "required": 5}),
        json!({"maxLength": null, "minLength": "5"}),
        json!({"pattern": "x".repeat(300)}),
        json!({"not": {"pattern": "(?=x)"}}),
        json!({"not": {"not": {"not": {"$ref": "#/nowhere"}}}}),
        json!({"oneOf": [{"$ref": "#/nowhere"}, {"pattern": "(?=x)"}]}),
        json!({"if": {"pattern": "(?=x)"}, "then": false, "else": false}),
    ] {
        assert!(fits(&schema, &json!("x")), "{schema}");
    }
    assert!(!fits(&json!(false), &json!("x")));
    let named = json!({"patternProperties": {"(?=x)": {}}, "additionalProperties": false});
    assert!(fits(&named, &json!({"x": 1})));
    // Known keywords beside an unknown pattern count.
    assert!(!fits(&json!({"pattern": "(?=x)", "type": "number"}), &json!("x")));
    let one = json!({"oneOf": [{"$ref": "#/nowhere"}, {"minLength": 1}, {"type": "string"}]});
    assert!(!fits(&one, &json!("x")));
}

#[test]
fn a_schema_without_end_is_left() {
    assert!(fits(&json!({"$ref": "#"}), &json!(1)));
    assert!(fits(&json!({"not": {"not": {"$ref": "#"}}}), &json!(1)));
    // Each doubles the one before it.
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
        defs.insert(n.to_string(), json!({"allOf": [next.clone(), next]}));
    }
    assert!(fits(&json!({"$ref": "#/$defs/0", "$defs": defs}), &json!({"a": 1})));
}

#[test]
fn work_is_charged_by_how_much_it_is() {
    let text = "a".repeat(30_000);
    let slow = json!({"pattern": "^(a|b)*a(a|b){20}$"});
    let refers: Vec<Value> = (0..5000).map(|_| json!({"$ref": "#/$defs/slow"})).collect();
    assert!(fits(&json!({"allOf": refers, "$defs": {"slow": slow}}), &json!(text)));
    let list = json!((0..5000).collect::<Vec<_>>());
    assert!(fits(&json!({"allOf": vec![json!({"uniqueItems": true}); 100]}), &list));
    // Long searches use up the budget, also if nothing is found.
    let types = [vec!["null"; 5000], vec!["object"]].concat();
    let types = json!({"type": types});
    let needs: Map<String, Value> = (0..5000).map(|n| (n.to_string(), json!(["x"]))).collect();
    for long in [types, json!({"dependentRequired": needs})] {
        let refers: Vec<Value> = (0..100).map(|_| json!({"$ref": "#/$defs/long"})).collect();
        let budget = Budget::of_answer();
        let schema = json!({"allOf": refers, "$defs": {"long": long}});
        assert!(super::fits(&schema, &json!({}), &budget) && budget.is_spent());
    }
    // The calls of one answer share one budget.
    let budget = Budget::of_answer();
    assert!(!super::fits(&json!({"type": "null"}), &json!(1), &budget));
    budget.take(MAX_STEPS);
    assert!(super::fits(&json!({"type": "null"}), &json!(1), &budget));
}
