//! The charges that a request which goes on as it came allows Anthropic, beside the tokens of its prompt
//! and answer.

use std::borrow::Cow;

use domain::conversation::Prompt;
use domain::fees::{Charges, PerSurcharge, Surcharge, ToolCharge, UseBound, VendorTool};
use domain::json_text::{self, Edit, Unreadable};
use domain::original::WireFormat;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Uses of a tool that a request is left if it names no bound itself and one has to hold.
const USUAL_USES: u64 = 5;
/// The most tokens that one search adds to the prompt. Up to 19,200 were measured (data set
/// JOHNISKING/ai-agent-web-search-tokens, November 2026).
const SEARCH_TOKENS: u64 = 20_000;
/// The most tokens of a fetched page, if the request names no bound. It is sent as
/// `max_content_tokens` where one has to hold.
const PAGE_TOKENS: u64 = 20_000;

const TOOLS: &str = "tools";
const MAX_USES: &str = "max_uses";
const MAX_CONTENT_TOKENS: &str = "max_content_tokens";

/// The tools that the vendor describes and the caller runs, and those that cost no more than the
/// definitions that the request brings.
const FREE_TOOLS: [&str; 6] =
    ["custom", "bash", "text_editor", "computer", "memory", "tool_search_tool"];

/// A tool of a request, as far as it is charged for.
#[derive(Default, Deserialize)]
struct Tool {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    max_uses: Option<u64>,
    #[serde(default)]
    max_content_tokens: Option<u64>,
}

/// A tool that the vendor runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Search,
    Fetch,
    /// Nothing bounds its uses, or the tokens of its results.
    Endless(Option<VendorTool>),
}

impl Tool {
    /// Reads a tool. One that makes no sense may be any.
    fn read(text: &str) -> Self {
        let unknown = || Self { kind: Some("unknown".to_owned()), ..Self::default() };
        serde_json::from_str(text).unwrap_or_else(|_| unknown())
    }

    fn kind(&self) -> Option<Kind> {
        let kind = self.kind.as_deref()?;
        let is = |name: &str| kind == name || kind.starts_with(&[name, "_"].concat());
        if FREE_TOOLS.iter().any(|name| is(name)) {
            return None;
        }
        Some(if is("web_search") {
            Kind::Search
        } else if is("web_fetch") {
            Kind::Fetch
        } else {
            Kind::Endless(is("code_execution").then_some(VendorTool::CodeExecution))
        })
    }

    fn charge(&self, index: usize) -> Option<ToolCharge> {
        let name: String = self.kind.iter().flat_map(|kind| kind.chars()).take(64).collect();
        let at = format!("tools[{index}] ('{name}')");
        let uses = UseBound::Of(self.max_uses.unwrap_or(USUAL_USES));
        Some(match self.kind()? {
            Kind::Search => {
                let tool = Some(VendorTool::WebSearch);
                ToolCharge { at, tool, uses, tokens: Some(SEARCH_TOKENS) }
            }
            Kind::Fetch => {
                let tokens = Some(self.max_content_tokens.unwrap_or(PAGE_TOKENS));
                ToolCharge { at, tool: None, uses, tokens }
            }
            Kind::Endless(tool) => ToolCharge { at, tool, uses: UseBound::Missing, tokens: None },
        })
    }

    /// Returns its text with bounds that hold it to `most` uses; `None` if it has them.
    fn bounded(&self, text: &str, most: u64) -> Result<Option<String>, Unreadable> {
        let kind = self.kind();
        if !matches!(kind, Some(Kind::Search | Kind::Fetch)) {
            return Ok(None);
        }
        let uses = self.max_uses.unwrap_or(USUAL_USES).min(most);
        let (uses_text, tokens_text) = (uses.to_string(), PAGE_TOKENS.to_string());
        let mut edits = Vec::new();
        if self.max_uses != Some(uses) {
            edits.push((MAX_USES, Edit::Set(&uses_text)));
        }
        if kind == Some(Kind::Fetch) && self.max_content_tokens.is_none() {
            edits.push((MAX_CONTENT_TOKENS, Edit::Set(&tokens_text)));
        }
        if edits.is_empty() { Ok(None) } else { json_text::edited(text, &edits).map(Some) }
    }
}

/// Returns the charges of a request. Only one that goes on as it came has tools of the vendor's.
pub(super) fn of(prompt: &Prompt) -> Charges {
    let mut charges = Charges { surcharges: surcharges(prompt), ..Charges::default() };
    let Some(body) = passing_body(prompt) else { return charges };
    let [all, servers] = json_text::select(body, [TOOLS, "mcp_servers"]).unwrap_or_default();
    let all = tools(all).enumerate();
    charges.tools = all.filter_map(|(index, tool)| Tool::read(tool).charge(index)).collect();
    let servers = servers.and_then(|servers| serde_json::from_str::<Value>(servers).ok());
    if servers.is_some_and(|all| !is_empty(&all)) {
        let (at, uses) = ("mcp_servers".to_owned(), UseBound::Missing);
        charges.tools.push(ToolCharge { at, tool: None, uses, tokens: None });
    }
    charges
}

/// Returns the surcharges that a request asks for.
pub(super) fn surcharges(prompt: &Prompt) -> PerSurcharge<bool> {
    let mut surcharges = PerSurcharge::default();
    let geo = prompt.params.get("inference_geo").and_then(Value::as_str);
    surcharges[Surcharge::Us] = geo == Some("us");
    // A name may be spelled with escapes.
    if prompt.original_has("\"speed\"") || prompt.original_has("\\u00") {
        let speed = passing_body(prompt).and_then(|body| json_text::member(body, "speed").ok()?);
        let speed = speed.and_then(|speed| serde_json::from_str::<Value>(speed).ok());
        surcharges[Surcharge::Fast] =
            speed.is_some_and(|speed| !speed.is_null() && speed != "standard");
    }
    surcharges
}

/// Returns the tools of a body with bounds that hold each of the vendor's to `most` uses; `None` if
/// they have them.
pub(super) fn bounded_tools(body: &str, most: u64) -> Result<Option<String>, Unreadable> {
    let (mut all, mut is_changed) = (Vec::new(), false);
    for tool in tools(json_text::member(body, TOOLS)?) {
        let bounded = Tool::read(tool).bounded(tool, most)?;
        is_changed |= bounded.is_some();
        all.push(bounded.map_or(Cow::Borrowed(tool), Cow::Owned));
    }
    Ok(is_changed.then(|| format!("[{}]", all.join(","))))
}

/// The body of a request that goes on as it came.
fn passing_body(prompt: &Prompt) -> Option<&str> {
    let original = prompt.original.as_deref()?;
    original.body.as_deref().filter(|_| original.format == WireFormat::Messages)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// The tools in a list, each as it is spelled.
fn tools(list: Option<&str>) -> impl Iterator<Item = &str> {
    let all = list.and_then(|text| serde_json::from_str::<Vec<&RawValue>>(text).ok());
    all.into_iter().flatten().map(RawValue::get)
}

#[cfg(test)]
#[path = "charges_tests.rs"]
mod tests;
