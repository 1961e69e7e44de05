//! `settings.model_aliases`: names that a project's clients use, and the models that they mean.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::settings::reader::Reader;

/// The most aliases of a project.
const MOST: usize = 100;
/// The longest name of a model or pattern, in characters.
const LONGEST: usize = 200;
/// The most characters of a name that a fault shows.
const SHOWN: usize = 40;

/// The aliases of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelAliases {
    exact: BTreeMap<String, String>,
    /// The one with the longest literal part first; `*` has none, and is the last.
    patterns: Vec<Pattern>,
}

/// A name with one `*`, which stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    before: String,
    after: String,
    model: String,
}

impl ModelAliases {
    /// Reads the object: a model's identifier under each name or pattern. A null is no alias.
    pub(super) fn read(r: &mut Reader<'_>) -> Self {
        let mut aliases = Self::default();
        let names = r.names();
        if names.len() > MOST {
            r.fault("*", &format!("is one of more than {MOST} aliases, which is too many"));
            return aliases;
        }
        for name in names {
            let shown: String = name.chars().take(SHOWN).collect();
            if name.chars().count() > LONGEST || name.is_empty() {
                r.fault(&shown, &format!("must be a name of 1 to {LONGEST} characters"));
                continue;
            }
            let Some(model) = r.text(&name) else { continue };
            if model.chars().count() > LONGEST {
                r.fault(&shown, &format!("must name a model in at most {LONGEST} characters"));
                continue;
            }
            match name.split_once('*') {
                None => drop(aliases.exact.insert(name, model)),
                Some((_, after)) if after.contains('*') => {
                    r.fault(&shown, "must hold one * at most");
                }
                Some((before, after)) => {
                    let (before, after) = (before.to_owned(), after.to_owned());
                    aliases.patterns.push(Pattern { before, after, model });
                }
            }
        }
        // A tie goes to the longer beginning, and then by name, so that the order is always the same.
        aliases.patterns.sort_by(|one, other| {
            let key = |pattern: &Pattern| {
                let Pattern { before, after, .. } = pattern;
                (Reverse(before.len() + after.len()), Reverse(before.len()))
            };
            key(one).cmp(&key(other)).then_with(|| one.before.cmp(&other.before))
        });
        aliases
    }

    /// The identifier that a name stands for: an alias of exactly this name, else of the pattern with
    /// the longest literal part. What it names is no alias itself.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        let by_pattern = || {
            let fits = |pattern: &&Pattern| {
                name.strip_prefix(pattern.before.as_str())
                    .is_some_and(|rest| rest.ends_with(pattern.after.as_str()))
            };
            self.patterns.iter().find(fits).map(|pattern| &pattern.model)
        };
        self.exact(name).or_else(|| by_pattern().map(String::as_str))
    }

    /// The identifier that an alias of exactly this name stands for.
    pub fn exact(&self, name: &str) -> Option<&str> {
        self.exact.get(name).map(String::as_str)
    }

    /// Every alias as it is written, with the identifier that it names.
    pub fn all(&self) -> impl Iterator<Item = (String, &str)> {
        let exact = self.exact.iter().map(|(name, model)| (name.clone(), model.as_str()));
        let patterns = self.patterns.iter();
        exact.chain(patterns.map(|pattern| {
            (format!("{}*{}", pattern.before, pattern.after), pattern.model.as_str())
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::settings::Settings;

    fn read(aliases: Value) -> Result<Settings, Vec<String>> {
        Settings::parse(&Map::from_iter([("model_aliases".to_owned(), aliases)]))
    }

    #[test]
    fn the_most_exact_alias_wins() {
        let aliases = read(json!({
            "*": "any", "claude-*": "claude", "claude-haiku-*": "haiku", "*-latest": "latest",
            "claude-haiku-4-5": "exact", "gpt-*-nano": "nano", "off": null,
        }));
        let aliases = aliases.unwrap().model_aliases;
        for (name, model) in [
            ("claude-haiku-4-5", "exact"),
            ("claude-haiku-4-5-20251001", "haiku"),
            ("claude-opus-5", "claude"),
            // As long as the other pattern that fits, with the longer beginning.
            ("claude-latest", "claude"),
            ("gpt-latest", "latest"),
            ("gpt-5.4-nano", "nano"),
            // The literal parts do not overlap.
            ("gpt-nano", "any"),
            ("off", "any"),
            ("", "any"),
        ] {
            assert_eq!(aliases.resolve(name), Some(model), "{name}");
        }
        let one = read(json!({"gpt-*": "m"})).unwrap().model_aliases;
        assert_eq!(one.resolve("claude"), None);
        assert_eq!(one.resolve("m"), None);
    }

    #[test]
    fn faults_name_the_alias() {
        let many: Map<String, Value> = (0..101).map(|n| (format!("a{n}"), json!("m"))).collect();
        for (aliases, fault) in [
            (json!([]), "settings.model_aliases must be an object"),
            (json!({"a": 5}), "settings.model_aliases.a must be a text that is not blank"),
            (json!({"a*b*": "m"}), "settings.model_aliases.a*b* must hold one * at most"),
            (json!({"": "m"}), "settings.model_aliases. must be a name of 1 to 200 characters"),
            (
                json!({"a": "m".repeat(201)}),
                "settings.model_aliases.a must name a model in at most 200 characters",
            ),
            (
                Value::Object(many),
                "settings.model_aliases.* is one of more than 100 aliases, which is too many",
            ),
        ] {
            assert_eq!(read(aliases).unwrap_err(), [fault]);
        }
        assert!(read(json!({"a".repeat(201): "m"})).is_err());
        assert!(read(json!({"a".repeat(200): "m".repeat(200)})).is_ok());
    }
}
