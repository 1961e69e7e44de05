//! Counts of tokens as providers report them, each read independently.
//!
//! A count is a non-negative whole number, `12` or `12.0`. Any other value (negative, fractional, a
//! text, a list) is nonsense and spoils neither the answer nor the counts beside it.

use std::fmt;

use domain::usage::{Open, Usage};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// One count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Count {
    /// The member is missing, or null.
    #[default]
    Missing,
    Sound(u64),
    Nonsense,
}

impl Count {
    /// Returns the number, if it is one.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Sound(count) => Some(count),
            Self::Missing | Self::Nonsense => None,
        }
    }

    pub(crate) fn is_nonsense(self) -> bool {
        self == Self::Nonsense
    }

    /// Returns an optional count: 0 if it is missing.
    pub(crate) fn or_none(self, open: &mut Open) -> u64 {
        open.detail |= self.is_nonsense();
        self.known().unwrap_or(0)
    }

    /// Combines the count with a later report of it. Nonsense takes nothing back, nor does a zero.
    pub(crate) fn followed_by(self, later: Self) -> Self {
        match (self, later) {
            (known, Self::Missing) => known,
            (Self::Sound(known), Self::Nonsense | Self::Sound(0)) => Self::Sound(known),
            (_, later) => later,
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;
        impl<'de> Visitor<'de> for CountVisitor {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
                Ok(Count::Sound(count))
            }

            fn visit_i64<E>(self, count: i64) -> Result<Count, E> {
                Ok(u64::try_from(count).map_or(Count::Nonsense, Count::Sound))
            }

            /// Casts of floats saturate: a count that is too large stays too large.
            fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
                let is_whole = count >= 0.0 && count.fract() == 0.0;
                Ok(if is_whole { Count::Sound(count as u64) } else { Count::Nonsense })
            }

            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count::Missing)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count::Nonsense)
            }

            fn visit_str<E>(self, _: &str) -> Result<Count, E> {
                Ok(Count::Nonsense)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count::Nonsense)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count::Nonsense)
            }
        }
        deserializer.deserialize_any(CountVisitor)
    }
}

/// Counts in an object of their own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Group<T> {
    /// The member is missing, or null.
    #[default]
    Missing,
    Known(T),
    /// The member is no object.
    Nonsense,
}

impl<T: Copy + Default> Group<T> {
    /// Combines the counts with a later report of them. Nonsense takes nothing back.
    pub(crate) fn followed_by(self, later: Self) -> Self {
        match (self, later) {
            (known, Self::Missing) => known,
            (Self::Known(known), Self::Nonsense) => Self::Known(known),
            (_, later) => later,
        }
    }

    /// Returns the counts; none of them if they make no sense.
    pub(crate) fn read(self, open: &mut Open) -> T {
        open.detail |= matches!(self, Self::Nonsense);
        match self {
            Self::Known(counts) => counts,
            Self::Missing | Self::Nonsense => T::default(),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Group<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GroupVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for GroupVisitor<T> {
            type Value = Group<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Group::Missing)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Group::Known)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Group::Nonsense)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Group::Nonsense)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Group::Nonsense)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Group::Nonsense)
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Group::Nonsense)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Group::Nonsense)
            }
        }
        deserializer.deserialize_any(GroupVisitor(std::marker::PhantomData))
    }
}

/// Splits cache writes by how long they are kept: `hour` and `minutes` are parts of `total`. The total
/// is the authority; the hour's part is capped at it, and the rest that the split does not explain is
/// left open.
pub(crate) fn split_writes(total: Count, hour: Count, minutes: Count, usage: &mut Usage) {
    let (hour, minutes) = (hour.or_none(&mut usage.open), minutes.or_none(&mut usage.open));
    let sum = hour.saturating_add(minutes);
    let written = match total.known() {
        Some(total) if total > 0 => total,
        _ => sum,
    };
    usage.open.detail |= sum > written || total.is_nonsense();
    usage.cache_write = written;
    usage.cache_write_1h = hour.min(written);
    usage.open.cache_write = written.saturating_sub(sum);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_whole_numbers_that_are_not_negative_are_counts() {
        for (value, count) in [
            ("12", Count::Sound(12)),
            ("0", Count::Sound(0)),
            ("12.0", Count::Sound(12)),
            ("1e3", Count::Sound(1000)),
            ("18446744073709551615", Count::Sound(u64::MAX)),
            ("1e300", Count::Sound(u64::MAX)),
            ("null", Count::Missing),
            ("-5", Count::Nonsense),
            ("-0.5", Count::Nonsense),
            ("1.5", Count::Nonsense),
            (r#""12""#, Count::Nonsense),
            (r#""NaN""#, Count::Nonsense),
            ("[1]", Count::Nonsense),
            ("[]", Count::Nonsense),
            (r#"{"n":1}"#, Count::Nonsense),
            ("true", Count::Nonsense),
        ] {
            assert_eq!(serde_json::from_str::<Count>(value).unwrap(), count, "{value}");
            let value: serde_json::Value = serde_json::from_str(value).unwrap();
            assert_eq!(Count::deserialize(&value).unwrap(), count, "{value}");
        }
    }

    #[test]
    fn what_a_split_does_not_explain_is_open() {
        let of = |value: serde_json::Value| Count::deserialize(value).unwrap();
        for (total, hour, minutes, written, for_an_hour, open, doubtful) in [
            (json!(100), json!(60), json!(40), 100, 60, 0, false),
            (json!(100), json!(null), json!(null), 100, 0, 100, false),
            (json!(100), json!(30), json!(20), 100, 30, 50, false),
            (json!(100), json!(80), json!(80), 100, 80, 0, true),
            (json!(100), json!(500), json!(0), 100, 100, 0, true),
            (json!(100), json!("60"), json!(40), 100, 0, 60, true),
            (json!(null), json!(60), json!(40), 100, 60, 0, false),
            (json!([1]), json!(60), json!(40), 100, 60, 0, true),
            (json!(0), json!(0), json!(0), 0, 0, 0, false),
        ] {
            let mut usage = Usage::default();
            split_writes(of(total), of(hour), of(minutes), &mut usage);
            assert_eq!((usage.cache_write, usage.cache_write_1h), (written, for_an_hour));
            assert_eq!((usage.open.cache_write, usage.open.detail), (open, doubtful));
        }
    }
}
