use proptest::prelude::*;

use super::*;
use crate::classify::Shape;
use crate::features::measure;

/// The material of a text, if the instruction asks for no more than work on it.
fn worked_on(text: &str) -> Option<&str> {
    let brings = measure(text, &Shape::default()).material_words > 0;
    brings.then(|| find(text).map(|at| text[at].trim())).flatten()
}

#[test]
fn material_is_told_by_the_shape_of_a_text() {
    for (instruction, material, closing) in [
        ("Translate this: ", "\"The ferry leaves at noon.\"", " into Dutch"),
        ("Sort these by colour: ", "plum, lemon, cherry, lime", ""),
        ("Which word is odd? ", "chair, table, spoon, sofa", ""),
        (
            "Shorten the notice below.\n\n",
            "The pool is closed on Monday.\nBring a towel, a cap and a coin.",
            "",
        ),
        ("Here is my list: ", "eggs, soap, milk, tea.", " Split it into food and other things."),
        ("Übersetze das: ", "„Der Bus kommt heute später.“", ""),
        ("Corrige les fautes : ", "Les enfant joue dans la cours.", ""),
        ("Popraw błędy: ", "Wczoraj poszłem do sklepu.", ""),
        ("Исправь ошибки: ", "Мы ходили в кено вчера.", ""),
        ("把这句话改得更礼貌：", "“你怎么还没把文件发给我？”", ""),
        ("次の文を訳してください：", "「会議は午後に変更になりました。」", ""),
    ] {
        let text = format!("{instruction}{material}{closing}");
        assert_eq!(worked_on(&text), Some(material), "{text}");
    }
}

#[test]
fn material_that_is_the_request_itself_must_be_an_easy_one() {
    let puzzle =
        "Four friends share a boat, a lamp and a cake on their trip to the beach. ".repeat(5);
    for text in [
        "Can you help me with this: my Postgres replica lags whenever the nightly batch runs.",
        "Aide-moi : notre grappe Kafka perd des messages quand un courtier redémarre.",
        "Вот задача: найти все мосты графа за линейное время.",
        "Do this: write a Raft implementation in Go with log compaction.",
        "Is this argument valid? \"All ravens are black, so this shoe is no raven.\" Analyse it.",
        "A 54-year-old man: chest pain, smoker, blood pressure 150. List the next three tests.",
        "A tenant says: \"the flat was damp, cold and dark.\" Classify the claim.",
        "Simplify and state the domain: (x^2 - 9)/(x^2 - x - 6)",
        &format!("Help me with this question:\n\n{puzzle}"),
    ] {
        assert_eq!(worked_on(text), None, "{text}");
    }
    for text in [
        "Can you help me with this: I want to wish my aunt a happy birthday in few words.",
        "Give a title to this paragraph.\n\nThe library has a new reading room and a small cafe.",
        "Make this friendlier: \"The network is down because of you.\"",
        "Given a sentence, extract the names from the text.\n\nAnna met Peter in Lisbon.",
    ] {
        assert!(worked_on(text).is_some(), "{text}");
    }
}

#[test]
fn what_asks_for_thought_is_judged_with_all_that_it_brings() {
    let long = "The board may, on any day before the third anniversary, ask for a vote. ".repeat(6);
    for text in [
        "Prove this: \"every bounded monotone sequence of reals converges.\"",
        "Explain why this holds: the sum of two odd numbers is even.",
        "Entwirf das: ein Protokoll, das den Ausfall eines Knotens übersteht.",
        "证明这个命题：任意大于一的整数都可以唯一地分解为素数的乘积。",
        "What is wrong here?\n\nfn f() { let a = &mut b; let c = &mut b; g(a, c); }",
        "Consider these facts: the roof leaks, the seller knew, the buyer did not ask.",
        "Question: a train leaves the station at noon and another one follows it.",
        "How much did I pay? pens 2.10, paper 4.50, ink 3.20",
        "Pick one of these:\nA) red as a rose\nB) blue as the sea\nC) green as grass",
        "\"Was it here?\" he said, and he went on to the river. \"No,\" she said. Where did he go?",
        &format!("May the tenants object to it?\n\n{long}"),
    ] {
        assert_eq!(worked_on(text), None, "{text}");
    }
    let asked = format!("Can you make it shorter?\n\n{long}");
    assert_eq!(worked_on(&asked), Some(long.trim()));
}

#[test]
fn an_instruction_behind_its_material_needs_no_sign_between() {
    for (material, closing) in [
        (
            "Dear Ada, your parcel is at the depot and can be fetched until Friday.",
            "make this sound warmer",
        ),
        (
            "the lift is broken until Tuesday so please use the stairs by the garage",
            "put this into a polite notice",
        ),
        ("The dog slept under the table all afternoon.", "translate it to Danish"),
        ("Le bus part à huit heures et le musée ouvre à neuf heures.", "réécris ça en plus formel"),
        (
            "Der Hof wird am Montag gefegt, die Räder müssen weg.",
            "Mach daraus einen kurzen Aushang",
        ),
    ] {
        assert_eq!(worked_on(&format!("{material} {closing}")), Some(material), "{closing}");
    }
    for text in [
        "My replication slot grows although the replica is connected, make this stop without losing it",
        "The loop runs over all pairs and checks each distance, make it run in n log n",
        "A rope hangs over a pulley with two blocks, write this as a Lagrangian and solve it",
        "A good walk and a long sleep, I make this my plan for the weekend and then a letter",
    ] {
        assert_eq!(worked_on(text), None, "{text}");
    }
}

#[test]
fn a_task_that_is_defined_at_length_is_everyday_work_or_asks_for_thought() {
    let material = "The kettle in room nine leaks and the guest would like another one.";
    for (definition, is_everyday) in [
        (
            "You read a note of a guest. Name the thing it is about in one word. Do not explain it.",
            true,
        ),
        (
            "You read a note of a guest. Name the team that should have it: kitchen or cleaning.",
            true,
        ),
        (
            "You read a note of a guest. Name the thing it is about and explain how it came to that.",
            false,
        ),
        (
            "Du liest eine Notiz. Nenne den Gegenstand. Beweise, dass kein anderer gemeint sein kann.",
            false,
        ),
    ] {
        let text = format!("{definition}\n\n{material}");
        let found = worked_on(&text);
        assert_eq!(found.is_some(), is_everyday, "{definition}");
    }
}

proptest! {
    #[test]
    fn material_lies_within_any_text(text in "[a1A)：:\n\"“”„«»「」. ,?！、漢é]{0,400}", times in 0usize..60) {
        for text in [text.clone(), text.repeat(times)] {
            if let Some(at) = find(&text) {
                prop_assert!(at.start < at.end && text.get(at).is_some());
            }
            measure(&text, &Shape::default());
        }
    }
}
