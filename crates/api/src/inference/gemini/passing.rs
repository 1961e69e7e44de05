//! Pass-through of a request: the members that keep it from that, and the addresses and tools in it that the
//! vendor would call for a caller.

use domain::original::{ExternalAccess, Original};
use serde_json::{Map, Value};

use crate::inference::canonical::external_access::{MCP, address_of, is_address, tool};
use crate::inference::gemini::fields::{camel_case, is_named, snake_case};

/// The members of a request, and of its settings, by which the gateway decides or counts.
const GOVERNED_MEMBERS: [&str; 8] = [
    "model",
    "contents",
    "systemInstruction",
    "generationConfig",
    "tools",
    "toolConfig",
    "cachedContent",
    "serviceTier",
];
const GOVERNED_SETTINGS: [&str; 3] = ["maxOutputTokens", "candidateCount", "responseModalities"];
/// Settings by which another model would answer than the one that was checked and funded.
const CHOOSING_SETTINGS: [&str; 3] = ["routingConfig", "modelSelectionConfig", "modelConfig"];
/// A setting that changes the form of calls in a stream.
const CALLS_IN_PIECES: &str = "streamFunctionCallArguments";

/// The contents that the vendor stores, and the part with an address of the caller's choice.
const CACHED_CONTENT: &str = "cachedContent";
const FILE_DATA: &str = "fileData";
const FILE_URI: &str = "fileUri";
const PARTS: &str = "parts";
const FUNCTION_RESPONSE: &str = "functionResponse";
/// The parts and members of parts that no server fetches: words, and the calls and results of tools.
const WORDS: [&str; 9] = [
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "displayName",
];

/// The tools that access nothing outside: the caller's own, those that it runs, and the vendor's sandbox.
const SAFE_TOOLS: [&str; 3] = ["functionDeclarations", "computerUse", "codeExecution"];
const MCP_SERVERS: &str = "mcpServers";
/// The tools that a project has to allow: they fetch what they choose, search what the vendor stores, or cost
/// a fee for each search.
const RESTRICTED_TOOLS: [&str; 7] = [
    "googleSearch",
    "googleSearchRetrieval",
    "googleMaps",
    "enterpriseWebSearch",
    "urlContext",
    "fileSearch",
    "retrieval",
];
/// The word in the name of a tool that searches, in small letters.
const SEARCH: &str = "search";

/// Records in the original of a request what the vendor would call. Removes its body if servers might read it
/// in another way than the gateway does: such a request is translated.
pub(super) fn record_external_access(body: &Map<String, Value>, original: &mut Original) {
    original.external_access = external_access(body);
    let settings = || members(body, "generationConfig");
    let is_ambiguous = is_ambiguous(body, &GOVERNED_MEMBERS)
        || settings().any(|settings| is_ambiguous(settings, &GOVERNED_SETTINGS));
    let chooses = |name| settings().flat_map(|settings| named(settings, name)).next().is_some();
    let calls = members(body, "toolConfig")
        .flat_map(|config| members(config, "functionCallingConfig"))
        .flat_map(|config| named(config, CALLS_IN_PIECES));
    let in_pieces = calls.into_iter().any(|value| *value != false);
    if is_ambiguous || in_pieces || CHOOSING_SETTINGS.into_iter().any(chooses) {
        original.body = None;
    }
}

/// Whether a governed member is there in two spellings, or in one that only some servers read.
fn is_ambiguous(members: &Map<String, Value>, governed: &[&str]) -> bool {
    governed.iter().any(|known| {
        let mut spellings = members.keys().filter(|name| is_named(name, known));
        let first = spellings.next();
        let is_plain = |name: &String| name == known || *name == snake_case(known);
        spellings.next().is_some() || !first.is_none_or(is_plain)
    })
}

/// The values of a member in any spelling, but null.
fn named<'a>(members: &'a Map<String, Value>, known: &str) -> impl Iterator<Item = &'a Value> {
    let all = members.iter().filter(move |(name, value)| is_named(name, known) && !value.is_null());
    all.map(|(_, value)| value)
}

