//! Advice on safety settings, by the verdicts of people on findings.
//!
//! A verdict counts as long as the settings of today would still ask for it: advice that was followed ends.

use std::collections::{BTreeMap, BTreeSet};

use domain::review::{JudgedFinding, Review, Verdict};
use domain::safety::{Action, Category, Safety};
use serde_json::{Map, Value, json};

/// The least number of verdicts on findings of a category.
const LEAST_VERDICTS: usize = 10;
/// A category of which this share or more is false asks for another setting, in percent.
const MOSTLY_FALSE_PCT: usize = 80;
/// The share of the false positives that a threshold keeps out of the queue, in percent.
const KEPT_OUT_PCT: usize = 90;
/// Hundredths of a score are whole numbers but for this.
const EVEN: f64 = 1e-6;
/// The categories, in the order of their advice.
const CATEGORIES: [Category; 4] =
    [Category::Pii, Category::Injection, Category::Secret, Category::Policy];

/// The verdicts on the findings of a category.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCategory {
    /// The category.
    pub category: Category,
    /// The steps with such findings that were judged.
    pub judged: usize,
    /// Those of them that were judged to be false positives.
    pub false_positives: usize,
    /// The change of a setting, if most are false and one would keep them out of the queue.
    pub change: Option<AdvisedChange>,
}

/// A change of a setting that keeps false positives out of the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct AdvisedChange {
    /// The action to take, as a sentence without its full stop.
    pub action: String,
    /// The change as a patch of `settings`.
    pub patch: Value,
    /// The false positives of the category that it would have kept out.
    pub hidden_false: usize,
    /// The confirmed findings that it would have kept out as well.
    pub hidden_confirmed: usize,
}

impl JudgedCategory {
    /// Whether most of the findings are false positives.
    pub fn is_mostly_false(&self) -> bool {
        self.false_positives * 100 >= self.judged * MOSTLY_FALSE_PCT
    }
}

impl std::fmt::Display for JudgedCategory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { category, judged, false_positives, change } = self;
        let percent = false_positives * 100 / (*judged).max(1);
        write!(
            f,
            "{false_positives} of {judged} verdicts on `{}` findings in 30 days are false positives \
             ({percent} %).",
            category.as_str()
        )?;
        match change {
            Some(change) => {
                let confirmed = match change.hidden_confirmed {
                    0 => "no confirmed finding".to_owned(),
                    1 => "1 confirmed finding as well".to_owned(),
                    many => format!("{many} confirmed findings as well"),
                };
                write!(
                    f,
                    " {}: it would have kept {} of them out of the queue, and {confirmed}.",
                    change.action, change.hidden_false
                )
            }
            None if self.is_mostly_false() => {
                f.write_str(" No threshold, type or weight keeps them out of the queue.")
            }
            None => f.write_str(" The settings fit."),
        }
    }
}

/// The categories with at least ten verdicts, and a change of settings for those that are mostly false. `types`
/// are the types of personal data that the settings find, those of the project's recognizers included;
/// `saved` are the settings as they are stored, with keys that this version does not know.
pub fn review_advice(
    reviews: &[Review],
    safety: &Safety,
    types: &[&str],
    saved: &Map<String, Value>,
) -> Vec<JudgedCategory> {
    let current: Vec<Review> =
        reviews.iter().filter_map(|review| as_of_today(review, safety, types)).collect();
    let of_category = |category| {
        let judged: Vec<&Review> =
            current.iter().filter(|review| found(review, category).next().is_some()).collect();
        let wrong: Vec<&Review> =
            judged.iter().copied().filter(|review| is_false(review)).collect();
        if judged.len() < LEAST_VERDICTS {
            return None;
        }
        let mut of = JudgedCategory {
            category,
            judged: judged.len(),
            false_positives: wrong.len(),
            change: None,
        };
        if of.is_mostly_false() {
            let own = match category {
                Category::Pii => fewer_types(&current, &judged, types),
                Category::Policy => lighter_rule(&judged, safety, saved),
                Category::Injection | Category::Secret => None,
            };
            of.change = own.or_else(|| higher_threshold(&current, &wrong, safety));
        }
        Some(of)
    };
    CATEGORIES.into_iter().filter_map(of_category).collect()
}

