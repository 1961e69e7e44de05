//! The charges that a request which goes on as it came allows OpenAI, beside the tokens of its prompt
//! and answer, and those that an answer shows.

use domain::conversation::Prompt;
use domain::fees::{Charges, Extras, ToolCharge, UseBound, VendorTool};
use domain::json_text;
use domain::original::WireFormat;
use serde_json::{Value, json};

use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::tier::possible_surcharges;

/// The bound on the calls of all tools that the vendor runs within a response.
pub(super) const MAX_TOOL_CALLS: &str = "max_tool_calls";
/// The parameter by which the vendor runs agents within a response.
const AGENTS: &str = "multi_agent";
/// The bound that is added to a request which names none, where one has to hold.
const USUAL_USES: u64 = 5;
/// The most tokens that one search adds to the prompt, as with Anthropic's: the vendor names no bound.
const SEARCH_TOKENS: u64 = 20_000;
/// The passages that a search in files finds if the request names no number, and the most tokens of one.
/// ("File search" and "Retrieval" of the vendor's manual.)
const PASSAGES: &str = "max_num_results";
const USUAL_PASSAGES: u64 = 20;
const PASSAGE_TOKENS: u64 = 4096;
/// The container that costs what the list of prices has; larger ones cost more.
const PRICED_CONTAINER: &str = "1g";

/// The tools that the caller runs, and those that cost no more than the definitions that the request
/// brings.
const FREE_TOOLS: [&str; 9] = [
    "function",
    "custom",
    "namespace",
    "tool_search",
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
    "computer_use",
];

/// The tool whose price is not known here.
const UNPRICED: &str = "image_generation";
/// The deepest nesting of tools in namespaces that is read one by one.
const MOST_DEPTH: usize = 8;
/// The most tools that are remembered of a stored response.
const MOST_LASTING: usize = 32;
/// The longest type of a tool that is shown or remembered, in characters.
const LONGEST_TYPE: usize = 64;

/// A tool that the vendor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Search,
    FileSearch,
    Container,
    /// Its price is not known here.
    Unpriced,
    /// Nothing bounds its uses or the tokens of its results.
    Endless,
}

fn kind(tool: &Value) -> Option<Kind> {
    let name = text(tool.get("type"));
    let is = |known: &str| is_version(name, known);
    if is("shell") && is_in_container(tool) || is("code_interpreter") {
        return Some(Kind::Container);
    }
    if FREE_TOOLS.iter().any(|known| is(known)) {
        return None;
    }
    Some(if is("web_search") {
        Kind::Search
    } else if is("file_search") {
        Kind::FileSearch
    } else if is(UNPRICED) {
        Kind::Unpriced
    } else {
        Kind::Endless
    })
}

/// Whether a type is that of a tool, or of a version of it.
fn is_version(name: &str, known: &str) -> bool {
    let rest = name.strip_prefix(known);
    rest.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with("_2") || rest.starts_with("_preview")
    })
}

/// Whether a shell is one of the vendor's containers, and not the caller's own.
fn is_in_container(tool: &Value) -> bool {
    let environment = text(tool.get("environment").and_then(|environment| environment.get("type")));
    !matches!(environment, "" | "local")
}

/// Returns the charges of a request. Only one that goes on as it came has tools of the vendor's.
pub(super) fn of(prompt: &Prompt) -> Charges {
    let mut charges = Charges { surcharges: possible_surcharges(prompt), ..Charges::default() };
    let Some(body) = passing_body(prompt) else { return charges };
    let uses = uses(body);
    for (index, tool) in tools(body).iter().enumerate() {
        add(&format!("tools[{index}]"), tool, uses, &mut charges.tools);
    }
    for (at, tool) in added_tools(prompt) {
        let mut added = Vec::new();
        add(at, tool, uses, &mut added);
        // One that is there already, and the same in the history, cannot be used any more by that.
        let is_new = |charge: &ToolCharge| !charges.tools.iter().any(|other| charge.is_like(other));
        added.retain(is_new);
        charges.tools.append(&mut added);
    }
    if has_agents(body) {
        let at = format!("{AGENTS} (the vendor runs agents within the response)");
        let (uses, tokens) = (UseBound::Unpriced, None);
        charges.tools.push(ToolCharge { at, tool: None, uses, tokens });
    }
    charges.rounds = (!charges.tools.is_empty()).then_some(uses);
    charges
}

