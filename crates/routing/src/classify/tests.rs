use proptest::prelude::*;

use super::*;

fn judged(text: &str) -> Classification {
    classify(text, &Shape { turns: 1, total_chars: text.len(), tools: 0 })
}

#[test]
fn obvious_requests_land_where_anybody_would_send_them() {
    let cases = [
        ("Hello!", Tier::Simple),
        ("What is the capital of France?", Tier::Simple),
        ("Translate to German: good morning", Tier::Simple),
        ("Is this review positive or negative? \"I loved the cake.\"", Tier::Simple),
        ("Prove that there are infinitely many primes of the form 4k + 3.", Tier::Complex),
        (
            "Design a distributed rate limiter for a multi-region API. Compare token bucket and \
             sliding window, explain the trade-offs, and implement the core in Rust with unit tests.",
            Tier::Complex,
        ),
        (
            "Let $f$ be a polynomial with integer coefficients such that $f(1) = 2$ and \
             $f(3) = 8$. Find the sum of all possible values of $f(2)$ modulo 7.",
            Tier::Complex,
        ),
    ];
    for (text, expected) in cases {
        let found = judged(text);
        assert_eq!(tier(&found, DEFAULT_THRESHOLD), expected, "{text}: {found:?}");
        assert!(!found.reasons.is_empty());
    }
}

/// Prompts written for this project: the model was set with the first in view, its default threshold with the second
/// too, and the rules for material with half of the third.
const OWN_PROMPTS: [&str; 3] = [
    include_str!("../../train/intent.txt"),
    include_str!("../../train/probe.txt"),
    include_str!("../../train/tasks.txt"),
];

#[test]
fn open_ended_requests_are_read_as_a_person_would() {
    for file in OWN_PROMPTS {
        for (sign, expected) in [("+ ", Tier::Complex), ("- ", Tier::Simple)] {
            let prompts = file.lines().filter_map(|line| line.strip_prefix(sign));
            let prompts: Vec<_> = prompts.map(|line| line.replace("\\n", "\n")).collect();
            let right = |text: &&String| tier(&judged(text), DEFAULT_THRESHOLD) == expected;
            let share = prompts.iter().filter(right).count() as f64 / prompts.len() as f64;
            assert!(share >= 0.85, "{share} of {} are {expected}", prompts.len());
        }
    }
}

#[test]
fn material_makes_an_easy_task_no_harder_and_a_hard_one_no_easier() {
    let note =
        "The plumber comes on Tuesday, so please take your cups and plates out of the kitchen. ";
    for ask in
        ["Summarise this:", "Traduis en anglais :", "Исправь ошибки:", "Turn this into a list:"]
    {
        let short = judged(&format!("{ask} \"{}\"", note.trim()));
        let long = judged(&format!("{ask} \"{}\"", note.repeat(12).trim()));
        assert_eq!(tier(&short, DEFAULT_THRESHOLD), Tier::Simple, "{ask}: {short:?}");
        assert_eq!(tier(&long, DEFAULT_THRESHOLD), Tier::Simple, "{ask}: {long:?}");
        assert!(long.complexity > short.complexity, "{ask}");
        assert!(short.reasons.iter().any(|said| said.contains("with its material")), "{short:?}");
    }
    let proof = judged(&format!("Prove that this holds: \"{}\"", note.repeat(3).trim()));
    assert_eq!(tier(&proof, DEFAULT_THRESHOLD), Tier::Complex, "{proof:?}");
}

#[test]
fn intents() {
    let cases = [
        ("Summarize the following article in one sentence.", Intent::Summarise),
        ("Extract all dates from the text below.", Intent::Extract),
        ("Classify the sentiment of this tweet.", Intent::Classify),
        ("Translate this into French: I am late.", Intent::Translate),
        ("Write a Python function that reverses a linked list.", Intent::Code),
        ("Who was the first person on the moon?", Intent::Answer),
        ("Write a poem about the sea.", Intent::Generate),
        ("Rewrite this sentence so that it sounds friendlier.", Intent::Rewrite),
        ("Hi, how are you?", Intent::Chat),
        ("qwerty", Intent::Other),
    ];
    for (text, expected) in cases {
        assert_eq!(judged(text).intent, expected, "{text}");
    }
}

#[test]
fn sensitive_names_the_strongest_reason() {
    assert_eq!(sensitive(false, false, false), None);
    assert_eq!(sensitive(true, true, true), Some("contains personal data"));
    assert!(sensitive(false, true, false).is_some_and(|reason| reason.contains("private network")));
    assert!(sensitive(false, false, true).is_some_and(|reason| reason.contains("marked")));
}

#[test]
fn the_threshold_belongs_to_complex() {
    let at = Classification { complexity: 0.5, intent: Intent::Other, reasons: Vec::new() };
    assert_eq!(tier(&at, 0.5), Tier::Complex);
    assert_eq!(tier(&at, 0.500_001), Tier::Simple);
}

#[test]
fn only_the_edges_of_a_long_text_are_read() {
    let middle = "prove the theorem ".repeat(2000);
    let edge = "we had cake ".repeat(1000);
    let filler = "and a cat ".repeat(3600);
    let length = edge.len() * 2 + middle.len();
    let with = format!("{edge}{middle}{edge}");
    let without = format!("{edge}{}{edge}", &filler[..middle.len()]);
    assert_eq!(with.len(), length);
    assert_eq!(judged(&with), judged(&without));
}

