use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::time::DAY;
use futures_util::StreamExt as _;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;
use crate::capacity::detail_places::PLACES;
use crate::testing::{Fresh, until};

/// A trace with a note of each size.
async fn trace_of(fresh: &Fresh, sizes: &[usize]) -> String {
    let trace = fresh.trace().await;
    for (number, size) in sizes.iter().enumerate() {
        note(fresh, &trace, &number.to_string().repeat(*size)).await;
    }
    trace
}

async fn note(fresh: &Fresh, trace: &str, text: &str) {
    let output = to_raw_value(&json!({"text": text})).unwrap();
    fresh.gateway.log(&fresh.caller, trace, &output, None).await.unwrap();
}

async fn list(fresh: &Fresh, trace: &str) -> StepList {
    fresh.gateway.trace(&fresh.caller, trace).await.unwrap().steps
}

type PlainStep = fn(Step, Option<&[u8]>, &mut Vec<u8>) -> serde_json::Result<()>;

/// A text that shows a step as its content.
fn text(step: PlainStep) -> DetailText {
    DetailText { head: b"<".to_vec(), between: b", ", end: b">", step: Box::new(step) }
}

fn plain(_: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
    into.write_all(content.unwrap_or(b"nothing")).map_err(serde_json::Error::io)
}

/// The text that is written of a trace of notes with these sizes.
fn whole(sizes: &[usize]) -> String {
    let note = |(number, size): (usize, &usize)| {
        format!(r#"{{"input":null,"output":{{"text":"{}"}}}}"#, number.to_string().repeat(*size))
    };
    let notes: Vec<String> = sizes.iter().enumerate().map(note).collect();
    format!("<{}>", notes.join(", "))
}

/// Takes all pieces. Returns the text, and whether it came to its end.
async fn drain(mut pieces: mpsc::Receiver<Sent>) -> (String, bool) {
    let mut all = Vec::new();
    while let Some(sent) = pieces.recv().await {
        match sent {
            Sent::Piece(piece) => {
                assert!(piece.len() <= PIECE);
                all.extend(piece);
            }
            Sent::End => return (String::from_utf8(all).unwrap(), true),
        }
    }
    (String::from_utf8(all).unwrap(), false)
}

/// Waits until all pieces wait for the caller and no content is open.
async fn stalls(fresh: &Fresh, pieces: &mpsc::Receiver<Sent>) {
    let stalled = async || {
        let is_stalled = pieces.len() == MOST_PIECES && fresh.gateway.detail_slots.free() == PLACES;
        is_stalled.then_some(())
    };
    until("nothing is read for a caller who takes nothing", stalled).await;
}

#[tokio::test]
async fn a_detail_is_written_whole() {
    let fresh = Fresh::with(json!({})).await;
    for sizes in [&[][..], &[1], &[5, 0, 300], &[100_000, 3, PIECE, 200_000], &[1; 120]] {
        let trace = trace_of(&fresh, sizes).await;
        for head in [0, 1, PIECE, 9 * PIECE] {
            let text = DetailText { head: b"h".repeat(head), ..text(plain) };
            let pieces = fresh.gateway.write_detail(list(&fresh, &trace).await, text);
            let all: Vec<Vec<u8>> = pieces.map(Result::unwrap).collect().await;
            let expected = "h".repeat(head) + &whole(sizes)[1..];
            assert!(String::from_utf8(all.concat()).unwrap() == expected, "{head} {sizes:?}");
        }
    }
}

#[tokio::test]
async fn no_content_is_open_while_a_caller_takes_nothing() {
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    fn counted(step: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
        OPENED.fetch_add(1, Ordering::Relaxed);
        plain(step, content, into)
    }
    let fresh = Fresh::with(json!({})).await;
    let sizes = [2_000_000, 10, 1_500_000];
    let trace = trace_of(&fresh, &sizes).await;
    let mut slow = Vec::new();
    for _ in 0..2 * PLACES {
        let pieces = fresh.gateway.start_writing(list(&fresh, &trace).await, text(counted));
        stalls(&fresh, &pieces).await;
        slow.push(pieces);
    }
    // Others are served meanwhile.
    let pieces = fresh.gateway.start_writing(list(&fresh, &trace).await, text(plain));
    assert!(drain(pieces).await == (whole(&sizes), true));
    OPENED.store(0, Ordering::Relaxed);
    let mut pieces = slow.pop().unwrap();
    let (mut all, mut stalled) = (Vec::new(), 0);
    loop {
        // A caller that takes all that there is and then nothing for a while.
        for _ in 0..pieces.len() {
            if let Some(Sent::Piece(piece)) = pieces.recv().await {
                all.extend(piece);
            }
        }
        if all.last() == Some(&b'>') {
            break;
        }
        let waits = async || {
            let is_stalled =
                pieces.len() == MOST_PIECES && fresh.gateway.detail_slots.free() == PLACES;
            (is_stalled || pieces.is_closed() || !pieces.is_empty() && all.len() > 3_000_000)
                .then_some(())
        };
        until("it goes on", waits).await;
        stalled += 1;
    }
    assert!(String::from_utf8(all).unwrap() == whole(&sizes));
    let most: usize = sizes.iter().map(|size| 2 + size / (MOST_PIECES * PIECE)).sum();
    let opened = OPENED.load(Ordering::Relaxed);
    assert!(stalled >= 9 && opened <= most, "{opened} of at most {most}, {stalled} waits");
}

#[tokio::test]
async fn a_task_ends_when_its_caller_hangs_up() {
    let fresh = Fresh::with(json!({})).await;
    let trace = trace_of(&fresh, &[1_000_000]).await;
    // The task holds it as long as it has the text.
    let held = Arc::new(());
    let task = Arc::downgrade(&held);
    let step = Box::new(move |step, content: Option<&[u8]>, into: &mut Vec<u8>| {
        (&held, plain(step, content, into)).1
    });
    let text = DetailText { step, ..text(plain) };
    let pieces = fresh.gateway.start_writing(list(&fresh, &trace).await, text);
    stalls(&fresh, &pieces).await;
    assert!(task.upgrade().is_some(), "it waits for its caller");
    drop(pieces);
    let ended = async || task.upgrade().is_none().then_some(());
    until("the task ends", ended).await;
}

#[tokio::test]
async fn steps_that_come_later_are_not_written() {
    let fresh = Fresh::with(json!({})).await;
    let trace = trace_of(&fresh, &[3, 3]).await;
    let steps = list(&fresh, &trace).await;
    assert_eq!((steps.len(), steps.is_empty()), (2, false));
    note(&fresh, &trace, "late").await;
    let pieces = fresh.gateway.start_writing(steps, text(plain));
    assert!(drain(pieces).await == (whole(&[3, 3]), true));
}

#[tokio::test]
async fn what_cannot_be_written_whole_has_no_end() {
    fn fails(step: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
        let is_large = content.is_some_and(|content| content.len() > 1_000);
        if is_large { serde_json::from_str("{") } else { plain(step, content, into) }
    }
    let fresh = Fresh::with(json!({})).await;
    let trace = trace_of(&fresh, &[3, 2_000]).await;
    let pieces = fresh.gateway.write_detail(list(&fresh, &trace).await, text(fails));
    let all: Vec<Result<Vec<u8>>> = pieces.collect().await;
    assert!(all.last().unwrap().is_err());
    // Its retention is over while half of it is on its way.
    let trace = trace_of(&fresh, &[1_000_000]).await;
    let pieces = fresh.gateway.start_writing(list(&fresh, &trace).await, text(plain));
    stalls(&fresh, &pieces).await;
    let later = fresh.gateway.now().minus_micros(-31 * DAY);
    assert!(fresh.purge(later).await > 0);
    let (half, is_whole) = drain(pieces).await;
    assert!(!is_whole && whole(&[1_000_000]).starts_with(&half));
    // Steps that were not begun are left out.
    let trace = trace_of(&fresh, &[3, 3]).await;
    let steps = list(&fresh, &trace).await;
    fresh.purge(later).await;
    let pieces = fresh.gateway.start_writing(steps, text(plain));
    assert!(drain(pieces).await == (whole(&[]), true));
}
