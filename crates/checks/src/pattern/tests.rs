use proptest::prelude::*;

use domain::safety::{Action, Checksum, Origin, PolicyRule, Recognizer, Safety};

use super::work::Budget;
use super::*;
use crate::pattern::watch::{GiveUp, PatternList, SlowPattern};
use crate::policy::compiled::Policy;
use crate::policy::saving::slow_to_save;
use crate::report::Part;

/// Everything that [`Regex`] finds and that is not empty.
fn expected(pattern: &str, text: &str) -> Vec<Range<usize>> {
    all(&Regex::new(pattern).unwrap(), text)
}

fn all(regex: &Regex, text: &str) -> Vec<Range<usize>> {
    regex.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty()).collect()
}

fn found(
    pattern: &Pattern,
    text: &str,
    budget: &mut Budget<'_>,
) -> Result<Vec<Range<usize>>, GivenUp> {
    let mut all = Vec::new();
    pattern.each(text, budget, |range| {
        all.push(range);
        true
    })?;
    Ok(all)
}

/// Returns the matches of the automaton alone.
fn counted(pattern: &str, text: &str) -> Vec<Range<usize>> {
    found(&Pattern::compile(pattern).unwrap(), text, &mut Budget::counted(u64::MAX, &|| false))
        .unwrap()
}

const PATTERNS: &[&str] = &[
    "a",
    "a|ab",
    "ab|a",
    "(a|ab)(c|bcd)",
    "a+?",
    "a*",
    "(ab)?",
    "x*|b",
    r"\bab\b",
    r"\Ba",
    "^a",
    "a$",
    "(?m)^a|b$",
    "(?mR)^a|b$",
    r"(?-u:\b)é",
    r"\bé+\b",
    r"\w+",
    r"\W+",
    "(?i)k",
    "(?i)straße",
    ".",
    "(?s).",
    ".*b",
    ".+?b",
    "[^b]*b|a",
    "(a{1,3}){1,3}b",
    r"\pL{2,3}",
    r"\b(?:a|ab|abc)\b",
    r"\b{start}a|b\b{end}",
    "é|e",
    "[é-ü]+a?",
    "",
    r"\b",
    "a{0}",
    r"(?i)\b(?:ab|ba|éa)\b.{0,3}a",
    r"\Aa|b\z",
    r"(?m)^\b\Ba|\b$",
    "(?:a|b)*?é",
    "(|a)+b?",
    r"\s+|\d{2}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_automaton_finds_what_regex_finds(which in 0..PATTERNS.len(), text in "[abcdké \n\r1ßü\u{212a}]{0,24}") {
        let pattern = PATTERNS[which];
        prop_assert_eq!(counted(pattern, &text), expected(pattern, &text), "{:?} {:?}", pattern, text);
    }

    #[test]
    fn of_generated_patterns_too(
        pattern in "(\\(\\?:)?([ab]|é|\\.|\\[ab\\]|\\\\b|\\^){1,4}([*+?]\\??|\\{1,3\\})?(\\|[abé]{0,2})?",
        text in "[abé\n ]{0,16}",
    ) {
        if let Ok(compiled) = Pattern::compile(&pattern) {
            let all = found(&compiled, &text, &mut Budget::counted(u64::MAX, &|| false)).unwrap();
            prop_assert_eq!(all, expected(&pattern, &text), "{:?} {:?}", pattern, text);
        }
    }
}

#[test]
fn a_search_goes_on_the_same_whichever_engine_takes_over() {
    let text = "ab é abc, b ".repeat(500);
    for pattern in PATTERNS {
        let compiled = Pattern::compile(pattern).unwrap();
        let mut budget = Budget::counted(u64::MAX, &|| false);
        // Enough for some searches of `regex`, and not for all.
        budget.unseen = compiled.worst * 3 * text.len() as u64;
        assert_eq!(
            found(&compiled, &text, &mut budget).unwrap(),
            expected(pattern, &text),
            "{pattern}"
        );
    }
}

