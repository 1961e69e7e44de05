//! The turns of a trace that the calls of a session share: between them a person reads, thinks and writes.

use domain::step::Step;

/// Splits steps, given in the order of (`started_at`, id), where nothing ran for longer than `pause`
/// microseconds. Without a pause they are one turn; there is always one. Shadow calls neither begin a turn
/// nor fill a pause.
pub(crate) fn turns(steps: &[Step], pause: Option<i64>) -> Vec<&[Step]> {
    let Some(pause) = pause else { return vec![steps] };
    let (mut turns, mut from) = (Vec::new(), 0);
    let mut end = None;
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| !step.is_shadow()) {
        if end.is_some_and(|end| step.started_at.since(end) > pause) {
            turns.push(&steps[from..index]);
            from = index;
        }
        end = end.max(Some(step.finished_at));
    }
    turns.push(&steps[from..]);
    turns
}

#[cfg(test)]
mod tests {
    use domain::grade::Baselines;

    use super::*;
    use crate::testing::run;
    use crate::{assess, figures};

    const MINUTE: i64 = 60_000_000;

    /// The same request three times: at 0 s, and after pauses of 100 s.
    fn asked_again() -> Vec<Step> {
        [0, 100, 200].map(|second| run(second, "small", 1000, 500, 7)).to_vec()
    }

    fn overall(steps: &[Step], pause: Option<i64>) -> String {
        let assessment = assess(steps, Baselines { pause, ..Baselines::default() });
        format!("{} {}", assessment.grades.overall, assessment.reasons.len())
    }

    #[test]
    fn a_pause_of_a_person_begins_a_turn() {
        let steps = asked_again();
        assert_eq!(turns(&steps, None).len(), 1);
        assert_eq!(turns(&steps, Some(MINUTE)).len(), 3);
        assert_eq!(turns(&steps, Some(2 * MINUTE)).len(), 1);
        assert_eq!(turns(&[], Some(MINUTE)).len(), 1);
        let mut long = steps.clone();
        long[0].finished_at = long[2].started_at;
        assert_eq!(turns(&long, Some(MINUTE)).len(), 1, "a step that runs is no pause");
    }

    #[test]
    fn what_is_asked_again_in_another_turn_is_no_loop() {
        let steps = asked_again();
        assert_eq!(overall(&steps, None), "F 4", "of an ordinary trace it is");
        assert_eq!(overall(&steps, Some(MINUTE)), "A 0");
        let at_once: Vec<Step> = (0..3).map(|second| run(second, "small", 1000, 500, 7)).collect();
        assert_eq!(overall(&at_once, Some(MINUTE)), "F 4", "nor is a loop within a turn missed");
    }

    #[test]
    fn pauses_are_no_latency_and_no_stall() {
        let steps = asked_again();
        let created = steps[0].started_at;
        let plain = figures(created, &steps, Some(100.0));
        assert!((plain.total_latency_ms - 200_500.0).abs() < 1e-6);
        assert!(plain.stall_probability > 0.4);
        let in_turns = crate::figures_in_turns(created, &steps, Some(100.0), Some(MINUTE));
        assert!((in_turns.total_latency_ms - 1_500.0).abs() < 1e-6);
        assert!(in_turns.stall_probability < 0.01, "{}", in_turns.stall_probability);
        assert_eq!(crate::figures_in_turns(created, &steps, Some(100.0), None), plain);
    }
}
