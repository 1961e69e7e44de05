//! What users thought of the work.

use domain::step::{Step, StepKind};
use serde_json::Value;

/// The rating that a log's output carries, 0 to 1.
///
/// `user_rating` is a boolean; or a number, divided by `rating_max` beside it; without that, a
/// fraction below 1 is taken as it is and anything else counts stars out of five.
pub fn user_rating(output: &Value) -> Option<f64> {
    let rating = match output.get("user_rating")? {
        Value::Bool(liked) => f64::from(u8::from(*liked)),
        Value::Number(number) => {
            let number = number.as_f64()?;
            match output.get("rating_max").and_then(Value::as_f64) {
                Some(most) if most > 0.0 => number / most,
                _ if number < 1.0 => number,
                _ => number / 5.0,
            }
        }
        _ => return None,
    };
    rating.is_finite().then(|| rating.clamp(0.0, 1.0))
}

/// The mean rating of a trace; `None` when nobody rated it.
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
            (json!([1]), None),
        ];
        for (output, expected) in cases {
            assert_eq!(user_rating(&output), expected, "{output}");
        }
    }
}
