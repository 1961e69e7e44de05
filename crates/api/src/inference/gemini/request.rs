//! A request in Gemini's format as a canonical prompt.

use std::collections::{HashMap, HashSet, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::conversation::{Message, Prompt, Role, TOOL_FAILED};
use domain::original::Original;
use domain::step::ApiEndpoint;
use gateway::ChatRequest;
use serde_json::{Map, Value};

use crate::http::error::Result;
use crate::inference::canonical::documents::document;
use crate::inference::canonical::prompt::{
    State, States, assistant, audio_part, call, image_part, plain, result, text_part,
};
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::format::ParsedRequest;
use crate::inference::gemini::fields::{Dropped, inner, list, node, objects};
use crate::inference::gemini::generate::{AnswerOptions, Generate};
use crate::inference::gemini::passing;
use crate::inference::gemini::settings::{Choice, Generation, choice, generation, tools};
use crate::inference::message_names::MessageNames;

/// The most characters of a value of the caller's that are quoted.
const LONGEST_QUOTE: usize = 40;

/// Parses a request into a canonical one.
///
/// If the request may go on as it came, the parts that have no canonical form are noted in `original`:
/// they keep it from being translated, and are no fault otherwise.
pub(super) fn parse(
    asked: Generate,
    trace: Option<String>,
    mut original: Option<Original>,
) -> Result<ParsedRequest<AnswerOptions>> {
    let Generate { model, body, form } = asked;
    let mut reader = Reader { gaps: TranslationGaps::of(original.as_ref()), ..Reader::default() };
    if let Some(original) = &mut original {
        passing::record_external_access(&body, original);
    }
    let mut body = node(String::new(), Value::Object(body))?;
    body.pass_over(&["model"]);
    if let Some(system) = inner(&mut body, "systemInstruction")? {
        let texts = reader.texts(system)?;
        reader.push(None, plain(Role::System, texts));
    }
    let Some(contents) = objects(&mut body, "contents")? else {
        return Err(malformed("Missing required parameter: contents".to_owned()));
    };
    if contents.is_empty() {
        return Err(invalid("contents must not be empty"));
    }
    for (index, content) in contents.into_iter().enumerate() {
        let read = reader.content(index, content);
        reader.gaps.allow(read)?;
    }
    reader.end_turn();
    let mut params = Map::new();
    let (dropped, gaps) = (&mut reader.dropped, &mut reader.gaps);
    let settings = match inner(&mut body, "generationConfig")? {
        Some(config) => generation(config, &mut params, dropped, gaps)?,
        None => Generation::default(),
    };
    let chosen = match inner(&mut body, "toolConfig")? {
        Some(config) => gaps.allow(choice(config, dropped))?.unwrap_or_default(),
        None => Choice::default(),
    };
    if let Some(listed) = list(&mut body, "tools")? {
        tools(listed, chosen, &mut params, dropped, gaps)?;
    }
    dropped.parameters(body, gaps)?;
    if let Some(original) = original.as_mut().filter(|_| reader.has_state) {
        // The vendor cannot read what the gateway has signed.
        original.body = None;
    }
    let request = ChatRequest {
        api_endpoint: ApiEndpoint::Gemini,
        trace_id: trace,
        model: Some(model).filter(|model| !model.is_empty()),
        prompt: Prompt {
            messages: reader.messages,
            max_output_tokens: settings.max_output_tokens,
            is_translated: true,
            is_lenient: false,
            params,
            original: original.map(|mut original| {
                reader.gaps.note_in(&mut original);
                Box::new(original)
            }),
        },
        metadata: None,
    };
    let sources = reader.sources;
    Ok(ParsedRequest {
        request,
        streams: form.streams(),
        names: Some(MessageNames { list: "contents", beside: "systemInstruction", sources }),
        dropped: reader.dropped.names(),
        options: AnswerOptions { form, with_thoughts: settings.with_thoughts },
    })
}

/// The texts of a content that has nothing else, for an embedding.
pub(crate) fn text_of(content: Node, dropped: &mut Dropped) -> Result<String> {
    let mut reader = Reader::default();
    let texts = reader.texts(content)?;
    dropped.extend(reader.dropped.names());
    let texts = texts.iter().filter_map(|part| part.get("text")?.as_str());
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Base64 in the standard alphabet and padded: the vendor's own packages write others too.
fn in_standard_form(base64: &str) -> String {
    let mut standard = base64.replace('-', "+").replace('_', "/");
    while !standard.len().is_multiple_of(4) {
        standard.push('=');
    }
    standard
}

/// Reads the conversation, and records what has no canonical form.
#[derive(Default)]
struct Reader {
    messages: Vec<Message>,
    /// The index of the content that each message is made of; none for `systemInstruction`.
    sources: Vec<Option<usize>>,
    /// The model's turn under construction: a client keeps each chunk of a stream as a content.
    turn: Option<ModelTurn>,
    calls: OpenCalls,
    dropped: Dropped,
    states: States,
    /// Whether the history has a state that the gateway has put into an answer.
    has_state: bool,
    gaps: TranslationGaps,
}

/// A turn of the model.
struct ModelTurn {
    /// The first of its contents.
    source: usize,
    /// Its text and images. Texts in succession are pieces of one.
    parts: Vec<Value>,
    calls: Vec<Value>,
    state: Option<State>,
}

/// The calls of the model's last turn: results name them by id, or by name and in order.
#[derive(Default)]
struct OpenCalls {
    unanswered: HashSet<String>,
    by_name: HashMap<String, VecDeque<String>>,
}

impl OpenCalls {
    fn ask(&mut self, id: String, name: String) {
        self.by_name.entry(name).or_default().push_back(id.clone());
        self.unanswered.insert(id);
    }

    /// The id of the call that a result answers.
    fn answer(&mut self, id: Option<String>, name: &str) -> Option<String> {
        if let Some(id) = id
            && self.unanswered.remove(&id)
        {
            return Some(id);
        }
        let of_name = self.by_name.get_mut(name)?;
        // Those that were answered by their ids are passed over.
        loop {
            let id = of_name.pop_front()?;
            if self.unanswered.remove(&id) {
                return Some(id);
            }
        }
    }
}

impl Reader {
    fn push(&mut self, source: Option<usize>, message: Message) {
        self.messages.push(message);
        self.sources.push(source);
    }

    fn content(&mut self, index: usize, content: Value) -> Result<()> {
        let mut content = node(format!("contents[{index}]"), content)?;
        let role = content.maybe_text("role")?;
        let at = content.path("parts");
        let parts = objects(&mut content, "parts")?.unwrap_or_default();
        self.dropped.rest(content);
        let parts = parts.into_iter().enumerate();
        let parts = parts.map(|(index, part)| node(format!("{at}[{index}]"), part));
        match role.as_deref().unwrap_or("user") {
            "model" => self.model(index, parts),
            "user" | "function" => self.user(index, parts),
            other => {
                let other: String = other.chars().take(LONGEST_QUOTE).collect();
                Err(invalid(format!("contents[{index}].role must be user or model, not '{other}'")))
            }
        }
    }

    fn model(&mut self, source: usize, parts: impl Iterator<Item = Result<Node>>) -> Result<()> {
        let mut turn = self.turn.take().unwrap_or_else(|| {
            self.calls = OpenCalls::default();
            ModelTurn { source, parts: Vec::new(), calls: Vec::new(), state: None }
        });
        for part in parts {
            let said = self.model_part(part?, &mut turn);
            self.gaps.allow(said)?;
        }
        self.turn = Some(turn);
        Ok(())
    }

    fn model_part(&mut self, mut part: Node, turn: &mut ModelTurn) -> Result<()> {
        let signature = part.maybe_text("thoughtSignature")?;
        if let Some(signature) = &signature {
            self.find_state(signature, &mut turn.state);
        }
        // The thoughts themselves are in the state, if they can be used at all. A signature may also
        // come alone.
        if part.flag("thought")? || signature.is_some() && part.is_empty() {
            return Ok(());
        }
        match inner(&mut part, "functionCall")? {
            Some(asked) => {
                self.dropped.rest(part);
                self.call(asked, turn)
            }
            None => self.say(part, &mut turn.parts),
        }
    }

    /// Text or an image of the model's.
    fn say(&mut self, part: Node, said: &mut Vec<Value>) -> Result<()> {
        let part = self.part(part)?;
        match (part.get("text").and_then(Value::as_str), said.last_mut()) {
            (Some(""), _) => {}
            (Some(more), Some(Value::Object(last))) if last.contains_key("text") => {
                if let Some(Value::String(text)) = last.get_mut("text") {
                    text.push_str(more);
                }
            }
            _ => said.push(part),
        }
        Ok(())
    }

    fn call(&mut self, mut asked: Node, turn: &mut ModelTurn) -> Result<()> {
        let name = asked.text("name")?;
        let arguments = match asked.take("args") {
            None => "{}".to_owned(),
            Some(args @ Value::Object(_)) => args.to_string(),
            Some(_) => return Err(malformed(format!("{} must be an object", asked.path("args")))),
        };
        let id = asked.maybe_text("id")?.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("call_{}_c{}", turn.calls.len(), turn.source));
        self.dropped.rest(asked);
        turn.calls.push(call(&id, &name, &arguments));
        self.calls.ask(id, name);
        Ok(())
    }

    fn find_state(&mut self, signature: &str, state: &mut Option<State>) {
        if signature.is_empty() {
            return;
        }
        let bytes = STANDARD.decode(in_standard_form(signature)).ok();
        let token = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        match token.and_then(|token| self.states.of(&token)) {
            Some(found) => {
                self.has_state = true;
                *state = Some(found);
            }
            None => self.dropped.name("thoughtSignature"),
        }
    }

    /// The turn of the model is over.
    fn end_turn(&mut self) {
        if let Some(ModelTurn { source, parts, calls, state }) = self.turn.take() {
            self.push(Some(source), assistant(parts, calls, state));
        }
    }

    /// Results of tools are messages of their own, which come before the user's content.
    fn user(&mut self, source: usize, parts: impl Iterator<Item = Result<Node>>) -> Result<()> {
        self.end_turn();
        let before = self.messages.len();
        let mut own = Vec::new();
        for part in parts {
            let said = self.user_part(source, part?, &mut own);
            self.gaps.allow(said)?;
        }
        if !own.is_empty() || self.messages.len() == before {
            self.push(Some(source), plain(Role::User, own));
        }
        Ok(())
    }

    fn user_part(&mut self, source: usize, mut part: Node, own: &mut Vec<Value>) -> Result<()> {
        match inner(&mut part, "functionResponse")? {
            Some(response) => {
                self.dropped.rest(part);
                let (message, mut images) = self.result(response)?;
                self.push(Some(source), message);
                own.append(&mut images);
            }
            None => own.push(self.part(part)?),
        }
        Ok(())
    }

    /// A result as a message, and its images.
    fn result(&mut self, mut response: Node) -> Result<(Message, Vec<Value>)> {
        let name = response.text("name")?;
        let id = response.maybe_text("id")?.filter(|id| !id.is_empty());
        let Some(id) = self.calls.answer(id, &name) else {
            let at = response.path("name");
            return Err(invalid(format!(
                "{at}: the model's turn before has no such functionCall left"
            )));
        };
        let (texts, failed) = match response.take("response") {
            None => (Vec::new(), false),
            Some(Value::Object(output)) => output_of(output),
            Some(_) => {
                let at = response.path("response");
                return Err(malformed(format!("{at} must be an object")));
            }
        };
        let mut parts: Vec<Value> = texts.into_iter().map(text_part).collect();
        let at = response.path("parts");
        for (index, part) in
            objects(&mut response, "parts")?.unwrap_or_default().into_iter().enumerate()
        {
            let read = self.part(node(format!("{at}[{index}]"), part)?);
            parts.extend(self.gaps.allow(read)?);
        }
        self.dropped.rest(response);
        let (mut message, images) = result(id, parts);
        message.extra.extend(failed.then(|| (TOOL_FAILED.to_owned(), true.into())));
        Ok((message, images))
    }

    /// Text, an image, a document or a recording.
    fn part(&mut self, mut part: Node) -> Result<Value> {
        let read = if let Some(text) = part.maybe_text("text")? {
            text_part(text)
        } else if let Some(data) = inner(&mut part, "inlineData")? {
            self.data(data)?
        } else if part.take("fileData").is_some() {
            let at = part.path("fileData");
            return Err(invalid(format!("{at} is not supported: send the bytes as inlineData")));
        } else {
            let at = part.at().to_owned();
            let Some(kind) = part.left().next() else {
                return Err(malformed(format!("{at} must have content")));
            };
            let kind: String = kind.chars().take(LONGEST_QUOTE).collect();
            return Err(invalid(format!("{at}: a part with '{kind}' is not supported")));
        };
        self.dropped.rest(part);
        Ok(read)
    }

    fn data(&mut self, mut data: Node) -> Result<Value> {
        let (media, base64) = (data.text("mimeType")?, data.text("data")?);
        let name = data.maybe_text("displayName")?;
        let at = data.path("data");
        self.dropped.rest(data);
        let base64 = in_standard_form(&base64);
        if media.starts_with("image/") {
            Ok(image_part(format!("data:{media};base64,{base64}"), None))
        } else if let Some(kind) = media.strip_prefix("audio/") {
            Ok(audio_part(&audio_format(kind), base64))
        } else {
            document(&at, name, &media, &base64)
        }
    }

    /// The texts of a content that has nothing else.
    fn texts(&mut self, mut content: Node) -> Result<Vec<Value>> {
        let at = content.path("parts");
        let parts = objects(&mut content, "parts")?.unwrap_or_default();
        content.pass_over(&["role"]);
        self.dropped.rest(content);
        let texts = parts.into_iter().enumerate().map(|(index, part)| {
            let at = format!("{at}[{index}]");
            let part = self.part(node(at.clone(), part)?).and_then(|part| match part.get("text") {
                Some(_) => Ok(part),
                None => Err(invalid(format!("{at} must be text"))),
            });
            self.gaps.allow(part)
        });
        texts.filter_map(Result::transpose).collect()
    }
}

/// The canonical name of a format of audio, by the second half of its media type.
fn audio_format(kind: &str) -> String {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.strip_prefix("x-").unwrap_or(&kind) {
        "mpeg" | "mpga" | "mp3" => "mp3".to_owned(),
        "wave" | "vnd.wave" | "wav" => "wav".to_owned(),
        "mp4" | "m4a" => "m4a".to_owned(),
        other => other.to_owned(),
    }
}

/// The texts of a function's output, and whether it failed. `output` and `error` are the vendor's names
/// for a result that is no object; any other object is JSON.
fn output_of(mut output: Map<String, Value>) -> (Vec<String>, bool) {
    let text = |value: &mut Value| match value.take() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut only = output.iter_mut();
    if let (Some((name, value)), None) = (only.next(), only.next())
        && let failed @ ("output" | "error") = name.as_str()
    {
        let failed = failed == "error";
        match value {
            Value::String(_) => return (vec![text(value)], failed),
            Value::Array(texts) if texts.iter().all(Value::is_string) => {
                return (texts.iter_mut().map(text).collect(), failed);
            }
            _ => {}
        }
    }
    (vec![Value::Object(output).to_string()], false)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
