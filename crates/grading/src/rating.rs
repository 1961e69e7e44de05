//! User ratings of the work.

use std::borrow::Cow;
use std::fmt::{self, Formatter};

use domain::step::{Step, StepKind};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads the rating in a log's output, 0 to 1. The output is JSON text; nothing but the rating is read.
///
/// `user_rating` is a boolean; or a number, divided by `rating_max` beside it. Without `rating_max`, a
/// number below 1 is taken as it is and any other counts stars out of five.
pub fn user_rating(output: &str) -> Option<f64> {
    let Rated { rating, most } = serde_json::from_str(output).ok()?;
    let rating = match (rating, most) {
        (Scalar::Bool(liked), _) => f64::from(u8::from(liked)),
        (Scalar::Number(number), Scalar::Number(most)) if most > 0.0 => number / most,
        (Scalar::Number(number), _) if number < 1.0 => number,
        (Scalar::Number(number), _) => number / 5.0,
        (Scalar::Other, _) => return None,
    };
    rating.is_finite().then(|| rating.clamp(0.0, 1.0))
}

/// The members of an output that make up a rating.
struct Rated {
    rating: Scalar,
    most: Scalar,
}

#[derive(Clone, Copy)]
enum Scalar {
    Bool(bool),
    Number(f64),
    Other,
}

impl<'de> Deserialize<'de> for Rated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Rated;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rated, A::Error> {
                let mut rated = Rated { rating: Scalar::Other, most: Scalar::Other };
                while let Some(name) = map.next_key::<Cow<'_, str>>()? {
                    match &*name {
                        "user_rating" => rated.rating = map.next_value()?,
                        "rating_max" => rated.most = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(rated)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value as f64))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value as f64))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value))
            }

            fn visit_str<E>(self, _: &str) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scalar, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// The mean rating of a trace; `None` without ratings.
pub(crate) fn average(steps: &[Step]) -> Option<f64> {
    let logs = steps.iter().filter(|step| step.kind == StepKind::Log);
    let ratings: Vec<f64> = logs.filter_map(|step| step.user_rating).collect();
    // A sum of fractions is off in its last digits, and a cut-off is to be exact.
    let mean = ratings.iter().sum::<f64>() / ratings.len() as f64;
    (!ratings.is_empty()).then(|| (mean * 1e9).round() / 1e9)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_forms_of_a_rating() {
        let cases = [
            (json!({"user_rating": true}), Some(1.0)),
            (json!({"user_rating": false}), Some(0.0)),
            (json!({"user_rating": 7, "rating_max": 10}), Some(0.7)),
            (json!({"user_rating": 0.5, "rating_max": 10}), Some(0.05)),
            (json!({"user_rating": 0.8}), Some(0.8)),
            (json!({"user_rating": 0}), Some(0.0)),
            (json!({"user_rating": 1}), Some(0.2)),
            (json!({"user_rating": 5}), Some(1.0)),
            (json!({"user_rating": 9}), Some(1.0)),
            (json!({"user_rating": -3}), Some(0.0)),
            (json!({"user_rating": 4, "rating_max": 0}), Some(0.8)),
            (json!({"user_rating": "good"}), None),
            (json!({"user_rating": null}), None),
            (json!({"rating_max": 5}), None),
            (json!({"user_rating": [1, {"a": []}], "rating_max": {"b": [2]}}), None),
            (json!({"a": {"user_rating": 1}}), None),
            (json!([1]), None),
        ];
        for (output, expected) in cases {
            assert_eq!(user_rating(&output.to_string()), expected, "{output}");
        }
    }
}
