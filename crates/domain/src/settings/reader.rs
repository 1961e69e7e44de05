//! Reads known keys out of a JSON object and collects every fault as a sentence.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::money::Usd;
use crate::safety::Action;

/// A whole number that is not negative; `30.0` is one as well, as JSON has only one kind of number.
pub fn whole(value: &Value) -> Option<u64> {
    // Above 2^53 a double stands for several whole numbers.
    let exact =
        |number: &f64| number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(number);
    value.as_u64().or_else(|| value.as_f64().filter(exact).map(|number| number as u64))
}

/// One object on the way down; the path names it in faults.
pub(super) struct Reader<'a> {
    map: &'a Map<String, Value>,
    path: String,
    errors: &'a mut Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        map: &'a Map<String, Value>,
        path: &str,
        errors: &'a mut Vec<String>,
    ) -> Self {
        Self { map, path: path.to_owned(), errors }
    }

    /// Records a fault of `key`.
    pub(super) fn fault(&mut self, key: &str, what: &str) {
        self.errors.push(format!("{}.{key} {what}", self.path));
    }

    /// Records a fault for every key that is not in `known`.
    pub(super) fn only(&mut self, known: &[&str]) {
        for key in self.map.keys() {
            if !known.contains(&key.as_str()) {
                self.errors.push(format!(
                    "{}.{key} is not known: it is one of {}",
                    self.path,
                    known.join(", ")
                ));
            }
        }
    }

    /// The value of a key; null counts as absent.
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The keys that have a value.
    pub(super) fn names(&self) -> Vec<String> {
        let set = self.map.iter().filter(|(_, value)| !value.is_null());
        set.map(|(name, _)| name.clone()).collect()
    }

    fn typed<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key)?;
        let read = read(value);
        if read.is_none() {
            self.fault(key, &format!("must be {what}"));
        }
        read
    }

    pub(super) fn object<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> Option<T> {
        let map = self.typed(key, "an object", Value::as_object)?;
        let path = format!("{}.{key}", self.path);
        Some(read(&mut Reader { map, path, errors: self.errors }))
    }

    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut Reader<'_>) -> T,
    ) -> Vec<T> {
        let Some(items) = self.typed(key, "an array of objects", |value| {
            value.as_array()?.iter().map(Value::as_object).collect::<Option<Vec<_>>>()
        }) else {
            return Vec::new();
        };
        let each = items.into_iter().enumerate().map(|(index, map)| {
            let path = format!("{}.{key}[{index}]", self.path);
            read(&mut Reader { map, path, errors: self.errors })
        });
        each.collect()
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.typed(key, "a text that is not blank", |value| {
            value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        })
    }

    pub(super) fn required_text(&mut self, key: &str) -> String {
        if self.value(key).is_none() {
            self.fault(key, "is required");
        }
        self.text(key).unwrap_or_default()
    }

    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        self.typed(key, "an array of texts", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    pub(super) fn flag(&mut self, key: &str) -> Option<bool> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A number between 0 and 1.
    pub(super) fn unit(&mut self, key: &str) -> Option<f64> {
        self.typed(key, "a number between 0 and 1", |value| {
            value.as_f64().filter(|number| (0.0..=1.0).contains(number))
        })
    }

    pub(super) fn count(&mut self, key: &str, least: u64) -> Option<u64> {
        self.typed(key, &format!("a whole number of at least {least}"), |value| {
            whole(value).filter(|&count| count >= least)
        })
    }

    pub(super) fn count_within(&mut self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        self.typed(key, &what, |value| whole(value).filter(|count| range.contains(count)))
    }

    /// A count. Null means off, and absence means the default.
    pub(super) fn count_or_off(&mut self, key: &str, plain: Option<u64>) -> Option<u64> {
        match self.map.get(key) {
            None => plain,
            Some(Value::Null) => None,
            Some(_) => self.count(key, 0).or(plain),
        }
    }

    pub(super) fn money(&mut self, key: &str) -> Option<Usd> {
        self.typed(key, "an amount in USD that is not negative, or null", |value| {
            value.as_f64().filter(|&amount| amount >= 0.0).and_then(Usd::from_dollars)
        })
    }

    pub(super) fn action(&mut self, key: &str, allowed: &[Action]) -> Option<Action> {
        let words: Vec<_> = allowed.iter().map(|action| (word(*action), *action)).collect();
        self.one_of(key, &words)
    }

    /// The value that one of a few words stands for.
    pub(super) fn one_of<T: Copy>(&mut self, key: &str, known: &[(&str, T)]) -> Option<T> {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        self.typed(key, &format!("one of {}", words.join(", ")), |value| {
            let given = value.as_str()?;
            known.iter().find(|(word, _)| *word == given).map(|(_, meaning)| *meaning)
        })
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Flag => "flag",
        Action::Redact => "redact",
        Action::Block => "block",
    }
}