#[test]
fn a_full_table_is_emptied_and_nothing_is_lost() {
    let pattern = r"\ba[ab]{0,120}c[ab]{0,40}d\b";
    let mut text = String::new();
    let mut bits = 0x1234_5678_u64;
    for _ in 0..20_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push(['a', 'b', 'a', 'b', 'b', 'a', ' ', 'c'][(bits >> 60) as usize & 7]);
        if (bits >> 32).is_multiple_of(32) {
            text.push('d');
        }
    }
    assert!(!expected(pattern, &text).is_empty());
    assert_eq!(counted(pattern, &text), expected(pattern, &text));
}

fn recognizer(pattern: &str) -> Recognizer {
    Recognizer {
        name: "OWN".to_owned(),
        pattern: pattern.to_owned(),
        checksum: Checksum::None,
        context: Vec::new(),
        score: 0.5,
    }
}

fn rules(patterns: &[&str]) -> Safety {
    let rule = |pattern: &&str| PolicyRule {
        name: "own".to_owned(),
        pattern: (*pattern).to_owned(),
        action: Action::Block,
        weight: 1.0,
    };
    Safety { rules: patterns.iter().map(rule).collect(), ..Safety::default() }
}

fn faults(patterns: &[&str]) -> Vec<String> {
    slow_to_save(&rules(patterns), &Safety::default(), &|| false)
}

#[test]
fn what_would_burn_a_processor_is_refused() {
    for pattern in [
        "(a{1,50}){1,50}b",
        "([a-z]{1,100}){1,30}x",
        "(?:a?){400}a{400}",
        "a[ab]{600}c",
        "(a|b)*a(a|b){500}c",
        r"(?i)(?:[a-zà-ü]{1,30}){1,10}x",
        // Each search reads to the end, at each place of the text.
        "(x[^y]*y)?",
    ] {
        let said = faults(&["ordinary", pattern]);
        let at = "settings.safety.rules[1].pattern: the pattern takes more than ";
        assert!(said.len() == 1 && said[0].starts_with(at), "{pattern}: {said:?}");
    }
}

#[test]
fn ordinary_rules_are_accepted_and_find_what_they_found() {
    let words: Vec<String> = (0..200).map(|n| format!("w{}{}", n % 26, n * 7)).collect();
    let any = words.join("|");
    let text = "Project Falcon: W7, w7w7, w12 w1491, AB123456 and XAB1234567; https://x.corp.example/a?b ü EMP-123456 \
        staff 77 é a.b@acme.example, secret plan of the internal token. KÜNDIGUNG\n"
        .repeat(300);
    for pattern in [
        &*any,
        &format!("(?i)\\b(?:{any})\\b"),
        &format!(r"\b(?:{any})s?\b"),
        r"\b[A-Z]{2}\d{6}\b",
        "(?i)project falcon",
        r"https?://[a-z0-9.-]+\.corp\.example(?:/\S*)?",
        r"[\w.+-]+@acme\.example",
        r"(?i)secret.{0,60}token",
        "(?s)Falcon.{0,200}?EMP",
        r"(?i)kündigung|abmahnung|entlassung",
        r"EMP-\d{5,8}",
        r"\b\w{1,12}\b: \w",
        r#""[^"]*""#,
        r"(?m)^Project.*$",
        "(a|aa)+$",
        r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b",
        r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    ] {
        assert_eq!(faults(&[pattern]), [""; 0], "{pattern}");
        let compiled = Pattern::compile(pattern).unwrap();
        let mut budget = Budget::new(text.len(), &|| false);
        let regex = Regex::new(pattern).unwrap();
        let expected = all(&regex, &text);
        assert_eq!(
            compiled.first(usize::MAX, &text, &mut budget).as_ref(),
            Ok(&expected),
            "{pattern}"
        );
        // However little was searched for before, short texts are not given up either.
        let compiled = Pattern::compile(pattern).unwrap();
        for short in
            text[..4096].split_inclusive(' ').chain(["ü".repeat(900).as_str(), &text[..600]])
        {
            let mut budget = Budget::new(short.len(), &|| false);
            budget.unseen = 0;
            assert_eq!(
                compiled.first(usize::MAX, short, &mut budget),
                Ok(all(&regex, short)),
                "{pattern}"
            );
        }
    }
}

