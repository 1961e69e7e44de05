//! The figures of a replay that conditions and reports are about, from the answer of the API.

use serde_json::Value;

/// The figures of a replay on one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// The model, if several are compared.
    pub(crate) model: Option<String>,
    /// The changes of cost and time in percent, if there is something to compare.
    pub(crate) cost_change: Option<f64>,
    pub(crate) latency_change: Option<f64>,
    /// The least similarity of two answers, and the mean of all.
    pub(crate) least_similarity: Option<f64>,
    pub(crate) mean_similarity: Option<f64>,
    /// Calls that were left out, and that safety refused.
    pub(crate) skipped: usize,
    pub(crate) blocked: usize,
    /// Calls whose answers could not be compared: they are not stored, or too large.
    pub(crate) uncompared: usize,
    /// Calls that were repeated without parts that only the vendor of their source has.
    pub(crate) reduced: usize,
    /// Why calls have failed.
    pub(crate) errors: Vec<String>,
    /// The grades of the source and of the replay.
    pub(crate) grades: (String, String),
    /// The time of the calls of the replay, in seconds.
    pub(crate) seconds: f64,
}

impl Figures {
    /// The figures of a job that is over: one for each model.
    pub(crate) fn of_job(job: &Value) -> Vec<Self> {
        let comparison = &job["comparison"];
        let replays = comparison["replays"].as_array().map(Vec::as_slice).unwrap_or_default();
        let single = comparison.get("replay").filter(|replay| replay.is_object());
        let grade = |of: &Value| of["optimization_grade"].as_str().unwrap_or_default().to_owned();
        let source = grade(&comparison["source"]);
        let read =
            |replay: &Value| Self { grades: (source.clone(), grade(replay)), ..Self::read(replay) };
        replays.iter().chain(single).map(read).collect()
    }

    fn read(replay: &Value) -> Self {
        let steps = replay["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
        let similarities: Vec<f64> =
            steps.iter().filter_map(|step| step["similarity"].as_f64()).collect();
        let count = |name: &str| steps.iter().filter(|step| step[name].is_string()).count();
        let errors = steps.iter().filter_map(|step| {
            let error = step["error"].as_str()?;
            Some(format!("step {}: {error}", step["source_step_id"]))
        });
        let millis = steps.iter().filter_map(|step| step["latency_ms"].as_f64());
        Self {
            model: replay["model"].as_str().map(str::to_owned),
            cost_change: replay["cost_change_pct"].as_f64(),
            latency_change: replay["latency_change_pct"].as_f64(),
            least_similarity: similarities.iter().copied().reduce(f64::min),
            mean_similarity: (!similarities.is_empty())
                .then(|| similarities.iter().sum::<f64>() / similarities.len() as f64),
            skipped: steps.iter().filter(|step| is_left_out(step)).count(),
            blocked: count("blocked"),
            uncompared: steps.iter().filter(|step| is_uncompared(step)).count(),
            reduced: steps.iter().filter(|step| step["left_out"].is_array()).count(),
            errors: errors.collect(),
            grades: (String::new(), String::new()),
            seconds: millis.sum::<f64>() / 1000.0,
        }
    }
}

/// Whether a call was left out that could have been repeated: no replay repeats embeddings and images.
fn is_left_out(step: &Value) -> bool {
    step["skipped"].as_str().is_some_and(|reason| reason != "not_repeatable")
}

/// Whether a call was answered again, and nothing tells how alike the answers are.
fn is_uncompared(step: &Value) -> bool {
    let has_no = |name: &str| step[name].is_null();
    ["similarity", "skipped", "blocked", "error"].into_iter().all(has_no)
}

/// The figures in one line.
impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let change = |change: Option<f64>| match change {
            Some(change) => format!("{change:+.1} %"),
            None => "unknown".to_owned(),
        };
        write!(f, "cost {}, latency {}", change(self.cost_change), change(self.latency_change))?;
        if let (Some(mean), Some(least)) = (self.mean_similarity, self.least_similarity) {
            write!(f, ", similarity {mean:.2} (least {least:.2})")?;
        }
        write!(f, ", grade {} -> {}", self.grades.0, self.grades.1)?;
        for (count, what) in [
            (self.skipped, "skipped"),
            (self.blocked, "blocked"),
            (self.uncompared, "not compared"),
            (self.reduced, "without parts of the vendor's"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_for_each_model() {
        let steps = json!([
            {"source_step_id": 1, "similarity": 0.5, "latency_ms": 1000.0, "skipped": null},
            {"source_step_id": 2, "similarity": 1.0, "latency_ms": 500.0, "skipped": null,
                "left_out": ["service_tier"]},
            {"source_step_id": 3, "similarity": null, "skipped": "max_cost"},
            {"source_step_id": 4, "similarity": null, "skipped": null, "blocked": "No."},
            {"source_step_id": 5, "similarity": null, "skipped": null, "error": "Oh."},
            {"source_step_id": 6, "similarity": null, "skipped": "not_repeatable"},
            {"source_step_id": 7, "similarity": null, "skipped": null},
        ]);
        let replay = json!({"optimization_grade": "B", "cost_change_pct": -12.34,
            "latency_change_pct": null, "steps": steps});
        let source = json!({"optimization_grade": "A"});
        let one = Figures::of_job(&json!({"comparison": {"source": source, "replay": replay}}));
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].errors, ["step 5: Oh."]);
        assert_eq!((one[0].least_similarity, one[0].seconds), (Some(0.5), 1.5));
        assert_eq!(
            one[0].to_string(),
            "cost -12.3 %, latency unknown, similarity 0.75 (least 0.50), grade A -> B, 1 skipped, 1 blocked, \
             1 not compared, 1 without parts of the vendor's"
        );
        let two = json!([{"model": "a", "steps": []}, {"model": "b", "steps": []}]);
        let two = Figures::of_job(&json!({"comparison": {"source": source, "replays": two}}));
        let models: Vec<_> = two.iter().map(|figures| figures.model.as_deref()).collect();
        assert_eq!(models, [Some("a"), Some("b")]);
        assert!(Figures::of_job(&json!({"error": "No."})).is_empty());
        let none = json!({"comparison": {"source": source, "replay": null}});
        assert!(Figures::of_job(&none).is_empty());
    }
}
