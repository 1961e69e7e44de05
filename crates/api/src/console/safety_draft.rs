//! A draft of safety settings, as a form has it: a rule, or a patch of settings as JSON.

use dashboard::{DraftField, SafetyDraft, Texts};
use domain::settings::{self, Settings};
use gateway::Error;
use serde_json::{Map, Value, json};

use crate::console::visit::Form;

/// A draft whose fields could be read.
#[derive(Debug)]
pub(super) struct ReadDraft {
    /// The patch of the project's settings.
    pub(super) patch: Map<String, Value>,
    /// The index of the rule of the form among the rules of the patch.
    rule: Option<usize>,
}

/// The fields of a form.
pub(super) fn fields(form: &Form) -> SafetyDraft {
    let field = |name: &str| DraftField { value: form.text(name), fault: None };
    SafetyDraft {
        name: field("rule_name"),
        pattern: field("rule_pattern"),
        flags: form.get("rule_action") == Some("flag"),
        weight: field("rule_weight"),
        settings: DraftField { value: form.text_area("settings"), fault: None },
    }
}

/// The fields of a draft that begins with a rule of the project.
pub(super) fn from_rule(saved: &Settings, name: &str) -> SafetyDraft {
    let field = |value: String| DraftField { value, fault: None };
    let Some(rule) = saved.safety.rules.iter().find(|rule| rule.name == name) else {
        return SafetyDraft::default();
    };
    SafetyDraft {
        name: field(rule.name.clone()),
        pattern: field(rule.pattern.clone()),
        flags: rule.action == domain::safety::Action::Flag,
        weight: field(rule.weight.to_string()),
        settings: DraftField::default(),
    }
}

/// Reads the draft over the saved settings of the project. A fault is put at its field; `None` if there is one.
pub(super) fn read(
    t: &Texts,
    draft: &mut SafetyDraft,
    saved: &Map<String, Value>,
) -> Option<ReadDraft> {
    let mut patch = match serde_json::from_str(&draft.settings.value) {
        _ if draft.settings.value.trim().is_empty() => Map::new(),
        Ok(Value::Object(patch)) => patch,
        Ok(_) => return refused(&mut draft.settings, t.safety.settings_no_object),
        Err(error) => {
            return refused(&mut draft.settings, &t.safety.settings_no_json(error));
        }
    };
    if patch.get("safety").is_some_and(|section| !section.is_object()) {
        return refused(&mut draft.settings, t.safety.section_no_object);
    }
    let [name, pattern] = [&draft.name, &draft.pattern].map(|field| field.value.trim().to_owned());
    if name.is_empty() && pattern.is_empty() {
        return Some(ReadDraft { patch, rule: None });
    }
    let weight: Option<f64> = match draft.weight.value.trim() {
        "" => Some(1.0),
        weight => weight.parse().ok().filter(|weight: &f64| weight.is_finite()),
    };
    let Some(weight) = weight else {
        return refused(&mut draft.weight, t.safety.weight_no_number);
    };
    let action = if draft.flags { "flag" } else { "block" };
    // A field that is left empty is missed, and not blank.
    let mut rule = Map::from_iter([
        ("action".to_owned(), json!(action)),
        ("weight".to_owned(), json!(weight)),
    ]);
    for (key, text) in [("name", &name), ("pattern", &pattern)] {
        if !text.is_empty() {
            rule.insert(key.to_owned(), json!(text));
        }
    }
    let saved_rules = saved.get("safety").and_then(|safety| safety.get("rules")).cloned();
    // A list takes the place of the saved one: the rule is put into it.
    let given = patch.get("safety").and_then(|section| section.get("rules")).cloned();
    let given = given.or(saved_rules).filter(|rules| !rules.is_null());
    let mut rules = match given {
        None => Vec::new(),
        Some(Value::Array(rules)) => rules,
        Some(_) => {
            return refused(&mut draft.settings, t.safety.rules_no_array);
        }
    };
    let known = rules.iter().position(|rule| rule.get("name") == Some(&json!(name)));
    let index = known.unwrap_or(rules.len());
    if known.is_some() {
        rules[index] = Value::Object(rule);
    } else {
        rules.push(Value::Object(rule));
    }
    let section = Map::from_iter([("rules".to_owned(), Value::Array(rules))]);
    let whole = Map::from_iter([("safety".to_owned(), Value::Object(section))]);
    settings::merge(&mut patch, whole);
    Some(ReadDraft { patch, rule: Some(index) })
}

fn refused<T>(field: &mut DraftField, fault: &str) -> Option<T> {
    field.fault = Some(fault.to_owned());
    None
}

impl ReadDraft {
    /// The section of the patch that a text is tried by.
    pub(super) fn safety(&self) -> Option<Map<String, Value>> {
        self.patch.get("safety").and_then(Value::as_object).cloned()
    }