#[test]
fn only_what_is_new_is_tried() {
    let hostile = rules(&["(a{1,50}){1,50}b"]);
    assert_eq!(slow_to_save(&hostile, &hostile, &|| false), [""; 0]);
    assert_eq!(slow_to_save(&hostile, &Safety::default(), &|| false).len(), 1);
    let own = recognizer("(a{1,50}){1,50}b");
    let both = Safety { recognizers: vec![own], ..hostile.clone() };
    let said = slow_to_save(&both, &hostile, &|| false);
    assert!(said.len() == 1 && said[0].starts_with("settings.safety.recognizers[0].pattern: "));
}

#[test]
fn a_stored_rule_that_takes_too_long_lets_nothing_pass() {
    let text = "a".repeat(2_000);
    let part = Part { origin: Origin::User, text: &text };
    let mut safety = rules(&["ordinary", "(a{1,50}){1,50}b"]);
    let policy = Policy::compile(&safety).unwrap();
    let report = policy.inspect(&[part]);
    assert_eq!(report.block.unwrap().reason, "Policy rule 'own' took too long");
    let slow = SlowPattern { list: PatternList::Rules, index: 1, stopped: false };
    assert_eq!(report.slow, [slow]);
    assert!(policy.inspect(&[Part { text: "aaa", ..part }]).block.is_none());
    // Nothing depends on a trial.
    let report = policy.conclude_trial([policy.judge(&[part])]);
    assert_eq!((report.block, &*report.slow), (None, &[slow][..]));
    // A rule that only flags asks for a look.
    safety.rules[1].action = Action::Flag;
    let report = Policy::compile(&safety).unwrap().inspect(&[part]);
    assert!(report.block.is_none() && report.review);
    // A value that a recognizer would have found must not leave, either way.
    safety.recognizers.push(recognizer(&safety.rules[1].pattern));
    safety.rules.remove(1);
    for (output_pii, blocks) in
        [(Action::Flag, false), (Action::Redact, true), (Action::Block, true)]
    {
        let policy = Policy::compile(&Safety { output_pii, ..safety.clone() }).unwrap();
        let reason = policy.inspect(&[part]).block.unwrap().reason;
        assert_eq!(reason, "Recognizer 'OWN' took too long");
        assert_eq!(policy.inspect_output(&[&text]).block.is_some(), blocks);
    }
}

#[test]
fn a_search_ends_when_nobody_waits() {
    use std::cell::Cell;
    let policy = Policy::compile(&rules(&["(a{1,50}){1,50}b"; 100])).unwrap();
    let (asked, text) = (Cell::new(0), "a".repeat(64 * 1024));
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 5
    };
    let verdict =
        policy.judge_until(&[Part { origin: Origin::User, text: &text }], GiveUp::Patterns(&stop));
    let report = policy.conclude_trial([verdict]);
    assert_eq!(report.slow.len(), 100);
    assert!(report.slow.iter().all(|slow| slow.stopped) && report.block.is_none());
    assert!(!report.abandoned);
}

#[test]
fn compiling_ends_when_nobody_waits() {
    use std::cell::Cell;
    let mut safety = rules(&["a", "b", "c"]);
    safety.recognizers = vec![recognizer("[a-z]{9}")];
    let compiled_after = |most: usize| {
        let asked = Cell::new(0);
        let stop = || {
            asked.set(asked.get() + 1);
            asked.get() > most
        };
        Policy::compile_until(&safety, &stop).map(drop)
    };
    for most in 0..4 {
        let faults = compiled_after(most).unwrap_err();
        assert!(faults[0].contains("take too long to compile"), "{faults:?}");
    }
    compiled_after(4).unwrap();
}