/// A verdict with the findings that the settings of today would make; `None` if they would make none, or ask
/// for no review.
fn as_of_today(review: &Review, safety: &Safety, types: &[&str]) -> Option<Review> {
    if review.risk_score < safety.review_threshold {
        return None;
    }
    let mut review = review.clone();
    review.findings.retain(|finding| match finding.category {
        Category::Pii => types.contains(&&*finding.kind),
        Category::Policy => safety.rules.iter().any(|rule| {
            rule.name == finding.kind
                && rule.action == Action::Flag
                && rule.weight >= safety.review_threshold
        }),
        Category::Injection | Category::Secret => true,
    });
    (!review.findings.is_empty()).then_some(review)
}

fn found(review: &Review, category: Category) -> impl Iterator<Item = &JudgedFinding> {
    review.findings.iter().filter(move |finding| finding.category == category)
}

fn is_false(review: &Review) -> bool {
    review.verdict == Verdict::FalsePositive
}

/// The kinds of a category that are mostly false by themselves.
fn false_kinds<'r>(judged: &[&'r Review], category: Category) -> BTreeSet<&'r str> {
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for review in judged {
        let own: BTreeSet<&str> = found(review, category).map(|one| &*one.kind).collect();
        for kind in own {
            let (all, wrong) = kinds.entry(kind).or_default();
            *all += 1;
            *wrong += usize::from(is_false(review));
        }
    }
    let mostly = |(all, wrong): &(usize, usize)| wrong * 100 >= all * MOSTLY_FALSE_PCT;
    kinds.into_iter().filter(|(_, counts)| mostly(counts)).map(|(kind, _)| kind).collect()
}

/// Personal data without the types that are mostly false, if that keeps most of the false positives out.
fn fewer_types(all: &[Review], judged: &[&Review], types: &[&str]) -> Option<AdvisedChange> {
    let dropped = false_kinds(judged, Category::Pii);
    let left: Vec<&str> = types.iter().copied().filter(|kind| !dropped.contains(kind)).collect();
    let is_dropped =
        |one: &JudgedFinding| one.category == Category::Pii && dropped.contains(&*one.kind);
    let wrong = || judged.iter().filter(|review| is_false(review));
    // One with findings of other kinds stays in the queue for those.
    let hidden_false = wrong().filter(|review| review.findings.iter().all(is_dropped)).count();
    if dropped.is_empty() || left.is_empty() || hidden_false * 2 < wrong().count() {
        return None;
    }
    let confirmed = all.iter().filter(|review| !is_false(review));
    let hidden_confirmed =
        confirmed.filter(|review| review.findings.iter().any(is_dropped)).count();
    let names = dropped.iter().copied().collect::<Vec<_>>().join(", ");
    Some(AdvisedChange {
        action: format!(
            "Leave {names} out of settings.safety.pii.entities (values of that kind are then neither flagged \
             nor redacted)"
        ),
        patch: json!({"safety": {"pii": {"entities": left}}}),
        hidden_false,
        hidden_confirmed,
    })
}

/// A weight below the threshold for the rule with the most false positives, if that keeps most of them out.
fn lighter_rule(
    judged: &[&Review],
    safety: &Safety,
    saved: &Map<String, Value>,
) -> Option<AdvisedChange> {
    let kinds = false_kinds(judged, Category::Policy);
    // One with other findings stays in the queue for those: their scores add to the weight, which is just below
    // the threshold.
    let count = |name: &str, wanted: bool| {
        let is_rule = |one: &JudgedFinding| one.category == Category::Policy && one.kind == name;
        let has_only = |one: &&&Review| one.findings.iter().all(is_rule);
        judged.iter().filter(|one| is_false(one) == wanted).filter(has_only).count()
    };
    let name = kinds.into_iter().max_by_key(|name| count(name, true))?;
    let hidden_false = count(name, true);
    let wrong = judged.iter().filter(|review| is_false(review)).count();
    let weight = ((safety.review_threshold * 100.0 - EVEN).ceil() - 1.0).max(0.0) / 100.0;
    if hidden_false * 2 < wrong || weight >= safety.review_threshold {
        return None;
    }
    // A patch replaces the whole list: every rule is in it as it was saved, but for one number.
    let mut rules = saved.get("safety")?.get("rules")?.clone();
    for rule in rules.as_array_mut()?.iter_mut().filter(|rule| rule["name"] == name) {
        rule["weight"] = weight.into();
    }
    Some(AdvisedChange {
        action: format!(
            "Set the weight of the rule `{name}` to {weight} in settings.safety.rules, or make its pattern \
             narrower"
        ),
        patch: json!({"safety": {"rules": rules}}),
        hidden_false,
        hidden_confirmed: count(name, false),
    })
}