/// The objects in a member in any spelling.
fn members<'a>(
    of: &'a Map<String, Value>,
    known: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    named(of, known).filter_map(Value::as_object)
}

/// The items of the lists in a member in any spelling. A single object is a list of one.
fn items<'a>(
    of: &'a Map<String, Value>,
    known: &str,
) -> impl Iterator<Item = (usize, &'a Map<String, Value>)> {
    let lists = named(of, known).map(|value| match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    });
    lists.flat_map(|list| {
        list.iter().enumerate().filter_map(|(index, item)| Some((index, item.as_object()?)))
    })
}

fn external_access(body: &Map<String, Value>) -> Vec<ExternalAccess> {
    let mut all = Vec::new();
    if named(body, CACHED_CONTENT).next().is_some() {
        all.push(tool(CACHED_CONTENT, CACHED_CONTENT));
    }
    for (index, offered) in items(body, "tools") {
        of_tool(&format!("tools[{index}]"), offered, &mut all);
    }
    for content in members(body, "systemInstruction") {
        in_content("systemInstruction", content, &mut all);
    }
    for (index, content) in items(body, "contents") {
        in_content(&format!("contents[{index}]"), content, &mut all);
    }
    all
}

/// Each member of a tool is one of the vendor's own, but the caller's functions.
fn of_tool(at: &str, offered: &Map<String, Value>, all: &mut Vec<ExternalAccess>) {
    for (name, value) in offered.iter().filter(|(_, value)| !value.is_null()) {
        if SAFE_TOOLS.iter().any(|known| is_named(name, known)) {
            continue;
        }
        if let Some(kind) = RESTRICTED_TOOLS.iter().find(|known| is_named(name, known)) {
            all.push(tool(at, kind));
        } else if is_named(name, MCP_SERVERS) {
            let one = std::slice::from_ref(value);
            for server in value.as_array().map_or(one, Vec::as_slice) {
                let known = all.len();
                addresses(at, MCP, server, all);
                if all.len() == known {
                    // One without an address is none that a list could allow.
                    all.push(tool(at, MCP));
                }
            }
        } else if name.to_lowercase().contains(SEARCH) {
            all.push(tool(at, &camel_case(name)));
        } else {
            addresses(at, &camel_case(name), value, all);
        }
    }
}

fn in_content(at: &str, content: &Map<String, Value>, all: &mut Vec<ExternalAccess>) {
    for (index, part) in items(content, PARTS) {
        in_part(&format!("{at}.{PARTS}[{index}]"), part, all);
    }
}

/// The depth is that of the parser.
fn in_part(at: &str, part: &Map<String, Value>, all: &mut Vec<ExternalAccess>) {
    for (name, value) in part {
        match value {
            // The result itself is the application's own; files may come with it.
            Value::Object(response) if is_named(name, FUNCTION_RESPONSE) => {
                in_content(&format!("{at}.{FUNCTION_RESPONSE}"), response, all);
            }
            _ => member(at, &camel_case(name), name, value, all),
        }
    }
}

fn member(at: &str, kind: &str, name: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    if value.is_null() || WORDS.iter().any(|words| is_named(name, words)) {
        return;
    }
    if is_named(name, FILE_DATA) || is_named(name, FILE_URI) {
        let inner = value.as_object().and_then(|file| named(file, FILE_URI).next());
        let uri = inner.unwrap_or(value).as_str().unwrap_or_default();
        all.push(address_of(at, FILE_DATA, uri));
    } else {
        addresses(at, kind, value, all);
    }
}

/// The addresses in a part or a tool.
fn addresses(at: &str, kind: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    match value {
        Value::String(text) if is_address(text) => all.push(address_of(at, kind, text)),
        Value::Array(items) => items.iter().for_each(|item| addresses(at, kind, item, all)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| member(at, kind, name, value, all));
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "passing_tests.rs"]
mod tests;
