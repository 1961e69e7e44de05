use domain::model::Provider;
use domain::step::FinishReason;
use serde_json::{Value, json as value};

use super::*;
use crate::error::ErrorKind;
use crate::testing::{
    ANSWER, After, CANARY, Server, attempt, client, json, model, prompt, reply, sse, sse_at_once,
    step,
};

pub(crate) const TEXT: &str =
    r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#;
const END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

/// The events of a stream, and the error it ends with.
pub(crate) async fn events(mut stream: EventStream) -> (Vec<StreamEvent>, Option<Error>) {
    let mut all = Vec::new();
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(events) => {
                assert!(!events.is_empty());
                all.extend(events);
            }
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (all, Some(error));
            }
        }
    }
    assert!(stream.next().await.is_none());
    (all, None)
}

async fn stream(bytes: Vec<u8>, after: After) -> Result<EventStream, Error> {
    let server = Server::new(vec![step(bytes, after)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let stream = client().stream(attempt(&model, &prompt(value!({})))).await;
    // The server lives as long as the test's runtime.
    std::mem::forget(server);
    stream
}

#[tokio::test]
async fn streams_bring_their_events_and_keep_the_connection() {
    let mut whole = sse(&[TEXT, END, "[DONE]"]);
    whole.extend_from_slice(b"0\r\n\r\n");
    let steps = vec![step(whole.clone(), After::Keep), step(whole, After::Keep)];
    let server = Server::new(steps).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    for _ in 0..2 {
        let stream = client.stream(attempt(&model, &prompt)).await.unwrap();
        let (read, error) = events(stream).await;
        assert!(error.is_none(), "{error:?}");
        let text = StreamEvent::Text("Hi".to_owned());
        assert_eq!(read, [text, StreamEvent::Finish(FinishReason::Stop), StreamEvent::Done]);
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    assert!(server.requests.lock().unwrap()[0].contains(r#""stream":true"#));
}

#[tokio::test]
async fn the_first_word_does_not_wait_for_those_behind_it() {
    let word = StreamEvent::Text("Hi".to_owned());
    let failure = value!({"error": {"message": "died"}}).to_string();
    for (last, breaks) in [("[DONE]", false), (&failure, true), (TEXT, true)] {
        let mut said = vec![TEXT; 20];
        said.extend([END, last]);
        let mut stream = stream(sse_at_once(&said), After::Close).await.unwrap();
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.len() < 5 && first.iter().all(|event| *event == word), "{first:?}");
        let (rest, error) = events(stream).await;
        assert_eq!(error.is_some(), breaks, "{last}");
        let words = first.iter().chain(&rest).filter(|event| **event == word).count();
        assert_eq!(words, 20 + usize::from(last == TEXT), "{last}");
        assert!(rest.contains(&StreamEvent::Finish(FinishReason::Stop)), "{last}");
    }
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_end_is_left() {
    let (read, error) = events(stream(sse(&[END, "[DONE]"]), After::Hang).await.unwrap()).await;
    assert_eq!(read.last(), Some(&StreamEvent::Done));
    assert!(error.is_none());
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error() {
    let mut ended = sse(&[TEXT]);
    ended.extend_from_slice(b"0\r\n\r\n");
    let said = value!({"error": {"message": format!("died with {CANARY}")}}).to_string();
    for bytes in [sse(&[TEXT]), ended, sse(&[TEXT, &said])] {
        let (read, error) = events(stream(bytes, After::Close).await.unwrap()).await;
        assert_eq!(read, [StreamEvent::Text("Hi".to_owned())]);
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable);
        assert!(!error.retryable_here() && !format!("{error:?}").contains(CANARY), "{error:?}");
    }
}

#[tokio::test]
async fn a_line_without_end_ends_the_stream() {
    const CHUNK: &[u8] = b"100\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
    let (_, error) = events(stream(sse(&[TEXT]), After::Repeat(CHUNK)).await.unwrap()).await;
    assert!(error.unwrap().to_string().contains("too long"));
}

#[tokio::test]
async fn an_error_in_the_place_of_the_first_event_begins_no_stream() {
    let said = value!({"error": {"message": format!("too busy, {CANARY}")}}).to_string();
    for (bytes, may_be_charged) in [(sse(&[&said]), false), (sse(&[]), true)] {
        let error = stream(bytes, After::Close).await.err().unwrap();
        assert!(error.fallback_helps() && error.endpoint_helps() && !error.retryable_here());
        assert_eq!(error.may_be_charged(), may_be_charged, "{error}");
        assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
    }
}

#[tokio::test]
async fn an_error_behind_the_count_of_the_prompt_begins_no_stream_and_is_paid_for() {
    let start = value!({"type": "message_start", "message": {"id": "m", "type": "message",
        "role": "assistant", "model": "c", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 1}}});
    let error = value!({"type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (start, error) = (start.to_string(), error.to_string());
    let both = [start.as_str(), error.as_str()];
    for bytes in [sse(&both), sse_at_once(&both)] {
        let server = Server::new(vec![step(bytes, After::Close)]).await;
        let mut model = model(Provider::Anthropic, Some(&server.url()));
        model.is_public = false;
        let stream = client().stream(attempt(&model, &prompt(value!({})))).await;
        let error = stream.err().unwrap();
        assert!(error.to_string().contains("Overloaded") && error.fallback_helps(), "{error}");
        let prompt = Usage { cached: 30, ..Usage::of_prompt(100) };
        assert_eq!((error.usage(), error.endpoint_helps()), (Some(prompt), false));
    }
}

#[tokio::test]
async fn what_a_stream_without_a_word_has_used_is_paid_for() {
    let metered = |usage: Value| {
        let candidate = value!({"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0});
        value!({"candidates": [candidate], "usageMetadata": usage}).to_string()
    };
    let thought = value!({"usageMetadata": {"promptTokenCount": 10}}).to_string();
    let used = value!({"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 3});
    for (usage, told) in [
        (used, Usage { prompt: 10, completion: 5, reasoning: 3, ..Usage::default() }),
        (value!({}), Usage::of_prompt(10)),
    ] {
        let bytes = sse(&[&thought, &metered(usage)]);
        let server = Server::new(vec![step(bytes, After::Close)]).await;
        let mut model = model(Provider::Gemini, Some(&server.url()));
        model.is_public = false;
        let stream = client().stream(attempt(&model, &prompt(value!({})))).await;
        let error = stream.err().unwrap();
        assert_eq!((&error.kind, error.usage()), (&ErrorKind::Unusable, Some(told)));
        assert!(error.fallback_helps() && !error.is_endpoint_fault() && !error.endpoint_helps());
        assert_eq!(error.may_be_charged(), told.completion == 0);
    }
}

/// Returns the result of a stream that falls silent after these bytes, and the time waited for it. The
/// silence takes no real time.
async fn silent_after(bytes: Vec<u8>) -> (Result<EventStream, Error>, u64) {
    let server = Server::new(vec![step(bytes, After::Hang)]).await;
    let model = model(Provider::Internal, Some(&server.url()));
    let (client, prompt) = (client(), prompt(value!({})));
    let mut begun = Instant::now();
    let asked = async {
        server.asked.notified().await;
        tokio::time::pause();
        begun = Instant::now();
    };
    let (stream, ()) = tokio::join!(client.stream(attempt(&model, &prompt)), asked);
    std::mem::forget(server);
    (stream, begun.elapsed().as_secs())
}

#[tokio::test]
async fn a_model_that_thinks_for_long_was_accepted() {
    let mut pinged = sse(&[]);
    pinged.extend_from_slice(b"8\r\n: ping\n\n\r\n");
    let mut stream = silent_after(pinged).await.0.unwrap();
    assert!(futures_util::poll!(std::pin::pin!(stream.next())).is_pending());
}

#[tokio::test]
async fn a_stream_without_a_byte_goes_elsewhere_after_a_minute() {
    let (stream, waited) = silent_after(sse(&[])).await;
    let error = stream.err().unwrap();
    assert!((59..62).contains(&waited), "{waited} s");
    assert!(error.fallback_helps() && error.endpoint_helps() && error.is_endpoint_fault());
    assert!(error.may_be_charged() && !error.retryable_here(), "{error}");
}

#[tokio::test]
async fn what_is_no_stream_is_refused_at_its_head() {
    let html = reply("200 OK", "content-type: text/html\r\n", "<html>");
    for bytes in [json("200 OK", ANSWER), html, json("500 X", "{}")] {
        assert!(stream(bytes, After::Keep).await.is_err());
    }
    let failed = json("200 OK", r#"{"error":{"message":"no streams here"}}"#);
    let error = stream(failed, After::Keep).await.err().unwrap();
    assert!(error.to_string().contains("no streams here"));
}

/// A decoder that names the model with every byte, and returns nothing else.
struct Names;

impl Decoder for Names {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        events.extend(bytes.iter().map(|_| StreamEvent::Model("m".to_owned())));
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), Error> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_stream_that_never_comes_to_a_word_is_left() {
    let (model, prompt) = (model(Provider::Internal, None), prompt(value!({})));
    for (bytes, is_left) in [(200, false), (3_000, true)] {
        let pieces = vec![Bytes::from(vec![b' '; 100]); bytes / 100];
        let attempt = attempt(&model, &prompt);
        let stream = EventStream::local(pieces, Box::new(Names), &attempt);
        let begun = stream.begin(Instant::now() + FIRST_WORD_TIMEOUT).await;
        assert_eq!(begun.is_err(), is_left, "{bytes}");
    }
}