/// Shows a tool and those that it holds, each with its place. A value that is too deep to be read may be
/// anything: only its tools on top are shown, as [`Nested::Unread`].
fn each_tool(at: &str, tool: &Value, show: &mut dyn FnMut(&str, Nested<'_>)) {
    fn walk(at: &str, tool: &Value, depth: usize, show: &mut dyn FnMut(&str, Nested<'_>)) {
        show(at, Nested::Tool(tool));
        for (index, tool) in nested(tool).iter().enumerate() {
            let at = format!("{at}.tools[{index}]");
            match depth.checked_sub(1) {
                Some(depth) => walk(&at, tool, depth, show),
                None => show(&at, Nested::Unread(tool)),
            }
        }
    }
    walk(at, tool, MOST_DEPTH, show);
}

/// A tool of a request, or within one.
#[derive(Clone, Copy)]
enum Nested<'t> {
    Tool(&'t Value),
    /// One that is nested too deeply.
    Unread(&'t Value),
}

fn add(at: &str, tool: &Value, uses: u64, all: &mut Vec<ToolCharge>) {
    each_tool(at, tool, &mut |at, nested| match nested {
        Nested::Tool(tool) => all.extend(kind(tool).map(|kind| charge(at, tool, kind, uses))),
        Nested::Unread(tool) => all.push(charge(at, tool, Kind::Endless, uses)),
    });
}

fn charge(at: &str, tool: &Value, kind: Kind, uses: u64) -> ToolCharge {
    let name = short_type(tool);
    let at = format!("{at} ('{name}')");
    let bounded = UseBound::Of(uses);
    let (tool, uses, tokens) = match kind {
        Kind::Search => (Some(VendorTool::WebSearch), bounded, Some(SEARCH_TOKENS)),
        Kind::FileSearch => {
            let passages = tool.get(PASSAGES).and_then(Value::as_u64);
            let tokens = passages.unwrap_or(USUAL_PASSAGES).saturating_mul(PASSAGE_TOKENS);
            (Some(VendorTool::FileSearch), bounded, Some(tokens))
        }
        Kind::Container => (Some(VendorTool::CodeExecution), UseBound::Missing, None),
        Kind::Unpriced => (None, UseBound::Unpriced, None),
        Kind::Endless => (None, UseBound::Missing, None),
    };
    ToolCharge { at, tool, uses, tokens }
}

/// Returns the tools that the vendor runs among these tools, lists of tools and those that they hold, reduced
/// to what their charges depend on, each once.
pub(crate) fn lasting_tools<'a>(tools: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let mut all = Vec::new();
    for tools in tools {
        let tools = tools.as_array().map_or(std::slice::from_ref(tools), Vec::as_slice);
        for tool in tools {
            each_tool("", tool, &mut |_, nested| match nested {
                Nested::Tool(tool) => reduce(tool, &mut all),
                // It is unknown what it is.
                Nested::Unread(_) => reduce(&Value::Null, &mut all),
            });
        }
    }
    all
}

fn reduce(tool: &Value, all: &mut Vec<Value>) {
    let reduced = match kind(tool) {
        None => None,
        Some(Kind::Container) => Some(json!({"type": "code_interpreter"})),
        Some(Kind::FileSearch) => {
            let passages = tool.get(PASSAGES).and_then(Value::as_u64);
            Some(json!({"type": "file_search", PASSAGES: passages}))
        }
        // Without a price however many there are: it is kept beside the others.
        Some(Kind::Unpriced) => Some(json!({"type": UNPRICED})),
        Some(Kind::Search | Kind::Endless) => Some(json!({"type": short_type(tool)})),
    };
    if let Some(reduced) = reduced.filter(|reduced| !all.contains(reduced)) {
        match all.len() {
            _ if reduced["type"] == UNPRICED => all.push(reduced),
            MOST_LASTING.. => {}
            // Nothing bounds the rest.
            len if len + 1 == MOST_LASTING => all.push(json!({"type": "unknown"})),
            _ => all.push(reduced),
        }
    }
}

/// The tools that a namespace holds.
fn nested(tool: &Value) -> &[Value] {
    tool.get("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn short_type(tool: &Value) -> String {
    text(tool.get("type")).chars().take(LONGEST_TYPE).collect()
}

/// Returns the bound on the calls of the vendor's tools that holds a request to `most`; `None` if it has
/// that, or offers none of these tools.
pub(super) fn bounded(prompt: &Prompt, body: &str, most: u64) -> Option<String> {
    let given = given_uses(body);
    let uses = given.unwrap_or(USUAL_USES).min(most);
    let is_needed = given != Some(uses) && !of(prompt).tools.is_empty();
    is_needed.then(|| uses.to_string())
}

/// Refuses a tool whose price is not that of the list.
pub(super) fn check(prompt: &Prompt) -> Result<(), Error> {
    let Some(body) = passing_body(prompt) else { return Ok(()) };
    let is_other = |tool: &Value| {
        let mut is_other = false;
        each_tool("", tool, &mut |_, nested| {
            is_other |= matches!(nested, Nested::Tool(tool) if has_other_container(tool));
        });
        is_other
    };
    if tools(body).iter().any(is_other)
        || added_tools(prompt).iter().any(|(_, tool)| is_other(tool))
    {
        return Err(Error::unpriced(format!(
            "tools: a container with another memory_limit than {PRICED_CONTAINER} has no price here: \
             leave it out"
        )));
    }
    Ok(())
}

fn has_other_container(tool: &Value) -> bool {
    let of = |name: &str| tool.get(name).and_then(|container| container.get("memory_limit"));
    let limits = ["container", "environment"].into_iter().filter_map(of);
    let is_other = |limit: &Value| !limit.is_null() && limit != PRICED_CONTAINER;
    limits.into_iter().any(is_other)
}

/// Notes an item of an answer. Returns whether it is a use that is charged for.
pub(super) fn see(item: &Value, extras: &mut Extras) -> bool {
    let tool = match text(item.get("type")) {
        // Opening a page that was found costs nothing.
        "web_search_call" => {
            let action = text(item.get("action").and_then(|action| action.get("type")));
            if !matches!(action, "" | "search") {
                return false;
            }
            VendorTool::WebSearch
        }
        "file_search_call" => VendorTool::FileSearch,
        "code_interpreter_call" => VendorTool::CodeExecution,
        "shell_call" if is_in_container(item) => VendorTool::CodeExecution,
        _ => return false,
    };
    // One container serves a whole response.
    let counts = tool != VendorTool::CodeExecution || extras.uses[tool] == 0;
    extras.uses[tool] = extras.uses[tool].saturating_add(u32::from(counts));
    true
}

/// The body of a request that goes on as it came.
fn passing_body(prompt: &Prompt) -> Option<&str> {
    let original = prompt.original.as_deref()?;
    original.body.as_deref().filter(|_| original.format == WireFormat::Responses)
}

/// The tools of a body. A value that is no list of tools may be any.
fn tools(body: &str) -> Vec<Value> {
    let all = json_text::member(body, "tools").ok().flatten().filter(|all| *all != "null");
    let unknown = || vec![json!({"type": "unknown"})];
    all.map_or_else(Vec::new, |all| serde_json::from_str(all).unwrap_or_else(|_| unknown()))
}

/// The tools that items of a request add, each with its place.
fn added_tools(prompt: &Prompt) -> &[(String, Value)] {
    prompt.original.as_ref().map_or(&[], |original| &original.added_tools)
}

/// Whether the vendor runs several agents for one response, each of which takes prompts and answers of its
/// own.
fn has_agents(body: &str) -> bool {
    let agents = json_text::member(body, AGENTS).ok().flatten();
    let agents = agents.and_then(|agents| serde_json::from_str::<Value>(agents).ok());
    agents.is_some_and(|agents| match agents {
        Value::Null | Value::Bool(false) => false,
        Value::Object(agents) => agents.get("enabled") != Some(&Value::Bool(false)),
        _ => true,
    })
}

fn given_uses(body: &str) -> Option<u64> {
    let given = json_text::member(body, MAX_TOOL_CALLS).ok().flatten()?;
    serde_json::from_str(given).ok()
}

fn uses(body: &str) -> u64 {
    given_uses(body).unwrap_or(USUAL_USES)
}

#[cfg(test)]
#[path = "charges_tests.rs"]
mod tests;