/// Rules as people write them.
fn ordinary(count: usize) -> Vec<String> {
    let forms = [
        r"\bproject-[a-z]+-NAME\b",
        r"(?i)internal use only NAME",
        r"\b[A-Z]{3}-\d{4,8}-NAME\b",
        r"https?://[a-z0-9.-]+\.NAME\.example\.com/\S*",
        r"(?i)\b(budget|forecast|salary) NAME \d{4}\b",
        r"\bNAME[-_ ]?\d{6}\b",
        r"\b\w+@NAME\.example\.org\b",
        r"NAME",
    ];
    let name = |n: usize| format!("{}{}", ["acme", "orion", "vega", "lyra"][n % 4], n);
    (0..count).map(|n| forms[n % forms.len()].replace("NAME", &name(n))).collect()
}

#[test]
fn a_hundred_ordinary_rules_always_fit() {
    let patterns = ordinary(100);
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    assert_eq!(faults(&patterns), [""; 0]);
    let policy = Policy::compile(&rules(&patterns)).unwrap();
    let hostile = "project-a internal use only salary acme a@orion AAA-1234 https://a.b. ";
    for text in ["orion1 acme8", &hostile.repeat(400), &"aA1@-. ".repeat(5_000)] {
        let parts = [Part { origin: domain::safety::Origin::User, text }];
        let report = policy.inspect(&parts);
        assert_eq!(report.slow, []);
    }
}

#[test]
fn all_patterns_of_a_project_share_what_they_may_cost() {
    // Each is fast enough alone.
    let one = "[ab]{1,40}[ac]{1,40}c[ab]{1,40}x";
    let dear = |count: usize| rules(&vec![one; count]);
    let known = dear(1);
    assert_eq!(slow_to_save(&known, &Safety::default(), &|| false), [""; 0]);
    let said = slow_to_save(&dear(100), &known, &|| false);
    assert!(said.len() == 1 && said[0].contains("together"), "{said:?}");
    // Patterns saved before do not hinder a change that adds none.
    assert_eq!(slow_to_save(&dear(100), &dear(100), &|| false), [""; 0]);
    assert_eq!(slow_to_save(&dear(50), &dear(100), &|| false), [""; 0]);
    let policy = Policy::compile(&dear(100)).unwrap();
    let slow = |text: &str| {
        let parts = [Part { origin: domain::safety::Origin::User, text }];
        policy.inspect(&parts).slow.len()
    };
    let texts = crate::policy::saving::hostile_texts(one);
    assert!(texts.iter().any(|(_, text)| slow(text) > 50));
    assert!(policy.effort(2_000) > 32 * 1024);
    let none = Policy::compile(&Safety::default()).unwrap();
    assert_eq!(none.effort(1_000), 1_000);
    let few = ordinary(10);
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    assert!(Policy::compile(&rules(&few)).unwrap().effort(1_000) < 8_000);
}

#[test]
fn a_pattern_that_adds_nothing_is_tried_quickly() {
    for never in ["[a&&b]{4000}", "a[a&&b]", "(?:[a&&b]{1000}){4}"] {
        let said = faults(&[never]);
        assert!(said.len() == 1 && said[0].contains("no text matches"), "{never} {said:?}");
    }
    for little in
        ["(?:a|[a&&b]{4000})*x", "(?:^*){1000}x*", r"(?:(?:\b{100}){20}|a)*y", "(?:){1000}z*"]
    {
        let pattern = Pattern::compile(little).unwrap();
        assert!(
            trial::texts(pattern.hir()).iter().all(|(_, text)| text.len() >= 32 * 1024),
            "{little}"
        );
    }
}

#[test]
fn a_trial_ends_when_its_caller_leaves() {
    let slow = "(a{1,50}){1,50}b";
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    assert_eq!(slow_to_save(&rules(&[slow; 100]), &Safety::default(), &stop).len(), 100);
    assert!(asked.get() < 200, "{}", asked.get());
}