    /// Puts the faults of a refusal at their fields. Returns the refusal if one has no field.
    pub(super) fn place_faults(
        &self,
        t: &Texts,
        draft: &mut SafetyDraft,
        error: Error,
    ) -> Option<Error> {
        let Error::Invalid(faults) = &error else { return Some(error) };
        let has_settings = !draft.settings.value.trim().is_empty();
        for fault in faults {
            let own = self
                .rule
                .and_then(|index| fault.strip_prefix(&format!("settings.safety.rules[{index}].")));
            let mut place = |own: &str| {
                let fields = [
                    ("name", &mut draft.name),
                    ("pattern", &mut draft.pattern),
                    ("weight", &mut draft.weight),
                ];
                let found = fields.into_iter().find(|(name, _)| own.starts_with(name));
                found
                    .map(|(_, field)| field.fault.get_or_insert(t.safety.fault_of_field(own)))
                    .is_some()
            };
            if own.is_some_and(&mut place) {
                continue;
            }
            if !has_settings || !fault.starts_with("settings") {
                return Some(error);
            }
            draft.settings.fault.get_or_insert_with(|| fault.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use dashboard::ENGLISH;

    use super::*;

    fn draft(name: &str, pattern: &str, weight: &str, settings: &str) -> SafetyDraft {
        let field = |text: &str| DraftField { value: text.to_owned(), fault: None };
        let [name, pattern, weight, settings] = [name, pattern, weight, settings].map(field);
        SafetyDraft { name, pattern, flags: true, weight, settings }
    }

    #[test]
    fn a_rule_joins_the_rules_of_the_project_or_replaces_one() {
        let old = json!({"name": "old", "pattern": "o"});
        let saved = json!({"safety": {"rules": [old]}}).as_object().cloned().unwrap();
        let rule = |name: &str, weight: f64| json!({"name": name, "pattern": "p", "action": "flag", "weight": weight});
        for (mut draft, patch, index) in [
            (draft("", "", "", " "), json!({}), None),
            (draft("", "", "", "{\"a\": 1}"), json!({"a": 1}), None),
            (
                draft("new", "p", "", ""),
                json!({"safety": {"rules": [old, rule("new", 1.0)]}}),
                Some(1),
            ),
            (
                draft("old", "p", "0.5", ""),
                json!({"safety": {"rules": [rule("old", 0.5)]}}),
                Some(0),
            ),
            (
                draft("new", "p", "", "{\"safety\": {\"rules\": [], \"x\": 1}}"),
                json!({"safety": {"rules": [rule("new", 1.0)], "x": 1}}),
                Some(0),
            ),
        ] {
            let read = read(&ENGLISH, &mut draft, &saved).unwrap();
            assert_eq!((Value::Object(read.patch), read.rule), (patch, index));
        }
    }

    #[test]
    fn a_fault_is_at_its_field() {
        let fault = |mut given: SafetyDraft| {
            assert!(read(&ENGLISH, &mut given, &Map::new()).is_none());
            [given.name, given.pattern, given.weight, given.settings]
                .map(|field| field.fault.is_some())
        };
        assert_eq!(fault(draft("a", "b", "x", "")), [false, false, true, false]);
        assert_eq!(fault(draft("", "", "", "{\"safety\": 1}")), [false, false, false, true]);
        for settings in ["{", "[]", "{\"safety\": 1}", "{\"safety\": {\"rules\": 1}}"] {
            assert_eq!(
                fault(draft("a", "b", "", settings)),
                [false, false, false, true],
                "{settings}"
            );
        }
        let placed = |mut given: SafetyDraft, sentence: &str| {
            let read = read(&ENGLISH, &mut given, &Map::new()).unwrap();
            let left = read.place_faults(&ENGLISH, &mut given, Error::invalid(sentence)).is_some();
            let fields = [given.name, given.pattern, given.weight, given.settings];
            (fields.map(|field| field.fault), left)
        };
        let bad = "settings.safety.rules[0].pattern: it is no expression";
        let at_pattern = Some("The pattern: it is no expression".to_owned());
        assert_eq!(placed(draft("a", "(", "", ""), bad), ([None, at_pattern, None, None], false));
        let high = "settings.safety.rules[0].weight must be a number between 0 and 1";
        let at_weight = Some("The weight must be a number between 0 and 1".to_owned());
        assert_eq!(placed(draft("a", "b", "2", ""), high), ([None, None, at_weight, None], false));
        let other = "settings.safety.block_threshold must be a number between 0 and 1";
        let json = "{\"safety\": {\"block_threshold\": 2}}";
        let at_settings = Some(other.to_owned());
        assert_eq!(
            placed(draft("a", "b", "", json), other),
            ([None, None, None, at_settings], false)
        );
        for settings in ["", json] {
            assert!(placed(draft("a", "b", "", settings), "The text is too long").1);
        }
    }
}
