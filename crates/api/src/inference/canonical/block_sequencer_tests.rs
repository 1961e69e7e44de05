use proptest::prelude::*;

use super::*;

fn begin(name: &str) -> BlockEvent {
    BlockEvent::Begin(Part::Call { id: format!("id {name}"), name: name.to_owned() })
}

fn more(text: &str) -> BlockEvent {
    BlockEvent::More(text.to_owned())
}

#[test]
fn a_call_is_over_as_soon_as_its_arguments_are_whole() {
    let mut order = BlockSequencer::default();
    order.text(ContentKind::Text, "I look.".to_owned());
    order.call(0, "id a".to_owned(), "a".to_owned());
    order.arguments(0, "{\"x\": \"}\\\"");
    order.arguments(0, "{\"}");
    let text = BlockEvent::Begin(Part::Content(ContentKind::Text));
    assert_eq!(
        order.take_events(),
        [
            text,
            more("I look."),
            BlockEvent::End,
            begin("a"),
            more("{\"x\": \"}\\\""),
            more("{\"}"),
            BlockEvent::End,
        ]
    );
    order.arguments(0, " ");
    assert_eq!(order.finish(), [], "what follows a whole object says nothing");
}

#[test]
fn what_comes_between_waits_until_the_call_is_over() {
    let mut order = BlockSequencer::default();
    order.call(0, "id a".to_owned(), "a".to_owned());
    order.call(1, "id b".to_owned(), "b".to_owned());
    order.arguments(1, "{}");
    order.arguments(0, "{");
    order.text(ContentKind::Thought, "hm".to_owned());
    assert_eq!(order.take_events(), [begin("a"), more("{")]);
    order.arguments(0, "}");
    let thought = BlockEvent::Begin(Part::Content(ContentKind::Thought));
    let rest =
        [more("}"), BlockEvent::End, begin("b"), more("{}"), BlockEvent::End, thought, more("hm")];
    assert_eq!(order.take_events(), rest);
    assert_eq!(order.finish(), [BlockEvent::End]);
}

#[test]
fn calls_that_are_never_whole_end_with_the_answer() {
    let mut order = BlockSequencer::default();
    order.call(0, "id a".to_owned(), "a".to_owned());
    order.call(1, "id b".to_owned(), "b".to_owned());
    order.arguments(1, "{\"cut");
    let all = [begin("a"), BlockEvent::End, begin("b"), more("{\"cut"), BlockEvent::End];
    assert_eq!(order.finish(), all);
}

proptest! {
    #[test]
    fn nothing_is_lost_and_one_thing_is_said_at_a_time(
        said in prop::collection::vec((0_usize..5, "[{}\"\\\\a]{0,4}"), 0..60),
    ) {
        let mut order = BlockSequencer::default();
        let mut expected: Vec<String> = Vec::new();
        let mut text = String::new();
        let mut events = Vec::new();
        for (place, piece) in said {
            if place == 4 {
                text.push_str(&piece);
                order.text(ContentKind::Text, piece);
            } else {
                while expected.len() <= place {
                    order.call(expected.len(), expected.len().to_string(), "f".to_owned());
                    expected.push(String::new());
                }
                order.arguments(place, &piece);
                expected[place].push_str(&piece);
            }
            events.extend(order.take_events());
        }
        events.extend(order.finish());
        let mut open = None;
        let (mut heard, mut calls) = (String::new(), Vec::new());
        for event in events {
            match event {
                BlockEvent::Begin(part) => {
                    prop_assert_eq!(&open, &None);
                    if let Part::Call { id, .. } = &part {
                        prop_assert_eq!(id, &calls.len().to_string());
                        calls.push(String::new());
                    }
                    open = Some(part);
                }
                BlockEvent::More(more) => match &open {
                    Some(Part::Call { .. }) => calls.last_mut().unwrap().push_str(&more),
                    Some(Part::Content(_)) => heard.push_str(&more),
                    None => prop_assert!(false, "said outside"),
                },
                BlockEvent::End => prop_assert!(open.take().is_some()),
            }
        }
        prop_assert_eq!(open, None);
        prop_assert_eq!(heard, text);
        prop_assert_eq!(calls.len(), expected.len());
        // Text after a whole object may be left out.
        for (call, expected) in calls.iter().zip(&expected) {
            prop_assert!(expected.starts_with(call));
            let mut json = Json::default();
            json.feed(call);
            prop_assert!(call == expected || json.is_whole());
        }
    }
}
