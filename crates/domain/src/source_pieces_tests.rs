use std::fmt::Write as _;

use super::*;
use crate::original::SourcePiece;

/// Holds back all that follows the last space.
#[derive(Clone, Default)]
struct Words(String);

impl PieceFilter for Words {
    fn push(&mut self, text: &str) -> String {
        self.0.push_str(text);
        let rest = self.0.split_off(self.0.rfind(' ').map_or(0, |at| at + 1));
        std::mem::replace(&mut self.0, rest)
    }

    fn holds(&self) -> bool {
        !self.0.is_empty()
    }

    fn rest(&mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

fn piece(block: u64, extra: &str, text: &str) -> SourceEvent {
    let before = format!(r#"{{"x": {extra}, "delta": {{"text": "#);
    let spelled = format!("\"\\u0020{text}\"");
    let range = before.len()..before.len() + spelled.len();
    let data = format!("{before}{spelled}}} }}");
    let pieces = vec![SourcePiece::new(block, PieceKind::Text, range, format!(" {text}"))];
    SourceEvent::new("delta".to_owned(), data, pieces)
}

fn plain(data: &str, ends: Option<u64>) -> SourceEvent {
    let event = SourceEvent::new("plain".to_owned(), data.to_owned(), Vec::new());
    SourceEvent { ends: ends.into_iter().collect(), ..event }
}

#[test]
fn what_is_held_leaves_before_its_block_ends() {
    let mut pieces = SourcePieces::default();
    let mut out = Vec::new();
    let events = [
        piece(0, "1", "one t"),
        piece(1, "2", "thr"),
        piece(0, "3", "wo"),
        plain("ping", None),
        plain("stop 0", Some(0)),
        piece(1, "4", "ee "),
        plain("stop 1", Some(1)),
    ];
    for event in events {
        pieces.pass(event, |_| Words::default(), &mut out).unwrap();
    }
    let out: Vec<String> = out.into_iter().map(SourceEvent::json).collect();
    let text =
        |extra: u8, text: &str| format!(r#"{{"x": {extra}, "delta": {{"text": "{text}"}} }}"#);
    let expected = [
        text(1, " one "),
        text(2, " "),
        text(3, "t "),
        "ping".to_owned(),
        text(3, "wo"),
        "stop 0".to_owned(),
        text(4, "thr ee "),
        "stop 1".to_owned(),
    ];
    assert_eq!(out, expected);
}

fn beside(block: u64, data: &str) -> SourceEvent {
    SourceEvent { beside: Some(block), ..plain(data, None) }
}

/// The texts and other events that leave, in their order.
fn order(events: impl IntoIterator<Item = SourceEvent>) -> Vec<String> {
    let (mut pieces, mut out) = (SourcePieces::default(), Vec::new());
    for event in events {
        pieces.pass(event, |_| Words::default(), &mut out).unwrap();
    }
    pieces.release(None, &mut out);
    let shown = |mut event: SourceEvent| event.pieces.pop().map_or(event.data, |piece| piece.text);
    out.into_iter().map(shown).collect()
}

#[test]
fn nothing_of_a_block_overtakes_its_text() {
    let events = [
        piece(0, "1", "one t"),
        beside(0, "cited"),
        plain("ping", None),
        beside(1, "another block"),
        beside(0, "cited again"),
        piece(0, "2", "wo three"),
        beside(0, "signed"),
        plain("stop", Some(0)),
    ];
    // A piece begins with a space here, so that what is held ends with it.
    let expected = [
        " one ",
        "ping",
        "another block",
        "t",
        "cited",
        "cited again",
        " wo ",
        "three",
        "signed",
        "stop",
    ];
    assert_eq!(order(events), expected);
}

#[test]
fn what_waits_leaves_at_the_end_and_when_there_is_too_much_of_it() {
    let events = [piece(0, "1", "on"), beside(0, "cited")];
    assert_eq!(order(events), [" ", "on", "cited"], "an answer that breaks off");
    let many = (0..=MOST_WAITING).map(|number| beside(0, &number.to_string()));
    let out = order(std::iter::once(piece(0, "1", "on")).chain(many));
    assert_eq!(out.len(), MOST_WAITING + 3);
    assert_eq!(out[..3], [" ", "on", "0"]);
    assert_eq!(out.last().unwrap(), &MOST_WAITING.to_string());
}

/// Has what leaves begin with the number of its strings so far.
#[derive(Clone)]
struct Counted(usize);

impl PieceFilter for Counted {
    fn push(&mut self, text: &str) -> String {
        format!("{}{text}", self.0)
    }

    fn holds(&self) -> bool {
        false
    }

    fn rest(&mut self) -> String {
        String::new()
    }

    fn end(&mut self) -> String {
        self.0 += 1;
        String::new()
    }
}

#[test]
fn a_string_that_continues_another_goes_on_with_its_filter() {
    let of = |carrier, events: &[(u64, PieceKind, &[u64])]| {
        let (mut pieces, mut out) = (SourcePieces::default(), Vec::new());
        for (block, kind, ends) in events {
            let mut event = SourceEvent { carrier, ends: ends.to_vec(), ..piece(*block, "1", "x") };
            event.pieces[0].kind = *kind;
            pieces.pass(event, |_| Counted(0), &mut out).unwrap();
        }
        let numbers = out.iter().map(|event| event.pieces[0].text[..1].to_owned());
        numbers.collect::<String>()
    };
    let (text, thought, json) = (PieceKind::Text, PieceKind::Thought, PieceKind::Json);
    // Blocks of an answer: the texts are one, and so are the thoughts.
    let blocks = [(0, thought, &[0][..]), (1, text, &[1]), (2, thought, &[2]), (3, text, &[])];
    assert_eq!(of(Carrier::Copy, &blocks), "0011");
    assert_eq!(of(Carrier::Copy, &[(0, json, &[0]), (1, json, &[1])]), "00");
    // Strings of a chunk: each goes on by itself.
    let strings = [(0, text, &[][..]), (1, text, &[0]), (0, text, &[1]), (2, text, &[])];
    assert_eq!(of(Carrier::Chunk, &strings), "0010");
}

#[test]
fn a_text_does_not_go_on_in_another_candidate() {
    let (mut pieces, mut out) = (SourcePieces::default(), Vec::new());
    for (candidate, block) in [(0, 1), (1, 2), (0, 3)] {
        let mut event = SourceEvent { ends: vec![block], ..piece(block, "1", "x") };
        event.pieces[0].candidate = candidate;
        pieces.pass(event, |_| Counted(0), &mut out).unwrap();
    }
    let numbers: Vec<&str> = out.iter().map(|event| &event.pieces[0].text[..1]).collect();
    assert_eq!(numbers, ["0", "0", "1"]);
}

#[test]
fn the_ends_of_an_event_whose_text_is_held_back_are_kept() {
    let (mut first, mut second) = (SourcePieces::default(), SourcePieces::default());
    let (mut out, mut left) = (Vec::new(), Vec::new());
    for (block, text, ends) in [(0, "one", &[][..]), (1, "two", &[0]), (1, "! ", &[])] {
        let mut event = SourceEvent { ends: ends.to_vec(), ..piece(block, "1", "x") };
        event.pieces[0].text = text.to_owned();
        first.pass(event, |_| Words::default(), &mut out).unwrap();
    }
    for event in out {
        second.pass(event, |_| Words::default(), &mut left).unwrap();
    }
    second.release(None, &mut left);
    let texts = left.into_iter().map(|mut event| event.pieces.remove(0).text);
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    assert_eq!(texts, ["one", "two! "]);
}

/// A chunk of many choices, whose texts are all held back; `padding` bytes stand beside them.
fn chunk_of(choices: usize, padding: usize) -> SourceEvent {
    let mut data = format!(r#"{{"padding": "{}", "choices": ["#, "x".repeat(padding));
    let mut pieces = Vec::new();
    for index in 0..choices {
        let comma = if index == 0 { "" } else { ", " };
        write!(data, r#"{comma}{{"index": {index}, "delta": {{"content": "#).unwrap();
        let range = data.len()..data.len() + 3;
        data.push_str("\"a\"}}");
        pieces.push(SourcePiece::new(index as u64, PieceKind::Text, range, "a".to_owned()));
    }
    data.push_str("]}");
    SourceEvent { data, pieces, carrier: Carrier::Chunk, ..plain("", None) }
}

#[test]
fn the_strings_of_an_event_share_it() {
    let mut pieces = SourcePieces::default();
    let event = chunk_of(200, 50_000);
    let size = event.data.len();
    let taken = allocation_counter::measure(|| {
        let mut out = Vec::new();
        pieces.pass(event, |_| Words::default(), &mut out).unwrap();
    });
    assert!(taken.bytes_max < 4 * size as u64, "{} of {size}", taken.bytes_max);
    let mut out = Vec::new();
    pieces.release(Some(7), &mut out);
    let carried = out.pop().unwrap().json();
    assert!(carried.contains(r#""choices":[{"index":7,"delta":{"content":"a"}"#), "{carried}");
    assert_eq!(out, []);
}

#[test]
fn only_so_many_bytes_are_kept_for_text_that_is_held_back() {
    let (mut pieces, mut out) = (SourcePieces::default(), Vec::new());
    let mut pass = |event| pieces.pass(event, |_| Words::default(), &mut out);
    // Text that has left is not counted.
    for _ in 0..100 {
        assert_eq!(pass(chunk_of(1, 1_000_000)), Ok(()));
        assert_eq!(pass(SourceEvent { ends: vec![0], ..plain("{}", None) }), Ok(()));
    }
    assert_eq!(pass(chunk_of(20, 1_000_000)), Err(TooMuchHeld));
    assert_eq!(pass(piece(0, "1", "held")), Ok(()));
    let waiting = || beside(0, &"x".repeat(1_000_000));
    let fits = (0..MOST_WAITING).take_while(|_| pass(waiting()).is_ok()).count();
    assert_eq!(fits, MOST_HELD_BYTES / 1_000_000);
}
