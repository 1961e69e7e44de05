//! `docs/translation.md` against the code: each row of its tables is a request, and each of its cells
//! is what a provider of another format must get for it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(every_row_of_the_table_is_true);

const TABLE: &str = "../../docs/translation.md";

/// The parameters of the vendors' own packages: openai 3.57, anthropic 2.13 with those of its beta,
/// google-genai 3.6 for the Gemini API. `model` is the project's, `stream` the endpoint's.
const DOCUMENTED: [(&str, &str); 4] = [
    (
        "Chat completions",
        "audio frequency_penalty function_call functions logit_bias logprobs \
         max_completion_tokens max_tokens messages metadata modalities moderation n \
         parallel_tool_calls prediction presence_penalty prompt_cache_key \
         prompt_cache_options prompt_cache_retention reasoning_effort response_format \
         safety_identifier seed service_tier stop store stream_options temperature \
         tool_choice tools top_logprobs top_p user verbosity web_search_options",
    ),
    (
        "Messages",
        "cache_control container context_management diagnostics inference_geo max_tokens \
         mcp_servers messages metadata output_config service_tier speed stop_sequences system \
         temperature thinking tool_choice tools top_k top_p user_profile_id workspace_id",
    ),
    (
        "Responses",
        "access_programs background background_options context_management conversation image \
         include input instructions max_output_tokens max_tool_calls metadata moderation \
         parallel_tool_calls previous_response_id prompt prompt_cache_key \
         prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier \
         store stream_options temperature text tool_choice tools top_logprobs top_p \
         truncation user",
    ),
    (
        "Gemini",
        "cachedContent contents generationConfig.audioTimestamp \
         generationConfig.audioTranscriptionConfig generationConfig.candidateCount \
         generationConfig.enableAffectiveDialog generationConfig.enableEnhancedCivicAnswers \
         generationConfig.frequencyPenalty generationConfig.imageConfig \
         generationConfig.logprobs generationConfig.maxOutputTokens \
         generationConfig.mediaResolution generationConfig.modelSelectionConfig \
         generationConfig.presencePenalty generationConfig.responseJsonSchema \
         generationConfig.responseLogprobs generationConfig.responseMimeType \
         generationConfig.responseModalities generationConfig.responseSchema \
         generationConfig.routingConfig generationConfig.seed generationConfig.speechConfig \
         generationConfig.stopSequences generationConfig.temperature \
         generationConfig.thinkingConfig generationConfig.topK generationConfig.topP \
         generationConfig.translationConfig labels safetySettings serviceTier store \
         systemInstruction toolConfig tools",
    ),
];

/// A row: a request in the format of its table, and what becomes of it for each provider.
struct Row {
    format: String,
    field: String,
    sent: Value,
    cells: BTreeMap<String, Cell>,
}

/// The treatment of a field.
#[derive(Debug)]
enum Cell {
    /// It arrives at these places.
    Arrives(Vec<String>),
    /// It is left out, and named so.
    Dropped(String),
    /// The request is refused with these words.
    Refused(String),
    /// It asks for nothing that another vendor's model would do otherwise.
    NoEffect,
}

impl Cell {
    fn read(text: &str, field: &str) -> Self {
        let mut codes = text.split('`').skip(1).step_by(2).map(str::to_owned);
        if text == "no effect" {
            Self::NoEffect
        } else if text.starts_with("dropped") {
            let own = || field.rsplit('.').next().unwrap().to_owned();
            Self::Dropped(codes.next().unwrap_or_else(own))
        } else if let Some(words) = text.strip_prefix("refused: ") {
            Self::Refused(words.to_owned())
        } else {
            let places: Vec<String> = codes.collect();
            assert!(!places.is_empty(), "{field}: no cell that this test knows: {text}");
            Self::Arrives(places)
        }
    }
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(TABLE).unwrap();
    let (mut rows, mut format, mut head) = (Vec::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            (format, head) = (title.to_owned(), Vec::new());
        }
        let Some(inner) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            continue;
        };
        let cells: Vec<&str> = inner.split(" | ").map(str::trim).collect();
        if head.is_empty() {
            head = cells.iter().map(|cell| (*cell).to_owned()).collect();
            continue;
        }
        assert_eq!(cells.len(), head.len(), "{line}");
        let field = cells[0].trim_matches('`').to_owned();
        let sent = serde_json::from_str(cells[1].trim_matches('`'));
        let sent = sent.unwrap_or_else(|error| panic!("{field}: {error}: {}", cells[1]));
        let targets = head.iter().zip(&cells).skip(2);
        let cells =
            targets.map(|(target, cell)| (target.clone(), Cell::read(cell, &field))).collect();
        rows.push(Row { format: format.clone(), field, sent, cells });
    }
    rows
}

/// The path of a format's root for a model, and its shortest request.
fn request(format: &str, model: &str) -> (String, Value) {
    match format {
        "Chat completions" => (
            "/openai/v1/chat/completions".to_owned(),
            json!({"model": model, "messages": [{"role": "user", "content": "Say hello."}]}),
        ),
        "Messages" => (
            "/anthropic/v1/messages".to_owned(),
            json!({"model": model, "max_tokens": 6000,
                "messages": [{"role": "user", "content": "Say hello."}]}),
        ),
        "Responses" => {
            ("/openai/v1/responses".to_owned(), json!({"model": model, "input": "Say hello."}))
        }
        "Gemini" => (
            format!("/gemini/v1beta/models/{model}:generateContent"),
            json!({"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}),
        ),
        other => panic!("no format: {other}"),
    }
}

/// The value at a place such as `messages.0.content`.
fn at<'a>(body: &'a Value, place: &str) -> Option<&'a Value> {
    body.pointer(&format!("/{}", place.replace('.', "/"))).filter(|value| !value.is_null())
}

