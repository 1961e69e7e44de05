use proptest::prelude::*;

use super::*;

fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut events = Vec::new();
    let mut sse = Sse::default();
    let mut on_event = |data: &[u8]| {
        events.push(String::from_utf8_lossy(data).into_owned());
        Ok::<(), TooLong>(())
    };
    for piece in pieces {
        sse.feed(piece, &mut on_event).unwrap();
    }
    sse.end(&mut on_event).unwrap();
    events
}

#[test]
fn events_are_read_as_the_standard_says() {
    for (text, events) in [
        ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
        ("data:a\r\n\r\ndata:  b\r\rdata\n\n", vec!["a", " b", ""]),
        (": comment\nevent: x\nid: 1\ndata: a\nretry: 5\ndata: b\n\n", vec!["a\nb"]),
        ("\u{feff}data: a\n\n\n\n", vec!["a"]),
        ("database: no\n\nevent: alone\n\n", vec![]),
        ("data: one\n\ndata: [DONE]", vec!["one", "[DONE]"]),
        ("data: one\n\ndata: [DONE]\n", vec!["one", "[DONE]"]),
    ] {
        assert_eq!(read(&[text.as_bytes()]), events, "{text:?}");
    }
}

#[test]
fn what_is_too_long_is_not_kept() {
    let endless = vec![b'x'; 600 * 1024];
    let mut sse = Sse::default();
    let mut ignore = |_: &[u8]| Ok::<(), TooLong>(());
    sse.feed(b"data: ", &mut ignore).unwrap();
    sse.feed(&endless, &mut ignore).unwrap();
    assert_eq!(sse.feed(&endless, &mut ignore), Err(TooLong));

    let mut lines = Sse::default();
    let mut line = b"data: ".to_vec();
    line.extend_from_slice(&endless);
    line.push(b'\n');
    lines.feed(&line, &mut ignore).unwrap();
    assert_eq!(lines.feed(&line, &mut ignore), Err(TooLong));
}

fn line_end() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("\n"), Just("\r\n"), Just("\r")]
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        lines in prop::collection::vec(
            (prop_oneof![
                Just(String::new()),
                "data: [a-zé✓🙂]{0,12}",
                "data:[a-z]{0,5}",
                ": [a-z]{0,5}",
                "event: [a-z]{1,5}",
            ], line_end()),
            0..20,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let text: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
        let bytes = text.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.push(bytes.len());
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in at {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        let whole = read(&[bytes]);
        prop_assert_eq!(read(&pieces), whole.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read(&single), whole.clone());
        prop_assert_eq!(plainly(&text), whole);
    }
}

/// Reads the events of a whole text in the plainest way.
fn plainly(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in text.split('\n').chain([""]) {
        if line.is_empty() && !data.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        }
        if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    events
}