/// A threshold just above the score below which most of the false positives of a category lie.
fn higher_threshold(all: &[Review], wrong: &[&Review], safety: &Safety) -> Option<AdvisedChange> {
    let mut scores: Vec<f64> = wrong.iter().map(|review| review.risk_score).collect();
    scores.sort_by(f64::total_cmp);
    let place = (scores.len() * KEPT_OUT_PCT).div_ceil(100).checked_sub(1)?;
    let threshold = ((scores.get(place)? * 100.0 + EVEN).floor() + 1.0) / 100.0;
    if threshold > 1.0 {
        return None;
    }
    let is_out = |review: &&Review| review.risk_score < threshold;
    let today = safety.review_threshold;
    Some(AdvisedChange {
        action: format!("Set settings.safety.review_threshold to {threshold} ({today} today)"),
        patch: json!({"safety": {"review_threshold": threshold}}),
        hidden_false: wrong.iter().copied().filter(is_out).count(),
        hidden_confirmed: all.iter().filter(|review| !is_false(review)).filter(is_out).count(),
    })
}

#[cfg(test)]
mod tests {
    use domain::ids::{ProjectId, StepId, UserId};
    use domain::review::Judge;
    use domain::safety::PolicyRule;
    use domain::time::Timestamp;

    use super::*;

    const CONFIRMED: Verdict = Verdict::Confirmed;
    const FALSE: Verdict = Verdict::FalsePositive;

    /// So many verdicts on steps with these findings and this score.
    fn of(
        count: usize,
        verdict: Verdict,
        findings: &[(Category, &str)],
        risk_score: f64,
    ) -> Vec<Review> {
        let finding = |(category, kind): &(Category, &str)| JudgedFinding {
            category: *category,
            kind: (*kind).to_owned(),
            score: risk_score,
        };
        let review = Review {
            step: StepId(1),
            project: ProjectId(1),
            judge: Judge::User(UserId(1)),
            verdict,
            note: None,
            findings: findings.iter().map(finding).collect(),
            risk_score,
            at: Timestamp(0),
        };
        vec![review; count]
    }

    const EMAIL: &[(Category, &str)] = &[(Category::Pii, "EMAIL")];
    const IBAN: &[(Category, &str)] = &[(Category::Pii, "IBAN")];
    const BOTH: &[(Category, &str)] = &[(Category::Pii, "EMAIL"), (Category::Pii, "IBAN")];
    const ATTACK: &[(Category, &str)] = &[(Category::Injection, "attack_wording")];
    const MIXED: &[(Category, &str)] =
        &[(Category::Injection, "attack_wording"), (Category::Pii, "EMAIL")];
    const KEY: &[(Category, &str)] = &[(Category::Secret, "api_key")];
    const RULE_AND_KEY: &[(Category, &str)] =
        &[(Category::Policy, "bird"), (Category::Secret, "api_key")];
    const RULE: &[(Category, &str)] = &[(Category::Policy, "bird")];

    /// A safety with a rule.
    fn safety() -> Safety {
        let rule = PolicyRule {
            name: "bird".to_owned(),
            pattern: "b".to_owned(),
            action: Action::Flag,
            weight: 0.6,
        };
        Safety { rules: vec![rule], ..Safety::default() }
    }

