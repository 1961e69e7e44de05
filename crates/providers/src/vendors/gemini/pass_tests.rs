use domain::conversation::{Message, Prompt, StreamEvent};
use domain::fees::{ToolCharge, UseBound, VendorTool};
use domain::model::{Model, Provider};
use domain::original::{MOST_PIECES, Original, SourceEvent, VENDOR_PARTS, WireFormat};
use domain::secret::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::adapter::{Adapter, Decoder};
use crate::credentials::stream::StreamFilter;
use crate::error::Error;
use crate::testing::{CANARY, attempt, model};
use crate::vendors::gemini::Gemini;

fn named(name: &str) -> Model {
    let mut model = model(Provider::Gemini, None);
    model.identifier = "mine".to_owned();
    model.config.upstream_model = Some(name.to_owned());
    model
}

fn prompt(body: &str, asked: Option<u64>) -> Prompt {
    let original = Original::new(WireFormat::GenerateContent, body.to_owned());
    Prompt { original: Some(Box::new(original)), max_output_tokens: asked, ..Prompt::default() }
}

fn passed_to(model: &Model, prompt: &Prompt, bound: Option<u64>) -> Result<Option<String>, Error> {
    let attempt = crate::Attempt { max_output_tokens: bound, ..attempt(model, prompt) };
    let body = Gemini.pass(&attempt, prompt.original.as_ref().unwrap())?;
    Ok(body.map(|body| String::from_utf8(body).unwrap()))
}

fn passed(body: &str, asked: Option<u64>, bound: Option<u64>) -> String {
    passed_to(&named("gemini-3-pro"), &prompt(body, asked), bound).unwrap().unwrap()
}