#[test]
fn what_the_forest_has_learned_is_said_in_words() {
    let shape = Shape::default();
    let features = measure_with("A cat.", &shape, |_| {});
    let said = |learned| reasons("A cat.", &shape, &features, learned).join(", ");
    assert!(said(0.5).contains("small models fail"));
    assert!(said(-0.5).contains("small models do well"));
    assert!(!said(0.1).contains("small models"));
}

#[test]
fn a_subject_counts_for_what_it_is_worth_with_options_and_without() {
    let learned_of = |text: &str| {
        let features = measure_with(text, &Shape::default(), |_| {});
        let by_forest = forest::predict(&features.values);
        let options = features.counts.options;
        let trust = if options >= 2 { 1.0 } else { 0.5 };
        let worth = [false, true].map(|has_options| features.said.worth(has_options));
        (learned(&features) - trust * by_forest, worth)
    };
    let question = "What is the sum of all solutions of this equation?\nA) 2\nB) 3\n";
    for (text, has_options) in [(question.to_owned(), false), (format!("{question}C) 4\n"), true)] {
        let (subject, worth) = learned_of(&text);
        assert!((worth[0] - worth[1]).abs() > 0.3, "{worth:?}");
        assert!((subject - worth[usize::from(has_options)]).abs() < 1e-6, "{subject} {worth:?}");
    }
}

#[test]
fn a_choice_between_two_and_a_program_speak_for_a_capable_model() {
    for task in [
        "Write a function that finds the longest common prefix of two strings.",
        "Write a python function to count the vowels of a string.",
        "Write a C++ program for merging two sorted files.",
    ] {
        let program = judged(task);
        assert!(program.reasons.iter().any(|said| said == "asks for a program"), "{program:?}");
    }
    for task in [
        "Suggest a weight-loss program to follow.",
        "Is there a vitamin C program for schools?",
        "Write a query letter to a literary agent.",
        "Write a class reunion invitation.",
        "Apply the function to both sides.",
    ] {
        let plain = judged(task);
        assert!(!plain.reasons.iter().any(|said| said == "asks for a program"), "{plain:?}");
    }
    let two =
        judged("The trophy does not fit into the case because _ is too big.\nA) trophy\nB) case");
    assert!(two.reasons.iter().any(|said| said.contains("two readings")), "{two:?}");
}

#[test]
fn a_part_to_be_played_speaks_for_a_cheap_model_and_a_number_for_a_capable_one() {
    let told = judged("Advise me as a gardener would. When do I cut the roses?");
    let played = judged("Act as a gardener. When do I cut the roses?");
    assert!(played.complexity < told.complexity, "{played:?} {told:?}");
    assert!(played.reasons.iter().any(|said| said == "a part to be played"), "{played:?}");
    for subject in ["the role of central banks", "encodings that differ in character sets"] {
        let plain = judged(&format!("What changed in {subject}?"));
        assert!(!plain.reasons.iter().any(|said| said == "a part to be played"), "{plain:?}");
    }
    let bare = judged("A firm buys many pens and then half as many. How many pens does it own?");
    let number = judged("A firm buys 80 pens and then half as many. How many pens does it own?");
    assert!(number.complexity > bare.complexity, "{number:?} {bare:?}");
}

#[test]
fn a_placeholder_is_a_word_whatever_its_signs() {
    let with = |placeholder: &str| judged(&format!("My address is {placeholder}, repeat it."));
    let one = with("[EMAIL_1_ff7daa86]");
    assert_eq!(one, with("[EMAIL_1_00000000]"));
    assert!(!one.reasons.iter().any(|said| said.contains("number")), "{one:?}");
    assert_ne!(one, with("[EMAIL_1_ff7daa8]"), "one sign is missing");
}

#[test]
fn what_is_told_in_the_same_words_is_told_once() {
    let found = judged("if (a[0] == 1) { return b; }\nwhile (c) { d(); }\nfor (;;) { e += 2; }\n");
    let mut said = found.reasons.clone();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), found.reasons.len(), "{found:?}");
}

proptest! {
    #[test]
    fn more_conversation_or_more_tools_never_make_a_request_easier(
        text in "\\PC{0,200}",
        (turns, more_turns) in (0usize..40, 0usize..40),
        (around, more_around) in (0usize..100_000, 0usize..100_000),
        (tools, more_tools) in (0usize..30, 0usize..30),
    ) {
        let shape = Shape { turns, total_chars: text.len() + around, tools };
        let larger = Shape {
            turns: turns + more_turns,
            total_chars: shape.total_chars + more_around,
            tools: tools + more_tools,
        };
        let (before, after) = (classify(&text, &shape), classify(&text, &larger));
        prop_assert!(after.complexity >= before.complexity);
        prop_assert!(!before.reasons.is_empty() && !after.reasons.is_empty());
    }

    #[test]
    fn complexity_is_a_finite_share(text in "\\PC{0,400}", turns: usize, total_chars: usize, tools: usize) {
        let found = classify(&text, &Shape { turns, total_chars, tools });
        prop_assert!((0.0..=1.0).contains(&found.complexity));
    }

    #[test]
    fn any_cut_of_a_long_text_is_safe(text in "[aé漢🙂 \n]{0,50}", times in 0usize..2000) {
        let found = judged(&text.repeat(times));
        prop_assert!((0.0..=1.0).contains(&found.complexity));
    }
}