    /// The settings with that rule, as they are stored.
    fn saved() -> Map<String, Value> {
        let bird = json!({"name": "bird", "pattern": "b", "action": "flag", "weight": 0.6, "owner": "ops"});
        let fish = json!({"name": "fish", "pattern": "f", "action": "block", "since": 7});
        let saved = json!({"safety": {"rules": [bird, fish]}});
        saved.as_object().unwrap().clone()
    }

    fn advice(reviews: &[Vec<Review>], safety: &Safety) -> Vec<String> {
        let types = ["EMAIL", "IBAN", "STAFF_ID"];
        let found = review_advice(&reviews.concat(), safety, &types, &saved());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mostly_false_findings_lead_to_a_setting() {
        let leave_out = "Leave EMAIL out of settings.safety.pii.entities (values of that kind are then neither \
                         flagged nor redacted)";
        let fewer = "Set settings.safety.review_threshold to";
        for (reviews, expected) in [
            // Too few.
            (vec![of(9, FALSE, EMAIL, 0.5)], vec![]),
            (vec![of(7, FALSE, ATTACK, 0.5), of(9, FALSE, KEY, 0.5)], vec![]),
            // Mostly right.
            (
                vec![of(7, FALSE, ATTACK, 0.4), of(3, CONFIRMED, ATTACK, 0.4)],
                vec!["7 of 10 verdicts on `injection` findings in 30 days are false positives (70 %). The \
                      settings fit."
                    .to_owned()],
            ),
            // The share that asks for a change is met exactly; nine in ten lie at 0.4 or below.
            (
                vec![
                    of(7, FALSE, ATTACK, 0.3),
                    of(1, FALSE, ATTACK, 0.4),
                    of(2, CONFIRMED, ATTACK, 0.6),
                ],
                vec![format!(
                    "8 of 10 verdicts on `injection` findings in 30 days are false positives (80 %). {fewer} \
                     0.41 (0.2 today): it would have kept 8 of them out of the queue, and no confirmed finding."
                )],
            ),
            // One in ten may stay; confirmed findings of any category are counted.
            (
                vec![
                    of(9, FALSE, KEY, 0.55),
                    of(1, FALSE, KEY, 0.693),
                    of(1, CONFIRMED, KEY, 0.5),
                    of(1, CONFIRMED, RULE, 0.3),
                ],
                vec![format!(
                    "10 of 11 verdicts on `secret` findings in 30 days are false positives (90 %). {fewer} 0.56 \
                     (0.2 today): it would have kept 9 of them out of the queue, and 2 confirmed findings as well."
                )],
            ),
            // Nothing is above a score of 1.
            (
                vec![of(10, FALSE, KEY, 1.0)],
                vec!["10 of 10 verdicts on `secret` findings in 30 days are false positives (100 %). No threshold, \
                      type or weight keeps them out of the queue."
                    .to_owned()],
            ),
            // A type of its own.
            (
                vec![of(10, FALSE, EMAIL, 0.5), of(2, CONFIRMED, IBAN, 0.5)],
                vec![format!(
                    "10 of 12 verdicts on `pii` findings in 30 days are false positives (83 %). {leave_out}: it \
                     would have kept 10 of them out of the queue, and no confirmed finding."
                )],
            ),
            // The e-mail address of a confirmed step would not be found any more.
            (
                vec![
                    of(12, FALSE, EMAIL, 0.5),
                    of(1, CONFIRMED, BOTH, 0.5),
                    of(1, CONFIRMED, MIXED, 0.5),
                ],
                vec![format!(
                    "12 of 14 verdicts on `pii` findings in 30 days are false positives (85 %). {leave_out}: it \
                     would have kept 12 of them out of the queue, and 2 confirmed findings as well."
                )],
            ),
            // Without the type most would stay in the queue for something else.
            (
                vec![of(10, FALSE, MIXED, 0.3), of(20, CONFIRMED, ATTACK, 0.4)],
                vec![
                    format!(
                        "10 of 10 verdicts on `pii` findings in 30 days are false positives (100 %). {fewer} 0.31 \
                         (0.2 today): it would have kept 10 of them out of the queue, and no confirmed finding."
                    ),
                    "10 of 30 verdicts on `injection` findings in 30 days are false positives (33 %). The settings \
                     fit."
                        .to_owned(),
                ],
            ),
            // A rule of the project's own.
            (
                vec![of(11, FALSE, RULE, 0.6), of(1, CONFIRMED, RULE, 0.6)],
                vec!["11 of 12 verdicts on `policy` findings in 30 days are false positives (91 %). Set the weight of \
                      the rule `bird` to 0.19 in settings.safety.rules, or make its pattern narrower: it would have \
                      kept 11 of them out of the queue, and 1 confirmed finding as well."
                    .to_owned()],
            ),
        ] {
            assert_eq!(advice(&reviews, &safety()), expected);
        }
    }

    #[test]
    fn only_what_would_leave_the_queue_is_counted() {
        let fewer = "Set settings.safety.review_threshold to";
        for (reviews, expected) in [
            // A lighter rule would leave them in the queue for something else.
            (
                vec![of(10, FALSE, RULE_AND_KEY, 0.6)],
                vec![
                    format!(
                        "10 of 10 verdicts on `secret` findings in 30 days are false positives (100 %). {fewer} 0.61 \
                         (0.2 today): it would have kept 10 of them out of the queue, and no confirmed finding."
                    ),
                    format!(
                        "10 of 10 verdicts on `policy` findings in 30 days are false positives (100 %). {fewer} 0.61 \
                         (0.2 today): it would have kept 10 of them out of the queue, and no confirmed finding."
                    ),
                ],
            ),
            // A confirmed finding of a rule that is gone would not be in the queue today.
            (
                vec![of(10, FALSE, KEY, 0.5), of(3, CONFIRMED, &[(Category::Policy, "gone")], 0.4)],
                vec![format!(
                    "10 of 10 verdicts on `secret` findings in 30 days are false positives (100 %). {fewer} 0.51 \
                     (0.2 today): it would have kept 10 of them out of the queue, and no confirmed finding."
                )],
            ),
        ] {
            assert_eq!(advice(&reviews, &safety()), expected);
        }
    }

    #[test]
    fn a_change_is_a_patch_of_the_settings() {
        let patch = |reviews: &[Review], types: &[&str]| {
            let advised = review_advice(reviews, &safety(), types, &saved());
            advised[0].change.clone().map(|change| change.patch)
        };
        let emails = of(10, FALSE, EMAIL, 0.5);
        let left = json!({"safety": {"pii": {"entities": ["IBAN", "STAFF_ID"]}}});
        assert_eq!(patch(&emails, &["EMAIL", "IBAN", "STAFF_ID"]), Some(left));
        // A list without any type would turn personal data off as a whole.
        let higher = json!({"safety": {"review_threshold": 0.51}});
        assert_eq!(patch(&emails, &["EMAIL"]), Some(higher));
        let higher = json!({"safety": {"review_threshold": 0.3}});
        assert_eq!(
            patch(&of(10, FALSE, ATTACK, 0.29), &[]),
            Some(higher),
            "0.29 is not below 0.29"
        );
        // Keys that this version does not know stay, in all rules.
        let rules = json!({"safety": {"rules": [
            {"name": "bird", "pattern": "b", "action": "flag", "weight": 0.19, "owner": "ops"},
            {"name": "fish", "pattern": "f", "action": "block", "since": 7}]}});
        assert_eq!(patch(&of(10, FALSE, RULE, 0.6), &[]), Some(rules));
    }

    #[test]
    fn advice_that_was_followed_ends() {
        let emails = vec![of(12, FALSE, EMAIL, 0.5)];
        let rule = vec![of(12, FALSE, RULE, 0.6)];
        assert!(!advice(&emails, &safety()).is_empty() && !advice(&rule, &safety()).is_empty());
        let higher = Safety { review_threshold: 0.51, ..safety() };
        assert!(advice(&emails, &higher).is_empty());
        assert!(review_advice(&emails.concat(), &safety(), &["IBAN"], &saved()).is_empty());
        let mut lighter = safety();
        lighter.rules[0].weight = 0.19;
        assert!(advice(&rule, &lighter).is_empty());
        assert!(advice(&rule, &Safety::default()).is_empty(), "it is no rule any more");
    }
}