#[test]
fn only_what_governance_names_is_changed() {
    let body = r#"{ "x": {"y": 1.50}, "model":"models/other", "contents": [ ], "n": 1e3 }"#;
    let expected = body.replace(r#" "model":"models/other","#, "");
    assert_eq!(passed(body, None, None), expected, "the model is in the address");
    let added = r#","generationConfig":{"maxOutputTokens":60} }"#;
    assert_eq!(passed(body, None, Some(60)), expected.replace(" }", added));
    for settings in [
        r#""generationConfig": { "topK": 4.0,"maxOutputTokens" : 100 , "x": null}"#,
        r#""generation_config": {"max_output_tokens": "100"}"#,
        r#""generationConfig": {"max_output_tokens": 100.0}"#,
    ] {
        let body = format!("{{{settings}, \"contents\": []}}");
        assert_eq!(passed(&body, Some(100), Some(100)), body);
        let lowered = passed(&body, Some(100), Some(60));
        let spelled = ["\"100\"", "100.0", "100"].into_iter().find(|number| body.contains(number));
        assert_eq!(lowered, body.replace(spelled.unwrap(), "60"));
    }
    let null = r#"{"generation_config": null}"#;
    let bounded = r#"{"generation_config": {"maxOutputTokens":9}}"#;
    assert_eq!(passed(null, None, Some(9)), bounded);
    let null = r#"{"generationConfig": {"x": 1, "max_output_tokens": null}}"#;
    assert_eq!(passed(null, None, Some(9)), null.replace("s\": null", "s\": 9"));
}

#[test]
fn another_format_is_translated() {
    let mut prompt = prompt("{}", None);
    prompt.original.as_mut().unwrap().format = WireFormat::Messages;
    assert_eq!(passed_to(&named("gemini-3-pro"), &prompt, None).unwrap(), None);
    assert_eq!(Gemini.charges(&prompt).tools, []);
}

#[test]
fn what_has_no_price_is_refused() {
    for (more, passes) in [
        (r#""serviceTier": "priority""#, false),
        (r#""service_tier": "PRIORITY""#, false),
        (r#""serviceTier": 7"#, false),
        (r#""serviceTier": "FLEX""#, true),
        (r#""serviceTier": null"#, true),
        (r#""generationConfig": {"responseModalities": ["TEXT", "AUDIO"]}"#, false),
        (r#""generation_config": {"response_modalities": ["IMAGE"]}"#, false),
        (r#""generationConfig": {"responseModalities": ["Text"]}"#, true),
    ] {
        let prompt = prompt(&format!("{{{more}}}"), None);
        let passed = passed_to(&named("gemini-3-pro"), &prompt, None);
        match passed {
            Ok(body) => assert!(passes && body.is_some(), "{more}"),
            Err(error) => assert!(!passes && error.is_unpriced(), "{more}: {error}"),
        }
    }
}

#[test]
fn calls_that_are_not_signed_are_translated() {
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    let call = json!({"functionCall": {"name": "f"}});
    let signed = json!({"function_call": {"name": "f"}, "thought_signature": "c2ln"});
    let model = |parts: &[&Value]| json!({"role": "model", "parts": parts});
    let result = json!({"parts": [{"functionResponse": {"name": "f"}}]});
    for (contents, passes) in [
        (json!([user("Go."), model(&[&call]), result]), false),
        (json!([user("Go."), {"role": "model", "parts": call}, result]), false),
        (json!([user("Go."), model(&[&signed, &call]), result]), true),
        (json!([user("Go."), model(&[&signed]), model(&[&call]), result]), true),
        (json!([user("Go."), model(&[&signed]), result, model(&[&call]), result]), false),
        (json!([user("Go."), model(&[&call]), result, user("On.")]), true),
        (json!([user("Go."), model(&[&call]), result, user("On."), model(&[&signed])]), true),
    ] {
        let mut prompt = prompt(&json!({"contents": contents}).to_string(), None);
        let passes_to =
            |name: &str, prompt: &Prompt| passed_to(&named(name), prompt, None).unwrap().is_some();
        assert!(passes_to("gemini-3-pro", &prompt), "there are no calls in it");
        let asked = json!({"role": "assistant", "tool_calls": [{"id": "a"}]});
        prompt.messages = vec![Message::read(asked).unwrap()];
        assert_eq!(passes_to("gemini-3-pro", &prompt), passes, "{contents}");
        assert!(passes_to("gemini-2.5-pro", &prompt), "older models sign nothing");
        prompt.original.as_mut().unwrap().untranslatable = Some("no".to_owned());
        assert!(passes_to("gemini-3-pro", &prompt), "it cannot be translated");
    }
}

#[test]
fn tools_without_a_bound_are_charged_for() {
    let body = r#"{"tools": [{"functionDeclarations": [], "urlContext": {}},
        {"codeExecution": {}, "computerUse": {}}, {"of_tomorrow": {}, "of_yesterday": null}]}"#;
    let endless = |at: &str| ToolCharge {
        at: at.to_owned(),
        tool: None,
        uses: UseBound::Missing,
        tokens: None,
    };
    let expected = [endless("tools[1] ('codeExecution')"), endless("tools[2] ('of_tomorrow')")];
    assert_eq!(Gemini.charges(&prompt(body, None)).tools, expected);
}

#[test]
fn searches_are_charged_for() {
    for name in ["google_search", "googleSearchRetrieval", "googleMaps", "enterpriseWebSearch"] {
        let body = format!(r#"{{"tools": [{{"functionDeclarations": []}}, {{"{name}": {{}}}}]}}"#);
        let search = ToolCharge {
            at: format!("tools[1] ('{name}')"),
            tool: Some(VendorTool::WebSearch),
            uses: UseBound::OnePass(10),
            tokens: Some(0),
        };
        assert_eq!(Gemini.charges(&prompt(&body, None)).tools, [search]);
    }
}

/// The searches that are reported of an answer to a model, whole and streamed.
fn searches(name: &str, metadata: &Value) -> [u32; 2] {
    let mut answer = chunk(
        &json!({"content": {"parts": [{"text": "It is."}]}, "finishReason": "STOP",
        "groundingMetadata": metadata}),
        &json!(1),
    );
    answer["usageMetadata"]["candidatesTokenCount"] = 9.into();
    let whole = Gemini.decode(&named(name), answer.to_string().as_bytes()).unwrap();
    let mut decoder = Gemini.decoder(&named(name));
    let mut events = Vec::new();
    decoder.feed(&written(&[answer]), &mut events).unwrap();
    decoder.end(&mut events).unwrap();
    let streamed = events.iter().find_map(|event| match event {
        StreamEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    [whole.usage, streamed].map(|usage| usage.unwrap().extras.uses[VendorTool::WebSearch])
}

/// Each search of the third generation costs a fee; for older models, the prompt with searches does.
#[test]
fn searches_are_counted() {
    let queries = json!({"webSearchQueries": ["a", "b", ""], "groundingChunks": []});
    assert_eq!(searches("gemini-3-pro", &queries), [2, 2]);
    assert_eq!(searches("gemini-2.5-pro", &queries), [1, 1]);
    let places = json!({"groundingChunks": [{"maps": {"title": "A"}}, {"maps": {"title": "B"}}]});
    assert_eq!(searches("gemini-2.5-pro", &places), [1, 1], "the prompt is charged for");
    let both =
        json!({"webSearchQueries": ["a", "b"], "groundingChunks": [{"web": {}}, {"maps": {}}]});
    assert_eq!(searches("gemini-3-pro", &both), [3, 3]);
    assert_eq!(searches("gemini-2.5-pro", &both), [2, 2]);
    let pages = json!({"groundingChunks": [{"web": {"uri": "https://a.example"}}]});
    assert_eq!(searches("gemini-3-pro", &pages), [0, 0]);
    for none in [json!({"webSearchQueries": []}), json!({}), json!(null), json!("x")] {
        assert_eq!(searches("gemini-3-pro", &none), [0, 0], "{none}");
    }
}

/// The vendor's own chunks of a stream that comes in pieces, and the canonical events.
fn events(bytes: &[u8], cuts: &[usize], key: &str) -> Vec<StreamEvent> {
    let mut decoder = Gemini.passing_decoder(&named("gemini-3-pro"));
    let key = Secret::new(key.to_owned());
    let mut filter = StreamFilter::new(Some(&key));
    filter.clean_sources(Some(&key));
    let mut events = Vec::new();
    let mut feed = |decoder: &mut dyn Decoder, piece: &[u8]| {
        let known = events.len();
        decoder.feed(piece, &mut events).unwrap();
        filter.pass(&mut events, known).unwrap();
    };
    let mut begun = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
    cuts.sort_unstable();
    for cut in cuts {
        feed(&mut *decoder, &bytes[begun..cut]);
        begun = cut;
    }
    feed(&mut *decoder, &bytes[begun..]);
    let known = events.len();
    decoder.end(&mut events).unwrap();
    filter.pass(&mut events, known).unwrap();
    filter.end(&mut events);
    events
}

fn sources(bytes: &[u8], cuts: &[usize], key: &str) -> Vec<SourceEvent> {
    let own = events(bytes, cuts, key).into_iter().filter_map(|event| match event {
        StreamEvent::Source(event) => Some(event),
        _ => None,
    });
    own.collect()
}

fn written(chunks: &[Value]) -> Vec<u8> {
    let chunks = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n"));
    chunks.collect::<String>().into_bytes()
}

fn chunk(candidate: &Value, more: &Value) -> Value {
    json!({"candidates": [candidate], "new": more, "modelVersion": "real", "responseId": "r",
        "usageMetadata": {"promptTokenCount": 4, "new": more}})
}

/// Chunks as the vendor sends them, with members that nobody knows.
fn stream(texts: &[String], more: &Value) -> Vec<Value> {
    let says = |parts: Value| {
        chunk(&json!({"new": more, "content": {"parts": parts, "role": "model"}}), more)
    };
    let thought = |text: &String| json!([{"text": text, "thought": true, "new": more}]);
    let mut all: Vec<Value> = texts.iter().map(|text| says(thought(text))).collect();
    all.extend(texts.iter().map(|text| says(json!([{"text": text}]))));
    let args = json!({"q": texts.concat()});
    all.push(says(json!([{"text": texts.concat(), "new": more},
        {"functionCall": {"name": "f", "args": args, "new": more}, "thoughtSignature": "c2ln"}])));
    all.push(says(json!([{"executableCode": {"language": "PYTHON", "code": texts.concat()}}])));
    all.extend(texts.iter().map(|text| {
        let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
        says(json!([{"text": text[..half]}, {"text": text[half..]}]))
    }));
    all.push(chunk(
        &json!({"content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": "STOP", "groundingMetadata": more}),
        more,
    ));
    all.push(json!({"usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 9}, "modelVersion": "real"}));
    all
}

/// The texts of an answer, in their order: the parts of one kind between two others are one.
fn said(events: &[SourceEvent]) -> Vec<String> {
    let (mut all, mut last) = (Vec::<String>::new(), None);
    for event in events {
        let chunk: Value = serde_json::from_str(&event.clone().json()).unwrap();
        for part in chunk["candidates"][0]["content"]["parts"].as_array().into_iter().flatten() {
            let kind = part["text"].is_string().then(|| part["thought"] == true);
            if kind.is_some() && kind != last {
                all.push(String::new());
            }
            if let (Some(text), Some(said)) = (part["text"].as_str(), all.last_mut()) {
                said.push_str(text);
            }
            last = kind;
        }
    }
    all
}

#[test]
fn the_end_waits_and_a_reason_with_every_chunk_is_no_end() {
    let says = |text: &str| {
        let content = json!({"parts": [{"text": text}]});
        chunk(&json!({"content": content, "finishReason": "STOP"}), &json!(1))
    };
    let usage = json!({"usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 9}});
    let chunks = [says("one "), says("two "), says("three"), usage];
    let told = sources(&written(&chunks), &[], "4711-key-of-nobody");
    let ends: Vec<bool> = told.iter().map(|event| event.is_end).collect();
    assert_eq!(ends, [false, false, true, true]);
    let mut decoder = Gemini.passing_decoder(&named("gemini-3-pro"));
    let mut events = Vec::new();
    decoder.feed(&written(&chunks[..2]), &mut events).unwrap();
    let left = events.iter().filter(|event| matches!(event, StreamEvent::Source(_)));
    assert_eq!(left.count(), 1, "the first leaves as soon as the second has come");
}

#[test]
fn only_so_many_texts_go_on_in_one_chunk() {
    let is_read = |count: usize| {
        let parts: Vec<Value> = (0..count).map(|_| json!({"text": "A"})).collect();
        let chunk = chunk(&json!({"content": {"parts": parts}}), &json!(1));
        let mut decoder = Gemini.passing_decoder(&named("gemini-3-pro"));
        decoder.feed(&written(&[chunk]), &mut Vec::new()).is_ok()
    };
    assert!(is_read(MOST_PIECES));
    assert!(!is_read(MOST_PIECES + 1));
}

/// All texts are judged by their canonical form, and that of further candidates comes in pieces as well.
#[test]
fn further_candidates_are_told_apart() {
    let says = |index: u64, text: &str, reason: Option<&str>| {
        let content = json!({"parts": [{"text": text}], "role": "model"});
        chunk(&json!({"index": index, "content": content, "finishReason": reason}), &json!(1))
    };
    let chunks = [
        says(0, "one", None),
        says(1, "uno", None),
        says(0, "two", Some("STOP")),
        says(1, "dos", Some("MAX_TOKENS")),
    ];
    let told = events(&written(&chunks), &[], "4711-key-of-nobody");
    let further = told.iter().filter_map(|event| match event {
        StreamEvent::Native { chunk, .. } => {
            let choice = &chunk["choices"][0];
            Some((
                choice["index"].as_u64().unwrap(),
                choice["delta"]["content"].as_str()?.to_owned(),
            ))
        }
        _ => None,
    });
    let expected = [(1, "uno".to_owned()), (1, "dos".to_owned())];
    assert_eq!(further.collect::<Vec<_>>(), expected);
    let own = told.iter().filter_map(|event| match event {
        StreamEvent::Source(event) => Some((event.pieces[0].block, event.is_end)),
        _ => None,
    });
    assert_eq!(own.collect::<Vec<_>>(), [(1, false), (2, false), (1, false), (2, true)]);
}

/// The canonical form has the call of such a part, and the first of such candidates.
#[test]
fn texts_without_a_canonical_form_are_no_pieces() {
    let texts = |candidates: Value| {
        let chunk = json!({"candidates": candidates});
        let told = sources(
            &written(&[chunk, json!({"candidates": [{"finishReason": "STOP"}]})]),
            &[],
            CANARY,
        );
        let texts = told.into_iter().flat_map(|event| event.pieces).map(|piece| piece.text);
        texts.collect::<Vec<_>>()
    };
    let call = json!({"functionCall": {"name": "f"}, "text": "beside"});
    assert_eq!(texts(json!([{"content": {"parts": [{"text": "a"}, call]}}])), ["a"]);
    let candidate = |text: &str| json!({"content": {"parts": [{"text": text}]}});
    assert_eq!(texts(json!([candidate("a"), candidate("b")])), ["a"]);
}

#[test]
fn an_answer_that_broke_off_passes_as_it_came() {
    let content = json!({"parts": [{"text": "It"}], "role": "model"});
    let broken = chunk(
        &json!({"content": content, "finishReason": "MALFORMED_FUNCTION_CALL",
        "finishMessage": "Malformed function call: f("}),
        &json!(1),
    );
    let told = sources(&written(std::slice::from_ref(&broken)), &[], "4711-key-of-nobody");
    let [last] = &told[..] else { panic!("{told:?}") };
    assert!(last.is_end && last.name == VENDOR_PARTS, "its sentence is kept: {last:?}");
    let model = named("gemini-3-pro");
    let body = broken.to_string();
    assert_eq!(Gemini.passing_decode(&model, body.as_bytes()).unwrap().text, "It");
    assert!(Gemini.decode(&model, body.as_bytes()).is_err(), "its caller reads another format");
}

/// The tokens of a text are in its log probabilities as well.
#[test]
fn a_credential_does_not_leave_as_log_probabilities() {
    let says = |text: &str| {
        let tokens = json!({"chosenCandidates": [{"token": text}]});
        chunk(&json!({"content": {"parts": [{"text": text}]}, "logprobsResult": tokens}), &json!(1))
    };
    let (head, tail) = CANARY.split_at(CANARY.len() / 2);
    let mut chunks = vec![says("Fine "), says(head), says(tail)];
    chunks.push(chunk(&json!({"finishReason": "STOP"}), &json!(1)));
    let told = sources(&written(&chunks), &[], CANARY);
    let told: Vec<String> = told.into_iter().map(SourceEvent::json).collect();
    assert!(told[0].contains(r#""token":"Fine ""#), "{told:?}");
    for part in [head, tail] {
        assert!(!told.concat().contains(part), "{told:?}");
    }
}

proptest! {
    #[test]
    fn chunks_come_as_they_were_sent(
        texts in prop::collection::vec("[a-zé🙂\"\\\\ ]{0,6}", 0..5),
        more in prop_oneof![Just(json!(1.5)), Just(json!({"a": ["b", null]})), Just(json!("é"))],
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let sent = stream(&texts, &more);
        // No text begins as this key does, so nothing is withheld.
        let told = sources(&written(&sent), &cuts, "4711-key-of-nobody");
        let ends = told.iter().position(|event| event.is_end);
        prop_assert_eq!(ends, Some(sent.len() - 2));
        let kept = told.iter().filter(|event| event.name == VENDOR_PARTS).count();
        // A call with unknown members is one of them, and what was thought with some.
        prop_assert_eq!(kept, texts.len() + 3);
        let told: Vec<String> = told.into_iter().map(SourceEvent::json).collect();
        let expected: Vec<String> = sent
            .iter()
            .map(|chunk| chunk.to_string().replace(r#""modelVersion":"real""#, r#""modelVersion":"mine""#))
            .collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn a_credential_is_cut_out_wherever_it_is_cut(
        cut in 1..CANARY.len(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (head, tail) = CANARY.split_at(cut);
        let texts = [format!("It is {head}"), tail.to_owned(), format!(" indeed {}", &CANARY[..3])];
        let sent = stream(&texts, &json!({"echo": CANARY}));
        let told = sources(&written(&sent), &cuts, CANARY);
        for event in &told {
            let json = event.clone().json();
            prop_assert!(!json.contains(CANARY), "{json}");
        }
        let once = format!("It is *** indeed {}", &CANARY[..3]);
        // The chunks of the text, and the part beside the call.
        prop_assert_eq!(said(&told), [once.clone(), once.repeat(2), once]);
        let ends = told.iter().position(|event| event.is_end).unwrap();
        prop_assert!(told[..ends].iter().all(|event| !event.is_end));
        prop_assert_eq!(told.len() - ends, 2, "all text has left before the end");
    }
}