fn has_member(value: &Value, name: &str) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|value| has_member(value, name)),
        Value::Object(members) => {
            members.contains_key(name) || members.values().any(|value| has_member(value, name))
        }
        _ => false,
    }
}

/// Registers a model of each provider.
async fn providers(owner: &Caller) -> BTreeMap<String, Mock> {
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let anthropic = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": usage});
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi."}]},
        "finishReason": "STOP"}]});
    let bedrock = json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hi."}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}});
    let mut mocks = BTreeMap::new();
    for (target, provider, answer, config) in [
        ("openai", "internal", Answer::text("Hi."), json!({"upstream_model": "gpt-5"})),
        (
            "anthropic",
            "anthropic",
            Answer::json(200, &anthropic),
            json!({"upstream_model": "claude-sonnet-4-6"}),
        ),
        (
            "gemini",
            "gemini",
            Answer::json(200, &gemini),
            json!({"upstream_model": "gemini-3-flash"}),
        ),
        (
            "bedrock",
            "bedrock",
            Answer::json(200, &bedrock),
            json!({"upstream_model": "us.anthropic.claude-sonnet-4-6-v1:0",
                "region": "eu-central-1"}),
        ),
    ] {
        let mock = Mock::always(answer).await;
        let base = mock.url();
        let base = if target == "openai" { &base } else { base.trim_end_matches("/v1") };
        let more = json!({"provider": provider, "is_public": false, "api_key": "k",
            "base_url": base, "additional_config": config});
        mock.register_with(owner, target, more).await;
        mocks.insert(target.to_owned(), mock);
    }
    mocks
}

async fn every_row_of_the_table_is_true(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mocks = providers(&owner).await;
    // Else these are refused for every model: one that would reach them may answer instead.
    let allowed = json!({"vendor_tools": ["file", "audio", "web_search_options", "cachedContent",
        "fileData", "googleSearch", "fileSearch"]});
    settings(&owner, 1, json!({"passthrough": allowed})).await;
    let rows = rows();
    for (format, documented) in DOCUMENTED {
        let of_format = rows.iter().filter(|row| row.format == format);
        let fields: BTreeSet<&str> = of_format.map(|row| row.field.as_str()).collect();
        let begins = |name: &str| {
            fields.iter().any(|field| {
                field
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        let missing: Vec<_> = documented.split_whitespace().filter(|name| !begins(name)).collect();
        assert!(missing.is_empty(), "{format}: no row for {missing:?}");
    }
    let (mut faults, mut plain) = (Vec::new(), BTreeMap::new());
    for row in &rows {
        for (target, cell) in &row.cells {
            let mock = &mocks[target];
            let pair = (row.format.as_str(), target.as_str());
            if let Entry::Vacant(missing) = plain.entry(pair) {
                let (path, body) = request(&row.format, target);
                key.post(&path, &body).await.ok(200);
                missing.insert(mock.last());
            }
            if let Err(fault) = check(&key, row, target, cell, mock, &plain[&pair]).await {
                faults.push(format!("{} {} to {target}: {fault}", row.format, row.field));
            }
        }
    }
    assert!(rows.len() > 120, "{} rows", rows.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Sends the request of a row to a model, and compares with its cell; `before` is what the provider got
/// of the shortest request.
async fn check(
    key: &Caller,
    row: &Row,
    target: &str,
    cell: &Cell,
    mock: &Mock,
    before: &Value,
) -> Result<(), String> {
    let (path, mut body) = request(&row.format, target);
    let members = row.sent.as_object().cloned().unwrap_or_else(Map::new);
    body.as_object_mut().unwrap().extend(members);
    mock.take();
    let reply = key.post(&path, &body).await;
    let (status, text) = (reply.status, reply.text.clone());
    let named: Vec<&str> = reply.header("x-sluice-dropped-params").split(", ").collect();
    let sent = mock.take().pop().map(|asked| asked.body);
    if let Cell::Refused(words) = cell {
        return match (status, sent) {
            (400 | 404 | 422, None) if text.contains(words.as_str()) => Ok(()),
            _ => Err(format!("not refused with '{words}': {status} {text:.300}")),
        };
    }
    let Some(sent) = sent.filter(|_| status == 200) else {
        return Err(format!("{status} {text:.300}"));
    };
    let field = row.field.rsplit('.').next().unwrap();
    match cell {
        Cell::Arrives(places) => {
            for place in places {
                let found = at(&sent, place);
                if found.is_none() || found == at(before, place) {
                    return Err(format!("nothing at {place}: {sent}"));
                }
            }
            let is_named = named.contains(&field);
            if is_named { Err(format!("arrives, and is named: {named:?}")) } else { Ok(()) }
        }
        Cell::Dropped(name) if !named.contains(&name.as_str()) => {
            Err(format!("'{name}' is not named: {named:?}"))
        }
        Cell::Dropped(_) if has_member(&sent, field) => Err(format!("it arrives: {sent}")),
        Cell::NoEffect if named != [""] => Err(format!("named: {named:?}")),
        Cell::NoEffect if sent != *before => Err(format!("it has an effect: {sent}")),
        _ => Ok(()),
    }
}
