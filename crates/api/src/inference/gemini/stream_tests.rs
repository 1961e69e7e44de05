use domain::step::FinishReason;
use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::inference::canonical::testing::{Speech, native, refusal, speech, started};
use crate::inference::gemini::{Generate, request};

/// The chunks that pieces become, a few pieces a write.
fn stream(pieces: Vec<Piece>, batch: usize, form: AnswerForm) -> Vec<Value> {
    let mut writer = Writer::new(&started(), AnswerOptions { form, with_thoughts: true });
    let mut out = String::new();
    let mut pieces = pieces.into_iter().peekable();
    while pieces.peek().is_some() {
        let batch = pieces.by_ref().take(batch).collect();
        out.push_str(std::str::from_utf8(&writer.write(batch)).unwrap());
    }
    chunks(&out, form)
}

fn chunks(out: &str, form: AnswerForm) -> Vec<Value> {
    if form == AnswerForm::Array {
        return serde_json::from_str(out).unwrap();
    }
    let events = out.split_terminator("\r\n\r\n");
    let data = events.map(|event| event.strip_prefix("data: ").unwrap());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn end(blocked: Option<&str>) -> Piece {
    let blocked = blocked.map(str::to_owned);
    Piece::End { finish: FinishReason::Stop, usage: Usage::default(), blocked }
}

/// All parts of a stream.
fn parts(chunks: &[Value]) -> Vec<Value> {
    let parts =
        chunks.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array());
    parts.flatten().cloned().collect()
}

#[test]
fn text_in_pieces() {
    for form in [AnswerForm::Events, AnswerForm::Array] {
        let pieces = vec![Piece::Text("Hel".to_owned()), Piece::Text("lo".to_owned()), end(None)];
        let chunks = stream(pieces, 1, form);
        let text = |text: &str| json!({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0});
        let usage = json!({"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0});
        assert_eq!(
            chunks,
            [
                json!({"candidates": [text("Hel")], "modelVersion": "m", "responseId": "gen_7"}),
                json!({"candidates": [text("lo")], "modelVersion": "m", "responseId": "gen_7"}),
                json!({"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": usage,
                    "modelVersion": "m", "responseId": "gen_7"}),
            ]
        );
    }
}

#[test]
fn a_stream_that_breaks_ends_with_an_error() {
    for form in [AnswerForm::Events, AnswerForm::Array] {
        let error = gateway::Error::ProviderUnreachable;
        let chunks = stream(vec![Piece::Text("Hel".to_owned()), Piece::Broken(error)], 2, form);
        assert_eq!(parts(&chunks), [json!({"text": "Hel"})]);
        let error =
            json!({"code": 502, "message": "Provider request failed", "status": "UNAVAILABLE"});
        assert_eq!(chunks[1], json!({"error": error}));
    }
}

#[test]
fn refusals() {
    for form in [AnswerForm::Events, AnswerForm::Array] {
        let call = json!({"tool_calls": [{"index": 0, "id": "a",
            "function": {"name": "f", "arguments": "{}"}}]});
        let withheld = stream(vec![native(call), end(Some("It held a secret"))], 1, form);
        let candidate =
            json!({"finishReason": "SAFETY", "finishMessage": "It held a secret", "index": 0});
        assert_eq!(withheld.len(), 1);
        assert_eq!(withheld[0]["candidates"], json!([candidate]));
        let before = chunks(&super::refused(refusal("No."), form), form);
        assert_eq!(before.len(), 1);
        assert_eq!(before[0]["promptFeedback"]["blockReason"], "SAFETY");
        assert!(before[0].get("candidates").is_none());
        let own = Speech { refusal: "I will not.".to_owned(), ..Speech::default() };
        let own = stream(own.pieces(&[3], FinishReason::Stop), 2, form);
        assert_eq!(own.last().unwrap()["candidates"][0]["finishReason"], "SAFETY");
    }
}

#[test]
fn thoughts_are_for_those_who_ask() {
    let options = AnswerOptions { form: AnswerForm::Array, with_thoughts: false };
    let mut writer = Writer::new(&started(), options);
    let out = writer.write(vec![native(json!({"reasoning_content": "Hm."})), end(None)]);
    let all = chunks(std::str::from_utf8(&out).unwrap(), AnswerForm::Array);
    assert_eq!(parts(&all), Vec::<Value>::new());
}

proptest! {
    /// A client keeps the parts of a stream, in one content or in one for each chunk.
    #[test]
    fn a_stream_that_is_sent_back_says_the_same(
        speech in speech(),
        sizes in prop::collection::vec(1_usize..6, 1..8),
        batch in 1_usize..9,
        array in any::<bool>(),
        apart in any::<bool>(),
    ) {
        let form = if array { AnswerForm::Array } else { AnswerForm::Events };
        let chunks = stream(speech.pieces(&sizes, FinishReason::Stop), batch, form);
        let content = |parts: Vec<Value>| json!({"role": "model", "parts": parts});
        let mut contents = vec![json!({"parts": [{"text": "?"}]})];
        if apart {
            contents.extend(chunks.iter().map(|chunk| content(parts(std::slice::from_ref(chunk)))));
        } else {
            contents.push(content(parts(&chunks)));
        }
        let body = Map::from_iter([("contents".to_owned(), Value::Array(contents))]);
        let asked = Generate { model: "m".to_owned(), body, form };
        let asked = request::parse(asked, None, None).unwrap();
        prop_assert_eq!(&asked.request.prompt.messages[1], &speech.message());
        prop_assert!(asked.dropped.is_empty());
        let with_usage = chunks.iter().filter(|chunk| chunk.get("usageMetadata").is_some());
        prop_assert_eq!(with_usage.count(), 1);
        prop_assert_eq!(&chunks.last().unwrap()["usageMetadata"]["totalTokenCount"], &json!(39));
    }
}
